//! What a model knows of its training set.

use laau_core::numerics::cholesky;
use laau_core::{Dimensions, Episodes, Queries, Query, Solutions, StepSolver};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::features::{ContextReader, Running, budget_feature, budget_features, level, normalisation};
use crate::spec::ModelSpec;

/// Statistics of the training set, stored in the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// The mean of each feature. For the features of the remaining budgets, which depend on the policy, along the path
    /// that spends equally: `b_t = B (N − t)/N`.
    pub feature_mean: Vec<f64>,
    /// The scale (standard deviation) each feature is divided by; never zero.
    pub feature_scale: Vec<f64>,
    /// The AVG-LT multiplier of each budget: the one price at which the training set uses its budgets on average. The
    /// unit of the network's prices; always positive, for a budget in abundance a thousandth of the largest useful
    /// price.
    pub multiplier_scale: Vec<f64>,
    /// The price of each budget at the mean context and the mean budget per step: the dual of that one step. For a budget
    /// that does not bind there, the AVG-LT multiplier: always positive.
    pub mean_price: Vec<f64>,
    /// The mean budget per step.
    pub budget_per_step: Vec<f64>,
    /// The mean of each context entry.
    pub context_mean: Vec<f64>,
    /// Coefficients that predict the mean level of the steps to come: constant, current level, and mean, least,
    /// greatest and standard deviation of the levels so far (the level is the context over its mean, averaged over its
    /// entries). Fitted by ridge regression.
    pub level_predictor: [f64; 6],
}

impl Statistics {
    /// Measures a training set.
    ///
    /// # Errors
    /// When specification, solver and episodes do not fit, there is no episode, or a layer cannot be solved.
    pub fn fit(spec: &ModelSpec, solver: &mut dyn StepSolver, train: &Episodes) -> Result<Self, Error> {
        spec.validate()?;
        spec.check_problem(solver.problem())?;
        train.check(solver.problem())?;
        if train.is_empty() {
            return Err(Error::InvalidSetting {
                field: "train",
                reason: "expected at least one episode, found none".to_owned(),
            });
        }
        let Dimensions { budgets, context, .. } = spec.dimensions;
        let budget_per_step: Vec<f64> = column_means(train.budgets(), budgets)
            .into_iter()
            .map(|mean| mean / train.horizon() as f64)
            .collect();
        let context_mean = column_means(train.contexts(), context);
        let level_predictor = fit_level_predictor(train, &context_mean);

        let prices = Prices::new(solver, &context_mean, &budget_per_step);
        let multiplier_scale = prices.average_long_term(solver, train)?;
        let mean_price = prices.at_the_mean(solver, &multiplier_scale)?;

        let features = spec.feature_len();
        let mut statistics = Self {
            feature_mean: vec![0.0; features],
            feature_scale: vec![1.0; features],
            multiplier_scale,
            mean_price,
            budget_per_step,
            context_mean,
            level_predictor,
        };
        let (mean, scale) = statistics.feature_moments(spec, train);
        statistics.feature_mean = mean;
        statistics.feature_scale = scale;
        Ok(statistics)
    }

    /// Checks sizes and ranges.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] that names the field.
    pub fn validate(&self, spec: &ModelSpec) -> Result<(), Error> {
        let Dimensions { budgets, context, .. } = spec.dimensions;
        let features = spec.feature_len();
        let invalid = |field, reason| Err(Error::InvalidSetting { field, reason });
        for (field, values, expected, positive) in [
            ("feature_mean", &self.feature_mean[..], features, false),
            ("feature_scale", &self.feature_scale, features, true),
            ("multiplier_scale", &self.multiplier_scale, budgets, true),
            ("mean_price", &self.mean_price, budgets, true),
            ("budget_per_step", &self.budget_per_step, budgets, false),
            ("context_mean", &self.context_mean, context, false),
            ("level_predictor", &self.level_predictor, 6, false),
        ] {
            if values.len() != expected {
                return invalid(
                    field,
                    format!("expected {expected} values, found {}", values.len()),
                );
            }
            let bad = |v: &&f64| !v.is_finite() || (positive && **v <= 0.0);
            if let Some(value) = values.iter().find(bad) {
                let kind = if positive { "positive, finite" } else { "finite" };
                return invalid(field, format!("expected {kind} values, found {value}"));
            }
        }
        Ok(())
    }

