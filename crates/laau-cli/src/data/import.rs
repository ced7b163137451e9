//! `laau import`: a trace becomes episodes for training, validation and test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};
use laau::data::{
    AzureFunctions, AzureVm, EpisodeOptions, Error, ImportReport, Imported, Normalisation, Order, Readings,
    SplitBy, Step, Table, TimeUnit, Trace, ValueColumn,
};

use super::{places, preview, write_episodes};
use crate::config::{
    AzureFunctionsSection, AzureVmSection, ConfigFile, EpisodesSection, Flags, TableSection, TraceSection,
};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Folder, Named, Staged};

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau import azure-vm 'vm_cpu_readings-*.csv.gz' --horizon 20 --split 5000,1000,2000 -o episodes
  $ laau import table load.csv --series host --time minute --values cpu --split 100,20,20 -o episodes")]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, Subcommand)]
enum Format {
    /// The Azure VM trace, versions 1 and 2: CPU readings of virtual machines
    #[command(after_help = "Example:
  $ laau import azure-vm 'vm_cpu_readings-*.csv.gz' --horizon 20 --split 5000,1000,2000 -o episodes")]
    AzureVm(FormatArgs<AzureVmSection>),
    /// The Azure Functions trace of 2019: invocations per minute
    #[command(after_help = "Example:
  $ laau import azure-functions 'invocations_per_function_md.anon.d*.csv' --normalisation series-max -o episodes")]
    AzureFunctions(FormatArgs<AzureFunctionsSection>),
    /// Any table with a column for the series, one for the time and one or more for the values
    #[command(after_help = "Example:
  $ laau import table load.csv --series host --time minute --values cpu --split 100,20,20 -o episodes
  $ laau import table load.csv --series host --time minute --values cpu --split-by time --gap 12 --split 100,20,20 --dry-run

Columns are separated by commas, semicolons or tabs, whichever the first row has most of. Constants of a normalisation are learned
from the training period alone where the split is by time.")]
    Table(FormatArgs<TableSection>),
}

#[derive(Debug, Args)]
struct FormatArgs<S: TraceSection + Send + Sync + Clone + 'static> {
    /// Files or patterns
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// The folder for train.parquet, validation.parquet and test.parquet
    #[arg(short, long, value_name = "DIR", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// Prints what was understood and an episode of each set; writes nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    episodes: Flags<EpisodesSection>,
    #[command(flatten)]
    trace: Flags<S>,
}

/// Reads a trace, writes three tables, prints what was read, used and dropped.
pub(crate) fn run(arguments: &ImportArgs) -> Result<(), Failure> {
    match &arguments.format {
        Format::AzureVm(format) => format.write(|section, paths| AzureVm::open(section.options(paths))),
        Format::AzureFunctions(format) => {
            format.write(|section, paths| AzureFunctions::open(&section.options(paths)))
        }
        Format::Table(format) => format.write(|section, paths| Table::open(section.options(paths))),
    }
}

impl<S: TraceSection + Send + Sync + Clone + 'static> FormatArgs<S> {
    fn write<T: Trace>(&self, open: impl Fn(&S, &[String]) -> Result<T, Error>) -> Result<(), Failure> {
        let config = self.config.read()?;
        let section = config.section(&self.trace)?;
        if let Some(folder) = &self.output {
            self.check_places(&section, folder)?;
        }
        let trace = open(&section, &self.paths)?;
        let options: EpisodeOptions = config.section(&self.episodes)?.options();
        options.validate()?;
        match &self.output {
            Some(folder) if !self.dry_run => write(&trace, &options, folder),
            _ => preview::print(&trace, &options),
        }
    }

    /// Refuses to overwrite a file of the trace.
    fn check_places(&self, section: &S, folder: &Path) -> Result<(), Failure> {
        let mut files: Vec<(&str, PathBuf)> = Vec::new();
        let patterns = self.paths.iter().map(|path| ("PATH", path.clone()));
        for (flag, pattern) in patterns.chain(section.further_files()) {
            let found = laau::data::expand(&[pattern])?;
            files.extend(found.into_iter().map(|file| (flag, file)));
        }
        let inputs: Vec<Named<'_>> = files
            .iter()
            .map(|(flag, file)| (*flag, &**file))
            .chain(self.config.named())
            .collect();
        let places = places(folder);
        output::keep_apart(&inputs, &places.each_ref().map(|place| ("-o", &**place)))
    }
}

