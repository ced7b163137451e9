//! The claims that the paper makes in words, decided from the tables.
//!
//! A claim is *reproduced* if it holds for the mean over seeds; beside the verdict stand the figures with their range over
//! seeds, least to greatest. Nothing else decides.

use std::collections::BTreeMap;

use crate::figures::tables::{Spread, distinct};
use laau_core::tables::{GuardRow, PolicyRow, ShiftRow};

/// What is known when claims are decided.
pub(crate) struct Evidence {
    pub(crate) policies: Vec<PolicyRow>,
    pub(crate) shifts: Vec<ShiftRow>,
    pub(crate) guards: Vec<GuardRow>,
}

/// The columns of the claims table, always: both kinds of data, both readings of the paper's data section.
pub(crate) const DATA_SETS: [&str; 4] = [
    "synthetic-consecutive",
    "synthetic-interleaved",
    "trace-consecutive",
    "trace-interleaved",
];

/// A claim, and its verdict on each data set that it was measured on.
pub(crate) struct Claim {
    pub(crate) text: &'static str,
    pub(crate) source: &'static str,
    pub(crate) verdicts: BTreeMap<&'static str, Verdict>,
}

/// Whether a claim holds, and the figures that say so.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) reproduced: bool,
    pub(crate) measured: String,
}

/// The policies that the paper compares with.
const RIVALS: &[&str] = &["equal", "avg-lt", "dgd", "mw", "cr-pursuit", "rl"];

/// Decides every claim on every data set.
pub(crate) fn decide(evidence: &Evidence) -> Vec<Claim> {
    type Rule = fn(&Evidence, &str) -> Option<Verdict>;
    let rules: &[(&'static str, &'static str, Rule)] = &[
        (
            "Equal is above AVG-LT, DGD and MW at N = 10",
            "Fig. 2",
            |e, data| above_all(e, data, "equal", &["avg-lt", "dgd", "mw"], &[10]),
        ),
        (
            "LAAU is above every online baseline at every N",
            "Fig. 2",
            |e, data| above_all(e, data, "laau", RIVALS, &horizons(e, data)),
        ),
        (
            "LAAU is above AVG-LT, DGD and MW even at N = 40",
            "Fig. 2",
            |e, data| above_all(e, data, "laau", &["avg-lt", "dgd", "mw"], &[40]),
        ),
        (
            "CR-Pursuit is far below every other policy",
            "Section 7",
            |e, data| far_below_all(e, data, "cr-pursuit"),
        ),
        ("LAAU is above RL at every N", "Fig. 6", |e, data| {
            above_all(e, data, "laau", &["rl"], &horizons(e, data))
        }),
        ("LAAU's lead over RL grows with N", "Fig. 6", lead_grows),
        (
            "LAAU leaves less than 1 % of the budget",
            "Fig. 7",
            laau_leaves_little,
        ),
        (
            "AVG-LT leaves the most of the budget",
            "Fig. 7",
            avg_lt_leaves_most,
        ),
        (
            "LAAU has the best median and lower quartile of the online policies at N = 20",
            "Fig. 5",
            best_quartiles,
        ),
        (
            "Training on shifted data lowers LAAU and RL (d_W = 0.25 against 0)",
            "Fig. 3",
            shift_lowers,
        ),
        (
            "LAAU is above MW even at d_W = 0.25",
            "Fig. 3",
            above_mw_when_shifted,
        ),
        ("LAAU loses less by the shift than RL", "Fig. 3", loses_less),
        (
            "Guarded LAAU has at least γ of its incumbent's gain in every single episode, in and out of distribution",
            "docs/guard.md",
            guard_keeps_its_promise,
        ),
        (
            "At d_W = 0.25, LAAU guarded by MW at γ = .95 is above LAAU",
            "docs/guard.md",
            guard_saves_the_shifted,
        ),
        (
            "In distribution, LAAU guarded by MW at γ = .95 is less than half a point of OPT below LAAU",
            "docs/guard.md",
            guard_costs_little,
        ),
    ];
    rules
        .iter()
        .map(|(text, source, rule)| Claim {
            text,
            source,
            verdicts: DATA_SETS
                .into_iter()
                .filter_map(|data| Some((data, rule(evidence, data)?)))
                .collect(),
        })
        .collect()
}

/// One value per seed.
#[derive(Debug, Clone, PartialEq)]
struct PerSeed(BTreeMap<u64, f64>);

impl PerSeed {
    /// Of a policy at a horizon.
    fn at(
        evidence: &Evidence,
        data: &str,
        policy: &str,
        horizon: usize,
        value: fn(&PolicyRow) -> f64,
    ) -> Option<Self> {
        let rows = evidence.policies.iter();
        let values: BTreeMap<u64, f64> = rows
            .filter(|row| row.data == data && row.policy == policy && row.horizon == horizon)
            .map(|row| (row.seed, value(row)))
            .collect();
        (!values.is_empty()).then_some(Self(values))
    }

