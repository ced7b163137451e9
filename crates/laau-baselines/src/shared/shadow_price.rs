//! The prices at which several steps together use no more than a budget.

use laau_core::numerics::cholesky;
use laau_core::{Differentiate, Dimensions, Error, Gradients, Query, Solutions, StepSolver};

/// Tolerances of [`ShadowPrice`].
///
/// | name | default | purpose |
/// |---|---|---|
/// | `tolerance` | 1e-11 | largest overuse, or unused part of a budget with a price, relative to the budget |
/// | `iterations` | 80 | most evaluations of the dual function along one search |
/// | `negligible` | 1e-13 | a price whose budget is worth less than this share of the cost counts as zero |
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ShadowPriceOptions {
    pub(crate) tolerance: f64,
    pub(crate) iterations: usize,
    pub(crate) negligible: f64,
}

impl Default for ShadowPriceOptions {
    fn default() -> Self {
        Self {
            tolerance: 1e-11,
            iterations: 80,
            negligible: 1e-13,
        }
    }
}

/// Steps to be paid out of one budget: contexts one after the other, and how often each of them comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps<'a> {
    pub(crate) contexts: &'a [f64],
    pub(crate) copies: &'a [f64],
    /// What a single step may use at most.
    pub(crate) cap: &'a [f64],
    /// What all of them may use together.
    pub(crate) budget: &'a [f64],
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Priced {
    /// The value of the dual function: a lower bound of the cost of all steps, and equal to it at the best prices. An
    /// error of the prices enters it squared.
    pub(crate) cost: f64,
    /// The largest overuse, or unused part of a priced budget, relative to the budget.
    pub(crate) residual: f64,
    /// Whether every answer of the layer was to its tolerance: else the cost is no bound.
    pub(crate) is_bound: bool,
}

/// Maximises the concave dual `D(λ) = Σ_k n_k min_x [l(x, c_k) + λᵀg(x, c_k)] − λᵀb` over `λ ≥ 0`.
///
/// One budget: a bracketed secant between `ln λ` and `ln usage`, which is exact at once for logarithmic utility.
/// Several: projected Newton with the layer's own Jacobians (one pullback per budget and step) and a line search.
#[derive(Clone)]
pub(crate) struct ShadowPrice {
    solver: Box<dyn Differentiate>,
    options: ShadowPriceOptions,
    solution: Solutions,
    gradients: Gradients,
    usage: Vec<f64>,
    jacobian: Vec<f64>,
    /// `Σ n g − b`.
    overuse: Vec<f64>,
    /// Whether an answer of the layer, at any of the prices, was short of its tolerance.
    is_short: bool,
    /// `−∇²D`, row-major.
    curvature: Vec<f64>,
}

impl ShadowPrice {
    pub(crate) fn new(solver: Box<dyn Differentiate>, options: ShadowPriceOptions) -> Self {
        let dimensions = solver.problem().dimensions();
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = dimensions;
        Self {
            solver,
            options,
            solution: Solutions::new(dimensions, 1),
            gradients: Gradients::new(dimensions, 1),
            usage: vec![0.0; m],
            jacobian: vec![0.0; m * d],
            overuse: vec![0.0; m],
            is_short: false,
            curvature: vec![0.0; m * m],
        }
    }

    /// Finds the prices, starting at those in `prices`.
    ///
    /// # Errors
    /// When a slice does not fit the problem.
    pub(crate) fn find(&mut self, steps: Steps<'_>, prices: &mut [f64]) -> Result<Priced, Error> {
        self.is_short = false;
        if prices.len() == 1 {
            self.find_one(steps, prices)
        } else {
            self.find_several(steps, prices)
        }
    }

