//! `laau experiment`: runs one experiment file and writes its tables.

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

use clap::Args;
use laau::baselines::OptOptions;
use laau::core::tables::FILES;
use laau::core::{Comparison, Sets, Task};
use laau::data::Construction;
use laau::registry::{PolicyKind, ProblemSpec};
use rayon::prelude::*;

use crate::failure::Failure;
use crate::options::Refused;
use crate::output::{self, Named};
use crate::progress::Progress;
use crate::sets::check_seeds;

use self::data::Source;
use self::settings::{Experiment, Kind};
pub use self::tables::Parts;
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
    let inputs: Vec<PathBuf> = match &arguments.trace {
        // A trace that is not there is told by whoever reads it.
        Some(trace) => laau::data::expand(std::slice::from_ref(trace)).unwrap_or_default(),
        None => Vec::new(),
    };
    let inputs: Vec<Named<'_>> = [("FILE", &*arguments.file)]
        .into_iter()
        .chain(inputs.iter().map(|path| ("--trace", &**path)))
        .collect();
    let places: Vec<PathBuf> = FILES.iter().map(|name| arguments.output.join(name)).collect();
    let outputs: Vec<Named<'_>> = places.iter().map(|place| ("-o", &**place)).collect();
    output::keep_apart(&inputs, &outputs)?;
    let study = Study::load(
        &arguments.file,
        arguments.quick,
        arguments.trace.clone(),
        arguments.seeds.clone(),
    )?;
    make_folder(&arguments.output)?;
    let cells = study.cells();
    let progress = Progress::new(cells.len(), false);
    let parts: Vec<Parts> = cells
        .par_iter()
        .map(|&cell| {
            let parts = study.play(cell)?;
            progress.done(study.label(cell));
            Ok(parts)
        })
        .collect::<Result<_, Failure>>()?;
    progress.finish();
    tables::save(&arguments.output, &parts)
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| output::cannot_write(folder, &error))
}

/// An experiment in cells that depend on nothing but the experiment: they may be run anywhere and in any order.
///
/// ```no_run
/// # fn main() -> Result<(), laau_cli::Refused> {
/// let sweep = laau_cli::Sweep::load("experiments/policies.toml".as_ref(), true, None, vec![0])?;
/// let parts = (0..sweep.cells().len()).map(|cell| sweep.run(cell)).collect::<Result<Vec<_>, _>>()?;
/// laau_cli::Sweep::save("tables".as_ref(), &parts)?; // as `laau experiment` writes them, byte for byte
/// # Ok(())
/// # }
/// ```
pub struct Sweep(Study);

impl Sweep {
    /// Reads an experiment; the arguments are those of `laau experiment`.
    ///
    /// # Errors
    /// For a file that is no experiment, and a seed that is given twice.
    pub fn load(file: &Path, quick: bool, trace: Option<String>, seeds: Vec<u64>) -> Result<Self, Refused> {
        Ok(Self(Study::load(file, quick, trace, seeds)?))
    }

    /// What each cell is, in words.
    #[must_use]
    pub fn cells(&self) -> Vec<String> {
        let cells = self.0.cells();
        cells.into_iter().map(|cell| self.0.label(cell)).collect()
    }

    /// Runs one cell.
    ///
    /// # Errors
    /// For a cell that is not there, and whatever keeps its policies from being fitted.
    pub fn run(&self, cell: usize) -> Result<Parts, Refused> {
        let cells = self.0.cells();
        let cell = cells.get(cell).ok_or_else(|| {
            Failure::new(
                format_args!("no cell {cell}: the experiment has {}", cells.len()),
                "cells are counted from 0",
            )
        })?;
        Ok(self.0.play(*cell)?)
    }

    /// Writes the tables of all cells, given in the order of the cells.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn save(folder: &Path, cells: &[Parts]) -> Result<(), Refused> {
        make_folder(folder)?;
        Ok(tables::save(folder, cells)?)
    }
}

/// The policies that are also played behind a guard.
const GUARDED: [PolicyKind; 2] = [PolicyKind::Laau, PolicyKind::LaauResidual];

/// The level of tables and figures that show one; fixed before any test figure was looked at.
const HEADLINE_LEVEL: f64 = 0.95;

/// What every experiment gets.
struct Study {
    experiment: Experiment,
    task: Task,
    source: Source,
    seeds: Vec<u64>,
}

/// A part of an experiment that is run on its own.
#[derive(Debug, Clone, Copy)]
struct Cell {
    construction: Construction,
    horizon: usize,
    seed: u64,
    part: Part,
}

/// What a cell is beside its data and seed.
#[derive(Debug, Clone, Copy)]
enum Part {
    Whole,
    /// The distance of shifted training data.
    Shift(f64),
    /// A number of training episodes.
    Size(usize),
}

impl Cell {
    fn target(self) -> f64 {
        match self.part {
            Part::Shift(target) => target,
            Part::Whole | Part::Size(_) => 0.0,
        }
    }
}