    /// Mean and scale of each feature while `self` normalises with mean 0 and scale 1.
    fn feature_moments(&self, spec: &ModelSpec, train: &Episodes) -> (Vec<f64>, Vec<f64>) {
        let horizon = train.horizon();
        let budgets = spec.dimensions.budgets;
        let mut moments = vec![Running::<1>::default(); spec.feature_len()];
        let mut reader = ContextReader::default();
        for episode in train.iter() {
            reader.reset(episode.context_len());
            // The last step is never priced.
            for step in 0..(horizon - 1).max(1) {
                let steps_left = horizon - 1 - step;
                let share = (horizon - step) as f64 / horizon as f64;
                for (j, moment) in moments.iter_mut().take(budget_features(spec)).enumerate() {
                    let (slope, _) = budget_feature(normalisation(self, j), budgets, j, steps_left);
                    moment.push([slope * share * episode.budgets()[j % budgets]]);
                }
                let context = episode.context(step);
                reader.push(spec, self, context);
                reader.features(spec, self, context, (steps_left, horizon), |index, value| {
                    moments[index].push([value]);
                });
            }
        }
        moments
            .iter()
            .map(|moment| {
                let [[mean], _, _, [deviation]] = moment.summary();
                let constant = deviation <= 1e-9 * mean.abs();
                let scale = if constant { mean.abs() } else { deviation };
                // What has no inverse is no scale: zero, or so small that it might as well be.
                (mean, if scale.is_normal() { scale } else { 1.0 })
            })
            .unzip()
    }
}

/// The mean of each column of a row-major table.
fn column_means(table: &[f64], columns: usize) -> Vec<f64> {
    let mut means = vec![0.0; columns];
    for row in table.chunks_exact(columns) {
        for (mean, value) in means.iter_mut().zip(row) {
            *mean += value;
        }
    }
    let rows = (table.len() / columns) as f64;
    for mean in &mut means {
        *mean /= rows;
    }
    means
}

/// Finds prices for a training set.
struct Prices<'a> {
    context_mean: &'a [f64],
    budget_per_step: &'a [f64],
    /// The same, and never less than what every step uses at least.
    payable: Vec<f64>,
    /// The largest useful price of each budget: at it, no action is worth more than its lower bound.
    largest: Vec<f64>,
    /// Budgets that never bind.
    abundance: Vec<f64>,
}

impl<'a> Prices<'a> {
    /// The most contexts that the AVG-LT multiplier is computed from, evenly taken from the training set; shared between
    /// several budgets.
    const CONTEXTS: usize = 1024;
    /// The relative error of the AVG-LT multiplier of the only budget, and of one of several. These are found in turn, and are
    /// but the units of prices.
    const TOLERANCE: f64 = 1e-9;
    const TOLERANCE_OF_SEVERAL: f64 = 1e-4;
    /// Several are found when a whole turn changes them by less than this.
    const SETTLED: f64 = 1e-3;
    /// A budget in abundance is priced at this share of the largest useful price.
    const LEAST_SHARE: f64 = 1e-3;

    fn new(solver: &dyn StepSolver, context_mean: &'a [f64], budget_per_step: &'a [f64]) -> Self {
        let problem = solver.problem();
        let Dimensions {
            actions: d, budgets, ..
        } = problem.dimensions();
        let (mut cost, mut usage) = (vec![0.0; d], vec![0.0; budgets * d]);
        problem.cost_gradient(problem.lower(), context_mean, &mut cost);
        problem.usage_jacobian(problem.lower(), context_mean, &mut usage);
        let largest = usage
            .chunks_exact(d)
            .map(|row| {
                let ratio = cost
                    .iter()
                    .zip(row)
                    .filter(|(_, g)| **g != 0.0)
                    .map(|(l, g)| (l / g).abs())
                    .fold(0.0, f64::max);
                // A share of it must still be a number with all its bits.
                if ratio.is_finite() && ratio > f64::MIN_POSITIVE / (Self::LEAST_SHARE * f64::EPSILON) {
                    ratio
                } else {
                    1.0
                }
            })
            .collect();
        let mut abundance = vec![0.0; budgets];
        problem.usage(problem.upper(), context_mean, &mut abundance);
        let mut least = vec![0.0; budgets];
        problem.least_usage(&mut least);
        for ((most, per_step), least) in abundance.iter_mut().zip(budget_per_step).zip(&least) {
            *most = 4.0 * most.max(*per_step).max(*least).max(1.0);
        }
        // A mean may round to a last bit below the least usage.
        let payable = budget_per_step.iter().zip(&least).map(|(b, least)| b.max(*least));
        Self {
            context_mean,
            budget_per_step,
            payable: payable.collect(),
            largest,
            abundance,
        }
    }

    /// The dual of one step with the mean context and budget, or `otherwise` for a budget that does not bind there.
    fn at_the_mean(&self, solver: &mut dyn StepSolver, otherwise: &[f64]) -> Result<Vec<f64>, Error> {
        let dimensions = solver.problem().dimensions();
        let mut solution = Solutions::new(dimensions, 1);
        let query = Query {
            context: self.context_mean,
            multiplier: &vec![0.0; dimensions.budgets],
            available: &self.payable,
        };
        solver.solve(query, solution.row_mut(0))?;
        let solution = solution.row(0);
        solution.status.expect_feasible(0)?;
        let duals = solution.duals.iter().zip(&self.largest).zip(otherwise);
        Ok(duals
            .map(|((&dual, largest), &otherwise)| {
                let binds = dual > Self::LEAST_SHARE * largest;
                if binds { dual } else { otherwise }
            })
            .collect())
    }

