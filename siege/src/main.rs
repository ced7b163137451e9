//! The siege of `laau serve` as a program: `cargo xtask serve` builds the binary and runs it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line talks to people"
)]

mod authority;
mod check;
mod clients;
mod cluster;
mod crash;
mod exact;
mod fuzz;
mod history;
mod http;
mod load;
mod naive;
mod plant;
mod server;
mod world;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// Attacks the real `laau serve` from outside and checks what it promises.
#[derive(Parser)]
#[command(
    name = "cargo xtask serve",
    bin_name = "cargo xtask serve",
    arg_required_else_help = true
)]
struct Arguments {
    /// The binary `laau`.
    #[arg(long, global = true, value_name = "PATH")]
    laau: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kills the service under load and checks that nothing acknowledged is lost and nothing is spent twice.
    Crash(crash::CrashArgs),
    /// Sends spoiled bytes to every parser: requests, policy files, models, stores; and schemathesis.
    Fuzz(fuzz::FuzzArgs),
    /// Tries every route with every kind of API key.
    Authority(authority::AuthorityArgs),
    /// Measures durable decisions a second beside pgbench, Redis and a bare sync, and memory over many decisions.
    Load(load::LoadArgs),
    /// Puts the same load on a service that checks, then spends: it must be found to overspend.
    Naive(naive::NaiveArgs),
}

/// Where accounts are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreKind {
    Embedded,
    Postgres,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let laau = || crash::binary(arguments.laau.as_ref());
    match &arguments.command {
        Command::Crash(crash) => crash::run(crash, &laau()?).await,
        Command::Load(load) => load::run(load, &laau()?).await,
        Command::Fuzz(fuzz) => fuzz::run(fuzz, &laau()?).await,
        Command::Authority(authority) => authority::run(authority, &laau()?).await,
        Command::Naive(naive) => naive::run(naive).await,
    }
}

/// A line for people.
fn say(line: &str) {
    println!("{line}");
}

/// Says that something was not done, and why; CI lists these lines.
fn skipped(what: &str, reason: &str) -> anyhow::Result<()> {
    let line = format!("skipped: {what}: {reason}");
    say(&line);
    if let Some(path) = std::env::var_os("LAAU_SKIPPED_LOG") {
        let mut log = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(log, "{line}")?;
    }
    Ok(())
}
