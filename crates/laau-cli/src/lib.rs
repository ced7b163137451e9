#![doc = include_str!("../README.md")]

mod args;
mod compare;
mod config;
mod data;
mod decide;
mod evaluate;
mod experiment;
mod failure;
mod guard;
mod interrupt;
mod learn;
mod memory;
pub mod options;
mod output;
mod progress;
mod report;
mod saved;
#[cfg(feature = "serve")]
mod serve;
mod sets;
mod train;
mod usage;

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser as _};

use crate::args::{Cli, Command};
pub use crate::experiment::{Parts, Sweep, SweepOptions};
use crate::failure::Failure;
pub use crate::options::Refused;

/// Runs a command, given as the program's name and its arguments, and gives the exit status.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return usage::tell(&error, &arguments),
    };
    match execute(&cli.command) {
        Ok(()) => 0,
        Err(failure) => failure.tell(),
    }
}

fn execute(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Generate(arguments) => data::generate(arguments),
        Command::Import(arguments) => data::import(arguments),
        Command::Inspect(arguments) => data::inspect(arguments),
        Command::Train(arguments) => train::run(arguments),
        Command::Learn(arguments) => learn::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Evaluate(arguments) => evaluate::run(arguments),
        Command::Decide(arguments) => decide::run(arguments),
        Command::Experiment(arguments) => experiment::run(arguments),
        #[cfg(feature = "serve")]
        Command::Serve(arguments) => serve::run(arguments),
        Command::Config { .. } => output::print(config::default_text()?),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "laau", &mut script);
            output::print(script)
        }
    }
}
