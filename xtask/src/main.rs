//! Chores of the workspace, one module per command.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line talks to people"
)]

mod tidy;

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
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Tidy => tidy::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
