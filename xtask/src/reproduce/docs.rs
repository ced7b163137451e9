//! `cargo xtask docs`: what the documents say of a reproduction, written from its tables.

use std::path::Path;

use anyhow::{Context, ensure};
use laau_core::statistics::Difference;
use laau_core::tables::{GuardRow, GuardTrainingRow, PolicyRow, ProblemRow};

use super::claims::words;
use super::manifest::{Manifest, is_the_papers};
use super::problems::Problems;
use crate::figures::style::{data_name, policy_name, write};
use crate::figures::tables::{Spread, distinct, read};

/// Between these lines of the README stand the tables of a source.
const SOURCES: [&str; 2] = ["synthetic", "trace"];

/// Figures of other documents, beside the episodes of the pages of problems.
const FIGURES: &[&str] = &[
    "architecture.png",
    "architecture.svg",
    "guard_synthetic-consecutive.png",
    "guard_trace-interleaved.png",
];

/// Figures of `docs/reproduction.md`, and what they show.
const REPORT_FIGURES: &[(&str, &str)] = &[
    (
        "fraction_by_horizon_synthetic-consecutive.png",
        "Mean fraction of OPT by horizon, consecutive readings.",
    ),
    (
        "fraction_by_horizon_synthetic-interleaved.png",
        "Mean fraction of OPT by horizon, interleaved readings.",
    ),
    (
        "loss_synthetic-consecutive.png",
        "Loss of single episodes against OPT at N = 20, paired and logarithmic, workload.",
    ),
    (
        "loss_trace-consecutive.png",
        "Loss of single episodes against OPT at N = 20, paired and logarithmic, trace.",
    ),
    (
        "generalisation_synthetic-interleaved_20.png",
        "Theorem 6.1: the gap to the best model and the bound on it by training episodes.",
    ),
    (
        "online_rates_synthetic-consecutive.png",
        "Proposition 6.3: the loss of a round by step size.",
    ),
];

/// The pages of problems, each with a table of its workload and real data side by side.
const PAGES: &[(&str, &str)] = &[
    ("llm-tokens", "docs/problems/llm_tokens.md"),
    ("power", "docs/problems/power.md"),
    ("trading", "docs/problems/trading.md"),
    ("vm-allocation", "docs/problems/vm_allocation.md"),
    ("wireless", "docs/problems/wireless.md"),
];

/// Writes `docs/reproduction.md`, the figures of documents, and the tables of the README, of `docs/guard.md` and of the pages of
/// problems; from a run without a trace, the pages of problems alone.
pub(crate) fn run(folder: &Path, root: &Path) -> anyhow::Result<()> {
    let manifest =
        Manifest::load(folder).with_context(|| format!("{} holds no reproduction", folder.display()))?;
    ensure!(
        !manifest.quick,
        "documents are written from a full run: cargo xtask reproduce --trace FILE"
    );
    pages_of_problems(&manifest, folder, root)?;
    if manifest.trace.is_none() {
        println!("a run without --trace: only the pages of problems were written");
        return Ok(());
    }
    let text = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let report = text("report.md")?.replacen(
        "\n## Claims",
        "\nThe trace is the sample of 100 long-lived VMs of the Azure Public Dataset V1 (Cortez et al., SOSP 2017; CC-BY \
         4.0). `cargo xtask docs` has written this page. [Verdicts of two runs that differ in their seeds](verdicts.md) stand side by side \
         on a page of their own.\n\n## Claims",
        1,
    );
    let page = format!(
        "{report}{}# Other problems\n\nSeveral actions, several budgets, usage that is not linear: [what they \
         are](problems/README.md). Differences are in points (hundredths of OPT), paired, with 95 % intervals.\n\n{}",
        figures_section(),
        text("problems.md")?
    );
    write(&root.join("docs/reproduction.md"), page.as_bytes())?;
    for name in FIGURES.iter().chain(REPORT_FIGURES.iter().map(|(name, _)| name)) {
        copy_figure(name, folder, root)?;
    }
    let policies: Vec<PolicyRow> = read(folder)?;
    let place = root.join("README.md");
    let mut readme = std::fs::read_to_string(&place).context("cannot read README.md")?;
    for source in SOURCES {
        readme = spliced(&readme, source, &table(&policies, source))?;
    }
    readme = spliced(&readme, "claims", &text("claims.md")?)?;
    readme = spliced(
        &readme,
        "run",
        &run_sentence(&manifest, &policies, &read(folder)?),
    )?;
    write(&place, readme.as_bytes())?;
    let place = root.join("docs/guard.md");
    let mut page = std::fs::read_to_string(&place).context("cannot read docs/guard.md")?;
    page = spliced(&page, "guard", &guard_table(&read(folder)?))?;
    page = spliced(&page, "guard-training", &training_table(&read(folder)?))?;
    write(&place, page.as_bytes())
}

