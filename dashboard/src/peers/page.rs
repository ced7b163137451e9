//! `docs/benchmarks.md`: ratios first, then targets, then everything else, from the history.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

use super::grid;
use super::targets::{ours, targets};
use super::{Comparison, Timed};
use crate::bench::growth::{self, curve};
use crate::bench::history::{Machine, Measure, Record};

/// The works, in the order of the page, and what a unit is.
const WORKS: &[(&str, &str, &str)] = &[
    (
        "train",
        "Training as in the paper (N = 20, batch 10)",
        "minibatch",
    ),
    (
        "layer-8x3",
        "Convex layer d = 8, M = 3, forward and backward, batch 10",
        "sample",
    ),
    (
        "layer-scalar",
        "Convex layer d = 1, M = 1, forward and backward, batch 10",
        "sample",
    ),
    ("solve-8x3", "One solve d = 8, M = 3, no gradient", "solve"),
    ("decision", "One decision of the paper's policy", "decision"),
];

/// Curves of the page: name, size, and what is expected of it.
const CURVES: &[(&str, &str, &str)] = &[
    ("opt/interior-point", "N", "linear"),
    ("opt/interior-point", "d", "at most cubic"),
    ("opt/interior-point", "M", "at most cubic"),
    ("opt/water-filling", "N", "N log N"),
    ("layer/log-utility/forward+pullback", "d", "at most cubic"),
    ("layer/log-utility/forward+pullback", "M", "at most cubic"),
    ("layer/log-utility/forward+pullback", "batch", "linear"),
    ("layer/closed-form/forward+pullback", "batch", "linear"),
    ("episode/gradient/fairness", "N", "linear"),
    ("episode/gradient/log-utility", "d", "at most cubic"),
    ("decision/log-utility", "d", "at most cubic"),
    ("decision/log-utility", "M", "at most cubic"),
    ("train/fused", "N", "linear"),
    ("train/fused", "batch", "linear"),
    ("train/fused", "width", "at most quadratic"),
    ("rollout/fairness", "episodes", "linear"),
    ("rollout/fairness", "threads", "inverse"),
    ("data/import", "readings", "linear"),
    ("data/wasserstein-pooled", "episodes", "N log N"),
    ("data/tsne", "points", "N log N, neighbours quadratic"),
];

/// The most that a LAAU step of four actions and four budgets may take, in microseconds.
const STEP: f64 = 10.0;

/// Writes the page from the last comparison and the last full run of a history.
pub(crate) fn write_page(history: &[Record], root: &Path) -> anyhow::Result<()> {
    let (record, comparison) = Comparison::latest(history)
        .context("no comparison with peers in the history: run cargo xtask bench --peers")?;
    let full = history.iter().rev().find(|record| record.set == "full");
    let notes = std::fs::read_to_string(root.join("benches/peers/notes.md")).unwrap_or_default();
    let path = root.join("docs/benchmarks.md");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let text = page(record, &comparison, full, &notes)? + &of_the_service(&kept);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    for target in targets(&comparison) {
        println!(
            "{:>12}  {} (found {})",
            verdict(target.met),
            target.what,
            target.found
        );
    }
    Ok(())
}

/// What `cargo xtask serve load` has written into the page, with its marks: it stays.
fn of_the_service(page: &str) -> String {
    const END: &str = "<!-- end: serve -->";
    match (page.find("<!-- results: serve -->"), page.find(END)) {
        (Some(begin), Some(end)) if begin < end => format!("\n{}\n", &page[begin..end + END.len()]),
        _ => String::new(),
    }
}