    /// Of a policy that was trained on shifted data.
    fn shifted(evidence: &Evidence, data: &str, policy: &str, target: f64) -> Option<Self> {
        let rows = evidence.shifts.iter();
        let values: BTreeMap<u64, f64> = rows
            .filter(|row| row.data == data && row.policy == policy && row.target == target)
            .map(|row| (row.seed, row.fraction_of_opt))
            .collect();
        (!values.is_empty()).then_some(Self(values))
    }

    fn mean(&self) -> f64 {
        self.0.values().sum::<f64>() / self.0.len() as f64
    }

    /// Seed by seed; nothing if no seed is in both.
    fn minus(&self, other: &Self) -> Option<Self> {
        let pairs = self.0.iter();
        let values: BTreeMap<u64, f64> = pairs
            .filter_map(|(seed, value)| Some((*seed, value - other.0.get(seed)?)))
            .collect();
        (!values.is_empty()).then_some(Self(values))
    }

    /// Least and greatest, with a sign.
    fn range(&self) -> String {
        Spread::of(self.0.values().copied())
            .map_or_else(String::new, |s| format!("{:+.4} … {:+.4}", s.least, s.most))
    }
}

fn horizons(evidence: &Evidence, data: &str) -> Vec<usize> {
    let rows: Vec<&PolicyRow> = evidence.policies.iter().filter(|row| row.data == data).collect();
    distinct(&rows, |row| row.horizon)
}

/// A verdict from one part per horizon, each with its figures; nothing if there is no horizon or one has no figures.
fn by_horizon(horizons: &[usize], part: impl Fn(usize) -> Option<(bool, String)>) -> Option<Verdict> {
    let parts: Vec<(bool, String)> = horizons
        .iter()
        .map(|&n| part(n).map(|(holds, figures)| (holds, format!("N = {n}: {figures}"))))
        .collect::<Option<_>>()?;
    let (holds, figures): (Vec<bool>, Vec<String>) = parts.into_iter().unzip();
    (!holds.is_empty()).then(|| Verdict {
        reproduced: holds.iter().all(|holds| *holds),
        measured: figures.join("; "),
    })
}

/// One policy above all others at the given horizons, by the mean fraction of OPT.
fn above_all(evidence: &Evidence, data: &str, one: &str, others: &[&str], at: &[usize]) -> Option<Verdict> {
    let fraction = |policy: &str, n| PerSeed::at(evidence, data, policy, n, |row| row.fraction_of_opt);
    by_horizon(at, |n| {
        let ours = fraction(one, n)?;
        let (best, theirs) = others
            .iter()
            .filter_map(|rival| Some((*rival, fraction(rival, n)?)))
            .max_by(|a, b| a.1.mean().total_cmp(&b.1.mean()))?;
        let lead = ours.minus(&theirs)?;
        let figures = format!(
            "{:.4} against {:.4} ({best}), by {}",
            ours.mean(),
            theirs.mean(),
            lead.range()
        );
        Some((ours.mean() > theirs.mean(), figures))
    })
}

/// One policy below all others at every horizon, by a tenth of OPT.
fn far_below_all(evidence: &Evidence, data: &str, lowest: &str) -> Option<Verdict> {
    let fraction = |policy: &str, n| PerSeed::at(evidence, data, policy, n, |row| row.fraction_of_opt);
    by_horizon(&horizons(evidence, data), |n| {
        let own = fraction(lowest, n)?;
        let (next, theirs) = distinct(&evidence.policies, |row| row.policy.clone())
            .into_iter()
            .filter(|policy| policy != lowest)
            .filter_map(|policy| Some((fraction(&policy, n)?, policy)))
            .map(|(value, policy)| (policy, value))
            .min_by(|a, b| a.1.mean().total_cmp(&b.1.mean()))?;
        let figures = format!(
            "{:.4} against {:.4} ({next}), by {}",
            own.mean(),
            theirs.mean(),
            own.minus(&theirs)?.range()
        );
        Some((own.mean() < theirs.mean() - 0.1, figures))
    })
}

fn lead_grows(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let horizons = horizons(evidence, data);
    let fraction = |policy: &str, n| PerSeed::at(evidence, data, policy, n, |row| row.fraction_of_opt);
    let leads: Vec<PerSeed> = horizons
        .iter()
        .map(|&n| fraction("laau", n)?.minus(&fraction("rl", n)?))
        .collect::<Option<_>>()?;
    let parts: Vec<String> = horizons
        .iter()
        .zip(&leads)
        .map(|(n, lead)| format!("N = {n}: {:+.4} ({})", lead.mean(), lead.range()))
        .collect();
    (!leads.is_empty()).then(|| Verdict {
        reproduced: leads.len() > 1 && leads.is_sorted_by(|a, b| a.mean() < b.mean()),
        measured: parts.join("; "),
    })
}

