//! `laau generate`: a synthetic workload.

use std::path::PathBuf;

use clap::Args;
use laau::data::Split;

use super::write_episodes;
use crate::config::{ConfigFile, Flags, ProblemSection, WorkloadSection};
use crate::failure::Failure;
use crate::output::{self, Staged};

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau generate --horizon 20 --episodes 8000 --seed 1 -o episodes.parquet
  $ laau generate --horizon 20 --split 5000,1000,2000 --seed 1 -o episodes
  $ laau generate --problem wireless --horizon 20 --split 1000,200,500 -o episodes")]
pub(crate) struct GenerateArgs {
    /// The episodes table, ending in .parquet or .csv; with --split a folder
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    problem: Flags<ProblemSection>,
    #[command(flatten)]
    workload: Flags<WorkloadSection>,
}

/// Writes episodes: one set, or three that share no machine.
pub(crate) fn run(arguments: &GenerateArgs) -> Result<(), Failure> {
    let config = arguments.config.read()?;
    let section = config.section(&arguments.workload)?;
    let workload = section.workload(&config.problem(&arguments.problem)?)?;
    let options = section.options();
    let mut staged = Staged::default();
    match section.split.map(Split::from) {
        None => {
            let episodes = workload.generate(&options)?;
            write_episodes(&mut staged, &arguments.output, &episodes)?;
        }
        Some(split) => {
            let folder = &arguments.output;
            let sets = workload.generate_split(split, &options)?;
            std::fs::create_dir_all(folder).map_err(|error| output::cannot_write(folder, &error))?;
            for (name, episodes) in Split::NAMES
                .into_iter()
                .zip([&sets.train, &sets.validation, &sets.test])
            {
                write_episodes(
                    &mut staged,
                    &folder.join(name).with_extension("parquet"),
                    episodes,
                )?;
            }
        }
    }
    staged.commit()
}