/// The figures of the report.
fn figures_section() -> String {
    let figures = REPORT_FIGURES
        .iter()
        .map(|(name, caption)| format!("![{caption}](figures/{name})\n\n{caption}\n"));
    format!("## Figures\n\n{}\n", figures.collect::<Vec<_>>().join("\n"))
}

fn copy_figure(name: &str, folder: &Path, root: &Path) -> anyhow::Result<()> {
    let bytes = std::fs::read(folder.join("figures").join(name))
        .with_context(|| format!("the reproduction has no figure {name}"))?;
    write(&root.join("docs/figures").join(name), &bytes)
}

/// Writes the tables of the pages of problems, and the episodes that they show.
fn pages_of_problems(manifest: &Manifest, folder: &Path, root: &Path) -> anyhow::Result<()> {
    let problems = Problems::read(folder)?;
    let seeds = manifest.seeds.len();
    for (problem, place) in PAGES {
        copy_figure(&format!("episode_{problem}.png"), folder, root)?;
        let place = root.join(place);
        let page =
            std::fs::read_to_string(&place).with_context(|| format!("cannot read {}", place.display()))?;
        write(
            &place,
            spliced(
                &page,
                problem,
                &format!("Means over {seeds} seeds.\n\n{}", problems.page_table(problem)),
            )?
            .as_bytes(),
        )?;
    }
    Ok(())
}

/// What the README says of the run itself.
fn run_sentence(manifest: &Manifest, policies: &[PolicyRow], problems: &[ProblemRow]) -> String {
    let minutes = |paper: bool| {
        let of = manifest
            .experiments
            .iter()
            .filter(|e| !paper || is_the_papers(&e.settings));
        of.map(|e| e.seconds).sum::<f64>() / 60.0
    };
    let violations = policies.iter().map(|row| row.violations).sum::<usize>()
        + problems.iter().map(|row| row.violations).sum::<usize>();
    let data = manifest.data.as_deref().map_or("", |_| " --data DIR");
    format!(
        "`cargo xtask reproduce --trace FILE{data}` took {:.0} minutes at commit `{}`, with {} seeds: {:.0} for the \
         paper's problem, on the workload and on the trace, and the rest for the other problems. Budgets were overspent in {violations} \
         steps of all policies together, on the paper's problem and on the others.\n",
        minutes(false),
        manifest.commit,
        manifest.seeds.len(),
        minutes(true)
    )
}

/// Whether training behind a guard beats a guard that is put before the trained policy: by seed, in points of OPT.
fn training_table(rows: &[GuardTrainingRow]) -> String {
    let columns = distinct(rows, |row| row.data.clone());
    let names: Vec<String> = columns.iter().map(|data| data_name(data)).collect();
    let mut lines = vec![
        format!("| fraction of OPT | {} |", names.join(" | ")),
        format!("|---|{}", "---|".repeat(columns.len())),
    ];
    let cases = distinct(rows, |row| (row.policy.clone(), row.target));
    let guarded = |policy: &str| {
        rows.iter()
            .any(|row| row.policy == policy && row.guard == "during")
    };
    for (policy, target) in cases.iter().filter(|(policy, _)| guarded(policy)) {
        let name = format!("{}, trained at d_W = {target}", policy_name(policy));
        let of = |data: &str, guard: &str| -> Vec<(u64, f64)> {
            let is = |row: &&GuardTrainingRow| {
                row.data == data && row.policy == *policy && row.target == *target && row.guard == guard
            };
            let mut found: Vec<(u64, f64)> = rows
                .iter()
                .filter(is)
                .map(|row| (row.seed, row.fraction_of_opt))
                .collect();
            found.sort_by_key(|(seed, _)| *seed);
            found
        };
        let mut line = |what: &str, cell: &dyn Fn(&str) -> Option<String>| {
            let cells: Vec<String> = columns
                .iter()
                .map(|data| cell(data).unwrap_or("–".to_owned()))
                .collect();
            lines.push(format!("| {name}, {what} | {} |", cells.join(" | ")));
        };
        for (guard, what) in [
            ("none", "no guard"),
            ("after", "guarded afterwards"),
            ("during", "trained and run with the guard"),
        ] {
            line(what, &|data| {
                let spread = Spread::of(of(data, guard).into_iter().map(|(_, value)| value))?;
                Some(format!("{:.4}", spread.mean).trim_start_matches('0').to_owned())
            });
        }
        line("training with it less afterwards, points", &|data| {
            let (after, during) = (of(data, "after"), of(data, "during"));
            let pairs = after.iter().zip(&during).filter(|(a, b)| a.0 == b.0);
            let leads: Vec<f64> = pairs.map(|(a, b)| 100.0 * (b.1 - a.1)).collect();
            let lead = (!leads.is_empty()).then(|| Difference::of_seeds(leads))?;
            let verdict = laau_core::statistics::decide(std::slice::from_ref(&lead))?;
            Some(format!("{} {verdict}", words("", &lead)))
        });
    }
    lines.join("\n") + "\n"
}

