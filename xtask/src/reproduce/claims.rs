//! The claims that the paper makes in words, decided from the tables.
//!
//! A claim is *reproduced* if it holds for the mean over seeds; beside the verdict stand the figures and how many seeds
//! agree. Nothing else decides.

use std::collections::BTreeMap;

use crate::figures::tables::{EpisodeRow, PolicyRow, ShiftRow, distinct};

/// What is known when claims are decided.
pub(crate) struct Evidence {
    pub(crate) policies: Vec<PolicyRow>,
    pub(crate) episodes: Vec<EpisodeRow>,
    pub(crate) shifts: Vec<ShiftRow>,
}

/// A claim, and its verdict on each data set that it was measured on.
pub(crate) struct Claim {
    pub(crate) text: &'static str,
    pub(crate) source: &'static str,
    pub(crate) verdicts: BTreeMap<String, Verdict>,
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
            |e, data| below_all(e, data, "cr-pursuit"),
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
    ];
    let mut sets = distinct(&evidence.policies, |row| row.data.clone());
    for data in distinct(&evidence.shifts, |row| row.data.clone()) {
        if !sets.contains(&data) {
            sets.push(data);
        }
    }
    rules
        .iter()
        .map(|(text, source, rule)| Claim {
            text,
            source,
            verdicts: sets
                .iter()
                .filter_map(|data| Some((data.clone(), rule(evidence, data)?)))
                .collect(),
        })
        .collect()
}

/// One value per seed.
fn per_seed(
    evidence: &Evidence,
    data: &str,
    policy: &str,
    horizon: usize,
    value: fn(&PolicyRow) -> f64,
) -> BTreeMap<u64, f64> {
    let rows = evidence.policies.iter();
    rows.filter(|row| row.data == data && row.policy == policy && row.horizon == horizon)
        .map(|row| (row.seed, value(row)))
        .collect()
}

fn mean(values: &BTreeMap<u64, f64>) -> Option<f64> {
    (!values.is_empty()).then(|| values.values().sum::<f64>() / values.len() as f64)
}

/// How many seeds have the first above the second.
fn agreement(above: &BTreeMap<u64, f64>, below: &BTreeMap<u64, f64>) -> (usize, usize) {
    let pairs = above.iter().filter_map(|(seed, a)| Some((a, below.get(seed)?)));
    pairs.fold((0, 0), |(agree, all), (a, b)| {
        (agree + usize::from(a > b), all + 1)
    })
}

fn horizons(evidence: &Evidence, data: &str) -> Vec<usize> {
    let rows: Vec<&PolicyRow> = evidence.policies.iter().filter(|row| row.data == data).collect();
    distinct(&rows, |row| row.horizon)
}

/// One policy above all others at the given horizons, by the mean fraction of OPT.
fn above_all(evidence: &Evidence, data: &str, one: &str, others: &[&str], at: &[usize]) -> Option<Verdict> {
    let mut reproduced = true;
    let mut parts = Vec::new();
    for &horizon in at {
        let ours = per_seed(evidence, data, one, horizon, |row| row.fraction_of_opt);
        let mine = mean(&ours)?;
        let mut rivals: Vec<(&str, f64, (usize, usize))> = others
            .iter()
            .filter_map(|rival| {
                let theirs = per_seed(evidence, data, rival, horizon, |row| row.fraction_of_opt);
                Some((*rival, mean(&theirs)?, agreement(&ours, &theirs)))
            })
            .collect();
        rivals.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (best, theirs, (agree, seeds)) = *rivals.first()?;
        reproduced &= mine > theirs;
        parts.push(format!(
            "N = {horizon}: {mine:.4} against {theirs:.4} ({best}), {agree} of {seeds} seeds"
        ));
    }
    Some(Verdict {
        reproduced,
        measured: parts.join("; "),
    })
}

/// One policy below all others at every horizon.
fn below_all(evidence: &Evidence, data: &str, lowest: &str) -> Option<Verdict> {
    let mut reproduced = true;
    let mut parts = Vec::new();
    for horizon in horizons(evidence, data) {
        let own = mean(&per_seed(evidence, data, lowest, horizon, |row| {
            row.fraction_of_opt
        }))?;
        let rows: Vec<&PolicyRow> = evidence.policies.iter().filter(|row| row.data == data).collect();
        let next = distinct(&rows, |row| row.policy.clone())
            .iter()
            .filter(|policy| *policy != lowest)
            .filter_map(|policy| {
                Some((
                    mean(&per_seed(evidence, data, policy, horizon, |row| {
                        row.fraction_of_opt
                    }))?,
                    policy.clone(),
                ))
            })
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        reproduced &= own < next.0 - 0.1;
        parts.push(format!(
            "N = {horizon}: {own:.4}, next {:.4} ({})",
            next.0, next.1
        ));
    }
    Some(Verdict {
        reproduced,
        measured: parts.join("; "),
    })
}

