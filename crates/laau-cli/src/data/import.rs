//! `laau import`: a trace becomes episodes for training, validation and test.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use laau::data::{AzureFunctions, AzureVm, EpisodeOptions, Error, Imported, Split, Table, Trace};

use super::write_episodes;
use crate::config::{
    AzureFunctionsSection, AzureVmSection, ConfigFile, EpisodesSection, Flags, Section, TableSection,
};
use crate::failure::Failure;
use crate::output::{self, Staged};

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
  $ laau import table load.csv --series host --time minute --values cpu --split 100,20,20 -o episodes")]
    Table(FormatArgs<TableSection>),
}

#[derive(Debug, Args)]
struct FormatArgs<S: Section + Send + Sync + Clone + 'static> {
    /// Files or patterns
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// The folder for train.parquet, validation.parquet and test.parquet
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
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

impl<S: Section + Send + Sync + Clone + 'static> FormatArgs<S> {
    fn write<T: Trace>(&self, open: impl Fn(&S, &[String]) -> Result<T, Error>) -> Result<(), Failure> {
        let config = self.config.read()?;
        let trace = open(&config.section(&self.trace)?, &self.paths)?;
        write(&trace, &config.section(&self.episodes)?, &self.output)
    }
}

fn write(trace: &dyn Trace, section: &EpisodesSection, folder: &Path) -> Result<(), Failure> {
    let options: EpisodeOptions = section.options();
    options.validate()?;
    // Whether the output can be written shows before a long trace is read.
    std::fs::create_dir_all(folder).map_err(|error| output::cannot_write(folder, &error))?;
    let Imported { sets, report } = laau::data::import(trace, &options)?;
    let mut staged = Staged::default();
    for (name, episodes) in Split::NAMES
        .into_iter()
        .zip([&sets.train, &sets.validation, &sets.test])
    {
        let place = folder.join(name).with_extension("parquet");
        write_episodes(&mut staged, &place, episodes)?;
    }
    staged.commit()?;
    let report = serde_json::to_string_pretty(&report).map_err(|error| Failure::output(&error.into()))?;
    output::print(report + "\n")
}