/// LAAU alone and behind guards, trained on the default data and on the most shifted, by data set.
fn guard_table(rows: &[GuardRow]) -> String {
    const LEVEL: f64 = 0.95;
    let rows: Vec<&GuardRow> = rows.iter().filter(|row| row.policy == "laau").collect();
    let furthest = rows.iter().map(|row| row.target).fold(0.0, f64::max);
    let columns = distinct(&rows, |row| row.data.clone());
    let incumbents = distinct(&rows, |row| row.incumbent.clone());
    let names: Vec<String> = columns.iter().map(|data| data_name(data)).collect();
    let mut lines = vec![
        format!("| fraction of OPT, N = 20 | {} |", names.join(" | ")),
        format!("|---|{}", "---|".repeat(columns.len())),
    ];
    let mut line = |name: String, cell: &dyn Fn(&[&GuardRow]) -> Option<String>| {
        let cells = columns.iter().map(|data| {
            let of: Vec<&GuardRow> = rows.iter().copied().filter(|row| row.data == *data).collect();
            cell(&of).unwrap_or("–".to_owned())
        });
        lines.push(format!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | ")));
    };
    let mean = |rows: &[&GuardRow], of: &dyn Fn(&GuardRow) -> bool, value: fn(&GuardRow) -> f64| {
        let chosen = rows.iter().filter(|row| row.level == LEVEL && of(row));
        let spread = Spread::of(chosen.map(|row| value(row)))?;
        Some(format!("{:.4}", spread.mean).trim_start_matches('0').to_owned())
    };
    for (target, trained) in [
        (0.0, "the default data"),
        (furthest, "data shifted by d_W = 0.25"),
    ] {
        line(format!("LAAU alone, trained on {trained}"), &|rows| {
            mean(rows, &|row| row.target == target, |row| row.advice_alone)
        });
        for incumbent in &incumbents {
            let name = policy_name(incumbent);
            line(format!("the same, guarded by {name} at γ = .95"), &|rows| {
                let of = |row: &GuardRow| row.target == target && row.incumbent == *incumbent;
                mean(rows, &of, |row| row.fraction_of_opt)
            });
        }
    }
    for incumbent in &incumbents {
        line(format!("{} alone", policy_name(incumbent)), &|rows| {
            mean(rows, &|row| row.incumbent == *incumbent, |row| {
                row.incumbent_alone
            })
        });
    }
    line(
        "least share of the incumbent's gain in any episode, γ = .95".to_owned(),
        &|rows| {
            let shares = rows
                .iter()
                .filter(|row| row.level == LEVEL)
                .filter_map(|row| row.least_share);
            Some(
                format!("{:.4}", shares.reduce(f64::min)?)
                    .trim_start_matches('0')
                    .to_owned(),
            )
        },
    );
    line("guarded episodes of LAAU, at all levels".to_owned(), &|rows| {
        Some(rows.iter().map(|row| row.episodes).sum::<usize>().to_string())
    });
    lines.join("\n") + "\n"
}

/// The text with the lines between the marks of a source replaced.
fn spliced(text: &str, source: &str, table: &str) -> anyhow::Result<String> {
    let (begin, end) = (
        format!("<!-- results: {source} -->\n"),
        format!("<!-- end: {source} -->"),
    );
    let (before, rest) = text
        .split_once(&begin)
        .with_context(|| format!("the document has no mark `{}`", begin.trim()))?;
    let (_, after) = rest
        .split_once(&end)
        .with_context(|| format!("the document has no mark `{end}`"))?;
    Ok([before, &begin, "\n", table, "\n", &end, after].concat())
}

/// Mean fraction of OPT by policy, construction and horizon; the best of a column is bold.
fn table(policies: &[PolicyRow], source: &str) -> String {
    let rows: Vec<&PolicyRow> = policies
        .iter()
        .filter(|row| row.data.starts_with(source) && row.policy != "opt")
        .collect();
    let columns = distinct(&rows, |row| (row.data.clone(), row.horizon));
    let fraction = |policy: &str, (data, horizon): &(String, usize)| {
        let of = |row: &&&PolicyRow| row.policy == policy && row.data == *data && row.horizon == *horizon;
        Spread::of(rows.iter().filter(of).map(|row| row.fraction_of_opt))
            .map_or(f64::NAN, |spread| spread.mean)
    };
    let mut names = distinct(&rows, |row| row.policy.clone());
    let rank = |policy: &str| columns.iter().map(|column| fraction(policy, column)).sum::<f64>();
    names.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    let four = |value: f64| format!("{value:.4}").trim_start_matches('0').to_owned();
    let best: Vec<String> = columns
        .iter()
        .map(|column| {
            four(
                names
                    .iter()
                    .map(|name| fraction(name, column))
                    .fold(0.0, f64::max),
            )
        })
        .collect();
    let heads = columns.iter().enumerate().map(|(index, (data, horizon))| {
        let construction = data.rsplit('-').next().unwrap_or_default();
        match index.checked_sub(1).map(|last| &columns[last].0) {
            Some(last) if last == data => format!("N = {horizon}"),
            _ => format!("{construction}, N = {horizon}"),
        }
    });
    let heads: Vec<String> = heads.collect();
    let mut lines = vec![
        format!("| policy | {} |", heads.join(" | ")),
        format!("|---|{}", "---|".repeat(columns.len())),
    ];
    for name in &names {
        let cells = columns
            .iter()
            .zip(&best)
            .map(|(column, best)| match four(fraction(name, column)) {
                cell if cell == *best => format!("**{cell}**"),
                cell => cell,
            });
        let cells: Vec<String> = cells.collect();
        lines.push(format!("| {} | {} |", policy_name(name), cells.join(" | ")));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_behind_a_guard_is_held_against_guarding_afterwards() {
        let row = |guard: &str, seed: u64, fraction: f64| GuardTrainingRow {
            data: "synthetic-consecutive".into(),
            target: 0.25,
            policy: "laau".into(),
            guard: guard.into(),
            level: Some(0.95),
            seed,
            utility: fraction,
            fraction_of_opt: fraction,
            least_share: 0.95,
            acted: None,
        };
        let mut rows = Vec::new();
        for seed in 0..5 {
            let noise = 1e-4 * (seed % 3) as f64;
            rows.push(row("none", seed, 0.9));
            rows.push(row("after", seed, 0.95 + noise));
            rows.push(row("during", seed, 0.96 - noise));
        }
        let table = training_table(&rows);
        assert!(
            table.contains("| LAAU, trained at d_W = 0.25, guarded afterwards | .9501 |"),
            "{table}"
        );
        assert!(
            table.contains("training with it less afterwards, points | +0.984 [")
                && table.contains("] holds |"),
            "{table}"
        );
    }

    #[test]
    fn every_figure_of_the_report_is_linked() {
        let section = figures_section();
        for (name, _) in REPORT_FIGURES {
            assert!(section.contains(&format!("](figures/{name})")), "{name}");
        }
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = "a\n<!-- results: trace -->\nold\n<!-- end: trace -->\nb\n";
        assert_eq!(
            spliced(text, "trace", "new\n").unwrap(),
            "a\n<!-- results: trace -->\n\nnew\n\n<!-- end: trace -->\nb\n"
        );
        assert!(spliced(text, "synthetic", "new\n").is_err());
    }
}