fn lead_grows(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let horizons = horizons(evidence, data);
    let lead = |horizon: usize| {
        let value = |policy| {
            mean(&per_seed(evidence, data, policy, horizon, |row| {
                row.fraction_of_opt
            }))
        };
        Some(value("laau")? - value("rl")?)
    };
    let leads: Vec<f64> = horizons
        .iter()
        .map(|horizon| lead(*horizon))
        .collect::<Option<_>>()?;
    let parts: Vec<String> = horizons
        .iter()
        .zip(&leads)
        .map(|(n, lead)| format!("N = {n}: {lead:+.4}"))
        .collect();
    Some(Verdict {
        reproduced: leads.len() > 1 && leads.is_sorted_by(|a, b| a < b),
        measured: parts.join("; "),
    })
}

fn laau_leaves_little(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let mut reproduced = true;
    let mut parts = Vec::new();
    for horizon in horizons(evidence, data) {
        let left = mean(&per_seed(evidence, data, "laau", horizon, |row| {
            row.remaining_percent
        }))?;
        reproduced &= left < 1.0;
        parts.push(format!("N = {horizon}: {left:.2} %"));
    }
    Some(Verdict {
        reproduced,
        measured: parts.join("; "),
    })
}

fn avg_lt_leaves_most(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let mut reproduced = true;
    let mut parts = Vec::new();
    for horizon in horizons(evidence, data) {
        let value = |policy| {
            mean(&per_seed(evidence, data, policy, horizon, |row| {
                row.remaining_percent
            }))
        };
        let own = value("avg-lt")?;
        let rivals = ["dgd", "mw", "rl", "laau"];
        let next = rivals
            .iter()
            .filter_map(|policy| value(policy))
            .max_by(f64::total_cmp)?;
        reproduced &= own > next;
        parts.push(format!("N = {horizon}: {own:.2} %, next {next:.2} %"));
    }
    Some(Verdict {
        reproduced,
        measured: parts.join("; "),
    })
}

fn best_quartiles(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let quartiles = |policy: &str| {
        let rows = evidence
            .episodes
            .iter()
            .filter(|row| row.data == data && row.policy == policy);
        let mut values: Vec<f64> = rows.map(|row| row.utility).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        Some([values[last / 4], values[last / 2]])
    };
    let own = quartiles("laau")?;
    let names = ["lower quartile", "median"];
    let mut reproduced = true;
    let mut parts = Vec::new();
    for k in 0..2 {
        let (best, policy) = RIVALS
            .iter()
            .filter_map(|policy| Some((quartiles(policy)?[k], policy)))
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        reproduced &= own[k] > best;
        parts.push(format!("{} {:.4} against {best:.4} ({policy})", names[k], own[k]));
    }
    Some(Verdict {
        reproduced,
        measured: parts.join("; "),
    })
}

/// Mean fraction of OPT at a shift.
fn shifted(evidence: &Evidence, data: &str, policy: &str, target: f64) -> Option<f64> {
    let rows = evidence.shifts.iter();
    let values: BTreeMap<u64, f64> = rows
        .filter(|row| row.data == data && row.policy == policy && row.target == target)
        .map(|row| (row.seed, row.fraction_of_opt))
        .collect();
    mean(&values)
}

fn shift_lowers(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let change =
        |policy| Some(shifted(evidence, data, policy, 0.25)? - shifted(evidence, data, policy, 0.0)?);
    let (laau, rl) = (change("laau")?, change("rl")?);
    Some(Verdict {
        reproduced: laau < 0.0 && rl < 0.0,
        measured: format!("LAAU {laau:+.4}, RL {rl:+.4} of OPT"),
    })
}

fn above_mw_when_shifted(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let (laau, mw) = (
        shifted(evidence, data, "laau", 0.25)?,
        shifted(evidence, data, "mw", 0.25)?,
    );
    Some(Verdict {
        reproduced: laau > mw,
        measured: format!("LAAU {laau:.4}, MW {mw:.4} of OPT"),
    })
}

fn loses_less(evidence: &Evidence, data: &str) -> Option<Verdict> {
    let loss = |policy| Some(shifted(evidence, data, policy, 0.0)? - shifted(evidence, data, policy, 0.25)?);
    let (laau, rl) = (loss("laau")?, loss("rl")?);
    Some(Verdict {
        reproduced: laau < rl,
        measured: format!("LAAU loses {laau:.4}, RL {rl:.4} of OPT"),
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
            remaining_percent: left,
            violations: 0,
        }
    }

    fn verdict(rows: Vec<PolicyRow>, text: &str) -> Option<Verdict> {
        let claims = decide(&Evidence {
            policies: rows,
            episodes: Vec::new(),
            shifts: Vec::new(),
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
        assert_eq!(found.measured, "N = 10: 0.9700 against 0.9500 (mw), 1 of 1 seeds");
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
