//! Runs checks over many cases, reports failures and counts.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::checks::{CHECKS, Check, Failure, Tally};
use crate::draw::only;

/// What is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The seed of everything.
    pub seed: u64,
    /// Cases of a check that costs little; others have a share of it.
    pub cases: usize,
    /// Runs until the time is up, in rounds of so many cases, instead of one round.
    pub time: Option<Duration>,
    /// One check alone.
    pub only: Option<Check>,
}

/// Failures printed and shrunk per check.
const PRINTED: usize = 5;
/// Failures printed and shrunk per check and kind, so that there is room for others.
const OF_A_KIND: u64 = 2;
/// The longest that one failure is shrunk.
const PATIENCE: Duration = Duration::from_secs(20);

/// The counts of one check.
#[derive(Debug, Clone, Default)]
struct Counts {
    cases: u64,
    tally: Tally,
    slowest: (Duration, u64),
    /// By kind: how many, and the seed of the first.
    failures: BTreeMap<String, (u64, u64)>,
    printed: usize,
}

impl Counts {
    fn failed(&self) -> u64 {
        self.failures.values().map(|(count, _)| count).sum()
    }
}

/// Finds a check by its name.
///
/// # Errors
/// The names there are.
pub fn check_named(name: &str) -> Result<Check, String> {
    CHECKS
        .into_iter()
        .find(|check| check.name == name)
        .ok_or_else(|| {
            let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
            format!("expected one of {}, found `{name}`", names.join(", "))
        })
}

/// The seed of a case: another one for every check and position.
#[must_use]
pub fn case_seed(seed: u64, check: &str, index: u64) -> u64 {
    let name = check.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(mix(seed ^ name).wrapping_add(index))
}

/// A bijection that leaves no pattern (the finaliser of `SplitMix64`).
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Runs everything and writes failures, the table and the last line; returns the number of failed cases.
///
/// # Errors
/// When the report cannot be written.
pub fn run(settings: &Settings, out: &mut dyn Write) -> std::io::Result<u64> {
    let checks: Vec<Check> = settings.only.map_or_else(|| CHECKS.to_vec(), |only| vec![only]);
    let mut counts = vec![Counts::default(); checks.len()];
    let start = Instant::now();
    loop {
        for (check, counts) in checks.iter().zip(&mut counts) {
            progress(&format!("{} after {} cases", check.name, counts.cases));
            round(settings, check, counts, out)?;
            if settings.time.is_some_and(|time| start.elapsed() > time) {
                break;
            }
        }
        if settings.time.is_none_or(|time| start.elapsed() > time) {
            break;
        }
    }
    progress("");
    table(&checks, &counts, out)
}

/// Runs the case of one seed and reports it; returns whether it failed.
///
/// # Errors
/// When the report cannot be written.
pub fn run_one(check: &Check, seed: u64, out: &mut dyn Write) -> std::io::Result<bool> {
    writeln!(out, "{} {seed:#018x}\n{}", check.name, check.text(seed))?;
    match check.run(seed) {
        Ok(_) => {
            writeln!(out, "1 passed, 0 failed")?;
            Ok(false)
        }
        Err(failure) => {
            report(check, seed, &failure, out)?;
            writeln!(out, "0 passed, 1 failed")?;
            Ok(true)
        }
    }
}

/// The next cases of one check, over all threads; what is counted and printed does not depend on how many there are.
fn round(
    settings: &Settings,
    check: &Check,
    counts: &mut Counts,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let first = counts.cases;
    let count = (settings.cases * check.per_hundred).div_ceil(100) as u64;
    let results: Vec<(u64, Duration, Result<Tally, Failure>)> = (first..first + count)
        .into_par_iter()
        .map(|index| {
            let seed = case_seed(settings.seed, check.name, index);
            let start = Instant::now();
            let result = check.run(seed);
            (seed, start.elapsed(), result)
        })
        .collect();
    counts.cases += count;
    // The first of every kind is printed before the second of any.
    let mut failures: Vec<(u64, u64, Failure)> = Vec::new();
    for (seed, elapsed, result) in results {
        counts.slowest = counts.slowest.max((elapsed, seed));
        match result {
            Ok(tally) => counts.tally.add(tally),
            Err(failure) => {
                let (count, _) = counts.failures.entry(failure.kind.clone()).or_insert((0, seed));
                *count += 1;
                failures.push((*count, seed, failure));
            }
        }
    }
    failures.retain(|(count, _, _)| *count <= OF_A_KIND);
    failures.sort_by_key(|(count, _, _)| *count);
    for (_, seed, failure) in failures.into_iter().take(PRINTED - counts.printed) {
        counts.printed += 1;
        progress(&format!("{}: shrinking a failure", check.name));
        report(check, seed, &failure, out)?;
    }
    Ok(())
}