    /// The prices at which the mean usage is the mean budget per step, by coordinate-wise bisection (the dual function
    /// is concave).
    fn average_long_term(&self, solver: &mut dyn StepSolver, train: &Episodes) -> Result<Vec<f64>, Error> {
        let Dimensions { budgets, context, .. } = solver.problem().dimensions();
        let count = train.contexts().len() / context;
        let stride = count.div_ceil((Self::CONTEXTS / budgets).max(1));
        let tolerance = if budgets == 1 {
            Self::TOLERANCE
        } else {
            Self::TOLERANCE_OF_SEVERAL
        };
        let contexts: Vec<f64> = train
            .contexts()
            .chunks_exact(context)
            .step_by(stride)
            .flatten()
            .copied()
            .collect();
        let rows = contexts.len() / context;
        let mut usage = MeanUsage {
            solutions: Solutions::new(solver.problem().dimensions(), rows),
            contexts,
            multipliers: vec![0.0; rows * budgets],
            remaining: self.abundance.repeat(rows),
            usages: vec![0.0; rows * budgets],
        };
        let mut prices: Vec<f64> = self.largest.iter().map(|p| p * Self::LEAST_SHARE).collect();
        for _sweep in 0..if budgets == 1 { 1 } else { 8 } {
            let before = prices.clone();
            for m in 0..budgets {
                let mut low = self.largest[m] * Self::LEAST_SHARE;
                let mut high = (self.largest[m] * 1e3).min(f64::MAX);
                prices[m] = low;
                if usage.at(solver, &prices)?[m] <= self.budget_per_step[m] {
                    continue;
                }
                while high > low * (1.0 + tolerance) {
                    // Not the root of the product, which leaves the range of floats where the prices do not.
                    prices[m] = low.sqrt() * high.sqrt();
                    if prices[m] <= low || prices[m] >= high {
                        break;
                    }
                    if usage.at(solver, &prices)?[m] > self.budget_per_step[m] {
                        low = prices[m];
                    } else {
                        high = prices[m];
                    }
                }
                prices[m] = high;
            }
            if prices
                .iter()
                .zip(&before)
                .all(|(now, before)| (now - before).abs() <= Self::SETTLED * now)
            {
                break;
            }
        }
        Ok(prices)
    }
}

/// The mean usage of a sample of contexts at given prices, without budgets.
struct MeanUsage {
    contexts: Vec<f64>,
    multipliers: Vec<f64>,
    remaining: Vec<f64>,
    usages: Vec<f64>,
    solutions: Solutions,
}

impl MeanUsage {
    fn at(&mut self, solver: &mut dyn StepSolver, prices: &[f64]) -> Result<Vec<f64>, Error> {
        for row in self.multipliers.chunks_exact_mut(prices.len()) {
            row.copy_from_slice(prices);
        }
        let queries = Queries {
            contexts: &self.contexts,
            multipliers: &self.multipliers,
            available: &self.remaining,
        };
        solver.solve_batch(queries, &mut self.solutions)?;
        for status in self.solutions.statuses() {
            status.expect_feasible(0)?;
        }
        solver
            .problem()
            .usage_batch(self.solutions.actions(), &self.contexts, &mut self.usages);
        Ok(column_means(&self.usages, prices.len()))
    }
}

/// Ridge regression of the mean level of the steps to come on what is known at a step.
fn fit_level_predictor(train: &Episodes, context_mean: &[f64]) -> [f64; 6] {
    const RIDGE: f64 = 1e-6;
    let horizon = train.horizon();
    let mut gram = [[0.0; 6]; 6];
    let mut right = [0.0; 6];
    let mut levels = vec![0.0; horizon];
    for episode in train.iter() {
        for (step, value) in levels.iter_mut().enumerate() {
            let context = episode.context(step);
            [*value] = level(context_mean, |i| [context[i]]);
        }
        let mut to_come: f64 = levels.iter().sum();
        let mut running = Running::<1>::default();
        for step in 0..horizon - 1 {
            running.push([levels[step]]);
            to_come -= levels[step];
            let target = to_come / (horizon - 1 - step) as f64;
            let [[mean], [least], [greatest], [deviation]] = running.summary();
            let row = [1.0, levels[step], mean, least, greatest, deviation];
            for i in 0..6 {
                right[i] += row[i] * target;
                for j in 0..6 {
                    gram[i][j] += row[i] * row[j];
                }
            }
        }
    }
    let count = gram[0][0];
    if count == 0.0 {
        return [1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    }
    for (i, row) in gram.iter_mut().enumerate() {
        row[i] += RIDGE * count;
    }
    cholesky::factor(gram.as_flattened_mut(), 6, 0.0);
    cholesky::solve(gram.as_flattened(), 6, &mut right);
    right
}
