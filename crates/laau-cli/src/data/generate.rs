//! `laau generate`: a synthetic workload.

use std::path::PathBuf;

use clap::Args;
use laau::core::Sets;
use laau::data::Split;

use super::{check_ending, places, write_episodes};
use crate::config::{ConfigFile, Flags, ProblemSection, WorkloadSection};
use crate::failure::Failure;
use crate::output::{self, Folder, Named, Staged};
use crate::{interrupt, memory};

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
    let mut section = config.section(&arguments.workload)?;
    let typed = &arguments.workload.0;
    if typed.episodes.is_some() || typed.part.is_some() {
        // These flags ask for one set, whatever the file says.
        section.split = None;
    }
    let problem = config.problem(&arguments.problem)?;
    let workload = section.workload(&problem)?;
    let options = section.options();
    let split = section.split.map(Split::from);
    let places = match split {
        None => vec![arguments.output.clone()],
        Some(_) => places(&arguments.output).to_vec(),
    };
    let inputs: Vec<Named<'_>> = arguments.config.named().into_iter().collect();
    let outputs: Vec<Named<'_>> = places.iter().map(|place| ("-o", &**place)).collect();
    output::keep_apart(&inputs, &outputs)?;
    for place in &places {
        check_ending(place)?;
    }
    let task = problem.task()?;
    workload.check_budgets(&*task.problem, &options)?;
    let sizes = split.map_or(vec![options.episodes], |split| split.sizes().to_vec());
    memory::check(
        "these episodes take",
        workload.memory(&*task.problem, &sizes, &options),
        "ask for fewer --episodes, a shorter --horizon, or one set at a time with --part",
    )?;

    let asked = interrupt::watch()?;
    let sets = interrupt::wait(&asked, NOTHING, move || match split {
        None => Ok(vec![workload.generate(&options)?]),
        Some(split) => {
            let Sets {
                train,
                validation,
                test,
            } = workload.generate_split(split, &options)?;
            Ok::<_, laau::data::Error>(vec![train, validation, test])
        }
    })??;
    let _folder = match split {
        Some(_) => Some(Folder::make(&arguments.output)?),
        None => None,
    };
    let mut staged = Staged::default();
    for (place, episodes) in places.iter().zip(&sets) {
        write_episodes(&mut staged, place, episodes)?;
        interrupt::check(&asked, NOTHING)?;
    }
    staged.commit()
}

/// What is left of a command that was interrupted.
const NOTHING: &str = "stopped; nothing was written";
