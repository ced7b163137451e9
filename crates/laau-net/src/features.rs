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

use laau_core::Observation;

use crate::model::Model;
use crate::spec::{Features, ModelSpec, PriceBase};
use crate::statistics::Statistics;

/// Running statistics of the values seen so far, of `W` episodes side by side.
///
/// The sums are of differences to the first value, so that nothing cancels when the values lie close together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running<const W: usize> {
    count: f64,
    first: [f64; W],
    sum: [f64; W],
    squares: [f64; W],
    least: [f64; W],
    greatest: [f64; W],
}

impl<const W: usize> Default for Running<W> {
    fn default() -> Self {
        Self {
            count: 0.0,
            first: [0.0; W],
            sum: [0.0; W],
            squares: [0.0; W],
            least: [0.0; W],
            greatest: [0.0; W],
        }
    }
}

impl<const W: usize> Running<W> {
    #[inline(always)]
    pub(crate) fn push(&mut self, values: [f64; W]) {
        if self.count == 0.0 {
            self.first = values;
            self.least = values;
            self.greatest = values;
        }
        self.count += 1.0;
        for i in 0..W {
            let value = values[i];
            let difference = value - self.first[i];
            self.sum[i] += difference;
            self.squares[i] += difference * difference;
            self.least[i] = if value < self.least[i] {
                value
            } else {
                self.least[i]
            };
            self.greatest[i] = if value > self.greatest[i] {
                value
            } else {
                self.greatest[i]
            };
        }
    }

    /// Mean, least, greatest, standard deviation.
    #[inline(always)]
    pub(crate) fn summary(&self) -> [[f64; W]; 4] {
        let (mut means, mut deviations) = ([0.0; W], [0.0; W]);
        for i in 0..W {
            let mean = self.sum[i] / self.count;
            let variance = self.squares[i] / self.count - mean * mean;
            means[i] = self.first[i] + mean;
            deviations[i] = if variance > 0.0 { variance.sqrt() } else { 0.0 };
        }
        [means, self.least, self.greatest, deviations]
    }
}

/// The features that depend on the remaining budgets, which come first: feature `j` is `slope · b_{j mod M} + offset`.
pub(crate) fn budget_features(spec: &ModelSpec) -> usize {
    match spec.features {
        Features::Paper => spec.dimensions.budgets,
        Features::History => 2 * spec.dimensions.budgets,
    }
}

/// Slope and offset of a normalised budget feature, by the normalisation of that feature.
#[inline(always)]
pub(crate) fn budget_feature(
    (slope, offset): (f64, f64),
    budgets: usize,
    feature: usize,
    steps_left: usize,
) -> (f64, f64) {
    if feature < budgets {
        (slope, offset)
    } else {
        (slope / (steps_left + 1) as f64, offset)
    }
}

/// What a raw feature is multiplied with, and what is added then.
#[inline(always)]
pub(crate) fn normalisation(statistics: &Statistics, feature: usize) -> (f64, f64) {
    let inverse_scale = 1.0 / statistics.feature_scale[feature];
    (inverse_scale, -statistics.feature_mean[feature] * inverse_scale)
}

/// The same of a feature of the remaining budgets, in an episode of so many steps. Budgets per step are as they are.
#[inline(always)]
pub(crate) fn budget_normalisation(
    spec: &ModelSpec,
    statistics: &Statistics,
    feature: usize,
    horizon: usize,
) -> (f64, f64) {
    let (slope, offset) = normalisation(statistics, feature);
    if feature < spec.dimensions.budgets {
        (slope * spec.stretch(horizon), offset)
    } else {
        (slope, offset)
    }
}

/// Reads the contexts of one episode step by step and computes what follows from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContextReader {
    lane: LaneReader<1>,
    /// Steps that have been read.
    read: usize,
}

impl ContextReader {
    /// Starts an episode.
    pub(crate) fn reset(&mut self, context_len: usize) {
        self.lane.reset(context_len);
        self.read = 0;
    }

