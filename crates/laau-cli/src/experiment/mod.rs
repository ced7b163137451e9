//! `laau experiment`: runs one experiment file and writes its tables.

mod data;
mod generalisation;
mod gradients;
mod online;
mod policies;
mod problem;
mod settings;
mod shifted;
mod tables;

use std::path::PathBuf;

use clap::Args;
use laau_baselines::OptOptions;
use laau_core::{Comparison, Sets, Task};

use crate::config::ProblemConfig;
use crate::failure::Failure;
use crate::registry;

use self::data::Source;
use self::settings::{Experiment, Kind};
use self::tables::Tables;

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
}

/// Runs the experiment.
pub(crate) fn run(arguments: &ExperimentArgs) -> Result<(), Failure> {
    let experiment = Experiment::load(&arguments.file, arguments.quick)?;
    let task = registry::task(&match experiment.kind {
        Kind::Problem => problem::problem_of(&experiment)?,
        _ => ProblemConfig {
            name: "weighted-fairness".to_owned(),
            ..ProblemConfig::default()
        },
    })?;
    let source = arguments.trace.clone().map_or(Source::Synthetic, Source::Trace);
    let mut tables = Tables::new(&arguments.output)?;
    let mut seeds = arguments.seeds.clone();
    seeds.sort_unstable();
    seeds.dedup();
    let run = match experiment.kind {
        Kind::Policies => policies::run,
        Kind::Ood => shifted::ood,
        Kind::Tsne => shifted::tsne,
        Kind::OnlineLearning => online::run,
        Kind::Generalisation => generalisation::run,
        Kind::Gradients => gradients::run,
        Kind::Problem => problem::run,
    };
    run(&experiment, &task, &source, &seeds, &mut tables)?;
    tables.save()
}

/// A comparison of the experiment's policies, trained with one seed.
fn compare<'a>(
    experiment: &Experiment,
    task: &'a Task,
    sets: &'a Sets,
    seed: u64,
) -> Result<Comparison<'a>, Failure> {
    let training = experiment.training(seed);
    let mut comparison = Comparison::new(task, sets)
        .seeds([seed])
        .relative_to(OptOptions::default());
    for name in &experiment.policies {
        comparison = comparison.with(name, registry::fitter(name, &training)?);
    }
    Ok(comparison)
}
