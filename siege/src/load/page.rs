//! The tables of the load, between two marks of a page.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;

use super::drive::Measured;
use super::{ACCOUNTS, CLIENTS, EMBEDDED, Found, ONE_STATEMENT, POSTGRES, UPDATE, WITH_INSERT};

const BEGIN: &str = "<!-- results: serve -->";
const END: &str = "<!-- end: serve -->";

/// A rate and its times in a line.
pub(super) fn short(measured: &Measured) -> String {
    let Measured { rate, p50, p99 } = measured;
    format!("{rate:.0} a second, p50 {p50:.2} ms, p99 {p99:.2} ms")
}

/// What was measured, as Markdown.
pub(super) fn tables(found: &Found) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        let _ = writeln!(out, "{text}");
    };
    line("## Budget authority: durable decisions a second");
    line("");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    line(&format!(
        "Written by `cargo xtask serve load`: {CLIENTS} clients, each with its next request when it has its answer; clients, service and \
         database share {cores} cores; build: {}. An answer of laau is a decision of a policy, its price and a durable log line; the \
         others subtract a number.",
        found.profile
    ));
    line("");
    line(&format!(
        "| who | one hot account, a second | p50, ms | p99, ms | {ACCOUNTS} accounts, a second | p50, ms | p99, ms |"
    ));
    line("|---|---|---|---|---|---|---|");
    for row in &found.rows {
        let cells = |measured: Option<&Measured>| {
            measured.map_or_else(
                || " | | ".to_owned(),
                |Measured { rate, p50, p99 }| format!("{rate:.0} | {p50:.2} | {p99:.2}"),
            )
        };
        line(&format!(
            "| {} | {} | {} |",
            row.who,
            cells(Some(&row.hot)),
            cells(row.spread.as_ref())
        ));
    }
    line("");
    line("| target | found | |");
    line("|---|---|---|");
    for (target, found, met) in targets(found) {
        line(&format!(
            "| {target} | {found} | {} |",
            if met { "met" } else { "MISSED" }
        ));
    }
    if !found.memory.is_empty() {
        line("");
        line(
            "Resident memory of the service after so many decisions on one account, in periods of 10,000 steps:",
        );
        line("");
        let cells = |cell: &dyn Fn(&(u64, f64)) -> String| {
            found.memory.iter().map(cell).collect::<Vec<_>>().join(" | ")
        };
        line(&format!(
            "| decisions | {} |",
            cells(&|(decisions, _)| decisions.to_string())
        ));
        line(&format!("|---|{}", "---|".repeat(found.memory.len())));
        line(&format!(
            "| MiB | {} |",
            cells(&|(_, memory)| format!("{memory:.1}"))
        ));
    }
    out
}

/// What was wanted, what was found, and whether that is enough.
fn targets(found: &Found) -> Vec<(&'static str, String, bool)> {
    let hot = |who: &str| found.rows.iter().find(|row| row.who == who).map(|row| row.hot);
    let mut targets = Vec::new();
    if let Some(ours) = hot(EMBEDDED) {
        targets.push((
            "embedded, hot account: 10,000 a second",
            format!("{:.0}", ours.rate),
            ours.rate >= 1e4,
        ));
        targets.push((
            "embedded, hot account: p99 of 20 ms",
            format!("{:.2} ms", ours.p99),
            ours.p99 <= 20.0,
        ));
    }
    for (who, target, least) in [
        (
            EMBEDDED,
            "embedded, hot account: 5 times pgbench's bare `UPDATE`",
            5.0,
        ),
        (
            POSTGRES,
            "PostgreSQL, hot account: 3 times pgbench's bare `UPDATE`",
            3.0,
        ),
    ] {
        let times = |rival: &str| Some(hot(who)?.rate / hot(rival)?.rate);
        let Some(bare) = times(UPDATE) else {
            continue;
        };
        let mut words = format!("{bare:.1}×");
        if let (Some(one), Some(two)) = (times(ONE_STATEMENT), times(WITH_INSERT)) {
            let _ = write!(
                words,
                "; of those with a log line {one:.1}× (one statement), {two:.1}× (two)"
            );
        }
        targets.push((target, words, bare >= least));
    }
    if let (Some((_, first)), Some((decisions, last))) = (found.memory.first(), found.memory.last()) {
        // A quarter is the noise of an allocator; a byte kept per decision would be more than that many times over.
        let words = format!("{:.2} times after {decisions}", last / first);
        targets.push((
            "memory after all decisions: as after a tenth of them",
            words,
            last / first <= 1.25,
        ));
    }
    targets
}

/// Puts the tables between the marks of a page, at its end if it has none.
pub(super) fn write(path: &Path, tables: &str) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    std::fs::write(path, placed(&text, tables)).with_context(|| format!("cannot write {}", path.display()))
}

fn placed(text: &str, tables: &str) -> String {
    let block = format!("{BEGIN}\n\n{}\n\n{END}", tables.trim_end());
    match (text.find(BEGIN), text.find(END)) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}{block}{}", &text[..begin], &text[end + END.len()..])
        }
        _ => format!("{}\n\n{block}\n", text.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::*;

    #[test]
    fn the_bare_update_is_the_judge_and_the_slower_rivals_are_beside_it() {
        let row = |who, rate| Row {
            who,
            hot: Measured {
                rate,
                p50: 1.0,
                p99: 2.0,
            },
            spread: None,
        };
        let found = Found {
            rows: vec![
                row(EMBEDDED, 12e3),
                row(POSTGRES, 9e3),
                row(UPDATE, 3e3),
                row(WITH_INSERT, 2e3),
                row(ONE_STATEMENT, 2.5e3),
            ],
            memory: Vec::new(),
            profile: String::new(),
        };
        let judged: Vec<_> = targets(&found)
            .into_iter()
            .filter(|(target, ..)| target.contains("pgbench"))
            .map(|(_, words, met)| (words, met))
            .collect();
        let words = |text: &str| text.to_owned();
        assert_eq!(
            judged,
            [
                (
                    words("4.0×; of those with a log line 4.8× (one statement), 6.0× (two)"),
                    false
                ),
                (
                    words("3.0×; of those with a log line 3.6× (one statement), 4.5× (two)"),
                    true
                ),
            ]
        );
    }

    #[test]
    fn the_tables_take_the_place_of_the_last_ones() {
        let once = placed("# Page\n\ntext\n", "one\n");
        assert_eq!(once, format!("# Page\n\ntext\n\n{BEGIN}\n\none\n\n{END}\n"));
        assert_eq!(placed(&once, "two"), once.replace("one", "two"));
    }
}
