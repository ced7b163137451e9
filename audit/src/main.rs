//! The audit as a program.
#![expect(clippy::print_stderr, reason = "a command line talks to people")]

use std::io::stdout;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use laau_audit::checks::{Check, quiet_panics};
use laau_audit::draw::{draw_only, kind_named};
use laau_audit::recipe::Kind;
use laau_audit::run::{Settings, check_named, run, run_one};

/// Draws random instances of every problem and checks laau on them, independently of its own code.
///
/// Checks: layer, derivative, engines, policies, guard, adversary, training, ledger; and files, which `cargo xtask audit` runs by
/// itself. The exit status is 1 if any case failed.
#[derive(Parser)]
#[command(
    name = "cargo xtask audit",
    bin_name = "cargo xtask audit",
    after_help = "Examples:\n  cargo xtask audit\n  cargo xtask audit --minutes 120 --seed 7\n  \
                  cargo xtask audit --only layer --cases 10000\n  \
                  cargo xtask audit --only layer --case 0x0123456789abcdef"
)]
struct Arguments {
    /// The seed of all cases.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs for so many minutes, round after round, instead of one round.
    #[arg(long)]
    minutes: Option<f64>,
    /// Cases per round of a check that costs little; others have a share of it.
    #[arg(long, default_value_t = 300)]
    cases: usize,
    /// One check alone.
    #[arg(long, value_name = "CHECK", value_parser = check_named)]
    only: Option<Check>,
    /// One problem alone, where a check draws any of them.
    #[arg(long, value_name = "PROBLEM", value_parser = kind_named)]
    problem: Option<Kind>,
    /// One case alone, by the seed that a failure was reported with.
    #[arg(long, value_name = "SEED", value_parser = seed, requires = "only")]
    case: Option<u64>,
}

fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("expected a seed as in 0x0123456789abcdef, found `{text}`"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    quiet_panics();
    if let Some(kind) = arguments.problem {
        draw_only(kind);
    }
    let mut out = stdout().lock();
    let failed = if let (Some(check), Some(case)) = (arguments.only, arguments.case) {
        run_one(&check, case, &mut out).map(u64::from)
    } else {
        let minutes = |minutes: f64| Duration::from_secs_f64(60.0 * minutes.clamp(0.0, 1e6));
        let settings = Settings {
            seed: arguments.seed,
            cases: arguments.cases,
            time: arguments.minutes.map(minutes),
            only: arguments.only,
        };
        run(&settings, &mut out)
    };
    match failed {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: the report cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}
