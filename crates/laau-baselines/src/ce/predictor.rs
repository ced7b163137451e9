//! Predicts the mean of the contexts to come.

use laau_core::numerics::cholesky;
use laau_core::{Episodes, Error, Observation, expect_length};

use crate::shared::{History, Running};

/// Predicts, from the contexts so far, the mean of those to come; plain data that can be stored.
///
/// Every entry of the context is predicted by itself, and kept within the range seen in training.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predictor {
    /// The mean context of the training set.
    pub mean: Vec<f64>,
    /// The smallest value of each entry in the training set.
    pub smallest: Vec<f64>,
    /// The largest value of each entry in the training set.
    pub largest: Vec<f64>,
    /// How the history is used.
    pub rule: Rule,
}

/// How a [`Predictor`] uses the history.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Not at all: always the mean of the training set.
    Prior,
    /// The mean of the episode so far, shrunk to the prior as if that had been seen `strength` times.
    ShrunkMean {
        /// The number of steps that the prior is worth.
        strength: f64,
    },
    /// A linear regression on the [`FEATURES`] of the history.
    Regression {
        /// `rows × context × FEATURES` coefficients; one row for all steps, or a row per step.
        coefficients: Vec<f64>,
    },
}

/// Features of the regression: 1, the context, and the mean, minimum, maximum and standard deviation of the episode so far.
pub const FEATURES: usize = 6;

impl Predictor {
    /// The plain prior: the mean and range of the training set.
    #[must_use]
    pub fn prior(train: &Episodes) -> Self {
        let len = train.context_len();
        let count = (train.contexts().len() / len).max(1) as f64;
        let mut predictor = Self {
            mean: vec![0.0; len],
            smallest: vec![f64::INFINITY; len],
            largest: vec![f64::NEG_INFINITY; len],
            rule: Rule::Prior,
        };
        for context in train.contexts().chunks_exact(len) {
            for (i, &c) in context.iter().enumerate() {
                predictor.mean[i] += c / count;
                predictor.smallest[i] = predictor.smallest[i].min(c);
                predictor.largest[i] = predictor.largest[i].max(c);
            }
        }
        predictor
    }

    /// The shrunk mean whose strength has the smallest squared error on the training set, of a fixed ladder of strengths.
    #[must_use]
    pub fn shrunk_mean(train: &Episodes) -> Self {
        let prior = Self::prior(train);
        let with = |strength| Self {
            rule: Rule::ShrunkMean { strength },
            ..prior.clone()
        };
        // From "believe the episode" to "believe the prior", in steps of √2.
        let ladder = (-8..=24).map(|k| 2.0_f64.powf(0.5 * f64::from(k)));
        ladder
            .map(|strength| (with(strength).squared_error(train), strength))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(prior.clone(), |(_, strength)| with(strength))
    }

    /// A ridge regression of the mean of the contexts to come, one for all steps or one per step.
    ///
    /// `ridge` is relative to the number of samples; the features are centred first, so that the intercept is free.
    #[must_use]
    pub fn regression(train: &Episodes, per_step: bool, ridge: f64) -> Self {
        let prior = Self::prior(train);
        let (len, steps) = (train.context_len(), train.horizon().saturating_sub(1));
        let rows = if per_step { steps.max(1) } else { 1 };
        let mut sums = vec![Moments::default(); rows * len];
        for_each_sample(train, |step, entry, features, target| {
            let row = if per_step { step } else { 0 };
            sums[row * len + entry].add(features, target);
        });
        let coefficients = sums
            .iter()
            .enumerate()
            .flat_map(|(index, moments)| moments.solve(ridge, prior.mean[index % len]))
            .collect();
        Self {
            rule: Rule::Regression { coefficients },
            ..prior
        }
    }

    /// Writes the predicted mean of the contexts to come; reads all contexts so far.
    ///
    /// # Errors
    /// [`Error::WrongLength`] for contexts of another length, or coefficients that are not `rows × context × 6`.
    pub fn predict(&self, observation: &Observation<'_>, out: &mut [f64]) -> Result<(), Error> {
        self.predict_after(&History::of(observation), observation, out)
    }