fn write(trace: &dyn Trace, options: &EpisodeOptions, folder: &Path) -> Result<(), Failure> {
    // Whether the output can be written shows before a long trace is read.
    let folder = Folder::make(folder)?;
    let places = places(folder.path());
    places.iter().try_for_each(|place| output::probe(place))?;
    let asked = interrupt::watch()?;
    let trace = Interruptible { trace, asked: &asked };
    let imported = laau::data::import(&trace, options);
    interrupt::check(&asked, NOTHING)?;
    let Imported { sets, report } = imported.map_err(|error| failure(error, options))?;
    let mut staged = Staged::default();
    for (place, episodes) in places.iter().zip([&sets.train, &sets.validation, &sets.test]) {
        write_episodes(&mut staged, place, episodes)?;
        interrupt::check(&asked, NOTHING)?;
    }
    staged.commit()?;
    warn(&report, options);
    let report = serde_json::to_string_pretty(&report).map_err(|error| Failure::output(&error.into()))?;
    output::print(report + "\n")
}

/// The failure of an import; its hint knows how the sets were to be split.
pub(super) fn failure(error: Error, options: &EpisodeOptions) -> Failure {
    let sets = [options.split.train, options.split.validation, options.split.test];
    let sets = sets.iter().filter(|size| **size > 0).count();
    let hint = match error {
        Error::TooShort { all_available: 0, .. } if options.split_by == SplitBy::Series => {
            "no run of readings is as long as the horizon: choose a shorter --horizon; `--dry-run` shows the step and counts the gaps"
        }
        Error::TooShort { all_available: 0, .. } => {
            "no run of readings within a period is as long as the horizon: choose a shorter --horizon or --gap; `--dry-run` shows the \
             step and counts the gaps"
        }
        Error::TooShort {
            series: 0,
            all_series,
            ..
        } if options.split_by != SplitBy::Time && all_series < sets => {
            "each set needs a series of its own: --split-by time divides every series instead; or ask for fewer sets, such as \
             --split 20,0,0"
        }
        Error::TooShort { .. } if options.split_by != SplitBy::Series => {
            "ask for fewer episodes with --split, for a shorter --horizon or --gap, or for episodes that overlap with --stride"
        }
        error => return error.into(),
    };
    Failure::new(error, hint)
}

/// Tells of what nobody asked to leave out or to change.
pub(super) fn warn(report: &ImportReport, options: &EpisodeOptions) {
    let (unused, all) = (report.unused_series, report.trace.series);
    if unused > 0 {
        output::talk(format_args!(
            "note: {unused} of {all} series are in no episode: they are shorter than the horizon, have a coarser step, or come \
             after the training or do not vary in it, which their constants would be taken from"
        ));
    }
    let (unused, all) = (report.unused, report.trace.readings);
    let is_skipping = options.stride.is_some_and(|stride| stride > options.horizon);
    if unused >= all.div_ceil(2) && !is_skipping {
        let step = report.step.map_or_else(String::new, |step| format!(" of {step}"));
        output::talk(format_args!(
            "note: {unused} of {all} readings are in no episode; an episode takes readings that are a step{step} apart, and \
             `--dry-run` counts the gaps"
        ));
    }
    warn_of_negative(report, options);
}

/// Tells of negative contexts; those of `min-max` are what comes after the training and is below its least reading.
fn warn_of_negative(report: &ImportReport, options: &EpisodeOptions) {
    if report.floored == 0 || options.floor != 0.0 {
        return;
    }
    let (what, advice) = match options.normalisation {
        Normalisation::MinMax => (
            "contexts of readings below the least of the training",
            "--normalisation series-max has room below it",
        ),
        _ => (
            "negative contexts",
            "--normalisation min-max would keep them apart",
        ),
    };
    output::talk(format_args!(
        "warning: {what} became 0: {}; {advice}",
        report.floored
    ));
}

/// What is left of an import that was interrupted.
const NOTHING: &str = "stopped; nothing was written";

/// A trace whose reading ends when the user asks.
struct Interruptible<'a> {
    trace: &'a dyn Trace,
    asked: &'a AtomicBool,
}

impl Trace for Interruptible<'_> {
    fn values(&self) -> Vec<ValueColumn> {
        self.trace.values()
    }

    fn time_column(&self) -> &str {
        self.trace.time_column()
    }

    fn step(&self) -> Step {
        self.trace.step()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        self.trace.describe()
    }

    fn show_time(&self, time: i64) -> String {
        self.trace.show_time(time)
    }

    fn time_unit(&self, first: i64, last: i64) -> Option<TimeUnit> {
        self.trace.time_unit(first, last)
    }

    fn read(&self, order: Order, visit: &mut dyn FnMut(&Readings) -> Result<(), Error>) -> Result<(), Error> {
        self.trace.read(order, &mut |readings| {
            if self.asked.load(Ordering::Relaxed) {
                return Err(Error::Io {
                    file: PathBuf::new(),
                    source: std::io::ErrorKind::Interrupted.into(),
                });
            }
            visit(readings)
        })
    }
}
