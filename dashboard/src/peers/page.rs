//! `docs/benchmarks.md`: ratios first, then targets, then everything else, from the history.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

use super::targets::{Target, ours, targets};
use super::{Comparison, Latest, Timed, figures, grid};
use crate::bench::growth::{self, curve};
use crate::bench::history::{Figures, Machine, Measure, Record};

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
        "wide/d=64,M=4",
        "Convex layer d = 64, M = 4, forward and backward, batch 10",
        "sample",
    ),
    (
        "wide/d=256,M=4",
        "Convex layer d = 256, M = 4, forward and backward, batch 10",
        "sample",
    ),
    (
        "wide/d=1024,M=4",
        "Convex layer d = 1,024, M = 4, forward and backward, batch 10",
        "sample",
    ),
    (
        "layer-scalar",
        "Convex layer d = 1, M = 1, forward and backward, batch 10",
        "sample",
    ),
    ("solve-8x3", "One solve d = 8, M = 3, no gradient", "solve"),
    ("decision", "One decision of the paper's policy", "decision"),
    (
        "import/files=10",
        "Import of 16 million readings in ten zipped files, on all threads",
        "thousand readings",
    ),
    (
        "import/files=1",
        "Import of 16 million readings in one zipped file, on all threads",
        "thousand readings",
    ),
];

