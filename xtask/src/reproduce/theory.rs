//! The theorems of Section 6 against what was measured: bounds, rates and their fits.
//!
//! Fits are of means over seeds; their intervals are jackknife ones: the fit without each seed gives a pseudo-value for it, and
//! those are judged as differences of seeds are.

use std::path::Path;

use laau_core::statistics::{Difference, Verdict};
use laau_core::tables::{GapRow, RateRow, TermRow};

use super::claims::{Finding, finding, words};
use super::fits::{decay, jackknife, mean_of, slope};
use crate::figures::style::data_name;
use crate::figures::tables::{self, distinct};

/// A gap in the loss of an episode that is not told from zero.
const LEAST_GAP: f64 = 1e-6;

/// A statement of the paper, where it was tested, and what was found.
pub(crate) struct Tested {
    pub(crate) statement: String,
    pub(crate) on: String,
    pub(crate) finding: Finding,
}

/// The terms of the bound that are the complexity.
const BY_SIGNS: &str = "R_n by random signs (at least)";
const BY_NORMS: &str = "R_n by Prop. 6.2";

/// How far from −1/2 the exponent of a bound may be.
const NEAR: f64 = 0.1;

/// What was measured with one number of training episodes, in the loss of an episode: a value per seed.
pub(crate) struct Point {
    pub(crate) episodes: usize,
    /// The gap to the best model.
    pub(crate) gap: Vec<f64>,
    /// The bound, with the complexity by random signs.
    pub(crate) by_signs: Vec<f64>,
    /// The bound, with the complexity by Proposition 6.2, where it is known.
    pub(crate) by_norms: Option<Vec<f64>>,
    /// The complexity by random signs, and by Proposition 6.2 where it is known.
    complexities: Option<(Vec<f64>, Vec<f64>)>,
}

/// The measured sides of Theorem 6.1 for one data set, model and horizon.
pub(crate) struct GapCurve {
    pub(crate) data: String,
    pub(crate) model: String,
    pub(crate) horizon: usize,
    /// By number of training episodes.
    pub(crate) points: Vec<Point>,
}

/// All curves of a reproduction.
pub(crate) fn gap_curves(gaps: &[GapRow], terms: &[TermRow]) -> Vec<GapCurve> {
    let mut curves = Vec::new();
    for (data, model, horizon) in distinct(gaps, |row| (row.data.clone(), row.model.clone(), row.horizon)) {
        let of: Vec<&GapRow> = gaps
            .iter()
            .filter(|row| row.data == data && row.model == model && row.horizon == horizon)
            .collect();
        let Some(reference) = of.iter().map(|row| row.episodes).max() else {
            continue;
        };
        let test = |episodes: usize, seed: u64| {
            let row = of.iter().find(|row| row.episodes == episodes && row.seed == seed);
            row.map(|row| row.test)
        };
        let term = |name: &str, episodes: usize, seed: u64| {
            let found = terms.iter().find(|row| {
                row.term == name
                    && row.data == data
                    && row.model == model
                    && row.horizon == horizon
                    && row.episodes == episodes
                    && row.seed == seed
            });
            found.map(|row| row.value)
        };
        let seeds = distinct(&of, |row| row.seed);
        let mut points = Vec::new();
        for episodes in distinct(&of, |row| row.episodes)
            .into_iter()
            .filter(|n| *n < reference)
        {
            let per_seed = |value: &dyn Fn(u64) -> Option<f64>| {
                seeds
                    .iter()
                    .map(|seed| value(*seed))
                    .collect::<Option<Vec<f64>>>()
            };
            let gap =
                per_seed(&|seed| Some(horizon as f64 * (test(reference, seed)? - test(episodes, seed)?)));
            let bound = |complexity: &str, seed: u64| {
                let of = |name: &str| term(name, episodes, seed);
                Some(of("training error (at least)")? + 4.0 * of(complexity)? + of("Lipschitz term")?)
            };
            let by_signs = per_seed(&|seed| bound(BY_SIGNS, seed));
            let by_norms = per_seed(&|seed| bound(BY_NORMS, seed));
            let complexity = |name: &str| per_seed(&|seed| term(name, episodes, seed));
            if let (Some(gap), Some(by_signs)) = (gap, by_signs) {
                points.push(Point {
                    episodes,
                    gap,
                    by_signs,
                    by_norms,
                    complexities: complexity(BY_SIGNS).zip(complexity(BY_NORMS)),
                });
            }
        }
        if !points.is_empty() {
            curves.push(GapCurve {
                data,
                model,
                horizon,
                points,
            });
        }
    }
    curves
}

