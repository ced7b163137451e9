//! `report.md`: the claims and results of a reproduction, for documents.

use std::fmt::Write as _;

use super::claims::{Claim, DATA_SETS};
use super::manifest::Manifest;
use super::theory::{self, Tested};
use crate::figures::style::{data_name, policy_name};
use crate::figures::tables::{Spread, distinct};
use laau_core::statistics::planted::{FAILING, TRACE, WIDE, WORKLOAD, shares};
use laau_core::tables::PolicyRow;

/// How claims are decided.
pub(super) const RULES: &str = "A difference is paired (same test episodes, same seed) and has a 95 % interval over seeds, series \
    and episodes, which sees that seeds may share series. A claim *holds* if the interval of every difference that it is about is on its side; it \
    *does not hold* if some interval is on the other side, corrected for their number; else it is *undecided*. Policies are tuned on \
    validation episodes alone; what was changed after a look at test figures is listed in docs/problems/README.md.";

/// What stands where there is no verdict.
pub(super) fn missing(data: &str) -> &'static str {
    if data.starts_with("trace") {
        "not run (--trace PATH)"
    } else {
        "not run"
    }
}

/// The whole report.
pub(super) fn markdown(
    manifest: &Manifest,
    claims: &[Claim],
    tested: &[Tested],
    policies: &[PolicyRow],
    power: &[PowerRow],
) -> String {
    let seeds: Vec<String> = manifest.seeds.iter().map(u64::to_string).collect();
    let seconds = manifest.experiments.iter().map(|e| e.seconds).sum::<f64>();
    let mut text = String::from("# The paper's results, run again\n\n");
    let mut command = String::from("cargo xtask reproduce");
    if manifest.quick {
        command += " --quick";
    }
    if manifest.trace.is_some() {
        command += " --trace PATH";
    }
    if manifest.data.is_some() {
        command += " --data DIR";
    }
    let size = if manifest.quick {
        "small sizes"
    } else {
        "the paper's sizes"
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "Made by `{command}` at commit `{}`: {size}, seeds {}, {seconds:.0} seconds of experiments. Every figure below comes \
         from its tables.\n",
        manifest.commit,
        seeds.join(", ")
    );
    let times: Vec<String> = manifest
        .experiments
        .iter()
        .map(|e| format!("{} on {} {:.0}", e.name, e.data, e.seconds))
        .collect();
    if !times.is_empty() {
        let _ = writeln!(text, "Seconds of each: {}.\n", times.join(", "));
    }
    if !manifest.skipped.is_empty() {
        let _ = writeln!(
            text,
            "Skipped without --data DIR: {}.\n",
            manifest.skipped.join(", ")
        );
    }
    let _ = writeln!(text, "## Claims\n\n{RULES}\n");
    text += &verdicts(claims);
    text += &power_table(power);
    text += "\n### What was measured\n\nDifferences that are positive where the claim is true, in points (hundredths of OPT) if nothing \
             else is said, with 95 % intervals; of many, the four that are worst for the claim.\n\n";
    for claim in claims {
        let _ = writeln!(text, "**{}** ({})\n", claim.text, claim.source);
        for data in DATA_SETS {
            let measured = claim
                .findings
                .get(data)
                .map_or(missing(data), |finding| finding.measured.as_str());
            let _ = writeln!(text, "- {}: {measured}", data_name(data));
        }
        text.push('\n');
    }
    text += &theory::markdown(tested);
    text += "## Results\n\n";
    text += &results(policies);
    text
}

/// How often verdicts find a difference that was planted in data of a known spread.
pub(super) struct PowerRow {
    /// What the data are like.
    pub(super) name: &'static str,
    /// The difference, in points.
    pub(super) difference: f64,
    /// The share of data sets that it was found in.
    pub(super) found: f64,
    /// The share where the other side was found.
    pub(super) wrong: f64,
}

/// The difference that is planted, and the number of data sets.
const PLANTED: f64 = 0.1;
const PLANTED_SETS: u64 = 300;

/// Plants a tenth of a point in data of every spread.
pub(super) fn power() -> Vec<PowerRow> {
    [WORKLOAD, TRACE, WIDE, FAILING]
        .map(|spread| {
            let [found, wrong] = shares(spread, PLANTED, PLANTED_SETS, 1);
            PowerRow {
                name: spread.name,
                difference: PLANTED,
                found,
                wrong,
            }
        })
        .into()
}

/// The same for `power.csv`.
pub(super) fn power_csv(rows: &[PowerRow]) -> String {
    let mut text = String::from("data,difference,found,wrong\n");
    for row in rows {
        let _ = writeln!(
            text,
            "\"{}\",{},{},{}",
            row.name, row.difference, row.found, row.wrong
        );
    }
    text
}

fn power_table(rows: &[PowerRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n### What can be found\n\nVerdicts on {PLANTED_SETS} sets of data with ten seeds each and a planted difference of {PLANTED} points \
         (`laau_core::statistics::planted`):\n\n| data like | found | wrong side | undecided |\n|---|---|---|---|\n"
    );
    for row in rows {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.name,
            percent(row.found),
            percent(row.wrong),
            percent(1.0 - row.found - row.wrong)
        );
    }
    text
}