fn laau_leaves_little(evidence: &Evidence, data: &str) -> Option<Verdict> {
    by_horizon(&horizons(evidence, data), |n| {
        let left = PerSeed::at(evidence, data, "laau", n, |row| row.remaining_percent)?;
        let spread = Spread::of(left.0.values().copied())?;
        let figures = format!("{:.2} % ({:.2} … {:.2})", spread.mean, spread.least, spread.most);
        Some((spread.mean < 1.0, figures))
    })
}

fn avg_lt_leaves_most(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let left = |policy: &str, n| {
        let values = PerSeed::at(evidence, data, policy, n, |row| row.remaining_percent)?;
        Spread::of(values.0.into_values())
    };
    by_horizon(&horizons(evidence, data), |n| {
        let own = left("avg-lt", n)?;
        let (policy, next) = ["dgd", "mw", "rl", "laau"]
            .into_iter()
            .filter_map(|policy| Some((policy, left(policy, n)?)))
            .max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))?;
        let figures = format!(
            "{:.2} % ({:.2} … {:.2}) against {:.2} % ({policy})",
            own.mean, own.least, own.most, next.mean
        );
        Some((own.mean > next.mean, figures))
    })
}

fn best_quartiles(evidence: &Evidence, data: &str) -> Option<Verdict> {
    type Column = (&'static str, fn(&PolicyRow) -> f64);
    let columns: [Column; 2] = [
        ("lower quartile", |row| row.lower_quartile),
        ("median", |row| row.median),
    ];
    let mut reproduced = true;
    let mut parts = Vec::new();
    for (name, value) in columns {
        let own = PerSeed::at(evidence, data, "laau", 20, value)?;
        let (policy, best) = RIVALS
            .iter()
            .filter_map(|policy| Some((policy, PerSeed::at(evidence, data, policy, 20, value)?)))
            .max_by(|a, b| a.1.mean().total_cmp(&b.1.mean()))?;
        reproduced &= own.mean() > best.mean();
        parts.push(format!(
            "{name} {:.4} against {:.4} ({policy}), by {}",
            own.mean(),
            best.mean(),
            own.minus(&best)?.range()
        ));
    }
    Some(Verdict {
        reproduced,
        measured: parts.join("; "),
    })
}

/// What a policy loses by training on data that are shifted by 0.25.
fn loss(evidence: &Evidence, data: &str, policy: &str) -> Option<PerSeed> {
    let of = |target| PerSeed::shifted(evidence, data, policy, target);
    of(0.0)?.minus(&of(0.25)?)
}

fn shift_lowers(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let (laau, rl) = (loss(evidence, data, "laau")?, loss(evidence, data, "rl")?);
    Some(Verdict {
        reproduced: laau.mean() > 0.0 && rl.mean() > 0.0,
        measured: format!(
            "LAAU loses {:+.4} ({}), RL {:+.4} ({}) of OPT",
            laau.mean(),
            laau.range(),
            rl.mean(),
            rl.range()
        ),
    })
}

fn above_mw_when_shifted(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let of = |policy| PerSeed::shifted(evidence, data, policy, 0.25);
    let (laau, mw) = (of("laau")?, of("mw")?);
    Some(Verdict {
        reproduced: laau.mean() > mw.mean(),
        measured: format!(
            "LAAU {:.4}, MW {:.4} of OPT, by {}",
            laau.mean(),
            mw.mean(),
            laau.minus(&mw)?.range()
        ),
    })
}

fn loses_less(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let (laau, rl) = (loss(evidence, data, "laau")?, loss(evidence, data, "rl")?);
    Some(Verdict {
        reproduced: laau.mean() < rl.mean(),
        measured: format!(
            "LAAU loses {:+.4}, RL {:+.4} of OPT; the difference is {}",
            laau.mean(),
            rl.mean(),
            laau.minus(&rl)?.range()
        ),
    })
}

/// Every policy, incumbent, level and seed that was run.
fn guard_keeps_its_promise(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let rows: Vec<&GuardRow> = evidence.guards.iter().filter(|row| row.data == data).collect();
    let short = rows
        .iter()
        .filter(|row| row.least_margin < -row.allowance)
        .count();
    let tightest = rows
        .iter()
        .filter_map(|row| Some((row.least_share? - row.level, row)))
        .min_by(|a, b| a.0.total_cmp(&b.0))?
        .1;
    let episodes: usize = rows.iter().map(|row| row.episodes).sum();
    let largest = rows.iter().map(|row| row.allowance).fold(0.0, f64::max);
    Some(Verdict {
        reproduced: short == 0,
        measured: format!(
            "{short} of {} runs ({episodes} episodes) have a step below the promise; the tightest share is {:.6} at γ = {} \
             ({} guarded by {}); roundings are allowed {largest:.1e} at most",
            rows.len(),
            tightest.least_share.unwrap_or(f64::NAN),
            tightest.level,
            tightest.policy,
            tightest.incumbent,
        ),
    })
}

/// The guarded policy and the advice alone.
fn headline_guard(evidence: &Evidence, data: &str, target: f64) -> Option<[PerSeed; 2]> {
    let of = |value: fn(&GuardRow) -> f64| {
        let rows = evidence.guards.iter().filter(|row| {
            row.data == data
                && row.target == target
                && (row.policy.as_str(), row.incumbent.as_str(), row.level) == ("laau", "mw", 0.95)
        });
        let values: BTreeMap<u64, f64> = rows.map(|row| (row.seed, value(row))).collect();
        (!values.is_empty()).then_some(PerSeed(values))
    };
    Some([of(|row| row.fraction_of_opt)?, of(|row| row.advice_alone)?])
}

fn guard_saves_the_shifted(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let [guarded, alone] = headline_guard(evidence, data, 0.25)?;
    guard_verdict(&guarded, &alone, guarded.mean() > alone.mean())
}

fn guard_costs_little(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let [guarded, alone] = headline_guard(evidence, data, 0.0)?;
    guard_verdict(&guarded, &alone, guarded.mean() > alone.mean() - 0.005)
}

fn guard_verdict(guarded: &PerSeed, alone: &PerSeed, reproduced: bool) -> Option<Verdict> {
    Some(Verdict {
        reproduced,
        measured: format!(
            "guarded {:.4}, alone {:.4} of OPT, by {}",
            guarded.mean(),
            alone.mean(),
            guarded.minus(alone)?.range()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &str, horizon: usize, seed: u64, fraction: f64, left: f64) -> PolicyRow {
        PolicyRow {
            data: "synthetic-consecutive".into(),
            horizon,
            policy: policy.into(),
            seed,
            utility: fraction,
            fraction_of_opt: fraction,
            lower_quartile: fraction,
            median: fraction,
            remaining_percent: left,
            violations: 0,
            projections: 0,
        }
    }

    fn verdict(rows: Vec<PolicyRow>, text: &str) -> Option<Verdict> {
        let claims = decide(&Evidence {
            policies: rows,
            shifts: Vec::new(),
            guards: Vec::new(),
        });
        let claim = claims
            .into_iter()
            .find(|claim| claim.text.starts_with(text))
            .unwrap();
        claim.verdicts.get("synthetic-consecutive").cloned()
    }

    #[test]
    fn a_claim_that_does_not_hold_is_not_reproduced() {
        let rows = |equal: f64| {
            vec![
                row("equal", 10, 0, equal, 0.0),
                row("mw", 10, 0, 0.95, 0.2),
                row("dgd", 10, 0, 0.94, 0.2),
                row("avg-lt", 10, 0, 0.7, 9.0),
            ]
        };
        let found = verdict(rows(0.97), "Equal is above").unwrap();
        assert_eq!(
            found.measured,
            "N = 10: 0.9700 against 0.9500 (mw), by +0.0200 … +0.0200"
        );
        assert!(found.reproduced);
        assert!(!verdict(rows(0.949), "Equal is above").unwrap().reproduced);
    }

    #[test]
    fn a_claim_without_evidence_has_no_verdict() {
        assert_eq!(
            verdict(vec![row("equal", 20, 0, 0.9, 0.0)], "LAAU is above RL"),
            None
        );
    }

    #[test]
    fn the_lead_must_grow_at_every_horizon() {
        let rows = |leads: [f64; 3]| {
            let pairs = [10, 20, 40].into_iter().zip(leads);
            pairs
                .flat_map(|(n, lead)| [row("laau", n, 0, 0.98 + lead, 0.1), row("rl", n, 0, 0.98, 0.1)])
                .collect()
        };
        assert!(
            verdict(rows([0.001, 0.002, 0.003]), "LAAU's lead")
                .unwrap()
                .reproduced
        );
        assert!(
            !verdict(rows([0.003, 0.002, 0.004]), "LAAU's lead")
                .unwrap()
                .reproduced
        );
    }

    #[test]
    fn leaving_a_percent_is_too_much() {
        assert!(
            verdict(vec![row("laau", 10, 0, 0.98, 0.99)], "LAAU leaves")
                .unwrap()
                .reproduced
        );
        assert!(
            !verdict(vec![row("laau", 10, 0, 0.98, 1.0)], "LAAU leaves")
                .unwrap()
                .reproduced
        );
    }
}
