//! Chores of the workspace, one module per command.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line talks to people"
)]

mod figures;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of the laau workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Checks what the architecture promises: the dependency graph, no machine paths, a README per crate, file sizes.
    ///
    /// Example: cargo xtask tidy
    Tidy,
    /// Draws every figure again from the tables of a reproduction, without running anything.
    ///
    /// Example: cargo xtask figures
    Figures {
        /// The folder of the tables.
        #[arg(default_value = "reproduction")]
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Tidy => tidy::run(),
        Command::Figures { folder } => figures::run(&folder),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