    /// The same from a history that has seen the observation; the contexts are not read again.
    pub(crate) fn predict_after(
        &self,
        history: &History,
        observation: &Observation<'_>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        let len = observation.context_len;
        expect_length("the predictor's mean", &self.mean, len)?;
        expect_length("the predictor's smallest values", &self.smallest, len)?;
        expect_length("the predictor's largest values", &self.largest, len)?;
        for (entry, out) in out.iter_mut().enumerate() {
            let history = history.entry(entry);
            let raw = match &self.rule {
                Rule::Prior => self.mean[entry],
                Rule::ShrunkMean { strength } => {
                    (strength * self.mean[entry] + history.sum) / (strength + observation.step as f64 + 1.0)
                }
                Rule::Regression { coefficients } => {
                    let rows = coefficients.len() / (len * FEATURES);
                    let expected = rows.max(1) * len * FEATURES;
                    expect_length("the regression's coefficients", coefficients, expected)?;
                    // A horizon other than that of training takes the row at the same part of the way.
                    let row = observation.step * rows / observation.horizon.saturating_sub(1).max(1);
                    let start = (row.min(rows - 1) * len + entry) * FEATURES;
                    (coefficients[start..][..FEATURES].iter().zip(&features(history)))
                        .map(|(a, b)| a * b)
                        .sum()
                }
            };
            *out = raw.clamp(self.smallest[entry], self.largest[entry]);
        }
        Ok(())
    }

    /// The mean squared error on a set of episodes, over all steps but the last.
    #[must_use]
    fn squared_error(&self, episodes: &Episodes) -> f64 {
        let Rule::ShrunkMean { strength } = self.rule else {
            return f64::NAN;
        };
        let (mut sum, mut count) = (0.0, 0.0_f64);
        for_each_sample(episodes, |step, entry, features, target| {
            let seen = step as f64 + 1.0;
            let raw = (strength * self.mean[entry] + seen * features[2]) / (strength + seen);
            sum += (raw - target).powi(2);
            count += 1.0;
        });
        sum / count.max(1.0)
    }
}

/// Calls with step, entry, features and the mean of the entry after the step, for every step but the last.
fn for_each_sample(episodes: &Episodes, mut call: impl FnMut(usize, usize, &[f64; FEATURES], f64)) {
    let (len, horizon) = (episodes.context_len(), episodes.horizon());
    for episode in episodes.iter() {
        for entry in 0..len {
            let mut rest: f64 = (0..horizon).map(|step| episode.context(step)[entry]).sum();
            let mut running = Running::default();
            for step in 0..horizon - 1 {
                let c = episode.context(step)[entry];
                running.add(c);
                rest -= c;
                call(
                    step,
                    entry,
                    &features(&running),
                    rest / (horizon - 1 - step) as f64,
                );
            }
        }
    }
}

/// The [`FEATURES`] of a history.
fn features(history: &Running) -> [f64; FEATURES] {
    let Running {
        last,
        mean,
        smallest,
        largest,
        ..
    } = *history;
    [1.0, last, mean, smallest, largest, history.deviation()]
}

/// Sums for one regression.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: f64,
    features: [f64; FEATURES],
    target: f64,
    products: [[f64; FEATURES]; FEATURES],
    with_target: [f64; FEATURES],
}

impl Moments {
    fn add(&mut self, features: &[f64; FEATURES], target: f64) {
        self.count += 1.0;
        self.target += target;
        for i in 0..FEATURES {
            self.features[i] += features[i];
            self.with_target[i] += features[i] * target;
            for j in 0..FEATURES {
                self.products[i][j] += features[i] * features[j];
            }
        }
    }

