//! The theorems of Section 6 against what was measured: bounds, rates and their fits.
//!
//! Fits are of means over seeds; their intervals are jackknife ones: the fit without each seed gives a pseudo-value for it, and
//! those are judged as differences of seeds are.

use std::path::Path;

use laau_core::statistics::Difference;
use laau_core::tables::{GapRow, RateRow, TermRow};

use super::claims::{Finding, finding, words};
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

/// Training episodes, and per seed the gap and both bounds.
type Point = (usize, Vec<f64>, Vec<f64>, Option<Vec<f64>>);

/// The measured sides of Theorem 6.1 for one data set, model and horizon.
pub(crate) struct GapCurve {
    pub(crate) data: String,
    pub(crate) model: String,
    pub(crate) horizon: usize,
    /// Training episodes, and per seed: the gap to the best model, the bound with the complexity by random signs, and that by
    /// Proposition 6.2 where it is known. In the loss of an episode.
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
            let by_signs = per_seed(&|seed| bound("R_n by random signs (at least)", seed));
            let by_norms = per_seed(&|seed| bound("R_n by Prop. 6.2", seed));
            if let (Some(gap), Some(by_signs)) = (gap, by_signs) {
                points.push((episodes, gap, by_signs, by_norms));
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
    /// The exponent of the gap in `n`, fitted to means over seeds; nothing from fewer than three numbers of episodes.
    pub(crate) fn exponent(&self) -> Option<Difference> {
        let seeds = self.points.first()?.1.len();
        jackknife(seeds, |used| {
            let points: Vec<(f64, f64)> = self
                .points
                .iter()
                .map(|(n, gap, ..)| (*n as f64, mean_of(gap, used)))
                .filter(|(_, gap)| *gap > 0.0)
                .map(|(n, gap)| (n.ln(), gap.ln()))
                .collect();
            (points.len() >= 3).then(|| slope(&points))
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
        let floor = jackknife(seeds.len(), |used| fit(used).map(|fit| fit.0));
        let amplitude = jackknife(seeds.len(), |used| fit(used).map(|fit| fit.1));
        let rate = jackknife(seeds.len(), |used| fit(used).map(|fit| fit.2.log10()));
        if let (Some(floor), Some(amplitude), Some(rate)) = (floor, amplitude, rate) {
            let rounds = blocks.iter().map(|(_, last)| *last).max().unwrap_or(0);
            found.push(Decay {
                data,
                step_size,
                floor,
                amplitude,
                rate,
                rounds,
            });
        }
    }
    found
}

/// Every statement that the tables can decide.
pub(crate) fn tested(folder: &Path) -> anyhow::Result<Vec<Tested>> {
    let (gaps, terms): (Vec<GapRow>, Vec<TermRow>) = (tables::read(folder)?, tables::read(folder)?);
    let mut found = Vec::new();
    let mut add = |statement: &str, on: String, parts: &[(String, Difference)]| {
        if let Some(finding) = finding(parts) {
            found.push(Tested {
                statement: statement.to_owned(),
                on,
                finding,
            });
        }
    };
    for curve in gap_curves(&gaps, &terms) {
        let on = format!(
            "{}, {}, N = {}",
            data_name(&curve.data),
            curve.model,
            curve.horizon
        );
        // Bounds differ between seeds by factors, so in powers of ten; a gap that is not above zero stands at a small one.
        let room = |bound: &[f64], gap: &[f64]| {
            let ratios = bound
                .iter()
                .zip(gap)
                .map(|(bound, gap)| (bound / gap.max(LEAST_GAP)).log10());
            Difference::of_seeds(ratios.collect())
        };
        let parts: Vec<(String, Difference)> = curve
            .points
            .iter()
            .map(|(n, gap, bound, _)| {
                (
                    format!("n = {n}, powers of ten between bound and gap"),
                    room(bound, gap),
                )
            })
            .collect();
        add(
            "Theorem 6.1: the gap is below the bound, the complexity by random signs",
            on.clone(),
            &parts,
        );
        let parts: Option<Vec<(String, Difference)>> = curve
            .points
            .iter()
            .map(|(n, gap, _, bound)| {
                Some((
                    format!("n = {n}, powers of ten between bound and gap"),
                    room(bound.as_ref()?, gap),
                ))
            })
            .collect();
        if let Some(parts) = parts {
            add(
                "Theorem 6.1 with Proposition 6.2: the gap is below the bound, the complexity by norms",
                on.clone(),
                &parts,
            );
        }
        if let Some(exponent) = curve.exponent() {
            let faster = Difference::of_seeds(exponent.per_seed.iter().map(|slope| -0.5 - slope).collect());
            let name = format!("exponent {}, so −1/2 less it", words("", &exponent));
            add("The gap falls at least as fast as 1/√n", on, &[(name, faster)]);
        }
    }
    let decays = decays(&tables::read::<RateRow>(folder)?);
    for data in distinct(&decays, |decay| decay.data.clone()) {
        let of: Vec<&Decay> = decays.iter().filter(|decay| decay.data == data).collect();
        for decay in &of {
            let name = format!(
                "step size {}, floor {}, 10^x a round with x {}; amplitude",
                decay.step_size,
                words("", &decay.floor),
                words("", &decay.rate)
            );
            let parts = [(name, decay.amplitude.clone())];
            add(
                "Proposition 6.3: the loss decays geometrically",
                data_name(&data),
                &parts,
            );
        }
        // A decay that is not over by the last round says nothing about its floor.
        let over: Vec<&&Decay> = of
            .iter()
            .filter(|decay| 10_f64.powf(decay.rate.estimate) * decay.rounds as f64 > 3.0)
            .collect();
        let parts: Vec<(String, Difference)> = over
            .windows(2)
            .map(|pair| {
                let values = pair[1].floor.per_seed.iter().zip(&pair[0].floor.per_seed);
                let name = format!("from step size {} to {}", pair[0].step_size, pair[1].step_size);
                (name, Difference::of_seeds(values.map(|(b, a)| b - a).collect()))
            })
            .collect();
        add(
            "Proposition 6.3: the floor grows with the step size",
            data_name(&data),
            &parts,
        );
    }
    Ok(found)
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
         at least what is said. Intervals of fits are jackknife ones over seeds.\n"
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

/// A statistic of the seeds that are used, with jackknife pseudo-values; nothing if it is not defined without some seed.
fn jackknife(seeds: usize, of: impl Fn(&[usize]) -> Option<f64>) -> Option<Difference> {
    let all: Vec<usize> = (0..seeds).collect();
    let whole = of(&all)?;
    if seeds < 2 {
        return Some(Difference::of_seeds(vec![whole]));
    }
    let count = seeds as f64;
    let pseudo: Option<Vec<f64>> = (0..seeds)
        .map(|left_out| {
            let used: Vec<usize> = all.iter().copied().filter(|seed| *seed != left_out).collect();
            Some(count * whole - (count - 1.0) * of(&used)?)
        })
        .collect();
    Some(Difference::of_seeds(pseudo?))
}

fn mean_of(values: &[f64], used: &[usize]) -> f64 {
    used.iter().map(|&index| values[index]).sum::<f64>() / used.len() as f64
}

/// The slope of the least-squares line.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
    let (x, y) = (x / count, y / count);
    let (mut xx, mut xy) = (0.0, 0.0);
    for (a, b) in points {
        xx += (a - x) * (a - x);
        xy += (a - x) * (b - y);
    }
    xy / xx
}

/// Floor, amplitude and rate of `floor + amplitude · e^{−rate · i}`, by weighted least squares over a grid of rates: from those
/// that are seen within the rounds to those that are over after one.
fn decay(points: &[(f64, f64, f64)]) -> Option<(f64, f64, f64)> {
    let last = points.last()?.0.max(2.0);
    let mut best: Option<(f64, [f64; 3])> = None;
    for index in 0..=100 {
        let rate = (1.0 / last).powf(f64::from(index) / 100.0);
        let (mut w, mut x, mut y) = (0.0, 0.0, 0.0);
        let rows: Vec<(f64, f64, f64)> = points
            .iter()
            .map(|(i, loss, weight)| ((-rate * i).exp(), *loss, *weight))
            .collect();
        for (e, loss, weight) in &rows {
            w += weight;
            x += weight * e;
            y += weight * loss;
        }
        let (x, y) = (x / w, y / w);
        let (mut xx, mut xy) = (0.0, 0.0);
        for (e, loss, weight) in &rows {
            xx += weight * (e - x) * (e - x);
            xy += weight * (e - x) * (loss - y);
        }
        if xx <= 0.0 {
            continue;
        }
        let amplitude = (xy / xx).max(0.0);
        let floor = y - amplitude * x;
        let error: f64 = rows
            .iter()
            .map(|(e, loss, weight)| weight * (loss - floor - amplitude * e).powi(2))
            .sum();
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, [floor, amplitude, rate]));
        }
    }
    best.map(|(_, [floor, amplitude, rate])| (floor, amplitude, rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use laau_core::statistics::{Verdict, decide};

    #[test]
    fn a_planted_decay_is_found() {
        let points: Vec<(f64, f64, f64)> = (0..40)
            .map(|k| {
                let i = 10_f64.powf(0.08 * f64::from(k));
                (i, 0.02 + 0.5 * (-0.01 * i).exp(), 1.0)
            })
            .collect();
        let (floor, _, rate) = decay(&points).unwrap();
        assert!(
            (floor - 0.02).abs() < 0.002 && (rate / 0.01 - 1.0).abs() < 0.08,
            "{floor} {rate}"
        );
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
                    (n, (0..10).map(gap).collect(), vec![1.0; 10], None)
                })
                .collect(),
        };
        let exponent = curve.exponent().unwrap();
        let (low, high) = exponent.at_95();
        assert!(low < -0.98 && high > -1.02 && high - low < 0.2, "{low} {high}");
        assert_eq!(decide(&[exponent]), Some(Verdict::DoesNotHold), "it is negative");
    }
}
