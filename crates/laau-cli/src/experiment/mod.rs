//! `laau experiment`: runs one experiment file and writes its tables.

mod cells;
mod data;
mod generalisation;
mod gradients;
mod guard;
mod online;
mod policies;
mod problem;
mod settings;
mod shifted;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use laau::baselines::{CrPursuitOptions, OptOptions, Ratio};
use laau::core::tables::{EPISODES_FILE, FILES};
use laau::core::{Comparison, Sets, Task};
use laau::registry::{PolicyKind, ProblemSpec};

use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Named};
use crate::sets::check_seeds;

use self::cells::Cells;
use self::data::Source;
use self::settings::{Experiment, Kind};

/// Which experiment, on what, and where to.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau experiment experiments/policies.toml --quick --output tables")]
pub(crate) struct ExperimentArgs {
    /// The experiment, in TOML
    file: PathBuf,
    /// Folder for the tables
    #[arg(long, short)]
    output: PathBuf,
    /// Seeds of data, weights and shuffles
    #[arg(long, value_delimiter = ',', default_value = "0,1,2")]
    seeds: Vec<u64>,
    /// The small sizes of the file's section `[quick]`
    #[arg(long)]
    quick: bool,
    /// Azure VM readings instead of the embedded workload: a file, or a pattern in quotes
    #[arg(long, value_name = "PATH")]
    trace: Option<String>,
    /// Folder of real data, for an experiment that names some: carbon/, radio/, prices/ and llm/ are looked for in it
    #[arg(long, value_name = "DIR", conflicts_with = "trace")]
    data: Option<PathBuf>,
}

/// Runs the experiment.
pub(crate) fn run(arguments: &ExperimentArgs) -> Result<(), Failure> {
    let inputs: Vec<PathBuf> = match &arguments.trace {
        // A trace that is not there is told by whoever reads it.
        Some(trace) => laau::data::expand(std::slice::from_ref(trace)).unwrap_or_default(),
        None => Vec::new(),
    };
    let inputs: Vec<Named<'_>> = [("FILE", &*arguments.file)]
        .into_iter()
        .chain(inputs.iter().map(|path| ("--trace", &**path)))
        .collect();
    let names = FILES.iter().copied().chain([EPISODES_FILE]);
    let places: Vec<PathBuf> = names.map(|name| arguments.output.join(name)).collect();
    let outputs: Vec<Named<'_>> = places.iter().map(|place| ("-o", &**place)).collect();
    output::keep_apart(&inputs, &outputs)?;
    let mut seeds = arguments.seeds.clone();
    check_seeds(&mut seeds)?;
    let experiment = Experiment::load(&arguments.file, arguments.quick)?;
    let task = match experiment.kind {
        Kind::Problem => problem::problem_of(&experiment)?.task()?,
        _ => ProblemSpec::default().task()?,
    };
    let source = arguments.trace.clone().map_or(Source::Synthetic, Source::Trace);
    let asked = interrupt::watch()?;
    std::fs::create_dir_all(&arguments.output)
        .map_err(|error| output::cannot_write(&arguments.output, &error))?;
    let settings = format!("{experiment:?}\n{:?} {:?}", arguments.trace, arguments.data);
    let cells = Cells::open(&arguments.output, &settings, &asked)?;
    let run = match experiment.kind {
        Kind::Policies => policies::run,
        Kind::Ood => shifted::ood,
        Kind::Guard => guard::run,
        Kind::Tsne => shifted::tsne,
        Kind::OnlineLearning => online::run,
        Kind::Generalisation => generalisation::run,
        Kind::Gradients => gradients::run,
        Kind::Problem => problem::run,
    };
    let study = Study {
        experiment: &experiment,
        task: &task,
        source: &source,
        seeds: &seeds,
        folder: arguments.data.as_deref(),
        asked: &asked,
    };
    run(&study, &cells)
}

/// The policies that are also played behind a guard.
const GUARDED: [PolicyKind; 2] = [PolicyKind::Laau, PolicyKind::LaauResidual];

/// The level of tables and figures that show one; fixed before any test figure was looked at.
const HEADLINE_LEVEL: f64 = 0.95;

/// What every experiment gets.
struct Study<'a> {
    experiment: &'a Experiment,
    task: &'a Task,
    source: &'a Source,
    seeds: &'a [u64],
    /// The folder of real data.
    folder: Option<&'a Path>,
    /// Raised by Ctrl-C.
    asked: &'a AtomicBool,
}

impl Study<'_> {
    /// A comparison of the experiment's policies, trained with one seed.
    fn compare<'b>(&'b self, sets: &'b Sets, seed: u64) -> Comparison<'b> {
        let training = self.experiment.training(seed);
        let comparison = Comparison::new(self.task, sets)
            .seeds([seed])
            .relative_to(OptOptions::default());
        let policies = &self.experiment.policies;
        let comparison = policies.iter().fold(comparison, |comparison, policy| {
            comparison.with(policy.name(), policy.fit(&training))
        });
        let comparison = if self.experiment.guaranteed {
            let ratio = Ratio::WorstCase;
            comparison.with(
                "cr-pursuit-guaranteed",
                CrPursuitOptions {
                    ratio,
                    ..CrPursuitOptions::default()
                },
            )
        } else {
            comparison
        };
        match self.experiment.incumbents[..] {
            [] => comparison,
            [incumbent, ..] => {
                let guarded = GUARDED.map(|policy| policy.name().to_owned());
                comparison.guarded(guarded, incumbent.name(), HEADLINE_LEVEL)
            }
        }
    }
}