impl GapCurve {
    /// The exponent of the gap in `n`, fitted to means over seeds; or why there is none.
    pub(crate) fn exponent(&self) -> Result<Difference, String> {
        self.exponent_of(|point| Some(&point.gap))
    }

    fn exponent_of(&self, of: impl Fn(&Point) -> Option<&Vec<f64>>) -> Result<Difference, String> {
        let values: Vec<(usize, &Vec<f64>)> = self
            .points
            .iter()
            .filter_map(|point| Some((point.episodes, of(point)?)))
            .collect();
        if values.len() < 3 {
            return Err(format!(
                "no fit: it takes three numbers of training episodes, and there are {}",
                values.len()
            ));
        }
        let seeds = values[0].1.len();
        let positive = |used: &[usize]| -> Vec<(f64, f64)> {
            let means = values.iter().map(|(n, of)| (*n as f64, mean_of(of, used)));
            let above = means.filter(|(_, mean)| *mean > 0.0);
            above.map(|(n, mean)| (n.ln(), mean.ln())).collect()
        };
        let fit = jackknife(seeds, |used| {
            let points = positive(used);
            (points.len() >= 3).then(|| slope(&points))
        });
        fit.ok_or_else(|| {
            let all: Vec<usize> = (0..seeds).collect();
            let means: Vec<String> = values
                .iter()
                .map(|(n, of)| format!("{:.1e} at n = {n}", mean_of(of, &all)))
                .collect();
            format!(
                "no fit: it takes three numbers of training episodes with a mean above zero, also without any one seed; means are {}",
                means.join(", ")
            )
        })
    }
}

/// A fitted `floor + amplitude · e^{−rate · i}` of the loss of round `i` at one step size.
pub(crate) struct Decay {
    pub(crate) data: String,
    pub(crate) step_size: f64,
    pub(crate) floor: Difference,
    pub(crate) amplitude: Difference,
    /// The logarithm to base ten.
    pub(crate) rate: Difference,
    /// Rounds that were played.
    pub(crate) rounds: usize,
    /// Whether the rate is at the edge of those that were tried, with all seeds or without one: it may be beyond.
    pub(crate) at_edge: bool,
}

/// The fits of all step sizes.
pub(crate) fn decays(rows: &[RateRow]) -> Vec<Decay> {
    let mut found = Vec::new();
    for (data, step_size) in distinct(rows, |row| (row.data.clone(), row.learning_rate)) {
        let of: Vec<&RateRow> = rows
            .iter()
            .filter(|row| row.data == data && row.learning_rate == step_size)
            .collect();
        let seeds = distinct(&of, |row| row.seed);
        let blocks = distinct(&of, |row| (row.first_round, row.last_round));
        let fit = |used: &[usize]| {
            let points: Vec<(f64, f64, f64)> = blocks
                .iter()
                .filter_map(|&(first, last)| {
                    let losses: Vec<f64> = used
                        .iter()
                        .filter_map(|&index| {
                            of.iter()
                                .find(|row| row.seed == seeds[index] && row.first_round == first)
                        })
                        .map(|row| row.loss)
                        .collect();
                    let mean = losses.iter().sum::<f64>() / losses.len() as f64;
                    let weight = (last + 1 - first) as f64;
                    (!losses.is_empty()).then_some((0.5 * (first + last) as f64, mean, weight))
                })
                .collect();
            decay(&points)
        };
        let floor = jackknife(seeds.len(), |used| fit(used).map(|fit| fit.floor));
        let amplitude = jackknife(seeds.len(), |used| fit(used).map(|fit| fit.amplitude));
        let rate = jackknife(seeds.len(), |used| fit(used).map(|fit| fit.rate.log10()));
        let is_at_edge = |without: Option<usize>| {
            let used: Vec<usize> = (0..seeds.len()).filter(|seed| Some(*seed) != without).collect();
            fit(&used).is_some_and(|fit| fit.at_edge)
        };
        if let (Some(floor), Some(amplitude), Some(rate)) = (floor, amplitude, rate) {
            let rounds = blocks.iter().map(|(_, last)| *last).max().unwrap_or(0);
            found.push(Decay {
                data,
                step_size,
                floor,
                amplitude,
                rate,
                rounds,
                at_edge: is_at_edge(None) || (0..seeds.len()).any(|seed| is_at_edge(Some(seed))),
            });
        }
    }
    found
}