/// Prints a failure, the command that repeats it, and the smallest case that fails alike.
fn report(check: &Check, seed: u64, failure: &Failure, out: &mut dyn Write) -> std::io::Result<()> {
    let name = check.name;
    writeln!(out, "FAILED {name}: {}: {}", failure.kind, failure.message)?;
    let problem = only().map_or_else(String::new, |kind| format!(" --problem {}", kind.name()));
    writeln!(
        out,
        "  repeat: cargo xtask audit --only {name}{problem} --case {seed:#018x}"
    )?;
    let (text, shrunk) = check.shrunk(seed, failure, PATIENCE);
    writeln!(out, "  shrunk: {}: {}", shrunk.kind, shrunk.message)?;
    for line in text.lines() {
        writeln!(out, "    {line}")?;
    }
    writeln!(out)?;
    out.flush()
}

fn table(checks: &[Check], counts: &[Counts], out: &mut dyn Write) -> std::io::Result<u64> {
    writeln!(
        out,
        "{:<12} {:>8} {:>8} {:>8} {:>9} {:>12} {:>12}  slowest case",
        "check", "cases", "refused", "failed", "episodes", "approximate", "slowest"
    )?;
    let (mut passed, mut failed) = (0, 0);
    for (check, counts) in checks.iter().zip(counts) {
        let share = if counts.tally.gradients == 0 {
            "-".to_owned()
        } else {
            let share = counts.tally.approximate as f64 / counts.tally.gradients as f64;
            format!("{:.1} %", 100.0 * share)
        };
        let episodes = match counts.tally.episodes {
            0 => "-".to_owned(),
            episodes => episodes.to_string(),
        };
        writeln!(
            out,
            "{:<12} {:>8} {:>8} {:>8} {episodes:>9} {share:>12} {:>9.0} ms  {:#018x}",
            check.name,
            counts.cases,
            counts.tally.refused,
            counts.failed(),
            counts.slowest.0.as_secs_f64() * 1e3,
            counts.slowest.1
        )?;
        for (kind, (count, first)) in &counts.failures {
            writeln!(out, "  {count:>6} × {kind}, first {first:#018x}")?;
        }
        failed += counts.failed();
        passed += counts.cases - counts.failed();
    }
    writeln!(out, "{passed} passed, {failed} failed")?;
    Ok(failed)
}

/// Says on a terminal where the run is.
fn progress(text: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // A progress line that cannot be shown is no reason to stop.
        let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_of_checks_and_positions_have_seeds_of_their_own() {
        let mut seeds: Vec<u64> = (0..100)
            .flat_map(|index| ["layer", "ledger"].map(|check| case_seed(1, check, index)))
            .collect();
        seeds.push(case_seed(2, "layer", 0));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 201);
    }

    #[test]
    fn an_unknown_check_is_refused_with_the_names_there_are() {
        let error = check_named("layers").err().unwrap();
        assert!(error.starts_with("expected one of layer, derivative,"), "{error}");
    }

    #[test]
    fn a_run_counts_its_cases_and_ends_with_one_line() {
        let settings = Settings {
            seed: 1,
            cases: 3,
            time: None,
            only: Some(check_named("ledger").unwrap()),
        };
        let mut out = Vec::new();
        let failed = run(&settings, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let last = format!("{} passed, {failed} failed", 3 - failed);
        assert_eq!(text.lines().last(), Some(last.as_str()), "{text}");
    }
}