fn page(
    record: &Record,
    comparison: &Comparison,
    full: Option<&Record>,
    notes: &str,
) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    writeln!(
        out,
        "# Benchmarks\n\n\
         Written by `cargo xtask bench --peers` and `cargo xtask bench` (times and growth); `cargo xtask dashboard` draws the history.\n\
         Do not edit.\n\n\
         How many times the fastest of laau goes into the time of each peer: least against least, in brackets median\n\
         against median, all measured in turns in one run.\n"
    )?;
    for (work, title, unit) in WORKS {
        ratios(&mut out, comparison, work, title, unit)?;
        if *work == "train" {
            grid::table(&mut out, comparison)?;
        }
    }
    strictness(&mut out, comparison)?;

    writeln!(
        out,
        "## Targets\n\n| target | wanted | found | |\n|---|---|---|---|"
    )?;
    for target in targets(comparison) {
        let met = verdict(target.met);
        writeln!(
            out,
            "| {} | {} | {} | {met} |",
            target.what, target.wanted, target.found
        )?;
    }
    if let Some(full) = full {
        step_target(&mut out, full)?;
        writeln!(out)?;
        growth_table(&mut out, full)?;
    } else {
        writeln!(out)?;
    }
    if !notes.trim().is_empty() {
        writeln!(out, "{}\n", notes.trim())?;
    }

    writeln!(out, "## Where and with what\n")?;
    writeln!(
        out,
        "Peers: {} at commit `{}`.",
        machine(&record.machine),
        record.commit
    )?;
    if let Some(full) = full {
        writeln!(
            out,
            "Times and growth: {} at commit `{}`.",
            machine(&full.machine),
            full.commit
        )?;
    }
    writeln!(
        out,
        "All on one thread, except for rollouts by threads and where it says so.\n"
    )?;
    writeln!(out, "| package | version |\n|---|---|")?;
    for (name, version) in &comparison.versions {
        writeln!(out, "| {name} | {version} |")?;
    }
    writeln!(out, "\n## What could not be measured\n")?;
    if comparison.failures.is_empty() {
        writeln!(out, "Every peer was installed, and every case ran.")?;
    } else {
        writeln!(out, "| peer | work | variant | why |\n|---|---|---|---|")?;
        for failure in &comparison.failures {
            writeln!(
                out,
                "| {} | {} | {} | {} |",
                failure.peer,
                failure.work,
                failure.variant,
                failure.reason.replace('|', "/")
            )?;
        }
    }
    Ok(out)
}

fn ratios(
    out: &mut String,
    comparison: &Comparison,
    work: &str,
    title: &str,
    unit: &str,
) -> std::fmt::Result {
    let cases: Vec<&Timed> = comparison
        .cases
        .iter()
        .filter(|case| case.case.work == work)
        .collect();
    let Some(best) = ours(comparison, work) else {
        return Ok(());
    };
    let utility = cases.iter().any(|case| case.case.utility.is_some());
    let accuracy = cases.iter().any(|case| case.case.error_action.is_some());
    writeln!(out, "## {title}\n")?;
    write!(
        out,
        "| ratio | who | how | precision | µs a {unit}, least | median |"
    )?;
    if utility {
        write!(out, " utility reached |")?;
    }
    if accuracy {
        write!(out, " error of actions | of gradients | budget exceeded by |")?;
    }
    writeln!(out)?;
    let columns = 6 + usize::from(utility) + 3 * usize::from(accuracy);
    writeln!(out, "|{}", "---|".repeat(columns))?;
    for case in cases {
        let ratio = if std::ptr::eq(case, best) {
            "**1**".to_owned()
        } else {
            format!(
                "**{}** ({})",
                times(case.least / best.least),
                times(case.median / best.median)
            )
        };
        write!(
            out,
            "| {ratio} | {} | {} | {} | {} | {} |",
            case.case.peer,
            case.case.variant,
            case.case.precision,
            short(case.least),
            short(case.median)
        )?;
        if utility {
            write!(
                out,
                " {} |",
                case.case.utility.map_or(String::new(), |u| format!("{u:.4}"))
            )?;
        }
        if accuracy {
            for error in [
                case.case.error_action,
                case.case.error_gradient,
                case.case.violation,
            ] {
                write!(out, " {} |", error.map_or(String::new(), scientific))?;
            }
        }
        writeln!(out)?;
    }
    writeln!(out)
}

fn strictness(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    writeln!(
        out,
        "## Strict budgets\n\n\
         Episodes of 20 steps, d = 8, M = 3; a step may use what is left less the reserve of the steps to come. What a solver says is\n\
         paid, without clipping or repair; the sums are exact.\n\n\
         | who | how | overspent | by at most | aborted | why |\n|---|---|---|---|---|---|"
    )?;
    for strict in &comparison.strict {
        writeln!(
            out,
            "| {} | {} | {} of {} | {} | {} of {} | {} |",
            strict.peer,
            strict.variant,
            strict.overspent,
            strict.episodes,
            scientific(strict.worst),
            strict.aborted,
            strict.episodes,
            strict.reason.as_deref().unwrap_or("").replace('|', "/")
        )?;
    }
    writeln!(out)
}