/// Every statement that the tables are about; what they cannot decide is undecided, with the reason.
pub(crate) fn tested(folder: &Path) -> anyhow::Result<Vec<Tested>> {
    let (gaps, terms): (Vec<GapRow>, Vec<TermRow>) = (tables::read(folder)?, tables::read(folder)?);
    let mut found = Vec::new();
    for curve in gap_curves(&gaps, &terms) {
        found.extend(of_curve(&curve));
    }
    let rates: Vec<RateRow> = tables::read(folder)?;
    let decays = decays(&rates);
    for data in distinct(&rates, |row| row.data.clone()) {
        let rows: Vec<&RateRow> = rates.iter().filter(|row| row.data == data).collect();
        let of: Vec<&Decay> = decays.iter().filter(|decay| decay.data == data).collect();
        let step_sizes = distinct(&rows, |row| row.learning_rate);
        found.extend(of_decays(&data_name(&data), &step_sizes, &of));
    }
    Ok(found)
}

fn decided(statement: &str, on: &str, parts: &[(String, Difference)]) -> Option<Tested> {
    Some(Tested {
        statement: statement.to_owned(),
        on: on.to_owned(),
        finding: finding(parts)?,
    })
}

fn undecided(statement: &str, on: &str, reason: String) -> Tested {
    Tested {
        statement: statement.to_owned(),
        on: on.to_owned(),
        finding: Finding {
            verdict: Verdict::Undecided,
            measured: reason,
        },
    }
}

/// Theorem 6.1 and Proposition 6.2.
fn of_curve(curve: &GapCurve) -> Vec<Tested> {
    let on = format!(
        "{}, {}, N = {}",
        data_name(&curve.data),
        curve.model,
        curve.horizon
    );
    // Bounds differ between seeds by factors, so in powers of ten; what is not above zero stands at a small number.
    let room = |bound: &[f64], of: &[f64]| {
        let ratios = bound
            .iter()
            .zip(of)
            .map(|(bound, of)| (bound / of.max(LEAST_GAP)).log10());
        Difference::of_seeds(ratios.collect())
    };
    let each = |part: &dyn Fn(&Point) -> Option<Difference>, words: &str| -> Vec<(String, Difference)> {
        let parts = curve.points.iter();
        parts
            .filter_map(|point| Some((format!("n = {}, {words}", point.episodes), part(point)?)))
            .collect()
    };
    let gap_words = "powers of ten between bound and gap";
    let mut found = Vec::new();
    found.extend(decided(
        "Theorem 6.1: the gap is below the bound, the complexity by random signs",
        &on,
        &each(&|point| Some(room(&point.by_signs, &point.gap)), gap_words),
    ));
    found.extend(decided(
        "Theorem 6.1 with Proposition 6.2: the gap is below the bound, the complexity by norms",
        &on,
        &each(
            &|point| Some(room(point.by_norms.as_ref()?, &point.gap)),
            gap_words,
        ),
    ));
    found.extend(decided(
        "Proposition 6.2: R_n by random signs is below its bound",
        &on,
        &each(
            &|point| {
                point
                    .complexities
                    .as_ref()
                    .map(|(signs, norms)| room(norms, signs))
            },
            "powers of ten between bound and R_n",
        ),
    ));
    let statement = "The gap falls at least as fast as 1/√n";
    found.push(match curve.exponent() {
        Ok(exponent) => {
            let name = format!("exponent {}, so −1/2 less it", words("", &exponent));
            let parts = [(name, negated(&exponent).plus(-0.5))];
            decided(statement, &on, &parts).unwrap_or_else(|| undecided(statement, &on, "no seed".to_owned()))
        }
        Err(reason) => undecided(statement, &on, reason),
    });
    let by_norms = curve.points.iter().any(|point| point.by_norms.is_some());
    let by_signs = ("random signs", curve.exponent_of(|point| Some(&point.by_signs)));
    let by_norms = by_norms.then(|| ("norms", curve.exponent_of(|point| point.by_norms.as_ref())));
    for (complexity, exponent) in [Some(by_signs), by_norms].into_iter().flatten() {
        let statement = format!(
            "The bound falls as 1/√n (its exponent is within {NEAR} of −1/2), the complexity by {complexity}"
        );
        match exponent {
            Ok(exponent) => {
                let above = format!("exponent {}, less −{:.1}", words("", &exponent), 0.5 + NEAR);
                let below = format!("−{:.1} less it", 0.5 - NEAR);
                let parts = [
                    (above, exponent.clone().plus(0.5 + NEAR)),
                    (below, negated(&exponent).plus(NEAR - 0.5)),
                ];
                found.extend(decided(&statement, &on, &parts));
            }
            Err(reason) => found.push(undecided(&statement, &on, reason)),
        }
    }
    found
}