    /// A start that depends on the steps alone: the mean of the duals that each step has at its equal share.
    ///
    /// # Errors
    /// When a slice does not fit the problem.
    pub(crate) fn start(&mut self, steps: Steps<'_>, prices: &mut [f64]) -> Result<(), Error> {
        let m = prices.len();
        let context_len = self.solver.problem().dimensions().context;
        let count: f64 = steps.copies.iter().sum();
        let zero = vec![0.0; m];
        let share: Vec<f64> = (0..m)
            .map(|i| (steps.budget[i] / count).min(steps.cap[i]))
            .collect();
        prices.fill(0.0);
        for (context, copies) in steps.contexts.chunks_exact(context_len).zip(steps.copies) {
            let query = Query {
                context,
                multiplier: &zero,
                available: &share,
            };
            self.solver.solve(query, self.solution.row_mut(0))?;
            for (price, dual) in prices.iter_mut().zip(self.solution.row(0).duals) {
                *price += copies / count * dual;
            }
        }
        Ok(())
    }

    fn find_one(&mut self, steps: Steps<'_>, prices: &mut [f64]) -> Result<Priced, Error> {
        const STRIDE: f64 = 4.0;
        let ShadowPriceOptions {
            tolerance,
            iterations,
            negligible,
        } = self.options;
        let budget = steps.budget[0];
        let mut price = if prices[0] > 0.0 && prices[0].is_finite() {
            prices[0]
        } else {
            1.0
        };
        // (ln λ, ln usage − ln b) with too little and too much usage.
        let (mut low, mut high): (Option<[f64; 2]>, Option<[f64; 2]>) = (None, None);
        let mut side = 0_i32;
        let mut cost = 0.0;
        let mut residual = f64::INFINITY;
        for _ in 0..iterations.max(1) {
            cost = self.evaluate(steps, &[price], false)?;
            residual = self.overuse[0] / budget.max(f64::MIN_POSITIVE);
            let point = [price.ln(), residual.ln_1p()];
            if residual.abs() <= tolerance {
                break;
            }
            if residual > 0.0 {
                high = Some(point);
                side = side.max(0) + 1;
            } else {
                low = Some(point);
                side = side.min(0) - 1;
                if high.is_none() && price * budget <= negligible * (cost + price * budget).abs() {
                    prices[0] = 0.0;
                    return Ok(Priced {
                        cost,
                        residual: 0.0,
                        is_bound: !self.is_short,
                    });
                }
            }
            let next = match (high, low) {
                (Some(mut a), Some(mut b)) => {
                    if b[0] - a[0] <= f64::EPSILON {
                        break;
                    }
                    // Illinois: an end that stays twice counts half.
                    if side >= 2 {
                        b[1] *= 0.5_f64.powi(side - 1);
                    } else if side <= -2 {
                        a[1] *= 0.5_f64.powi(-side - 1);
                    }
                    let secant = a[0] - a[1] * (b[0] - a[0]) / (b[1] - a[1]);
                    if secant > a[0] && secant < b[0] {
                        secant
                    } else {
                        0.5 * (a[0] + b[0])
                    }
                }
                // Usage falls with the price at least somewhere: go there in growing strides.
                (Some(a), None) => a[0] + (STRIDE.ln() * f64::from(side.abs())).max(a[1].min(STRIDE)),
                (None, Some(b)) => b[0] - (STRIDE.ln() * f64::from(side.abs())).max((-b[1]).min(STRIDE)),
                (None, None) => point[0],
            };
            price = next.exp();
            if !(price > 0.0 && price.is_finite()) {
                break;
            }
        }
        prices[0] = price;
        Ok(Priced {
            cost,
            residual: residual.abs(),
            is_bound: !self.is_short,
        })
    }

