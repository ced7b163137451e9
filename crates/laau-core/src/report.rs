//! The report of a comparison: the tables, JSON and figures all come from it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::episode::Episodes;
use crate::error::Error;
use crate::fit::{Fitted, Parameter, Player};
use crate::guard::{Certificate, Form};
use crate::policy::{GradientCounts, Policy};
use crate::results::Results;
use crate::rollout::Rollout;

/// The figures of several policies on the same episodes.
///
/// Its `Display` is a rounded table; it serialises to `summary.json`.
#[derive(Serialize)]
pub struct Report {
    /// The problem's name.
    pub problem: String,
    /// Steps per episode.
    pub horizon: usize,
    /// Number of test episodes.
    pub episodes: usize,
    /// The seeds, in order.
    pub seeds: Vec<u64>,
    /// One entry per policy, in the order in which they were added; a map by name when serialised.
    #[serde(serialize_with = "by_name")]
    pub policies: Vec<PolicyReport>,
    /// Policies that were left out, and why.
    #[serde(skip)]
    pub left_out: Vec<(String, Error)>,
    /// Policies that were not finished because the observer asked for the end; serialised if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<String>,
}

/// The figures of one policy over all episodes and seeds.
#[derive(Serialize)]
pub struct PolicyReport {
    /// The policy's name.
    #[serde(skip)]
    pub name: String,
    /// Mean utility per step.
    pub utility: f64,
    /// Mean utility over that of the offline optimum on the same episodes, if it was run and is not zero: 1 less the
    /// relative loss. Where utilities are negative (delays), it is 1 less the relative excess, so that more is better
    /// here, too.
    pub fraction_of_opt: Option<f64>,
    /// Mean remaining budget in percent, per budget.
    #[serde(serialize_with = "one_or_several")]
    pub remaining_percent: Vec<f64>,
    /// Minimum, quartiles and maximum of the utility per step over episodes.
    pub quantiles: [f64; 5],
    /// Steps in which the policy chose an action that cannot be paid.
    pub violations: usize,
    /// Steps in which the policy returned an error.
    pub failures: usize,
    /// Steps in which the named projection acted.
    pub projections: usize,
    /// Steps whose action was feasible but short of the layer's tolerance.
    pub unconverged: usize,
    /// The worst of what a guard kept of its promise, over all episodes and seeds, for a policy behind one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardReport>,
    /// Exact and approximate gradients in training, for a policy that was trained.
    pub gradients: Option<GradientCounts>,
    /// The time of one decision in one thread, ledger included, if it was measured.
    pub microseconds_per_decision: Option<f64>,
    /// What was fitted or tuned, by name; that of the first seed.
    pub parameters: BTreeMap<String, Parameter>,
    /// One entry per seed; the same figures in each for a policy without randomness.
    pub seeds: Vec<SeedReport>,
    /// One run per seed, or one for all seeds where a policy has no randomness.
    #[serde(skip)]
    pub runs: Vec<Run>,
}

/// The worst of the [`Certificate`]s of several episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GuardReport {
    /// The level `γ`.
    pub level: f64,
    /// How the guard acts.
    pub form: Form,
    /// The least margin `G_t − γ G†_t` of any step.
    pub margin: f64,
    /// The least share `G_N / G†_N` of any episode; none if the incumbent gained nothing in all of them.
    pub share: Option<f64>,
    /// The share of steps in which the guard changed the advice.
    pub acted: f64,
    /// Steps in which no float was safe.
    pub rounded: usize,
    /// The largest allowance of an episode.
    pub allowance: f64,
    /// Steps in which the advice or the incumbent was an error.
    pub failures: usize,
}

impl GuardReport {
    /// Sums up certificates; none of none.
    fn new<'a>(certificates: impl Iterator<Item = &'a Certificate>, steps: usize) -> Option<Self> {
        let mut report: Option<Self> = None;
        for certificate in certificates {
            let worst = report.get_or_insert(Self {
                level: certificate.level,
                form: certificate.form,
                margin: f64::INFINITY,
                share: None,
                acted: 0.0,
                rounded: 0,
                allowance: 0.0,
                failures: 0,
            });
            worst.margin = worst.margin.min(certificate.margin);
            worst.share = match (worst.share, certificate.share()) {
                (Some(worst), Some(share)) => Some(worst.min(share)),
                (worst, share) => worst.or(share),
            };
            worst.acted += certificate.acted as f64 / steps as f64;
            worst.rounded += certificate.rounded;
            worst.allowance = worst.allowance.max(certificate.allowance);
            worst.failures += certificate.advice_failures + certificate.incumbent_failures;
        }
        report
    }
}

