//! Section 6: how training utility carries over, and the terms of the bound.

use laau::core::tables::{GapRow, TermRow};
use laau::core::{Episodes, Task, Unrolled};
use laau::net::{Laau, Model, Network, Phase, Training};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::settings::Experiment;
use super::tables::Tables;
use super::{Cell, Part, Study};
use crate::failure::Failure;

/// Gradient steps of every run at least, so that few episodes are not few steps.
const LEAST_STEPS: usize = 8_000;

/// Draws of random signs for the empirical Rademacher complexity.
const SIGNS: usize = 200;

/// Trains on more and more episodes; writes `generalisation.csv` and `bound.csv`.
pub(super) fn run(study: &Study, cell: Cell, tables: &mut Tables) -> Result<(), Failure> {
    let Study { experiment, task, .. } = study;
    let Cell { horizon, seed, .. } = cell;
    let sets = study.sets(cell)?;
    let size = match cell.part {
        Part::Size(size) => size,
        Part::Whole | Part::Shift(_) => sets.train.len(),
    };
    let few = sets
        .train
        .select(&(0..size.min(sets.train.len())).collect::<Vec<_>>());
    let data = study.source.name(cell.construction);
    for (name, laau) in [("linear", Laau::linear()), ("mlp", Laau::paper())] {
        let outcome = Outcome::of(name, laau, experiment, task, &few, &sets.test, seed)?;
        tables.add(&GapRow {
            data: data.clone(),
            model: name.to_owned(),
            horizon,
            episodes: size,
            seed,
            train: outcome.train,
            test: outcome.test,
        })?;
        for (term, value) in &outcome.terms {
            tables.add(&TermRow {
                data: data.clone(),
                model: name.to_owned(),
                horizon,
                episodes: size,
                seed,
                term: term.clone(),
                value: *value,
            })?;
        }
    }
    Ok(())
}

struct Outcome {
    train: f64,
    test: f64,
    /// The terms of the bound, by name.
    terms: Vec<(String, f64)>,
}

impl Outcome {
    fn of(
        name: &'static str,
        laau: Laau,
        experiment: &Experiment,
        task: &Task,
        few: &Episodes,
        test: &Episodes,
        seed: u64,
    ) -> Result<Self, Failure> {
        let training = long_enough(&experiment.training(seed), few.len());
        let (model, _) = laau.trained_by(training).train(task, few, None, seed, &mut ())?;
        let policy = Unrolled::new(name, model, task.solver.clone())?;
        let mean = |episodes| task.mean_utility(&policy, episodes);
        Ok(Self {
            train: mean(few)?,
            test: mean(test)?,
            terms: bound_terms(policy.multiplier(), few, seed),
        })
    }
}

/// Repeats the phases until there are enough gradient steps.
fn long_enough(training: &Training, episodes: usize) -> Training {
    let steps = training.epochs() * episodes.div_ceil(training.batch);
    let factor = LEAST_STEPS.div_ceil(steps.max(1)).max(1);
    let phases = training
        .phases
        .iter()
        .map(|phase| Phase {
            epochs: phase.epochs * factor,
            ..*phase
        })
        .collect();
    Training {
        phases,
        ..training.clone()
    }
}