    fn find_several(&mut self, steps: Steps<'_>, prices: &mut [f64]) -> Result<Priced, Error> {
        const ARMIJO: f64 = 1e-4;
        const REACH: f64 = 4.0;
        let m = prices.len();
        let ShadowPriceOptions {
            tolerance,
            iterations,
            ..
        } = self.options;
        let mut scale: f64 = prices.iter().copied().fold(0.0, f64::max);
        if !(scale > 0.0 && scale.is_finite()) {
            scale = 1.0;
        }
        let (mut step, mut trial) = (vec![0.0; m], vec![0.0; m]);
        let (mut gradient, mut matrix) = (vec![0.0; m], vec![0.0; m * m]);
        let mut damping = 1e-12;
        let mut cost = self.evaluate(steps, prices, true)?;
        let mut residual = self.residual(steps.budget, prices);
        let mut evaluations = 0;
        while residual > tolerance && evaluations < iterations {
            gradient.copy_from_slice(&self.overuse);
            matrix.copy_from_slice(&self.curvature);
            for i in 0..m {
                let at_zero = prices[i] == 0.0 && gradient[i] <= 0.0;
                // In the units of the budget: a full budget's overuse moves the price by its own size.
                let unit = steps.budget[i].max(f64::MIN_POSITIVE) / prices[i].max(1e-3 * scale);
                matrix[i * m + i] += damping * (matrix[i * m + i] + unit) + 1e-14 * unit;
                if at_zero {
                    for j in 0..m {
                        matrix[i * m + j] = 0.0;
                        matrix[j * m + i] = 0.0;
                    }
                    matrix[i * m + i] = 1.0;
                    gradient[i] = 0.0;
                }
            }
            step.copy_from_slice(&gradient);
            if cholesky::factor(&mut matrix, m, 0.0) > 0 {
                damping = (damping * 100.0).max(1e-8);
                evaluations += 1;
                continue;
            }
            cholesky::solve(&matrix, m, &mut step);
            let mut length = 1.0;
            let mut moved = false;
            while evaluations < iterations {
                let mut promise = 0.0;
                for i in 0..m {
                    let reach = REACH * prices[i].max(1e-2 * scale);
                    trial[i] = (prices[i] + length * step[i].clamp(-reach, reach)).max(0.0);
                    promise += gradient[i] * (trial[i] - prices[i]);
                }
                let trial_cost = self.evaluate(steps, &trial, true)?;
                evaluations += 1;
                let rounding = 1e-15 * (trial_cost.abs() + cost.abs());
                if promise > 0.0 && trial_cost >= cost + ARMIJO * promise - rounding {
                    let trial_residual = self.residual(steps.budget, &trial);
                    // Where the dual is flat to rounding, only a smaller residual is progress.
                    if trial_cost > cost + rounding || trial_residual < residual {
                        prices.copy_from_slice(&trial);
                        cost = trial_cost;
                        residual = trial_residual;
                        moved = true;
                        break;
                    }
                }
                length *= 0.5;
                if length < 1e-6 {
                    break;
                }
            }
            if moved {
                damping = (damping * 0.1).max(1e-12);
            } else if damping >= 1e3 {
                break;
            } else {
                damping = (damping * 1e3).max(1e-6);
                // The curvature of the last trial is not that of the prices.
                cost = self.evaluate(steps, prices, true)?;
            }
        }
        Ok(Priced {
            cost,
            residual,
            is_bound: !self.is_short,
        })
    }