/// The figures of one policy and seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// Mean utility per step.
    pub utility: f64,
    /// As in [`PolicyReport`].
    pub fraction_of_opt: Option<f64>,
    /// Mean remaining budget in percent, per budget.
    #[serde(serialize_with = "one_or_several")]
    pub remaining_percent: Vec<f64>,
    /// Steps in which the policy chose an action that cannot be paid.
    pub violations: usize,
    /// What was fitted or tuned, by name.
    pub parameters: BTreeMap<String, Parameter>,
}

/// A policy that was fitted with one seed and played on the test episodes.
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// The policy, and what was found for it.
    pub fitted: Fitted,
    /// How the test episodes went, in order.
    pub results: Results,
    /// Every step of them, if [`crate::Comparison::keep_sequential`] asked for it; else none. What is not kept can be played
    /// again, to the same bits.
    pub rollouts: Vec<Rollout>,
}

fn by_name<S: Serializer>(policies: &[PolicyReport], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(policies.len()))?;
    for policy in policies {
        map.serialize_entry(&policy.name, policy)?;
    }
    map.end()
}

/// A number for one budget, a list for several.
fn one_or_several<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    match values {
        [one] => one.serialize(serializer),
        several => several.serialize(serializer),
    }
}

impl Report {
    /// The figures of a policy.
    ///
    /// # Errors
    /// [`Error::UnknownPolicy`] when no policy of that name took part.
    pub fn entry(&self, name: &str) -> Result<&PolicyReport, Error> {
        let found = self.policies.iter().find(|policy| policy.name == name);
        found.ok_or_else(|| Error::UnknownPolicy {
            policy: name.to_owned(),
        })
    }

    /// An online policy that took part, as fitted with the first seed.
    ///
    /// # Errors
    /// [`Error::UnknownPolicy`] when no online policy of that name took part.
    pub fn policy(&self, name: &str) -> Result<&dyn Policy, Error> {
        match &self.entry(name)?.runs[0].fitted.player {
            Player::Online(policy) => Ok(&**policy),
            Player::Hindsight(_) => Err(Error::UnknownPolicy {
                policy: name.to_owned(),
            }),
        }
    }