/// Proposition 6.3.
fn of_decays(on: &str, step_sizes: &[f64], decays: &[&Decay]) -> Vec<Tested> {
    const DECAY: &str = "Proposition 6.3: the loss decays geometrically to a floor";
    const FLOOR: &str = "Proposition 6.3: the floor grows with the step size";
    let mut found = Vec::new();
    for &step_size in step_sizes {
        let Some(decay) = decays.iter().find(|decay| decay.step_size == step_size) else {
            let reason = format!("step size {step_size}: no fit, too few rounds were played");
            found.push(undecided(DECAY, on, reason));
            continue;
        };
        let name = format!(
            "step size {step_size}, floor {}, 10^x a round with x {}; amplitude",
            words("", &decay.floor),
            words("", &decay.rate)
        );
        if decay.at_edge {
            let reason = format!(
                "{}; with all seeds or without one, the rate is the least or the greatest that {} rounds can show, so it may be beyond",
                words(&name, &decay.amplitude),
                decay.rounds
            );
            found.push(undecided(DECAY, on, reason));
            continue;
        }
        let slowest = (decay.rounds.max(2) as f64).log10();
        let parts = [
            (name, decay.amplitude.clone()),
            (
                "x above that of the slowest decay that can be seen".to_owned(),
                decay.rate.clone().plus(slowest),
            ),
            ("x below zero".to_owned(), negated(&decay.rate)),
        ];
        found.extend(decided(DECAY, on, &parts));
    }
    // A decay that is not over by the last round, or whose rate is not known, says nothing about its floor.
    let over: Vec<&&Decay> = decays
        .iter()
        .filter(|decay| !decay.at_edge && 10_f64.powf(decay.rate.estimate) * decay.rounds as f64 > 3.0)
        .collect();
    let parts: Vec<(String, Difference)> = over
        .windows(2)
        .map(|pair| {
            let values = pair[1].floor.per_seed.iter().zip(&pair[0].floor.per_seed);
            let name = format!("from step size {} to {}", pair[0].step_size, pair[1].step_size);
            (name, Difference::of_seeds(values.map(|(b, a)| b - a).collect()))
        })
        .collect();
    found.push(decided(FLOOR, on, &parts).unwrap_or_else(|| {
        let reason = format!(
            "of {} step sizes, {} have a decay that is over by the last round and whose rate is known; it takes two",
            step_sizes.len(),
            over.len()
        );
        undecided(FLOOR, on, reason)
    }));
    found
}

/// The same with the other sign.
fn negated(difference: &Difference) -> Difference {
    Difference::of_seeds(difference.per_seed.iter().map(|value| -value).collect())
}

