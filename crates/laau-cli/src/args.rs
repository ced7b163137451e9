//! What can be typed.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::compare::CompareArgs;
use crate::data::{GenerateArgs, ImportArgs, InspectArgs};
use crate::decide::DecideArgs;
use crate::evaluate::EvaluateArgs;
use crate::experiment::ExperimentArgs;
use crate::learn::LearnArgs;
#[cfg(feature = "serve")]
use crate::serve::ServeArgs;
use crate::train::TrainArgs;

/// The version, and the commit if it is known: the build script says.
const VERSION: &str = env!("LAAU_VERSION");

/// Online optimisation with strict budgets: generate or import episodes, train, compare, decide
#[derive(Debug, Parser)]
#[command(name = "laau", version = VERSION, arg_required_else_help = true, after_help = "Example:
  $ laau generate --horizon 20 --episodes 8000 --seed 1 -o episodes.parquet
  $ laau inspect episodes.parquet
  $ echo '{\"context\":[0.31]}' | laau decide --policy dgd --budget 250 --horizon 20")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Makes episodes of a synthetic cloud workload
    Generate(GenerateArgs),
    /// Makes episodes of a trace, for training, validation and test
    Import(ImportArgs),
    /// Describes a trace, an episodes table, a model, a checkpoint, a policy file, a journal or a report
    Inspect(InspectArgs),
    /// Trains a model on episodes
    Train(TrainArgs),
    /// Learns while it serves: plays episode after episode, and takes a gradient step after each
    Learn(LearnArgs),
    /// Fits, trains and tunes policies, and plays them all on the same episodes
    Compare(CompareArgs),
    /// Plays saved models, policy files and programs of your own on the same episodes, without training
    Evaluate(EvaluateArgs),
    /// Decides an episode step by step: contexts on standard input, actions on standard output
    Decide(DecideArgs),
    /// Serves budgets to many programs over HTTP: durable, exact decisions
    #[cfg(feature = "serve")]
    Serve(Box<ServeArgs>),
    /// Runs one experiment of the paper and writes its tables
    Experiment(ExperimentArgs),
    /// Prints the configuration
    #[command(after_help = "Example:
  $ laau config --default > experiment.toml")]
    Config {
        /// Every key with its default and a comment: a file that runs as it is
        #[arg(long, required = true)]
        default: bool,
    },
    /// Prints the completions of a shell
    #[command(after_help = "Example:
  $ laau completions bash > ~/.local/share/bash-completion/completions/laau")]
    Completions {
        /// The shell
        shell: Shell,
    },
}
