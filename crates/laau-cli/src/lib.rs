#![doc = include_str!("../README.md")]

mod args;
mod compare;
mod config;
mod data;
mod decide;
mod experiment;
mod failure;
mod gradcheck;
mod interrupt;
mod learn;
mod output;
mod progress;
mod sets;
mod train;
mod usage;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::args::{Cli, Command};
use crate::failure::Failure;

/// Runs the command of the process's arguments, and gives its status.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::tell(&error),
    };
    match run(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Generate(arguments) => data::generate(arguments),
        Command::Import(arguments) => data::import(arguments),
        Command::Inspect(arguments) => data::inspect(arguments),
        Command::Train(arguments) => train::run(arguments),
        Command::Learn(arguments) => learn::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Decide(arguments) => decide::run(arguments),
        Command::Gradcheck(arguments) => gradcheck::run(arguments),
        Command::Experiment(arguments) => experiment::run(arguments),
        Command::Config { .. } => output::print(config::default_text()?),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "laau", &mut script);
            output::print(script)
        }
    }
}