/// One row per claim, one column per data set.
pub(super) fn verdicts(claims: &[Claim]) -> String {
    let mut lines = vec![
        format!("| claim | in | {} |", DATA_SETS.map(data_name).join(" | ")),
        format!("|---|---|{}", "---|".repeat(DATA_SETS.len())),
    ];
    for claim in claims {
        let cells = DATA_SETS.map(|data| {
            let finding = claim.findings.get(data);
            finding.map_or(missing(data).to_owned(), |finding| finding.verdict.to_string())
        });
        lines.push(format!(
            "| {} | {} | {} |",
            claim.text,
            claim.source,
            cells.join(" | ")
        ));
    }
    lines.join("\n") + "\n"
}

/// Mean fraction of OPT by policy, a table per data set; the best online policy of a column is bold.
fn results(policies: &[PolicyRow]) -> String {
    let mut text = String::new();
    for data in distinct(policies, |row| row.data.clone()) {
        let rows: Vec<&PolicyRow> = policies.iter().filter(|row| row.data == data).collect();
        let horizons = distinct(&rows, |row| row.horizon);
        let fraction = |policy: &str, horizon: usize| {
            let of = rows.iter().filter(|r| r.policy == policy && r.horizon == horizon);
            Spread::of(of.map(|row| row.fraction_of_opt))
        };
        let mut names = distinct(&rows, |row| row.policy.clone());
        names.retain(|policy| policy != "opt");
        let last = horizons.last().copied().unwrap_or_default();
        let rank = |policy: &str| fraction(policy, last).map_or(0.0, |s| s.mean);
        names.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        let best: Vec<f64> = horizons
            .iter()
            .map(|&n| {
                names
                    .iter()
                    .filter_map(|p| fraction(p, n))
                    .map(|s| s.mean)
                    .fold(0.0, f64::max)
            })
            .collect();
        let heads: Vec<String> = horizons.iter().map(|n| format!("N = {n}")).collect();
        let violations: usize = rows.iter().map(|row| row.violations).sum();
        let _ = writeln!(
            text,
            "Mean fraction of OPT, {} ({violations} violations of a budget):\n\n| policy | {} | remaining %, N = {last} |\n|---|{}",
            data_name(&data),
            heads.join(" | "),
            "---|".repeat(horizons.len() + 1)
        );
        for policy in &names {
            let cells: Vec<String> = horizons
                .iter()
                .zip(&best)
                .map(|(&n, &best)| match fraction(policy, n) {
                    Some(s) if s.mean == best => {
                        format!("**{:.4}** ({:.4} … {:.4})", s.mean, s.least, s.most)
                    }
                    Some(s) => format!("{:.4} ({:.4} … {:.4})", s.mean, s.least, s.most),
                    None => "–".to_owned(),
                })
                .collect();
            let left = Spread::of(
                rows.iter()
                    .filter(|r| r.policy == *policy && r.horizon == last)
                    .map(|r| r.remaining_percent),
            );
            let left = left.map_or("–".to_owned(), |s| format!("{:.2}", s.mean));
            let _ = writeln!(
                text,
                "| {} | {} | {left} |",
                policy_name(policy),
                cells.join(" | ")
            );
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::claims::{Evidence, decide};
    use crate::reproduce::manifest::Finished;
    use crate::reproduce::samples::tests::planted;

    fn row(policy: &str, seed: u64, fraction: f64) -> PolicyRow {
        PolicyRow {
            data: "synthetic-consecutive".into(),
            horizon: 10,
            policy: policy.into(),
            seed,
            utility: fraction,
            fraction_of_opt: fraction,
            lower_quartile: fraction,
            median: fraction,
            remaining_percent: 0.5,
            violations: 0,
            projections: 0,
        }
    }

    #[test]
    fn the_report_has_a_verdict_or_a_reason_in_every_column_and_the_best_in_bold() {
        let policies = vec![
            row("opt", 0, 1.0),
            row("equal", 0, 0.98),
            row("equal", 1, 0.97),
            row("mw", 0, 0.95),
            row("mw", 1, 0.96),
        ];
        let manifest = Manifest {
            commit: "abc".into(),
            quick: true,
            seeds: vec![0, 1],
            trace: None,
            data: None,
            skipped: vec!["real_power".into()],
            experiments: vec![Finished {
                name: "ood".into(),
                data: "synthetic".into(),
                checksum: String::new(),
                settings: toml::Table::new(),
                seconds: 12.2,
            }],
        };
        let claims = decide(&Evidence {
            samples: planted("synthetic-consecutive", 10, &[(10, &[("equal", 2.0)])]),
            guards: Vec::new(),
        });
        let report = markdown(
            &manifest,
            &claims,
            &[],
            &policies,
            &[PowerRow {
                name: "workload",
                difference: 0.1,
                found: 0.5,
                wrong: 0.01,
            }],
        );
        assert!(
            report.contains("| workload | 50.0 % | 1.0 % | 49.0 % |"),
            "{report}"
        );
        assert!(
            report.contains("Seconds of each: ood on synthetic 12."),
            "{report}"
        );
        let row = "| Equal is above AVG-LT, DGD and MW at N = 10 | Fig. 2 | holds | not run | not run (--trace PATH) | \
                   not run (--trace PATH) |";
        assert!(report.contains(row), "{report}");
        assert!(
            report.contains("Skipped without --data DIR: real_power."),
            "{report}"
        );
        assert!(
            report.contains("| Equal | **0.9750** (0.9700 … 0.9800) | 0.50 |"),
            "{report}"
        );
        assert!(
            report.contains("| MW | 0.9550 (0.9500 … 0.9600) | 0.50 |"),
            "{report}"
        );
        assert!(!report.contains("| OPT"), "{report}");
    }
}
