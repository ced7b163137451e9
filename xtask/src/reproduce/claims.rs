//! The claims that the paper makes in words, decided from single episodes.
//!
//! A claim is one or several paired differences, each positive where the claim is true; `laau_core::statistics` has the rules.
//! Beside the verdict stand the differences in points of OPT with their intervals. Nothing else decides.

use std::collections::BTreeMap;

use super::samples::{Cell, Samples};
use laau_core::statistics::{Difference, Verdict, decide as judge, seeds_to_decide};
use laau_core::tables::GuardRow;

/// What is known when claims are decided.
pub(crate) struct Evidence {
    pub(crate) samples: Samples,
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
    pub(crate) findings: BTreeMap<&'static str, Finding>,
}

/// A verdict, and the figures that say so.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    pub(crate) measured: String,
}

/// The policies that the paper compares with; CR-Pursuit with a ratio calibrated on training episodes.
const RIVALS: &[&str] = &["equal", "avg-lt", "dgd", "mw", "cr-pursuit", "rl"];

/// A named difference that is positive where the claim is true.
type Part = (String, Difference);

type Rule = fn(&Evidence, &str) -> Option<Vec<Part>>;

const RULES: &[(&str, &str, Rule)] = &[
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
        "CR-Pursuit, its ratio calibrated without guarantee, is ten points below every other online policy",
        "Section 7",
        |e, data| far_below_all(e, data, "cr-pursuit"),
    ),
    (
        "CR-Pursuit, its ratio the guaranteed one, is ten points below every other online policy",
        "Section 7",
        |e, data| far_below_all(e, data, "cr-pursuit-guaranteed"),
    ),
    ("LAAU is above RL at every N", "Fig. 6", |e, data| {
        above_all(e, data, "laau", &["rl"], &horizons(e, data))
    }),
    ("LAAU's lead over RL grows with N", "Fig. 6", lead_grows),
    ("LAAU leaves less than 1 % of the budget", "Fig. 7", |e, data| {
        each(e, data, &horizons(e, data), |cell| {
            let name = "1 % of the budget less what is left, in % of the budget";
            vec![(name.to_owned(), cell.leaves_less_than("laau", 1.0))]
        })
    }),
    (
        "AVG-LT leaves more of the budget than DGD, MW, RL and LAAU",
        "Fig. 7",
        |e, data| leaves_most(e, data, &["dgd", "mw", "rl", "laau"]),
    ),
    (
        "AVG-LT leaves the most of the budget, CR-Pursuit included",
        "Fig. 7",
        |e, data| leaves_most(e, data, &["equal", "dgd", "mw", "cr-pursuit", "rl", "laau"]),
    ),
    (
        "LAAU has the best median and lower quartile of the online policies at N = 20",
        "Fig. 5",
        |e, data| {
            each(e, data, &[20], |cell| {
                let parts = RIVALS.iter().flat_map(|rival| {
                    [(true, "median"), (false, "lower quartile")].map(|(median, word)| {
                        (
                            format!("{word} against {rival}"),
                            cell.quantile_lead("laau", rival, median),
                        )
                    })
                });
                parts.collect()
            })
        },
    ),
    (
        "Training on shifted data lowers LAAU and RL (d_W = 0.25 against 0)",
        "Fig. 3",
        |e, data| {
            let (default, shifted) = shifts(e, data)?;
            let loss = |policy: &str| Some((policy.to_owned(), default.lead_beyond(shifted, policy, "opt")?));
            Some(vec![loss("laau")?, loss("rl")?])
        },
    ),
    ("LAAU is above MW even at d_W = 0.25", "Fig. 3", |e, data| {
        Some(vec![(String::new(), shifts(e, data)?.1.lead("laau", "mw")?)])
    }),
    ("LAAU loses less by the shift than RL", "Fig. 3", |e, data| {
        let (default, shifted) = shifts(e, data)?;
        Some(vec![(String::new(), shifted.lead_beyond(default, "laau", "rl")?)])
    }),
    (
        "At d_W = 0.25, LAAU guarded by MW at γ = .95 is above LAAU",
        "docs/guard.md",
        |e, data| {
            Some(vec![(
                String::new(),
                shifts(e, data)?.1.lead("laau-guarded", "laau")?,
            )])
        },
    ),
    (
        "In distribution, LAAU guarded by MW at γ = .95 is less than half a point of OPT below LAAU",
        "docs/guard.md",
        |e, data| {
            let lead = shifts(e, data)?.0.lead("laau-guarded", "laau")?;
            Some(vec![("half a point less the loss".to_owned(), lead.plus(0.5))])
        },
    ),
];

/// Decides every claim on every data set.
pub(crate) fn decide(evidence: &Evidence) -> Vec<Claim> {
    let mut claims: Vec<Claim> = RULES
        .iter()
        .map(|(text, source, rule)| Claim {
            text,
            source,
            findings: DATA_SETS
                .into_iter()
                .filter_map(|data| Some((data, finding(&rule(evidence, data)?)?)))
                .collect(),
        })
        .collect();
    claims.push(Claim {
        text: "Guarded LAAU has at least γ of its incumbent's gain in every single episode, in and out of distribution",
        source: "docs/guard.md",
        findings: DATA_SETS
            .into_iter()
            .filter_map(|data| Some((data, guard_keeps_its_promise(evidence, data)?)))
            .collect(),
    });
    claims
}

