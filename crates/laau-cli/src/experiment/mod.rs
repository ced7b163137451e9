//! `laau experiment`: runs one experiment file and writes its tables.

mod cells;
mod data;
mod generalisation;
mod gradients;
mod guard;
mod online;
mod played;
mod policies;
mod problem;
mod settings;
mod shifted;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use laau::core::tables::{EPISODES_FILE, FILES};
use laau::core::{Sets, Task};
use laau::data::Construction;
use laau::registry::{PolicyKind, ProblemSpec};

use crate::failure::Failure;
use crate::interrupt;
use crate::options::Refused;
use crate::output::{self, Folder, Named};
use crate::sets::check_seeds;

use self::cells::{Cells, Stop};
use self::data::Source;
use self::played::Played;
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
    /// Folder of real data, for an experiment that names some: carbon/, radio/, prices/ and llm/ are looked for in it
    #[arg(long, value_name = "DIR", conflicts_with = "trace")]
    data: Option<PathBuf>,
    /// Guard LAAU and LAAU+ by these policies of the experiment instead of the file's `incumbents`
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    guard: Vec<PolicyKind>,
    /// Promise this share of the incumbent's gain, between 0 and 1, instead of the file's `level` [default: 0.95]
    #[arg(long, value_name = "SHARE", value_parser = crate::guard::level)]
    guard_level: Option<f64>,
}

/// Runs the experiment.
pub(crate) fn run(arguments: &ExperimentArgs) -> Result<(), Failure> {
    let inputs: Vec<PathBuf> = match &arguments.trace {
        // One that is not there is told below, if the experiment takes a trace at all.
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
    let study = Study::load(&SweepOptions {
        file: arguments.file.clone(),
        quick: arguments.quick,
        trace: arguments.trace.clone(),
        data: arguments.data.clone(),
        seeds: arguments.seeds.clone(),
        incumbents: arguments.guard.clone(),
        level: arguments.guard_level,
    })?;
    let asked = interrupt::watch()?;
    let study = Study { asked, ..study };
    if let Some(trace) = &arguments.trace {
        laau::data::expand(std::slice::from_ref(trace))?;
    }
    let _folder = Folder::make(&arguments.output)?;
    let settings = format!(
        "{:?}\n{:?} {:?}",
        study.experiment, arguments.trace, arguments.data
    );
    let cells = Cells::open(&arguments.output, &settings, &study.asked)?;
    cells.run(
        &study.cells(),
        |cell| study.label(*cell),
        |cell| study.play(*cell),
    )
}

/// Which experiment a [`Sweep`] runs, and on what: the arguments of `laau experiment`.
#[derive(Debug, Clone)]
pub struct SweepOptions {
    /// The experiment, in TOML.
    pub file: PathBuf,
    /// The small sizes of the file's section `[quick]`.
    pub quick: bool,
    /// Azure VM readings instead of the embedded workload.
    pub trace: Option<String>,
    /// Folder of real data, for an experiment that names some.
    pub data: Option<PathBuf>,
    /// Seeds of data, weights and shuffles.
    pub seeds: Vec<u64>,
    /// Policies that guard LAAU and LAAU+; none for those of the file.
    pub incumbents: Vec<PolicyKind>,
    /// The share of an incumbent's gain that is promised, if not that of the file.
    pub level: Option<f64>,
}

impl SweepOptions {
    /// An experiment at its own sizes, on the embedded workload, with seed 0.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            quick: false,
            trace: None,
            data: None,
            seeds: vec![0],
            incumbents: Vec::new(),
            level: None,
        }
    }
}

/// An experiment in cells that depend on nothing but the experiment: they may be run anywhere and in any order.
///
/// ```no_run
/// # fn main() -> Result<(), laau_cli::Refused> {
/// let options = laau_cli::SweepOptions { quick: true, ..laau_cli::SweepOptions::new("experiments/policies.toml") };
/// let sweep = laau_cli::Sweep::load(&options)?;
/// let parts = (0..sweep.cells().len()).map(|cell| sweep.run(cell)).collect::<Result<Vec<_>, _>>()?;
/// laau_cli::Sweep::save("tables".as_ref(), &parts)?; // as `laau experiment` writes them, byte for byte
/// # Ok(())
/// # }
/// ```
pub struct Sweep(Study);