/// The section of the report.
pub(crate) fn markdown(tested: &[Tested]) -> String {
    if tested.is_empty() {
        return String::new();
    }
    let mut lines = vec![
        "## Theorems\n".to_owned(),
        "Gap and bound are in the loss of an episode. The best model is one trained on many more episodes; the supremum of the \
         complexity is over models that were drawn and trained, and the training error against another model, so that both are \
         at least what is said. Lipschitz constants, ranges and norms are the largest that the best model met on all its episodes. Intervals \
         of fits are jackknife ones over seeds.\n"
            .to_owned(),
        "| statement | on | verdict | measured |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    for row in tested {
        lines.push(format!(
            "| {} | {} | {} | {} |",
            row.statement, row.on, row.finding.verdict, row.finding.measured
        ));
    }
    lines.join("\n") + "\n\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use laau_core::statistics::decide;

    /// Losses of ten seeds at one step size, in blocks of rounds that grow.
    fn rates(loss: impl Fn(f64, f64) -> f64) -> Vec<RateRow> {
        let mut rows = Vec::new();
        for seed in 0..10_u64 {
            let mut first = 1;
            while first < 2000 {
                let last = (first + first / 3).min(2000);
                let noise = 1.0 + 0.02 * ((seed * 7) % 11) as f64 + 1e-5 * (first as u64 * 3 % 11) as f64;
                rows.push(RateRow {
                    data: "synthetic-consecutive".into(),
                    learning_rate: 0.1,
                    seed,
                    first_round: first,
                    last_round: last,
                    loss: loss(0.5 * (first + last) as f64, noise),
                });
                first = last + 1;
            }
        }
        rows
    }

    #[test]
    fn a_decay_holds_where_its_rate_is_seen_and_not_at_the_edge_of_the_grid() {
        let verdict = |rows: &[RateRow]| {
            let found = decays(rows);
            let tested = of_decays("here", &[0.1], &found.iter().collect::<Vec<_>>());
            assert_eq!(tested.len(), 2, "the decay and the floor, decided or not");
            assert!(tested[1].finding.measured.contains("it takes two"));
            (tested[0].finding.verdict, tested[0].finding.measured.clone())
        };
        let (seen, words) = verdict(&rates(|i, noise| noise * (0.02 + 0.1 * (-0.01 * i).exp())));
        assert_eq!(seen, Verdict::Holds, "{words}");
        // Too slow to be told from a line.
        let (slow, words) = verdict(&rates(|i, noise| noise * (0.02 + 0.1 * (-1e-5 * i).exp())));
        assert_eq!(slow, Verdict::Undecided, "{words}");
        assert!(words.contains("it may be beyond"), "{words}");
        let (grows, words) = verdict(&rates(|i, noise| noise * (0.2 - 0.1 * (-0.01 * i).exp())));
        assert_eq!(grows, Verdict::DoesNotHold, "{words}");
        let none = of_decays("here", &[0.1], &[]);
        assert!(none.iter().all(|row| row.finding.verdict == Verdict::Undecided));
    }

    #[test]
    fn a_planted_exponent_is_found_with_its_interval() {
        let curve = GapCurve {
            data: "synthetic-interleaved".into(),
            model: "linear".into(),
            horizon: 10,
            points: [50_usize, 100, 200, 500]
                .into_iter()
                .map(|n| {
                    let gap = |seed: usize| (1.0 + 0.05 * ((seed * 7 + n) % 5) as f64) / n as f64;
                    let fallen = |value: f64| vec![value / (n as f64).sqrt(); 10];
                    Point {
                        episodes: n,
                        gap: (0..10).map(gap).collect(),
                        by_signs: fallen(10.0),
                        by_norms: Some(fallen(1e9)),
                        complexities: Some((fallen(0.5), fallen(1e9))),
                    }
                })
                .collect(),
        };
        let exponent = curve.exponent().unwrap();
        let (low, high) = exponent.at_95();
        assert!(low < -0.98 && high > -1.02 && high - low < 0.2, "{low} {high}");
        assert_eq!(decide(&[exponent]), Some(Verdict::DoesNotHold), "it is negative");
        let tested = of_curve(&curve);
        assert_eq!(tested.len(), 6);
        for row in &tested {
            assert_eq!(
                row.finding.verdict,
                Verdict::Holds,
                "{}: {}",
                row.statement,
                row.finding.measured
            );
        }
        // A gap that is not above zero is not fitted, and the row says so.
        let mut flat = curve;
        flat.points
            .iter_mut()
            .skip(2)
            .for_each(|point| point.gap.fill(-1e-3));
        let reason = flat.exponent().unwrap_err();
        assert!(reason.contains("-1.0e-3 at n = 200"), "{reason}");
        let row = &of_curve(&flat)[3];
        assert_eq!(row.finding.verdict, Verdict::Undecided);
        assert_eq!(row.finding.measured, reason);
    }
}