    /// `D(λ)`; leaves `Σ n g − b`, and on request `−∇²D`, behind.
    fn evaluate(&mut self, steps: Steps<'_>, prices: &[f64], curvature: bool) -> Result<f64, Error> {
        let Dimensions {
            actions: d,
            budgets: m,
            context: context_len,
        } = self.solver.problem().dimensions();
        let mut cost = 0.0;
        for (overuse, budget) in self.overuse.iter_mut().zip(steps.budget) {
            *overuse = -budget;
        }
        self.curvature.fill(0.0);
        for (context, &copies) in steps.contexts.chunks_exact(context_len).zip(steps.copies) {
            let query = Query {
                context,
                multiplier: prices,
                available: steps.cap,
            };
            self.solver.solve(query, self.solution.row_mut(0))?;
            let solution = self.solution.row(0);
            self.is_short |= !solution.status.is_solved();
            let problem = self.solver.problem();
            cost += copies * problem.cost(solution.action, context);
            problem.usage(solution.action, context, &mut self.usage);
            for (overuse, usage) in self.overuse.iter_mut().zip(&self.usage) {
                *overuse += copies * usage;
            }
            if curvature {
                problem.usage_jacobian(solution.action, context, &mut self.jacobian);
                for i in 0..m {
                    let upstream = &self.jacobian[i * d..][..d];
                    self.solver
                        .pullback(query, solution, upstream, self.gradients.row_mut(0))?;
                    for j in 0..m {
                        self.curvature[i * m + j] -= copies * self.gradients.multipliers[j];
                    }
                }
            }
        }
        for (price, overuse) in prices.iter().zip(&self.overuse) {
            cost += price * overuse;
        }
        Ok(cost)
    }

    fn residual(&self, budget: &[f64], prices: &[f64]) -> f64 {
        self.overuse
            .iter()
            .zip(budget)
            .zip(prices)
            .map(|((overuse, budget), price)| {
                let relative = overuse / budget.max(f64::MIN_POSITIVE);
                if *price > 0.0 {
                    relative.abs()
                } else {
                    relative.max(0.0)
                }
            })
            .fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{HorizonOptimum, HorizonOptions};
    use laau_core::problems::LogUtility;
    use laau_core::{Episode, Hindsight as _, SmoothProblem};
    use laau_kkt::InteriorPoint;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// The dual value must be the cost of the offline optimum of the same steps (strong duality), for one budget or several.
    #[test]
    fn the_dual_value_is_the_cost_of_the_offline_optimum() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for budgets in [1, 1, 2, 3] {
            for _ in 0..12 {
                let d = 3;
                let matrix = (0..budgets * d).map(|_| rng.random_range(0.1..1.0)).collect();
                let problem: Arc<dyn SmoothProblem> =
                    Arc::new(LogUtility::new(d, budgets, matrix, 0.2, 8.0).unwrap());
                let horizon = rng.random_range(1..9_usize);
                let contexts: Vec<f64> = (0..horizon * d).map(|_| rng.random_range(0.01..1.0)).collect();
                let mut budget = vec![0.0; budgets];
                problem.reserve(horizon, &mut budget);
                for b in &mut budget {
                    *b *= rng.random_range(1.05..20.0);
                }
                let solver = InteriorPoint::new(Arc::clone(&problem), laau_kkt::Options::default()).unwrap();
                let mut shadow = ShadowPrice::new(Box::new(solver), ShadowPriceOptions::default());
                let copies = vec![1.0; horizon];
                let steps = Steps {
                    contexts: &contexts,
                    copies: &copies,
                    cap: &budget,
                    budget: &budget,
                };
                let mut prices = vec![0.0; budgets];
                shadow.start(steps, &mut prices).unwrap();
                let priced = shadow.find(steps, &mut prices).unwrap();
                assert!(
                    priced.residual < 1e-7,
                    "{budgets} budgets, {horizon} steps: {priced:?}"
                );

                let best = HorizonOptimum::new(Arc::clone(&problem), HorizonOptions::default()).unwrap();
                let mut plan = vec![0.0; horizon * d];
                let episode = Episode::new(&contexts, d, &budget).unwrap();
                best.plan(&episode, &mut plan).unwrap();
                let cost: f64 = (plan.chunks_exact(d).zip(contexts.chunks_exact(d)))
                    .map(|(x, c)| problem.cost(x, c))
                    .sum();
                assert!(
                    (priced.cost - cost).abs() <= 1e-7 * (1.0 + cost.abs()),
                    "{budgets} budgets, {horizon} steps: {} against {cost} at {prices:?}",
                    priced.cost
                );
            }
        }
    }
}
