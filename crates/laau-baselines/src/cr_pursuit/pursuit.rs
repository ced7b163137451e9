//! One step of the pursuit for any problem: the cheapest action that earns a given gain.

use laau_core::{Differentiate, Dimensions, Error, Observation, Query, Solutions, StepSolver};

use crate::shadow_price::{ShadowPrice, ShadowPriceOptions, Steps};

/// The pseudo-optimum of the revealed steps, through its prices; `O(t)` layer solves per evaluation of the dual,
/// started at the prices of the step before.
#[derive(Clone)]
pub(crate) struct PricedOptimum {
    prices: ShadowPrice,
    solver: Box<dyn Differentiate>,
    price: Vec<f64>,
    copies: Vec<f64>,
    budget: Vec<f64>,
    lower_cost: f64,
    value: f64,
}

impl PricedOptimum {
    pub(crate) fn new(solver: &dyn Differentiate) -> Self {
        let budgets = solver.problem().dimensions().budgets;
        Self {
            prices: ShadowPrice::new(solver.fork(), ShadowPriceOptions::default()),
            solver: solver.fork(),
            price: vec![0.0; budgets],
            copies: Vec::new(),
            budget: vec![0.0; budgets],
            lower_cost: 0.0,
            value: 0.0,
        }
    }

    /// The prices of the budgets in the pseudo-optimum.
    pub(crate) fn price(&self) -> &[f64] {
        &self.price
    }

    /// Reveals the observed step; gives the growth of the pseudo-optimum, `η_t − η_{t−1} ≥ 0`.
    pub(crate) fn reveal(&mut self, observation: &Observation<'_>) -> Result<f64, Error> {
        let problem = self.solver.problem();
        self.lower_cost += problem.cost(problem.lower(), observation.context());
        self.copies.push(1.0);
        // All of the budget but the reserve of the steps that are not revealed.
        problem.reserve(observation.steps_left(), &mut self.budget);
        for (budget, total) in self.budget.iter_mut().zip(observation.budgets) {
            *budget = total - *budget;
        }
        let steps = Steps {
            contexts: observation.contexts,
            copies: &self.copies,
            cap: &self.budget,
            budget: &self.budget,
        };
        if observation.step == 0 {
            self.prices.start(steps, &mut self.price)?;
        }
        let priced = self.prices.find(steps, &mut self.price)?;
        let before = self.value;
        self.value = (self.lower_cost - priced.cost).max(before);
        Ok(self.value - before)
    }
}

/// Finds the smallest share `s` of what is available that earns a gain over the lower corner.
///
/// With one budget this is the smallest usage; with several it is the action with the smallest
/// `max_m (g_m − g_m(lower)) / (available_m − g_m(lower))`, the heuristic for coupled budgets.
#[derive(Clone)]
pub(crate) struct CheapestAction {
    solver: Box<dyn Differentiate>,
    solution: Solutions,
    tie_price: Vec<f64>,
    base: Vec<f64>,
    limit: Vec<f64>,
}

/// Tolerances of [`CheapestAction`]: the gain is met from above, to this share of it; at most so many solves.
const GAIN_TOLERANCE: f64 = 1e-10;
const MOST_SOLVES: usize = 100;
/// The share of the pseudo-optimum's prices that breaks ties between actions of equal cost.
const TIE_SHARE: f64 = 1e-9;

impl CheapestAction {
    pub(crate) fn new(solver: &dyn Differentiate) -> Self {
        let dimensions = solver.problem().dimensions();
        let Dimensions { budgets, .. } = dimensions;
        Self {
            solver: solver.fork(),
            solution: Solutions::new(dimensions, 1),
            tie_price: vec![0.0; budgets],
            base: vec![0.0; budgets],
            limit: vec![0.0; budgets],
        }
    }

    /// Writes the action; says whether all that is available was too little for the gain.
    pub(crate) fn find(
        &mut self,
        observation: &Observation<'_>,
        price: &[f64],
        gain: f64,
        action: &mut [f64],
    ) -> Result<bool, Error> {
        let context = observation.context();
        let problem = self.solver.problem();
        action.copy_from_slice(problem.lower());
        let lower_cost = problem.cost(action, context);
        problem.usage(action, context, &mut self.base);
        if gain <= 0.0 {
            return Ok(false);
        }
        for (tie, price) in self.tie_price.iter_mut().zip(price) {
            *tie = TIE_SHARE * price;
        }
        // (share, gain, slope) on both sides of the gain asked for.
        let mut low = [0.0, 0.0, f64::INFINITY];
        let mut high = self.evaluate(observation, lower_cost, 1.0)?;
        action.copy_from_slice(self.solution.row(0).action);
        if high[1] < gain {
            return Ok(high[1] < gain * (1.0 - GAIN_TOLERANCE));
        }
        for solve in 0..MOST_SOLVES {
            if high[1] <= gain * (1.0 + GAIN_TOLERANCE) || high[0] - low[0] <= f64::EPSILON * high[0] {
                break;
            }
            // The gain is concave in the share: its tangent falls short of the share wanted, its chord is beyond it.
            let tangent = low[0] + (gain - low[1]) / low[2];
            let chord = low[0] + (gain - low[1]) * (high[0] - low[0]) / (high[1] - low[1]);
            // Just beyond the chord, so that rounding does not leave the point on the near side.
            let chord = chord + 0.5 * GAIN_TOLERANCE * chord;
            let wanted = match solve % 3 {
                0 => tangent,
                1 => chord,
                _ => 0.5 * (low[0] + high[0]),
            };
            let inside = wanted > low[0] && wanted < high[0];
            let share = if inside { wanted } else { 0.5 * (low[0] + high[0]) };
            let point = self.evaluate(observation, lower_cost, share)?;
            if point[1] >= gain {
                high = point;
                action.copy_from_slice(self.solution.row(0).action);
            } else {
                low = point;
            }
        }
        Ok(false)
    }

    /// The largest gain within a share of what is available: share, gain, slope.
    fn evaluate(
        &mut self,
        observation: &Observation<'_>,
        lower_cost: f64,
        share: f64,
    ) -> Result<[f64; 3], Error> {
        let context = observation.context();
        for ((limit, base), available) in self.limit.iter_mut().zip(&self.base).zip(observation.available) {
            *limit = if share >= 1.0 {
                *available
            } else {
                (base + share * (available - base)).min(*available)
            };
        }
        let query = Query {
            context,
            multiplier: &self.tie_price,
            remaining: &self.limit,
        };
        self.solver.solve(query, self.solution.row_mut(0))?;
        let solution = self.solution.row(0);
        let gain = lower_cost - self.solver.problem().cost(solution.action, context);
        let slope = (solution.duals.iter().zip(&self.tie_price))
            .zip(observation.available.iter().zip(&self.base))
            .map(|((dual, tie), (available, base))| (dual + tie) * (available - base))
            .sum();
        Ok([share, gain, slope])
    }
}
