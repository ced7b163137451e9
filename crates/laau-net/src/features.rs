//! What the network sees, and what its price is relative to.
//!
//! Every feature is affine in the remaining budgets: the first ones are `slope · b_m`, all others depend on the
//! contexts alone, so that training can compute those for all steps before it plays the first. All are normalised with
//! the mean and the scale of the training set.
//!
//! The `residual` form's base is the certainty-equivalent price: were every step left of the level of its prediction, the
//! budget would last exactly. With `r` steps after this one, the level `w` of this step and the predicted mean level
//! `ŵ` of the others, a problem whose price is proportional to the level and to the inverse of the budget per step has
//!
//! ```text
//!     base_m = λ0_m · (w + r ŵ)/(r + 1) · ρ0_m (r + 1)/b_m = λ0_m ρ0_m (w + r ŵ) / b_m
//! ```
//!
//! where `λ0` is the price at the mean context and the mean budget per step `ρ0`. For weighted fairness this is exactly
//! `(c_t + r ĉ)/b_t`.

use laau_core::{Episodes, Observation};

use crate::model::Model;
use crate::spec::{Features, Form, ModelSpec};
use crate::statistics::Statistics;

/// Running statistics of the values seen so far.
///
/// The sums are of differences to the first value, so that nothing cancels when the values lie close together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Running {
    count: f64,
    first: f64,
    sum: f64,
    squares: f64,
    least: f64,
    greatest: f64,
}

impl Running {
    #[inline(always)]
    pub(crate) fn push(&mut self, value: f64) {
        if self.count == 0.0 {
            *self = Self {
                first: value,
                least: value,
                greatest: value,
                ..Self::default()
            };
        }
        let difference = value - self.first;
        self.count += 1.0;
        self.sum += difference;
        self.squares += difference * difference;
        self.least = if value < self.least { value } else { self.least };
        self.greatest = if value > self.greatest {
            value
        } else {
            self.greatest
        };
    }

    /// Mean, least, greatest, standard deviation.
    #[inline(always)]
    pub(crate) fn summary(&self) -> [f64; 4] {
        let mean = self.sum / self.count;
        let variance = self.squares / self.count - mean * mean;
        let deviation = if variance > 0.0 { variance.sqrt() } else { 0.0 };
        [self.first + mean, self.least, self.greatest, deviation]
    }
}

/// The features that depend on the remaining budgets, which come first: feature `j` is `slope · b_{j mod M} + offset`.
pub(crate) fn budget_features(spec: &ModelSpec) -> usize {
    match spec.features {
        Features::Paper => spec.dimensions.budgets,
        Features::History => 2 * spec.dimensions.budgets,
    }
}

/// Slope and offset of a normalised budget feature.
#[inline(always)]
pub(crate) fn budget_feature(
    statistics: &Statistics,
    budgets: usize,
    feature: usize,
    steps_left: usize,
) -> (f64, f64) {
    let inverse_scale = 1.0 / statistics.feature_scale[feature];
    let steps = if feature < budgets {
        1.0
    } else {
        (steps_left + 1) as f64
    };
    (
        inverse_scale / steps,
        -statistics.feature_mean[feature] * inverse_scale,
    )
}

/// Reads the contexts of an episode step by step and writes what follows from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContextReader {
    entries: Vec<Running>,
    levels: Running,
    level: f64,
}

impl ContextReader {
    /// Starts an episode.
    pub(crate) fn reset(&mut self, context_len: usize) {
        self.entries.clear();
        self.entries.resize(context_len, Running::default());
        self.levels = Running::default();
    }

    /// Takes in the context of the next step; only what the model uses is computed.
    #[inline(always)]
    pub(crate) fn push(&mut self, spec: &ModelSpec, statistics: &Statistics, context: &[f64]) {
        if spec.features == Features::History {
            for (entry, value) in self.entries.iter_mut().zip(context) {
                entry.push(*value);
            }
        }
        if spec.form == Form::Residual {
            self.level = level(context, &statistics.context_mean);
            self.levels.push(self.level);
        }
    }

    /// Writes the normalised features that do not depend on the budgets: context, share of steps left, history.
    #[inline(always)]
    pub(crate) fn features(
        &self,
        spec: &ModelSpec,
        statistics: &Statistics,
        context: &[f64],
        steps: (usize, usize),
        mut write: impl FnMut(usize, f64),
    ) {
        let first = budget_features(spec);
        let mut feature = |index: usize, value: f64| {
            let inverse_scale = 1.0 / statistics.feature_scale[index];
            write(
                index,
                value * inverse_scale - statistics.feature_mean[index] * inverse_scale,
            );
        };
        let (steps_left, horizon) = steps;
        for (i, value) in context.iter().enumerate() {
            feature(first + i, *value);
        }
        let width = context.len();
        feature(first + width, share_of_steps_left(steps_left, horizon));
        if spec.features == Features::History {
            for (i, entry) in self.entries.iter().enumerate() {
                for (k, value) in entry.summary().into_iter().enumerate() {
                    feature(first + 1 + (1 + k) * width + i, value);
                }
            }
        }
    }

    /// `w + r ŵ`: the level of this step and of the steps to come, as predicted.
    #[inline(always)]
    pub(crate) fn level_to_come(&self, statistics: &Statistics, steps_left: usize) -> f64 {
        let predicted = predict_level(&statistics.level_predictor, self.level, self.levels.summary());
        self.level + steps_left as f64 * predicted
    }
}