    /// `(Cov + ridge · mean variance) β = cov(features, target)`; the intercept puts the means through.
    fn solve(&self, ridge: f64, fallback: f64) -> [f64; FEATURES] {
        const SLOPES: usize = FEATURES - 1;
        let mut beta = [0.0; FEATURES];
        beta[0] = fallback;
        if self.count == 0.0 {
            return beta;
        }
        let n = self.count;
        let mean = self.features.map(|f| f / n);
        let mut matrix = [0.0; SLOPES * SLOPES];
        let mut right = [0.0; SLOPES];
        let mut variance = 0.0;
        for i in 0..SLOPES {
            for j in 0..SLOPES {
                matrix[i * SLOPES + j] = self.products[i + 1][j + 1] / n - mean[i + 1] * mean[j + 1];
            }
            variance += matrix[i * SLOPES + i] / SLOPES as f64;
            right[i] = self.with_target[i + 1] / n - mean[i + 1] * self.target / n;
        }
        for i in 0..SLOPES {
            matrix[i * SLOPES + i] += ridge * variance;
        }
        beta[0] = self.target / n;
        // Constant contexts have nothing to regress on: the mean is all there is.
        if cholesky::factor(&mut matrix, SLOPES, 0.0) == 0 {
            cholesky::solve(&matrix, SLOPES, &mut right);
            beta[1..].copy_from_slice(&right);
            beta[0] -= (right.iter().zip(&mean[1..])).map(|(a, b)| a * b).sum::<f64>();
        }
        beta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Episodes whose level differs and whose steps wander around it.
    fn levels(count: usize, horizon: usize, noise: f64) -> Episodes {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut contexts = Vec::new();
        for _ in 0..count {
            let level: f64 = rng.random_range(0.1..0.9);
            for _ in 0..horizon {
                contexts.push((level + noise * rng.random_range(-1.0..1.0)).clamp(0.0, 1.0));
            }
        }
        Episodes::new(horizon, 1, 1, contexts, vec![200.0; count]).unwrap()
    }

    fn error_of(predictor: &Predictor, episodes: &Episodes) -> f64 {
        let horizon = episodes.horizon();
        let (mut sum, mut count) = (0.0, 0.0);
        for episode in episodes.iter() {
            for step in 0..horizon - 1 {
                let observation = Observation {
                    step,
                    horizon,
                    contexts: &episode.contexts()[..=step],
                    context_len: 1,
                    budgets: &[200.0],
                    remaining: &[200.0],
                    available: &[100.0],
                };
                let mut out = [0.0];
                predictor.predict(&observation, &mut out).unwrap();
                let rest = &episode.contexts()[step + 1..];
                sum += (out[0] - rest.iter().sum::<f64>() / rest.len() as f64).powi(2);
                count += 1.0;
            }
        }
        sum / count
    }

    #[test]
    fn history_predicts_better_than_the_prior_where_levels_differ() {
        let (train, test) = (levels(300, 12, 0.1), levels(100, 12, 0.1));
        let prior = error_of(&Predictor::prior(&train), &test);
        let shrunk = error_of(&Predictor::shrunk_mean(&train), &test);
        let pooled = error_of(&Predictor::regression(&train, false, 1e-6), &test);
        let stepwise = error_of(&Predictor::regression(&train, true, 1e-6), &test);
        for error in [shrunk, pooled, stepwise] {
            assert!(error < 0.1 * prior, "{error} against {prior}");
        }
    }

    #[test]
    fn the_fitted_strength_follows_the_noise() {
        let strength = |noise| match Predictor::shrunk_mean(&levels(300, 12, noise)).rule {
            Rule::ShrunkMean { strength } => strength,
            _ => f64::NAN,
        };
        assert!(
            strength(0.05) < strength(0.5),
            "{} {}",
            strength(0.05),
            strength(0.5)
        );
    }

    #[test]
    fn the_squared_error_of_the_fit_is_that_of_the_prediction() {
        let episodes = levels(50, 9, 0.3);
        let predictor = Predictor::shrunk_mean(&episodes);
        let (fitted, played) = (
            predictor.squared_error(&episodes),
            error_of(&predictor, &episodes),
        );
        assert!((fitted - played).abs() < 1e-12, "{fitted} {played}");
    }

    #[test]
    fn constant_contexts_predict_themselves() {
        let episodes = Episodes::new(4, 1, 1, vec![0.3; 8], vec![50.0; 2]).unwrap();
        for predictor in [
            Predictor::prior(&episodes),
            Predictor::shrunk_mean(&episodes),
            Predictor::regression(&episodes, true, 0.0),
            Predictor::regression(&episodes, false, 0.1),
        ] {
            assert!(error_of(&predictor, &episodes) < 1e-24, "{predictor:?}");
        }
    }
}