impl Study {
    fn load(file: &Path, quick: bool, trace: Option<String>, mut seeds: Vec<u64>) -> Result<Self, Failure> {
        check_seeds(&mut seeds)?;
        if seeds.is_empty() {
            return Err(Failure::new(
                "an experiment needs a seed",
                "name one, for example 0",
            ));
        }
        let experiment = Experiment::load(file, quick)?;
        let task = match experiment.kind {
            Kind::Problem => problem::problem_of(&experiment)?.task()?,
            _ => ProblemSpec::default().task()?,
        };
        let source = trace.map_or(Source::Synthetic, Source::Trace);
        if experiment.kind == Kind::Problem {
            problem::check(&source)?;
        }
        Ok(Self {
            experiment,
            task,
            source,
            seeds,
        })
    }

    /// The cells, in the order of the tables.
    fn cells(&self) -> Vec<Cell> {
        let Experiment {
            constructions,
            horizons,
            targets,
            sizes,
            ..
        } = &self.experiment;
        let first_horizon = [horizons.first().copied().unwrap_or(20)];
        let first_construction = [constructions.first().copied().unwrap_or_default()];
        let own = [self.experiment.construction];
        let first_seed = &self.seeds[..1];
        let shifts: Vec<Part> = targets.iter().map(|&target| Part::Shift(target)).collect();
        let sizes: Vec<Part> = sizes.iter().map(|&size| Part::Size(size)).collect();
        let whole = [Part::Whole];
        let (constructions, horizons, parts, seeds): (&[_], &[_], &[_], &[_]) = match self.experiment.kind {
            Kind::Policies => (constructions, horizons, &whole, &self.seeds),
            Kind::Ood | Kind::Guard => (constructions, &first_horizon, &shifts, &self.seeds),
            Kind::Tsne => (constructions, &first_horizon, &shifts, first_seed),
            Kind::OnlineLearning => (constructions, &first_horizon, &whole, &self.seeds),
            Kind::Generalisation => (constructions, horizons, &sizes, &self.seeds),
            Kind::Gradients => (&first_construction, &first_horizon, &whole, first_seed),
            Kind::Problem => (&own, horizons, &whole, &self.seeds),
        };
        let by_seed_first = self.experiment.kind == Kind::Generalisation;
        let mut cells = Vec::new();
        for &construction in constructions {
            for &horizon in horizons {
                let cell = |part: Part, seed: u64| Cell {
                    construction,
                    horizon,
                    seed,
                    part,
                };
                if by_seed_first {
                    for &seed in seeds {
                        cells.extend(parts.iter().map(|&part| cell(part, seed)));
                    }
                } else {
                    for &part in parts {
                        cells.extend(seeds.iter().map(|&seed| cell(part, seed)));
                    }
                }
            }
        }
        cells
    }

    /// What a cell is, in words.
    fn label(&self, cell: Cell) -> String {
        let data = match self.experiment.kind {
            Kind::Problem => self.task.problem.name().to_owned(),
            _ => self.source.name(cell.construction),
        };
        let Cell { horizon, seed, .. } = cell;
        match cell.part {
            Part::Whole => format!("{data}, N = {horizon}, seed {seed}"),
            Part::Shift(target) => format!("{data}, d_W = {target}, seed {seed}"),
            Part::Size(size) => format!("{data}, N = {horizon}, n = {size}, seed {seed}"),
        }
    }

    /// Runs a cell.
    fn play(&self, cell: Cell) -> Result<Parts, Failure> {
        let run = match self.experiment.kind {
            Kind::Policies => policies::run,
            Kind::Ood => shifted::ood,
            Kind::Guard => guard::run,
            Kind::Tsne => shifted::tsne,
            Kind::OnlineLearning => online::run,
            Kind::Generalisation => generalisation::run,
            Kind::Gradients => gradients::run,
            Kind::Problem => problem::run,
        };
        let mut tables = Tables::default();
        run(self, cell, &mut tables)?;
        tables.finish()
    }

    /// The episodes of a cell.
    fn sets(&self, cell: Cell) -> Result<Sets, Failure> {
        (self.source).sets(&self.experiment, cell.horizon, cell.construction, cell.seed)
    }

    /// A comparison of the experiment's policies, trained with one seed.
    fn compare<'b>(&'b self, sets: &'b Sets, seed: u64) -> Comparison<'b> {
        let training = self.experiment.training(seed);
        let comparison = Comparison::new(&self.task, sets)
            .seeds([seed])
            .relative_to(OptOptions::default());
        let policies = &self.experiment.policies;
        let comparison = policies.iter().fold(comparison, |comparison, policy| {
            comparison.with(policy.name(), policy.fit(&training))
        });
        match self.experiment.incumbents[..] {
            [] => comparison,
            [incumbent, ..] => {
                let guarded = GUARDED.map(|policy| policy.name().to_owned());
                comparison.guarded(guarded, incumbent.name(), HEADLINE_LEVEL)
            }
        }
    }
}