/// `t̄`: the share of the horizon that is left after this step.
#[inline(always)]
pub(crate) fn share_of_steps_left(steps_left: usize, horizon: usize) -> f64 {
    steps_left as f64 / horizon as f64
}

/// The level of a context: its entries over their means, averaged. An entry whose mean is zero counts as 1.
#[inline(always)]
pub(crate) fn level(context: &[f64], mean: &[f64]) -> f64 {
    let sum: f64 = context
        .iter()
        .zip(mean)
        .map(|(value, mean)| if *mean == 0.0 { 1.0 } else { value / mean })
        .sum();
    sum / context.len() as f64
}

/// The predicted mean level of the steps to come; at least a thousandth, so that a price stays positive.
#[inline(always)]
pub(crate) fn predict_level(predictor: &[f64; 6], level: f64, summary: [f64; 4]) -> f64 {
    let [mean, least, greatest, deviation] = summary;
    let predicted = predictor[0]
        + predictor[1] * level
        + predictor[2] * mean
        + predictor[3] * least
        + predictor[4] * greatest
        + predictor[5] * deviation;
    if predicted > LEAST_LEVEL {
        predicted
    } else {
        LEAST_LEVEL
    }
}

const LEAST_LEVEL: f64 = 1e-3;

/// The constant part `λ0_m ρ0_m` of the residual base, and the smallest budget that it is divided by.
///
/// The second keeps the base finite when a problem lets its budgets run out; it is a millionth of a step's mean budget.
pub(crate) fn base_constants(statistics: &Statistics, budget: usize) -> (f64, f64) {
    let per_step = statistics.budget_per_step[budget];
    (statistics.mean_price[budget] * per_step, 1e-6 * per_step)
}

/// Writes all normalised features of an observation, and the base of each price.
pub(crate) fn observe(
    model: &Model,
    reader: &mut ContextReader,
    observation: &Observation<'_>,
    features: &mut [f64],
    base: &mut [f64],
) {
    let (spec, statistics) = (&model.spec, &model.statistics);
    let budgets = spec.dimensions.budgets;
    let steps_left = observation.steps_left();
    for j in 0..budget_features(spec) {
        let (slope, offset) = budget_feature(statistics, budgets, j, steps_left);
        features[j] = slope * observation.remaining[j % budgets] + offset;
    }
    let context = observation.context();
    if spec.features == Features::History || spec.form == Form::Residual {
        reader.reset(context.len());
        for context in observation.contexts.chunks_exact(context.len()) {
            reader.push(spec, statistics, context);
        }
    }
    reader.features(
        spec,
        statistics,
        context,
        (steps_left, observation.horizon),
        |index, value| features[index] = value,
    );
    match spec.form {
        Form::Plain => base.copy_from_slice(&statistics.multiplier_scale),
        Form::Residual => {
            let level = reader.level_to_come(statistics, steps_left);
            for (m, base) in base.iter_mut().enumerate() {
                let (constant, least) = base_constants(statistics, m);
                *base = constant * level / observation.remaining[m].max(least);
            }
        }
    }
}

/// What a minibatch's networks see before any budget is known, for all steps that are priced (all but the last).
///
/// Both tables are feature-major: the values of all lanes (episodes, then padding) lie side by side.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchInputs {
    /// `step × feature × lane`; the budget features hold their offset, and want `slope · b` added.
    pub(crate) features: Vec<f64>,
    /// `step × budget × lane`: what the base is, without its division by `max(b, least)` in the residual form.
    pub(crate) bases: Vec<f64>,
    reader: ContextReader,
}

impl BatchInputs {
    /// Fills both tables; they are allocated only when they grow.
    pub(crate) fn fill(&mut self, model: &Model, episodes: &Episodes, batch: &[usize], lanes: usize) {
        let (spec, statistics) = (&model.spec, &model.statistics);
        let width = spec.feature_len();
        let budgets = spec.dimensions.budgets;
        let horizon = episodes.horizon();
        let steps = horizon - 1;
        self.features.resize(steps * width * lanes, 0.0);
        self.bases.resize(steps * budgets * lanes, 0.0);
        for step in 0..steps {
            for j in 0..budget_features(spec) {
                let (_, offset) = budget_feature(statistics, budgets, j, horizon - 1 - step);
                self.features[(step * width + j) * lanes..][..lanes].fill(offset);
            }
        }
        for (lane, &index) in batch.iter().enumerate() {
            let episode = episodes.get(index);
            self.reader.reset(episode.context_len());
            for step in 0..steps {
                let context = episode.context(step);
                let steps_left = horizon - 1 - step;
                self.reader.push(spec, statistics, context);
                let features = &mut self.features;
                self.reader.features(
                    spec,
                    statistics,
                    context,
                    (steps_left, horizon),
                    |index, value| {
                        features[(step * width + index) * lanes + lane] = value;
                    },
                );
                for m in 0..budgets {
                    self.bases[(step * budgets + m) * lanes + lane] = match spec.form {
                        Form::Plain => statistics.multiplier_scale[m],
                        Form::Residual => {
                            base_constants(statistics, m).0
                                * self.reader.level_to_come(statistics, steps_left)
                        }
                    };
                }
            }
        }
    }
}