/// What Prop. 5.3 bounds the Rademacher complexity with.
fn bound_terms(model: &Model, episodes: &Episodes, seed: u64) -> Vec<(String, f64)> {
    let norm = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
    match &model.spec.network {
        Network::Linear { norm_bound } => {
            let z = norm_bound.unwrap_or(f64::INFINITY);
            let features = first_step_features(model, episodes);
            let w = features.iter().map(|phi| norm(phi)).fold(0.0, f64::max);
            // sup over ‖θ‖ ≤ Z of (1/n) Σ σ_i θᵀφ_i = (Z/n) ‖Σ σ_i φ_i‖, averaged over random signs σ.
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut complexity = 0.0;
            for _ in 0..SIGNS {
                let mut sum = vec![0.0; features.first().map_or(0, Vec::len)];
                for phi in &features {
                    let sign = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
                    sum.iter_mut().zip(phi).for_each(|(sum, phi)| *sum += sign * phi);
                }
                complexity += z * norm(&sum) / features.len() as f64 / SIGNS as f64;
            }
            vec![
                ("Z".to_owned(), z),
                ("norm of theta".to_owned(), norm(&model.parameters)),
                ("W".to_owned(), w),
                ("ZW/sqrt(n)".to_owned(), z * w / (features.len() as f64).sqrt()),
                ("empirical Rademacher complexity".to_owned(), complexity),
            ]
        }
        Network::Mlp { hidden, .. } => {
            let inputs = model.statistics.feature_mean.len();
            let outputs = model.spec.dimensions.budgets;
            let widths: Vec<usize> = std::iter::once(inputs)
                .chain(hidden.iter().copied())
                .chain(std::iter::once(outputs))
                .collect();
            let mut at = 0;
            let mut product = 1.0;
            let mut terms = Vec::new();
            for (layer, pair) in widths.windows(2).enumerate() {
                let matrix = &model.parameters[at..at + pair[0] * pair[1]];
                at += pair[0] * pair[1] + pair[1];
                let z = spectral_norm(matrix, pair[1]);
                product *= z;
                terms.push((format!("spectral norm of layer {}", layer + 1), z));
            }
            terms.push(("product of spectral norms".to_owned(), product));
            terms
        }
        // No experiment has one, and the proposition says nothing about it.
        Network::Custom(_) => Vec::new(),
    }
}

/// Normalised features of every episode's first step: budget, context, share of steps left, and the constant.
fn first_step_features(model: &Model, episodes: &Episodes) -> Vec<Vec<f64>> {
    let statistics = &model.statistics;
    let left = (episodes.horizon() - 1) as f64 / episodes.horizon() as f64;
    episodes
        .iter()
        .map(|episode| {
            let raw = episode
                .budgets()
                .iter()
                .chain(episode.context(0))
                .chain(std::iter::once(&left));
            let scaled = raw
                .zip(&statistics.feature_mean)
                .zip(&statistics.feature_scale)
                .map(|((v, m), s)| (v - m) / s);
            scaled.chain(std::iter::once(1.0)).collect()
        })
        .collect()
}

/// The largest singular value of a row-major matrix, by power iteration on `AᵀA`.
fn spectral_norm(matrix: &[f64], columns: usize) -> f64 {
    let mut vector = vec![1.0 / (columns as f64).sqrt(); columns];
    let mut norm = 0.0;
    for _ in 0..500 {
        let mut next = vec![0.0; columns];
        for row in matrix.chunks_exact(columns) {
            let product: f64 = row.iter().zip(&vector).map(|(a, v)| a * v).sum();
            next.iter_mut()
                .zip(row)
                .for_each(|(next, a)| *next += a * product);
        }
        let length = next.iter().map(|v| v * v).sum::<f64>().sqrt();
        if length == 0.0 {
            return 0.0;
        }
        norm = length.sqrt();
        vector = next.iter().map(|v| v / length).collect();
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spectral_norm_of_a_known_matrix() {
        assert!((spectral_norm(&[3.0, 0.0, 0.0, 4.0], 2) - 4.0).abs() < 1e-9);
        assert!((spectral_norm(&[1.0, 1.0, 1.0, 1.0], 2) - 2.0).abs() < 1e-12);
        assert_eq!(spectral_norm(&[0.0; 6], 3), 0.0);
    }

    #[test]
    fn few_episodes_get_as_many_steps() {
        let steps = |episodes: usize| {
            let training = long_enough(&Training::paper(), episodes);
            training.epochs() * episodes.div_ceil(training.batch)
        };
        assert!(steps(50) >= LEAST_STEPS);
        assert_eq!(steps(5000), 40_000);
    }
}