    /// All figures in full precision, one row per policy.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let budgets = self.policies.first().map_or(1, |p| p.remaining_percent.len());
        let mut text = format!(
            "policy,utility,fraction_of_opt,{},min,q25,median,q75,max,violations,failures,projections,\
             exact_gradients,approximate_gradients,microseconds_per_decision,guard_share,guard_margin,guard_acted\n",
            column_names("remaining_percent", budgets).join(",")
        );
        for policy in &self.policies {
            let or_empty = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            let mut row = vec![
                policy.name.clone(),
                policy.utility.to_string(),
                or_empty(policy.fraction_of_opt),
            ];
            row.extend(policy.remaining_percent.iter().map(f64::to_string));
            row.extend(policy.quantiles.map(|quantile| quantile.to_string()));
            row.extend(
                [policy.violations, policy.failures, policy.projections].map(|count| count.to_string()),
            );
            row.extend(match policy.gradients {
                Some(counts) => [counts.exact.to_string(), counts.approximate.to_string()],
                None => [String::new(), String::new()],
            });
            row.push(or_empty(policy.microseconds_per_decision));
            let guard = policy.guard.as_ref();
            row.extend([
                or_empty(guard.and_then(|guard| guard.share)),
                or_empty(guard.map(|guard| guard.margin)),
                or_empty(guard.map(|guard| guard.acted)),
            ]);
            text.push_str(&row.join(","));
            text.push('\n');
        }
        text
    }

    /// A table in Markdown, rounded.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let (heading, rows) = self.rounded();
        let mut text = format!("| {} |\n|---|", heading.join(" | "));
        text.push_str(&"--:|".repeat(heading.len() - 1));
        text.push('\n');
        for row in &rows {
            // Writing to a string does not fail.
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }

    /// The heading and a row per policy, rounded.
    fn rounded(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let timed = self
            .policies
            .iter()
            .any(|p| p.microseconds_per_decision.is_some());
        let mut heading = vec![
            "policy",
            "utility",
            "of opt",
            "remaining %",
            "min",
            "25%",
            "50%",
            "75%",
            "max",
            "violations",
        ];
        let failed = self.policies.iter().any(|policy| policy.failures > 0);
        heading.extend(failed.then_some("failures"));
        heading.extend(timed.then_some("µs/decision"));
        let guarded = self.policies.iter().any(|policy| policy.guard.is_some());
        if guarded {
            heading.extend(["least share", "acted %"]);
        }
        let rows = self.policies.iter().map(|policy| {
            let percents = policy.remaining_percent.iter().map(|p| format!("{p:.2}"));
            let or_dash = |value: Option<f64>, digits: usize| {
                value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
            };
            let mut row = vec![
                policy.name.clone(),
                four_digits(policy.utility),
                or_dash(policy.fraction_of_opt, 4),
                percents.collect::<Vec<_>>().join(" "),
            ];
            row.extend(policy.quantiles.map(four_digits));
            row.push(policy.violations.to_string());
            row.extend(failed.then(|| policy.failures.to_string()));
            row.extend(timed.then(|| or_dash(policy.microseconds_per_decision, 2)));
            if guarded {
                let guard = policy.guard.as_ref();
                row.push(or_dash(guard.and_then(|guard| guard.share), 4));
                row.push(or_dash(guard.map(|guard| 100.0 * guard.acted), 1));
            }
            row
        });
        let rows = rows.collect();
        (heading, rows)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (heading, rows) = self.rounded();
        f.write_str(&align(&heading, &rows))
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PolicyReport {
    /// Sums up the runs of one policy, one per seed or one for all; `optimum` is how the offline optimum fared on
    /// the same episodes.
    ///
    /// # Panics
    /// Without a run.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        runs: Vec<Run>,
        seeds: &[u64],
        episodes: &Episodes,
        optimum: Option<&Results>,
    ) -> Self {
        let all = || runs.iter().map(|run| &run.results);
        let sum = |of: fn(&Results) -> &[u32]| all().flat_map(of).map(|steps| *steps as usize).sum();
        let mut utilities: Vec<f64> = all()
            .flat_map(|results| results.utilities.iter().copied())
            .collect();
        let utility = mean(&utilities);
        let best = optimum.map(Results::mean_utility);
        // A fraction of an optimum that is zero says nothing.
        let fraction_of_best = |utility| best.map(|best| fraction(utility, best)).filter(|f| f.is_finite());
        let mut gradients: Option<GradientCounts> = None;
        for counts in runs.iter().filter_map(|run| run.fitted.gradients) {
            let sum = gradients.get_or_insert_default();
            sum.exact += counts.exact;
            sum.approximate += counts.approximate;
        }
        utilities.sort_by(f64::total_cmp);
        let seeds = seeds
            .iter()
            .enumerate()
            .map(|(position, &seed)| {
                let run = &runs[position.min(runs.len() - 1)];
                let utility = run.results.mean_utility();
                SeedReport {
                    seed,
                    utility,
                    fraction_of_opt: fraction_of_best(utility),
                    remaining_percent: remaining_percent(&[&run.results], episodes),
                    violations: run.results.violations.iter().map(|steps| *steps as usize).sum(),
                    parameters: run.fitted.parameters.clone(),
                }
            })
            .collect();
        Self {
            name: name.into(),
            utility,
            fraction_of_opt: fraction_of_best(utility),
            remaining_percent: remaining_percent(&all().collect::<Vec<_>>(), episodes),
            quantiles: [0.0, 0.25, 0.5, 0.75, 1.0].map(|q| quantile(&utilities, q)),
            violations: sum(|results| &results.violations),
            failures: sum(|results| &results.failures),
            projections: sum(|results| &results.projections),
            unconverged: all().map(|results| results.unconverged).sum(),
            guard: GuardReport::new(
                all().flat_map(|results| &results.certificates),
                all().map(Results::len).sum::<usize>() * episodes.horizon(),
            ),
            gradients,
            microseconds_per_decision: None,
            parameters: runs[0].fitted.parameters.clone(),
            seeds,
            runs,
        }
    }

    /// The run of a seed, by its position.
    #[must_use]
    pub fn run(&self, seed: usize) -> &Run {
        &self.runs[seed.min(self.runs.len() - 1)]
    }

    /// The first error of the policy in a step, if there is one.
    #[must_use]
    pub fn first_failure(&self) -> Option<&Error> {
        self.runs
            .iter()
            .find_map(|run| run.results.first_failure.as_ref())
    }
}