/// The verdict of some parts, and what was measured: at most the four that are worst for the claim.
pub(crate) fn finding(parts: &[Part]) -> Option<Finding> {
    let differences: Vec<Difference> = parts.iter().map(|(_, difference)| difference.clone()).collect();
    let verdict = judge(&differences)?;
    let mut order: Vec<&Part> = parts.iter().collect();
    order.sort_by(|a, b| a.1.at_95().0.total_cmp(&b.1.at_95().0));
    let shown: Vec<String> = order.iter().take(4).map(|(name, d)| words(name, d)).collect();
    let more = match parts.len().saturating_sub(4) {
        0 => String::new(),
        1 => "; the interval of 1 more begins higher".to_owned(),
        more => format!("; the intervals of {more} more begin higher"),
    };
    let seeds = if verdict == Verdict::Undecided {
        format!("; {}", needed(&differences))
    } else {
        String::new()
    };
    Some(Finding {
        verdict,
        measured: shown.join("; ") + &more + &seeds,
    })
}

/// How many seeds would decide what is undecided.
pub(crate) fn needed(differences: &[Difference]) -> String {
    if differences.iter().any(|d| !d.standard_error.is_finite()) {
        return "one seed decides nothing".to_owned();
    }
    match seeds_to_decide(differences) {
        Some(seeds) => format!("about {seeds} seeds would decide it"),
        None => "not even a thousand seeds would decide it".to_owned(),
    }
}

/// `N = 10, against rl: +0.12 [+0.05, +0.19]`.
pub(crate) fn words(name: &str, difference: &Difference) -> String {
    let (low, high) = difference.at_95();
    let figures = if low.is_finite() {
        format!("{:+.3} [{low:+.3}, {high:+.3}]", difference.estimate)
    } else {
        format!("{:+.3} (one seed, no interval)", difference.estimate)
    };
    if name.is_empty() {
        figures
    } else {
        format!("{name}: {figures}")
    }
}

fn horizons(evidence: &Evidence, data: &str) -> Vec<usize> {
    let cells = evidence.samples.cells().iter();
    cells
        .filter(|cell| cell.experiment == "policies" && cell.data == data)
        .map(|cell| cell.horizon)
        .collect()
}

/// Parts of the cells of some horizons; nothing if one of them was not measured, or has not all parts.
fn each(
    evidence: &Evidence,
    data: &str,
    horizons: &[usize],
    parts: impl Fn(&Cell) -> Vec<(String, Option<Difference>)>,
) -> Option<Vec<Part>> {
    let mut found = Vec::new();
    for &horizon in horizons {
        let cell = evidence.samples.cell("policies", data, horizon, 0.0)?;
        for (name, difference) in parts(cell) {
            let name = [format!("N = {horizon}"), name];
            let name: Vec<String> = name.into_iter().filter(|part| !part.is_empty()).collect();
            found.push((name.join(", "), difference?));
        }
    }
    (!found.is_empty()).then_some(found)
}

/// One policy above all others that were run, at the given horizons.
fn above_all(evidence: &Evidence, data: &str, one: &str, others: &[&str], at: &[usize]) -> Option<Vec<Part>> {
    each(evidence, data, at, |cell| {
        let run: Vec<&&str> = others
            .iter()
            .filter(|rival| cell.policies().any(|p| p == **rival))
            .collect();
        run.into_iter()
            .map(|rival| (format!("against {rival}"), cell.lead(one, rival)))
            .collect()
    })
}

/// One policy ten points below all others at every horizon.
fn far_below_all(evidence: &Evidence, data: &str, lowest: &str) -> Option<Vec<Part>> {
    each(evidence, data, &horizons(evidence, data), |cell| {
        let others = cell
            .policies()
            .filter(|policy| *policy != "opt" && !policy.starts_with("cr-pursuit"));
        let part = |policy: &str| {
            let name = format!("{policy} less ten points");
            (name, cell.lead(policy, lowest).map(|lead| lead.plus(-10.0)))
        };
        others.map(part).collect()
    })
}

fn leaves_most(evidence: &Evidence, data: &str, others: &[&str]) -> Option<Vec<Part>> {
    each(evidence, data, &horizons(evidence, data), |cell| {
        others
            .iter()
            .map(|other| {
                (
                    format!("% of the budget more than {other}"),
                    cell.leaves_more("avg-lt", other),
                )
            })
            .collect()
    })
}

fn lead_grows(evidence: &Evidence, data: &str) -> Option<Vec<Part>> {
    let horizons = horizons(evidence, data);
    let parts: Option<Vec<Part>> = horizons
        .windows(2)
        .map(|pair| {
            let [before, after] = [pair[0], pair[1]].map(|n| evidence.samples.cell("policies", data, n, 0.0));
            let growth = after?.lead_beyond(before?, "laau", "rl")?;
            Some((format!("from N = {} to {}", pair[0], pair[1]), growth))
        })
        .collect();
    parts.filter(|parts| !parts.is_empty())
}