    /// Takes in the context of the next step; only what the model uses is computed.
    #[inline]
    pub(crate) fn push(&mut self, spec: &ModelSpec, statistics: &Statistics, context: &[f64]) {
        self.lane.push(spec, statistics, |i| [context[i]]);
        self.read += 1;
    }

    /// Takes in the contexts that have come since the last call. Where none have, a step is asked about again or another
    /// episode begins: everything is read from the start.
    pub(crate) fn catch_up(
        &mut self,
        spec: &ModelSpec,
        statistics: &Statistics,
        observation: &Observation<'_>,
    ) {
        let width = observation.context_len;
        if self.read == 0 || observation.step < self.read {
            self.reset(width);
        }
        for context in observation.contexts[self.read * width..].chunks_exact(width) {
            self.push(spec, statistics, context);
        }
    }

    /// Gives the normalised features that do not depend on the budgets, with their positions; `steps` are the steps left
    /// and the horizon.
    #[inline]
    pub(crate) fn features(
        &self,
        spec: &ModelSpec,
        statistics: &Statistics,
        context: &[f64],
        (steps_left, horizon): (usize, usize),
        mut write: impl FnMut(usize, f64),
    ) {
        let share = share_left(steps_left, horizon);
        self.lane.features(
            spec,
            |i| [context[i]],
            share,
            |index, [value]| {
                let (slope, offset) = normalisation(statistics, index);
                write(index, value * slope + offset);
            },
        );
    }

    /// `w + r ŵ`: the level of this step and of the steps to come, as predicted.
    #[inline]
    pub(crate) fn level_to_come(&self, statistics: &Statistics, steps_left: usize) -> f64 {
        let [level] = self.lane.level_to_come(statistics, steps_left);
        level
    }
}

/// Reads the contexts of `W` episodes step by step and computes what follows from them.
#[derive(Debug, Clone)]
pub(crate) struct LaneReader<const W: usize> {
    entries: Vec<Running<W>>,
    levels: Running<W>,
    level: [f64; W],
}

impl<const W: usize> Default for LaneReader<W> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            levels: Running::default(),
            level: [0.0; W],
        }
    }
}

impl<const W: usize> LaneReader<W> {
    /// Starts new episodes.
    pub(crate) fn reset(&mut self, context_len: usize) {
        self.entries.clear();
        self.entries.resize(context_len, Running::default());
        self.levels = Running::default();
    }

    /// Takes in the contexts of the next step, given entry by entry; only what the model uses is computed.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        spec: &ModelSpec,
        statistics: &Statistics,
        context: impl Fn(usize) -> [f64; W],
    ) {
        if spec.features == Features::History {
            for (i, entry) in self.entries.iter_mut().enumerate() {
                entry.push(context(i));
            }
        }
        if spec.form == PriceBase::Residual {
            self.level = level(&statistics.context_mean, context);
            self.levels.push(self.level);
        }
    }

    /// Gives the raw features that depend on the contexts so far and not on the current one alone.
    #[inline(always)]
    pub(crate) fn history(&self, spec: &ModelSpec, mut write: impl FnMut(usize, [f64; W])) {
        if spec.features == Features::History {
            let width = self.entries.len();
            let first = budget_features(spec) + width + 1;
            for (i, entry) in self.entries.iter().enumerate() {
                for (k, values) in entry.summary().into_iter().enumerate() {
                    write(first + k * width + i, values);
                }
            }
        }
    }

    /// Gives all raw features that do not depend on the budgets: context, share of steps left, history.
    #[inline(always)]
    pub(crate) fn features(
        &self,
        spec: &ModelSpec,
        context: impl Fn(usize) -> [f64; W],
        share_left: f64,
        mut write: impl FnMut(usize, [f64; W]),
    ) {
        let first = budget_features(spec);
        let width = spec.dimensions.context;
        for i in 0..width {
            write(first + i, context(i));
        }
        write(first + width, [share_left; W]);
        self.history(spec, write);
    }

    /// `w + r ŵ`: the level of this step and of the steps to come, as predicted.
    #[inline(always)]
    pub(crate) fn level_to_come(&self, statistics: &Statistics, steps_left: usize) -> [f64; W] {
        let [mean, least, greatest, deviation] = self.levels.summary();
        std::array::from_fn(|i| {
            let summary = [mean[i], least[i], greatest[i], deviation[i]];
            let predicted = predict_level(&statistics.level_predictor, self.level[i], summary);
            self.level[i] + steps_left as f64 * predicted
        })
    }
}