fn step_target(out: &mut String, full: &Record) -> std::fmt::Result {
    for name in ["decision/vm-allocation/d=4,M=4", "decision/log-utility/d=4,M=4"] {
        let figure = full.figure(name, Measure::Latency);
        let found = figure.map_or_else(
            || "not measured".to_owned(),
            |figure| format!("{:.1} µs, median {:.1}", figure.low / 1e3, figure.value / 1e3),
        );
        let met = verdict(figure.map(|figure| figure.low / 1e3 <= STEP));
        writeln!(out, "| a LAAU step, `{name}` | ≤ {STEP} µs | {found} | {met} |")?;
    }
    Ok(())
}

fn growth_table(out: &mut String, full: &Record) -> std::fmt::Result {
    writeln!(
        out,
        "## Growth\n\n\
         Exponents are those of the upper half of the sizes: 1 is linear, 3 cubic. That of the least times is as noisy as the machine was\n\
         busy; that of the instructions is not noisy at all.\n\n\
         | what | size | expected | exponent of times | of instructions | microseconds |\n|---|---|---|---|---|---|"
    )?;
    for (name, size, expected) in CURVES {
        let points = curve(&full.figures, name, size, Measure::Latency);
        let Some(exponent) = growth::exponent(&points) else {
            continue;
        };
        let counted = curve(&full.figures, name, size, Measure::Instructions);
        let counted = growth::exponent(&counted).map_or(String::new(), |exponent| format!("{exponent:.2}"));
        let told: Vec<String> = points
            .iter()
            .map(|(value, time)| format!("{value}: {}", short(time / 1e3)))
            .collect();
        writeln!(
            out,
            "| `{name}` | {size} | {expected} | {exponent:.2} | {counted} | {} |",
            told.join(", ")
        )?;
    }
    writeln!(out)
}

fn machine(machine: &Machine) -> String {
    format!(
        "{}, {} threads, {}, {}",
        machine.cpu, machine.cores, machine.os, machine.rustc
    )
}

fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "not measured",
    }
}

pub(super) fn times(ratio: f64) -> String {
    if ratio < 10.0 {
        format!("{ratio:.1}×")
    } else {
        format!("{ratio:.0}×")
    }
}

/// Three digits.
pub(super) fn short(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn scientific(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else {
        format!("{value:.0e}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::targets::tests::comparison;
    use super::*;
    use crate::bench::history::Figure;

    #[test]
    fn what_the_load_of_the_service_has_written_stays() {
        let kept = "<!-- results: serve -->\n\n| who |\n\n<!-- end: serve -->";
        assert_eq!(
            of_the_service(&format!("# Page\n\n{kept}\n")),
            format!("\n{kept}\n")
        );
        assert_eq!(of_the_service("# Page\n"), "");
    }

    #[test]
    fn the_page_has_ratios_first_and_says_what_is_missed_or_missing() {
        let mut record = Record::begin(Path::new("."), "peers");
        record.peers = Some(comparison());
        let mut full = Record::begin(Path::new("."), "full");
        for (id, low) in [
            ("opt/interior-point/d=4,M=2,N=20", 1e3),
            ("opt/interior-point/d=4,M=2,N=100", 5e3),
            ("opt/interior-point/d=4,M=2,N=200", 1e4),
            ("decision/vm-allocation/d=4,M=4", 12e3),
        ] {
            full.figures.push(Figure {
                id: id.to_owned(),
                measure: Measure::Latency,
                value: low,
                low,
                high: low,
            });
        }
        let text = page(&record, &comparison(), Some(&full), "## Limits\n\nA note.").unwrap();
        for line in [
            "| **1** | laau | fused engine | f64 | 10.0 | 11.0 | 0 | 0 | 0 |",
            "| **4.9×** (4.9×) | jax | hand-written adjoint | f64 | 49.0 | 53.9 | 0 | 0 | 0 |",
            "| training, against the fastest JAX in f64 | ≥ 5× | 4.9× | MISSED |",
            "| layer d=8, M=3, against the fastest Moreau | ≥ 20× | not measured | not measured |",
            "| a LAAU step, `decision/vm-allocation/d=4,M=4` | ≤ 10 µs | 12.0 µs, median 12.0 | MISSED |",
            "| `opt/interior-point` | N | linear | 1.00 |  | 20: 1.00, 100: 5.00, 200: 10.0 |",
            "| moreau | installation |  | no matching distribution |",
            "| jax | 0.1 |",
            "A note.",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let place = |words: &str| text.find(words).unwrap();
        assert!(place("| ratio |") < place("## Targets") && place("## Targets") < place("## Where"));
    }
}