/// Curves of the page: name, size, and what is expected of it.
const CURVES: &[(&str, &str, &str)] = &[
    ("opt/interior-point", "N", "linear"),
    ("opt/interior-point", "d", "at most cubic"),
    ("opt/interior-point", "M", "at most cubic"),
    ("opt/water-filling", "N", "N log N"),
    ("layer/log-utility/forward+pullback", "d", "linear"),
    ("layer/log-utility/forward+pullback", "M", "at most cubic"),
    ("layer/log-utility/forward+pullback", "batch", "linear"),
    ("layer/closed-form/forward+pullback", "batch", "linear"),
    ("episode/gradient/fairness", "N", "linear"),
    ("episode/gradient/log-utility", "d", "linear"),
    ("decision/log-utility", "d", "linear"),
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

/// Writes the page from the last comparison of each work and the last figures of each name in a history.
pub(crate) fn write_page(history: &[Record], root: &Path) -> anyhow::Result<()> {
    let latest = Latest::of(history)
        .context("no comparison with peers in the history: run cargo xtask bench --peers")?;
    let figures = Figures::latest(history);
    let notes = std::fs::read_to_string(root.join("benches/peers/notes.md")).unwrap_or_default();
    let path = root.join("docs/benchmarks.md");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let text = page(&latest, figures.as_ref(), &notes)? + &of_the_service(&kept);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    for target in all_targets(&latest.found, figures.as_ref()) {
        println!(
            "{:>12}  {} (found {})",
            verdict(target.met),
            target.what,
            target.found
        );
    }
    Ok(())
}

fn all_targets(found: &Comparison, figures: Option<&Figures>) -> Vec<Target> {
    let mut all = targets(found);
    all.extend(figures::targets(figures));
    all
}

/// What `cargo xtask serve load` has written into the page, with its marks: it stays.
fn of_the_service(page: &str) -> String {
    const END: &str = "<!-- end: serve -->";
    match (page.find("<!-- results: serve -->"), page.find(END)) {
        (Some(begin), Some(end)) if begin < end => format!("\n{}\n", &page[begin..end + END.len()]),
        _ => String::new(),
    }
}

fn page(latest: &Latest, figures: Option<&Figures>, notes: &str) -> Result<String, std::fmt::Error> {
    let comparison = &latest.found;
    let mut out = String::new();
    writeln!(
        out,
        "# Benchmarks\n\n\
         Written by `cargo xtask bench --peers`, `cargo xtask bench` (times and growth) and `cargo xtask bench --counts` (instructions);\n\
         `cargo xtask dashboard` draws the history. Do not edit.\n\n\
         How many times the fastest of laau goes into the time of each peer: least against least, in brackets median\n\
         against median, each work measured in turns in one run.\n"
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
    for target in all_targets(comparison, figures) {
        let met = verdict(target.met);
        writeln!(
            out,
            "| {} | {} | {} | {met} |",
            target.what, target.wanted, target.found
        )?;
    }
    writeln!(out)?;
    if let Some(figures) = figures {
        growth_table(&mut out, figures)?;
    }
    if !notes.trim().is_empty() {
        writeln!(out, "{}\n", notes.trim())?;
    }

    writeln!(out, "## Where and with what\n")?;
    for (place, commits) in places(latest) {
        writeln!(out, "Peers: {}, at {commits}.", machine(place))?;
    }
    if let Some(figures) = figures {
        let told: Vec<String> = figures
            .commits
            .iter()
            .map(|(measure, commits)| {
                let what = match measure {
                    Measure::Latency => "times",
                    Measure::Instructions => "instructions",
                };
                format!("{what} at `{}`", commits.join("`, `"))
            })
            .collect();
        writeln!(
            out,
            "Times and growth: {}, {}.",
            machine(&figures.machine),
            told.join("; ")
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
        writeln!(out, "| peer | work | variant | why | at |\n|---|---|---|---|---|")?;
        for failure in &comparison.failures {
            writeln!(
                out,
                "| {} | {} | {} | {} | `{}` |",
                failure.peer,
                failure.work,
                failure.variant,
                failure.reason.replace('|', "/"),
                failure.commit
            )?;
        }
    }
    Ok(out)
}

/// The machines, each with its commits and the works that were last measured at them; sizes of one kind are one work here.
fn places(latest: &Latest) -> Vec<(&Machine, String)> {
    let mut places: Vec<(&Machine, BTreeMap<&str, BTreeSet<&str>>)> = Vec::new();
    for (work, commit) in &latest.commits {
        let kind = work.split_once('/').map_or(&**work, |(kind, _)| kind);
        let machine = latest.elsewhere.get(work).unwrap_or(&latest.machine);
        let place = places
            .iter()
            .position(|(known, _)| *known == machine)
            .unwrap_or_else(|| {
                places.push((machine, BTreeMap::new()));
                places.len() - 1
            });
        places[place].1.entry(commit).or_default().insert(kind);
    }
    let is_one = matches!(&places[..], [(_, commits)] if commits.len() == 1);
    let told = |(commit, works): (&str, BTreeSet<&str>)| {
        if is_one {
            return format!("`{commit}`");
        }
        let works: Vec<&str> = works.into_iter().collect();
        format!("`{commit}` ({})", works.join(", "))
    };
    places
        .into_iter()
        .map(|(machine, commits)| {
            let told: Vec<String> = commits.into_iter().map(told).collect();
            (machine, told.join(", "))
        })
        .collect()
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
    let memory = cases.iter().any(|case| case.case.megabytes.is_some());
    let accuracy = cases.iter().any(|case| case.case.error_action.is_some());
    writeln!(out, "## {title}\n")?;
    write!(
        out,
        "| ratio | who | how | precision | µs a {unit}, least | median |"
    )?;
    if utility {
        write!(out, " utility reached |")?;
    }
    if memory {
        write!(out, " MB at most |")?;
    }
    if accuracy {
        write!(out, " error of actions | of gradients | budget exceeded by |")?;
    }
    writeln!(out)?;
    let columns = 6 + usize::from(utility) + usize::from(memory) + 3 * usize::from(accuracy);
    writeln!(out, "|{}", "---|".repeat(columns))?;
    for case in cases {
        let ratio = if std::ptr::eq(case, best) {
            "**1**".to_owned()
        } else {
            format!(
                "**{}** ({})",
                ahead(case.least / best.least),
                ahead(case.median / best.median)
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
        if memory {
            write!(
                out,
                " {} |",
                case.case.megabytes.map_or(String::new(), |mb| format!("{mb:.0}"))
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

fn growth_table(out: &mut String, figures: &Figures) -> std::fmt::Result {
    writeln!(
        out,
        "## Growth\n\n\
         Exponents are those of the upper half of the sizes: 1 is linear, 3 cubic. That of the least times is as noisy as the machine was\n\
         busy; that of the instructions is not noisy at all.\n\n\
         | what | size | expected | exponent of times | of instructions | microseconds | thousands of instructions |\n\
         |---|---|---|---|---|---|---|"
    )?;
    for (name, size, expected) in CURVES {
        let [times, counts] = [Measure::Latency, Measure::Instructions].map(|measure| {
            let points = curve(&figures.all, name, size, measure);
            let exponent = growth::exponent(&points)?;
            let told: Vec<String> = points
                .iter()
                .map(|(value, cost)| format!("{value}: {}", short(cost / 1e3)))
                .collect();
            Some((format!("{exponent:.2}"), told.join(", ")))
        });
        if times.is_none() && counts.is_none() {
            continue;
        }
        let (of_times, microseconds) = times.unwrap_or_default();
        let (of_counts, thousands) = counts.unwrap_or_default();
        writeln!(
            out,
            "| `{name}` | {size} | {expected} | {of_times} | {of_counts} | {microseconds} | {thousands} |"
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

/// A ratio with enough digits to tell who is ahead of two that are about level.
pub(super) fn ahead(ratio: f64) -> String {
    if ratio < 2.0 {
        format!("{ratio:.2}×")
    } else {
        times(ratio)
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
    use super::super::targets::tests::{comparison, timed};
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
    fn what_a_process_held_at_once_has_a_column_where_it_was_measured() {
        let measured = |peer: &str, least: f64, megabytes: f64| {
            let mut timed = timed(peer, "import", "as it is", least, 0.0);
            (timed.case.error_action, timed.case.megabytes) = (None, Some(megabytes));
            timed
        };
        let found = Comparison {
            cases: vec![measured("laau", 100.0, 43.2), measured("polars", 110.0, 400.0)],
            ..Comparison::default()
        };
        let mut out = String::new();
        ratios(&mut out, &found, "import", "Import", "thousand readings").unwrap();
        for line in [
            "| ratio | who | how | precision | µs a thousand readings, least | median | MB at most |",
            "| **1** | laau | as it is | f64 | 100 | 110 | 43 |",
            "| **1.10×** (1.10×) | polars | as it is | f64 | 110 | 121 | 400 |",
        ] {
            assert!(out.contains(line), "{line}\n{out}");
        }
    }

    #[test]
    fn the_page_has_ratios_first_and_says_what_is_missed_or_missing() {
        let record = |commit: &str, set: &str| {
            let mut record = Record::begin(Path::new("."), set);
            record.commit = commit.to_owned();
            record
        };
        let mut compared = record("aaa", "peers");
        compared.peers = Some(comparison());
        let mut peak = record("bbb", "peers");
        peak.peers = Some(Comparison {
            cases: vec![timed("laau", "peak", "multiply-adds", 0.02, 0.0)],
            ..Comparison::default()
        });
        let (mut full, mut counts) = (record("ccc", "full"), record("ddd", "counts"));
        for (steps, low) in [(20, 1e3), (100, 5e3), (200, 1e4)] {
            for (record, measure) in [
                (&mut full, Measure::Latency),
                (&mut counts, Measure::Instructions),
            ] {
                record.figures.push(Figure {
                    id: format!("opt/interior-point/d=4,M=2,N={steps}"),
                    measure,
                    value: low,
                    low,
                    high: low,
                });
            }
        }
        full.figures.push(Figure {
            id: "decision/vm-allocation/d=4,M=4".to_owned(),
            measure: Measure::Latency,
            value: 12e3,
            low: 12e3,
            high: 12e3,
        });
        let history = [compared, full, counts, peak];
        let (latest, figures) = (Latest::of(&history).unwrap(), Figures::latest(&history));
        let text = page(&latest, figures.as_ref(), "## Limits\n\nA note.").unwrap();
        for line in [
            "| **1** | laau | fused engine | f64 | 10.0 | 11.0 | 0 | 0 | 0 |",
            "| **4.9×** (4.9×) | jax | hand-written adjoint | f64 | 49.0 | 53.9 | 0 | 0 | 0 |",
            "| training, against the fastest JAX in f64 | ≥ 5× | 4.9× | MISSED |",
            "| layer d=8, M=3, against the fastest Moreau | ≥ 20× | not measured | not measured |",
            "| a LAAU step, virtual machines, d=4, M=4 | ≤ 10 µs | 12.0 µs, median 12.0 | MISSED |",
            "| `opt/interior-point` | N | linear | 1.00 | 1.00 | 20: 1.00, 100: 5.00, 200: 10.0 | 20: 1.00, 100: 5.00, 200: 10.0 |",
            "| moreau | installation |  | no matching distribution | `aaa` |",
            ", at `aaa` (layer-8x3, strict, train), `bbb` (peak).",
            ", times at `ccc`; instructions at `ddd`.",
            "| jax | 0.1 |",
            "A note.",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let place = |words: &str| text.find(words).unwrap();
        assert!(place("| ratio |") < place("## Targets") && place("## Targets") < place("## Where"));
    }
}