/// The cells of models that were trained on the default data and on the most shifted.
fn shifts<'a>(evidence: &'a Evidence, data: &str) -> Option<(&'a Cell, &'a Cell)> {
    let of = |target| evidence.samples.cell("ood", data, 20, target);
    Some((of(0.0)?, of(0.25)?))
}

/// Every policy, incumbent, level and seed that was run. A promise that holds in every episode needs no interval.
fn guard_keeps_its_promise(evidence: &Evidence, data: &str) -> Option<Finding> {
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
    Some(Finding {
        verdict: if short == 0 {
            Verdict::Holds
        } else {
            Verdict::DoesNotHold
        },
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

#[cfg(test)]
mod tests {
    use super::super::samples::tests::planted;
    use super::*;

    fn found(cells: &[(usize, &[(&str, f64)])], text: &str) -> Option<Finding> {
        let claims = decide(&Evidence {
            samples: planted("synthetic-consecutive", 10, cells),
            guards: Vec::new(),
        });
        let claim = claims
            .into_iter()
            .find(|claim| claim.text.starts_with(text))
            .unwrap();
        claim.findings.get("synthetic-consecutive").cloned()
    }

    #[test]
    fn a_claim_holds_does_not_or_stays_open() {
        let verdict = |lead: f64| {
            let cells: &[(usize, &[(&str, f64)])] = &[
                (10, &[("laau", lead), ("rl", 0.0)]),
                (20, &[("laau", 1.0), ("rl", 0.0)]),
            ];
            found(cells, "LAAU is above RL").unwrap()
        };
        assert_eq!(verdict(1.0).verdict, Verdict::Holds);
        assert_eq!(verdict(-1.0).verdict, Verdict::DoesNotHold);
        let open = verdict(0.0);
        assert_eq!(open.verdict, Verdict::Undecided, "{}", open.measured);
        assert!(
            open.measured.contains("seeds would decide it"),
            "{}",
            open.measured
        );
        assert!(
            open.measured.starts_with("N = 10, against rl: "),
            "{}",
            open.measured
        );
    }

    #[test]
    fn a_claim_without_evidence_has_no_verdict() {
        assert_eq!(found(&[(20, &[("equal", 0.0)])], "LAAU is above RL"), None);
    }

    #[test]
    fn what_is_said_of_parts_that_are_not_shown_is_true() {
        let part = |name: &str, values: [f64; 5]| (name.to_owned(), Difference::of_seeds(values.to_vec()));
        // The one that is not shown has the smallest difference of all, and an interval that begins higher than the others.
        let wide = |shift: f64| [shift, 40.0 + shift, 2.0 + shift, 30.0 + shift, 10.0 + shift];
        let parts = [
            part("a", wide(0.0)),
            part("b", wide(1.0)),
            part("c", wide(2.0)),
            part("d", wide(3.0)),
            part("e", [1.0, 1.1, 0.9, 1.0, 1.0]),
        ];
        let measured = finding(&parts).unwrap().measured;
        assert!(
            measured.contains("the interval of 1 more begins higher"),
            "{measured}"
        );
        assert!(!measured.contains("e: "), "{measured}");
    }

    #[test]
    fn a_part_that_is_against_the_claim_says_how_many_seeds_decide() {
        let part = |values: [f64; 5]| (String::new(), Difference::of_seeds(values.to_vec()));
        let found = finding(&[
            part([-1.0, -0.2, -0.9, -0.1, -0.7]),
            part([0.05, -0.04, 0.06, -0.05, 0.0]),
        ]);
        let found = found.unwrap();
        assert_eq!(found.verdict, Verdict::Undecided);
        let seeds = found.measured.split("about ").nth(1).unwrap();
        let seeds: usize = seeds.split(' ').next().unwrap().parse().unwrap();
        assert!(seeds < 10, "{}", found.measured);
        let one = finding(&[(String::new(), Difference::of_seeds(vec![1.0]))]).unwrap();
        assert!(
            one.measured.contains("one seed decides nothing"),
            "{}",
            one.measured
        );
    }

    #[test]
    fn the_lead_must_grow_at_every_horizon() {
        let verdict = |leads: [f64; 3]| {
            let rows: Vec<[(&str, f64); 2]> = leads.map(|lead| [("laau", lead), ("rl", 0.0)]).to_vec();
            let cells: Vec<(usize, &[(&str, f64)])> = [10, 20, 40]
                .into_iter()
                .zip(&rows)
                .map(|(n, row)| (n, &row[..]))
                .collect();
            found(&cells, "LAAU's lead").unwrap().verdict
        };
        assert_eq!(verdict([0.5, 1.0, 2.0]), Verdict::Holds);
        assert_eq!(verdict([1.5, 1.0, 2.0]), Verdict::DoesNotHold);
    }
}