impl Sweep {
    /// Reads an experiment.
    ///
    /// # Errors
    /// For a file that is no experiment, and a seed that is given twice.
    pub fn load(options: &SweepOptions) -> Result<Self, Refused> {
        Ok(Self(Study::load(options)?))
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
        Ok(self.0.play(self.cell(cell)?)?)
    }

    /// The policies of every cell that [`Sweep::run_piece`] plays on their own, in the order that [`Sweep::assemble`] takes
    /// them in; none of an experiment whose cells are no policies on the same episodes.
    #[must_use]
    pub fn pieces(&self) -> Vec<&'static str> {
        if played::is_by_policy(self.0.experiment.kind) {
            played::pieces(&self.0)
        } else {
            Vec::new()
        }
    }

    /// Fits and plays one policy of a cell; gives what the tables need of it, as text.
    ///
    /// # Errors
    /// For a cell or piece that is not there, and whatever keeps the policy from being fitted.
    pub fn run_piece(&self, cell: usize, piece: usize) -> Result<String, Refused> {
        let cell = self.cell(cell)?;
        let pieces = self.pieces();
        let name = pieces.get(piece).ok_or_else(|| {
            Failure::new(
                format_args!("no piece {piece}: a cell has {}", pieces.len()),
                "pieces are counted from 0",
            )
        })?;
        Ok(played::play_piece(&self.0, cell, name)?)
    }

    /// The tables of a cell, put together from all its pieces: those of [`Sweep::run`], byte for byte.
    ///
    /// # Errors
    /// For a cell that is not there, and for texts that are not its pieces.
    pub fn assemble(&self, cell: usize, pieces: &[String]) -> Result<Parts, Refused> {
        let cell = self.cell(cell)?;
        let played = played::assemble(&self.0, cell, pieces)?;
        Ok(self.0.tabulate(cell, played)?)
    }

    fn cell(&self, cell: usize) -> Result<Cell, Failure> {
        let cells = self.0.cells();
        cells.get(cell).copied().ok_or_else(|| {
            Failure::new(
                format_args!("no cell {cell}: the experiment has {}", cells.len()),
                "cells are counted from 0",
            )
        })
    }

    /// Writes the tables of all cells, given in the order of the cells.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn save(folder: &Path, cells: &[Parts]) -> Result<(), Refused> {
        std::fs::create_dir_all(folder).map_err(|error| output::cannot_write(folder, &error))?;
        Ok(tables::save(folder, &tables::join(cells.iter().cloned()))?)
    }
}

/// The policies that are also played behind a guard.
const GUARDED: [PolicyKind; 2] = [PolicyKind::Laau, PolicyKind::LaauResidual];

/// What every experiment gets.
struct Study {
    experiment: Experiment,
    task: Task,
    source: Source,
    seeds: Vec<u64>,
    /// The folder of real data.
    folder: Option<PathBuf>,
    /// Raised by Ctrl-C.
    asked: Arc<AtomicBool>,
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
    /// A set of real data, by its place in the experiment.
    Data(usize),
}

impl Cell {
    fn target(self) -> f64 {
        match self.part {
            Part::Shift(target) => target,
            Part::Whole | Part::Data(_) => 0.0,
        }
    }
}

impl Study {
    fn load(options: &SweepOptions) -> Result<Self, Failure> {
        let mut seeds = options.seeds.clone();
        check_seeds(&mut seeds)?;
        if seeds.is_empty() {
            return Err(Failure::new(
                "an experiment needs a seed",
                "name one, for example 0",
            ));
        }
        let mut experiment = Experiment::load(&options.file, options.quick)?;
        experiment.guarded_by(&options.incumbents, options.level);
        if !options.incumbents.is_empty() && !played::is_by_policy(experiment.kind) {
            return Err(Failure::new(
                "this experiment does not play policies behind guards of your choice",
                "leave --guard out",
            ));
        }
        if let Some(incumbent) = (experiment.incumbents.iter()).find(|incumbent| {
            played::is_by_policy(experiment.kind) && !experiment.policies.contains(incumbent)
        }) {
            return Err(Failure::new(
                format_args!("`{incumbent}` is to guard, but is not among the policies of the experiment"),
                "add it to `policies` in the file, or name another by --guard",
            ));
        }
        let task = match experiment.kind {
            Kind::Problem => problem::problem_of(&experiment)?.task()?,
            _ => ProblemSpec::default().task()?,
        };
        let study = Self {
            task,
            source: options.trace.clone().map_or(Source::Synthetic, Source::Trace),
            seeds,
            folder: options.data.clone(),
            asked: Arc::default(),
            experiment,
        };
        if study.experiment.kind == Kind::Problem {
            problem::check(&study)?;
        }
        Ok(study)
    }

