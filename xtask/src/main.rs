//! Chores of the workspace, one module per command.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line talks to people"
)]

mod audit;
mod figures;
mod lines;
mod newcomer;
mod picture;
mod python;
mod reproduce;
mod serve;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use laau_dashboard::{bench, page, workspace_root};

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
    /// Counts the lines of code of every package, without blanks, comments and tests, and fails above the limit.
    ///
    /// Example: cargo xtask lines
    Lines,
    /// Runs the newcomer's path of the README, line by line as it is written, with a fresh installation of the binary.
    ///
    /// Example: cargo xtask newcomer
    Newcomer,
    /// Runs every experiment of the paper, draws its figures and decides its claims.
    ///
    /// Example: cargo xtask reproduce --quick
    Reproduce(reproduce::ReproduceArgs),
    /// Puts the verdicts of two reproductions side by side and fails if they contradict each other.
    ///
    /// Example: cargo xtask verdicts reproduction reproduction-10-19 --write-docs
    Verdicts {
        /// The folder of a reproduction.
        one: PathBuf,
        /// That of another, with other seeds.
        other: PathBuf,
        /// Write the table to docs/verdicts.md.
        #[arg(long)]
        write_docs: bool,
    },
    /// Writes the documents' tables, figures and report from a full reproduction.
    ///
    /// Example: cargo xtask docs reproduction
    Docs {
        /// The folder of the reproduction.
        #[arg(default_value = "reproduction")]
        folder: PathBuf,
    },
    /// Draws random instances of every problem and checks layers, gradients, engines, policies and the ledger on them.
    ///
    /// Examples: cargo xtask audit; cargo xtask audit --minutes 120 --seed 7; cargo xtask audit --only layer --cases 10000; cargo xtask audit --only files
    Audit(audit::AuditArgs),
    /// Measures times and instruction counts, writes them for dashboards and appends them to the history.
    ///
    /// Example: cargo xtask bench --small
    Bench(bench::BenchArgs),
    /// Draws the history of benchmarks as one page.
    ///
    /// Example: cargo xtask dashboard
    Dashboard(page::DashboardArgs),
    /// Builds the Python package, installs it into an environment of its own and runs its tests.
    ///
    /// Examples: cargo xtask python; cargo xtask python --full; cargo xtask python --check
    Python(python::PythonArgs),
    /// Draws the page of `laau serve --demo` for its document; needs Chromium.
    ///
    /// Example: cargo xtask picture
    Picture,
    /// Attacks and measures the real `laau serve` from outside: crashes, a naive rival, authority, fuzzing, load.
    ///
    /// Examples: cargo xtask serve crash --kills 200; cargo xtask serve crash --kills 50 --store postgres; cargo xtask serve load
    Serve(serve::ServeArgs),
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
        Command::Lines => lines::run(&workspace_root()),
        Command::Newcomer => newcomer::run(&workspace_root()),
        Command::Reproduce(arguments) => reproduce::run(&arguments, &workspace_root()),
        Command::Verdicts {
            one,
            other,
            write_docs,
        } => {
            let page = write_docs.then(|| workspace_root().join("docs/verdicts.md"));
            reproduce::verdicts::run(&one, &other, page.as_deref())
        }
        Command::Docs { folder } => reproduce::docs::run(&folder, &workspace_root()),
        Command::Audit(arguments) => audit::run(&arguments, &workspace_root()),
        Command::Bench(arguments) => bench::run(&arguments, &workspace_root()),
        Command::Dashboard(arguments) => page::run(&arguments, &workspace_root()),
        Command::Python(arguments) => python::run(&arguments, &workspace_root()),
        Command::Picture => picture::run(&workspace_root()),
        Command::Serve(arguments) => serve::run(&arguments, &workspace_root()),
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