/// `t̄`: the share of the horizon that is left after this step.
pub(crate) fn share_left(steps_left: usize, horizon: usize) -> f64 {
    steps_left as f64 / horizon as f64
}

/// The level of a context: its entries over their means, averaged. An entry whose mean is zero counts as 1.
#[inline(always)]
pub(crate) fn level<const W: usize>(mean: &[f64], context: impl Fn(usize) -> [f64; W]) -> [f64; W] {
    let mut sum = [0.0; W];
    for (i, &mean) in mean.iter().enumerate() {
        let values = context(i);
        for k in 0..W {
            sum[k] += if mean == 0.0 { 1.0 } else { values[k] / mean };
        }
    }
    sum.map(|sum| sum / mean.len() as f64)
}

/// The predicted mean level of the steps to come; at least a thousandth, so that a price stays positive.
#[inline(always)]
fn predict_level(predictor: &[f64; 6], level: f64, summary: [f64; 4]) -> f64 {
    const LEAST_LEVEL: f64 = 1e-3;
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

/// The smallest budget that a base is divided by, whatever the scale of the budgets: its square still has an inverse, so that
/// the slope of a base is finite too.
const LEAST_BUDGET: f64 = 1e-150;

/// The constant part `λ0_m ρ0_m` of the residual base, and the smallest budget that it is divided by.
///
/// The second keeps the base finite when a problem lets its budgets run out; it is a millionth of a step's mean budget. A
/// budget that no training episode has is not priced: its base is 0.
pub(crate) fn base_constants(statistics: &Statistics, budget: usize) -> (f64, f64) {
    let per_step = statistics.budget_per_step[budget];
    let least = (1e-6 * per_step).max(LEAST_BUDGET);
    (statistics.mean_price[budget] * per_step, least)
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
    let (remaining, steps_left) = (observation.remaining, observation.steps_left());
    write_budget_features(spec, statistics, observation, features);
    if spec.features == Features::History || spec.form == PriceBase::Residual {
        reader.catch_up(spec, statistics, observation);
    }
    let steps = (steps_left, observation.horizon);
    reader.features(spec, statistics, observation.context(), steps, |index, value| {
        features[index] = value;
    });
    write_base(spec, statistics, reader, remaining, steps_left, base);
}

/// Writes the normalised features of the remaining budgets.
pub(crate) fn write_budget_features(
    spec: &ModelSpec,
    statistics: &Statistics,
    observation: &Observation<'_>,
    features: &mut [f64],
) {
    let (remaining, steps_left) = (observation.remaining, observation.steps_left());
    for j in 0..budget_features(spec) {
        let normalisation = budget_normalisation(spec, statistics, j, observation.horizon);
        let (slope, offset) = budget_feature(normalisation, remaining.len(), j, steps_left);
        features[j] = slope * remaining[j % remaining.len()] + offset;
    }
}

/// Writes what the price of each budget is relative to.
pub(crate) fn write_base(
    spec: &ModelSpec,
    statistics: &Statistics,
    reader: &ContextReader,
    remaining: &[f64],
    steps_left: usize,
    base: &mut [f64],
) {
    match spec.form {
        PriceBase::Plain => base.copy_from_slice(&statistics.multiplier_scale),
        PriceBase::Residual => {
            let level = reader.level_to_come(statistics, steps_left);
            for (m, base) in base.iter_mut().enumerate() {
                let (constant, least) = base_constants(statistics, m);
                *base = constant * level / remaining[m].max(least);
            }
        }
    }
}