    /// The name of a cell's real data, if it is about some.
    fn data_of(&self, cell: Cell) -> Option<&str> {
        match cell.part {
            Part::Data(index) => Some(&self.experiment.data[index]),
            Part::Whole | Part::Shift(_) => None,
        }
    }

    /// The cells, in the order of the tables.
    fn cells(&self) -> Vec<Cell> {
        let Experiment {
            constructions,
            horizons,
            targets,
            data,
            ..
        } = &self.experiment;
        let first_horizon = [horizons.first().copied().unwrap_or(20)];
        let first_construction = [constructions.first().copied().unwrap_or_default()];
        let own = [self.experiment.construction];
        let first_seed = &self.seeds[..1];
        let shifts: Vec<Part> = targets.iter().map(|&target| Part::Shift(target)).collect();
        let whole = [Part::Whole];
        let data: Vec<Part> = (0..data.len()).map(Part::Data).collect();
        let data = if data.is_empty() { &whole[..] } else { &data };
        let (constructions, horizons, parts, seeds): (&[_], &[_], &[_], &[_]) = match self.experiment.kind {
            Kind::Policies | Kind::Generalisation => (constructions, horizons, &whole, &self.seeds),
            Kind::Ood | Kind::Guard => (constructions, &first_horizon, &shifts, &self.seeds),
            Kind::Tsne => (constructions, &first_horizon, &shifts, first_seed),
            Kind::OnlineLearning => (constructions, &first_horizon, &whole, &self.seeds),
            Kind::Gradients => (&first_construction, &first_horizon, &whole, first_seed),
            Kind::Problem => (&own, horizons, data, &self.seeds),
        };
        let mut cells = Vec::new();
        // The sets of data come before the horizons in their table; only one of the two has several entries elsewhere.
        for &construction in constructions {
            for &part in parts {
                for &horizon in horizons {
                    cells.extend(seeds.iter().map(|&seed| Cell {
                        construction,
                        horizon,
                        seed,
                        part,
                    }));
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
            Part::Data(index) => {
                format!(
                    "{data}, {}, N = {horizon}, seed {seed}",
                    self.experiment.data[index]
                )
            }
        }
    }

    /// Runs a cell.
    fn play(&self, cell: Cell) -> Result<Parts, Failure> {
        let mut tables = Tables::default();
        match self.experiment.kind {
            Kind::Policies | Kind::Problem | Kind::Ood => {
                return self.tabulate(cell, played::play(self, cell)?);
            }
            Kind::Guard => guard::run(self, cell, &mut tables)?,
            Kind::Tsne => shifted::tsne(self, cell, &mut tables)?,
            Kind::OnlineLearning => online::run(self, cell, &mut tables)?,
            Kind::Generalisation => generalisation::run(self, cell, &mut tables)?,
            Kind::Gradients => gradients::run(self, cell, &mut tables)?,
        }
        tables.finish()
    }

    /// The tables of a cell whose policies have been played.
    fn tabulate(&self, cell: Cell, played: Played) -> Result<Parts, Failure> {
        let mut tables = Tables::default();
        match self.experiment.kind {
            Kind::Problem => problem::write(self, cell, &played, &mut tables)?,
            Kind::Ood => shifted::write(self, cell, played, &mut tables)?,
            _ => policies::write(self, cell, &played, &mut tables)?,
        }
        tables.finish()
    }

    /// The episodes of a cell.
    fn sets(&self, cell: Cell) -> Result<Sets, Failure> {
        (self.source).sets(&self.experiment, cell.horizon, cell.construction, cell.seed)
    }

    /// Passes Ctrl-C on to fits.
    fn stop(&self) -> Stop<'_> {
        Stop(&self.asked)
    }
}