/// The mean remaining budget in percent over all runs.
fn remaining_percent(runs: &[&Results], episodes: &Episodes) -> Vec<f64> {
    let count: usize = runs.iter().map(|results| results.len()).sum();
    let mut percent = vec![0.0; episodes.budget_len()];
    for results in runs {
        for (index, episode) in episodes.iter().enumerate().take(results.len()) {
            let remaining = results.remaining_of(index);
            for ((percent, remaining), &budget) in percent.iter_mut().zip(remaining).zip(episode.budgets()) {
                if budget > 0.0 {
                    *percent += 100.0 * remaining / budget / count as f64;
                }
            }
        }
    }
    percent
}

/// `name`, or `name_0`, `name_1`, … if there are several: the columns of tables.
#[must_use]
pub fn column_names(name: &str, count: usize) -> Vec<String> {
    if count == 1 {
        return vec![name.to_owned()];
    }
    (0..count).map(|number| format!("{name}_{number}")).collect()
}

/// Lines up rows under a heading: the first column to the left, the others to the right.
#[must_use]
pub fn align(heading: &[&str], rows: &[Vec<String>]) -> String {
    let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let all = || std::iter::once(&heading).chain(rows);
    let widths: Vec<usize> = (0..heading.len())
        .map(|column| {
            let cells = all().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in all() {
        for (index, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a string does not fail.
            let _ = match index {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// A number with four significant digits; a dash for none.
#[must_use]
pub fn four_digits(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-3..1e6).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = match magnitude {
        m if m >= 1000.0 => 0,
        m if m >= 100.0 => 1,
        m if m >= 10.0 => 2,
        m if m >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// `1 − (best − utility) / |best|`.
fn fraction(utility: f64, best: f64) -> f64 {
    if best < 0.0 {
        2.0 - utility / best
    } else {
        utility / best
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The quantile of sorted values, with linear interpolation between neighbours; NaN of none.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = q.clamp(0.0, 1.0) * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position in the slice"
    )]
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".to_owned(), "1".to_owned()],
            vec!["long".to_owned(), "10.5".to_owned()],
        ];
        assert_eq!(
            align(&["name", "x"], &rows),
            "name     x\na        1\nlong  10.5\n"
        );
    }

    #[test]
    fn numbers_have_four_digits() {
        for (value, expected) in [
            (0.0, "0.0000"),
            (0.12345, "0.1235"),
            (12.345, "12.35"),
            (-1234.5, "-1234"),
            (1e9, "1.000e9"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(four_digits(value), expected);
        }
    }

    #[test]
    fn a_fraction_is_one_less_the_loss_whatever_the_sign() {
        for (utility, best, expected) in [
            (0.9, 1.0, 0.9),
            (-1.5, -1.0, 0.5),
            (-1.0, -1.0, 1.0),
            (-3.0, -1.0, -1.0),
        ] {
            assert_eq!(fraction(utility, best), expected);
        }
    }

    #[test]
    fn quantiles_interpolate_between_neighbours() {
        let sorted = [1.0, 2.0, 4.0, 8.0];
        for (q, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.75, 5.0), (1.0, 8.0)] {
            assert_eq!(quantile(&sorted, q), expected, "quantile {q}");
        }
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(quantile(&[3.0], 0.9), 3.0);
    }
}
