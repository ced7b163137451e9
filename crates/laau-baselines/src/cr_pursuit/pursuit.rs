//! One step of the pursuit for any problem: the gain of each part, and the cheapest action that earns it.

use laau_core::{Differentiate, Dimensions, Error, Observation, Projection, Query, Solutions, StepSolver};

use super::division::{Division, Links};
use crate::shared::{ShadowPrice, ShadowPriceOptions, Steps};

/// The growth of the pseudo-optimum by one more step.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    pub(crate) division: Division,
    /// `η_t − η_{t−1} ≥ 0` of each part.
    pub(crate) of_part: Vec<f64>,
    /// The prices of the budgets in the pseudo-optimum.
    pub(crate) price: Vec<f64>,
}

/// The pseudo-optimum of the revealed steps, through its prices; `O(t)` layer solves per evaluation of the dual,
/// started at the prices of the step before.
#[derive(Clone)]
pub(crate) struct PricedOptimum {
    prices: ShadowPrice,
    solver: Box<dyn Differentiate>,
    solution: Solutions,
    links: Option<Links>,
    price: Vec<f64>,
    copies: Vec<f64>,
    budget: Vec<f64>,
    lower_cost: f64,
    value: f64,
    /// The value at the step before, as a sum over actions and budgets; only while the problem is divided.
    of_actions: Vec<f64>,
    of_budgets: Vec<f64>,
}

impl PricedOptimum {
    pub(crate) fn new(solver: &dyn Differentiate) -> Self {
        let dimensions = solver.problem().dimensions();
        Self {
            prices: ShadowPrice::new(solver.fork(), ShadowPriceOptions::default()),
            solver: solver.fork(),
            solution: Solutions::new(dimensions, 1),
            links: Links::new(solver.problem()),
            price: vec![0.0; dimensions.budgets],
            copies: Vec::new(),
            budget: vec![0.0; dimensions.budgets],
            lower_cost: 0.0,
            value: 0.0,
            of_actions: vec![0.0; dimensions.actions],
            of_budgets: vec![0.0; dimensions.budgets],
        }
    }

    /// Reveals the observed step.
    pub(crate) fn reveal(&mut self, observation: &Observation<'_>) -> Result<Growth, Error> {
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

        if let Some(links) = &mut self.links {
            links.see(problem, observation.context());
        }
        let division = self.links.as_ref().map(Links::division);
        let (division, of_part) = if let Some(division) = division.filter(|division| !division.is_joint()) {
            let before = division.sums(&self.of_actions, &self.of_budgets);
            self.split(observation.contexts)?;
            let mut growth = division.sums(&self.of_actions, &self.of_budgets);
            for (growth, before) in growth.iter_mut().zip(before) {
                *growth = (*growth - before).max(0.0);
            }
            (division, growth)
        } else {
            self.links = None;
            (Division::joint(problem.dimensions()), vec![self.value - before])
        };
        Ok(Growth {
            division,
            of_part,
            price: self.price.clone(),
        })
    }

    /// Splits the value `Σ_τ l(lower) − D(p)` of the revealed steps: with affine usage and a separable cost it is the sum of
    /// `Σ_τ l_i(lower) − l_i(x) − Σ_m p_m g_mi (x_i − lower_i)` over actions and of `p_m (b_m − Σ_τ g_m(lower))` over budgets.
    fn split(&mut self, contexts: &[f64]) -> Result<(), Error> {
        let problem = self.solver.problem().dimensions();
        let (d, m) = (problem.actions, problem.budgets);
        let (mut jacobian, mut usage) = (vec![0.0; m * d], vec![0.0; m]);
        self.of_actions.fill(0.0);
        for ((value, price), budget) in self.of_budgets.iter_mut().zip(&self.price).zip(&self.budget) {
            *value = price * budget;
        }
        for context in contexts.chunks_exact(problem.context) {
            let query = Query {
                context,
                multiplier: &self.price,
                available: &self.budget,
            };
            self.solver.solve(query, self.solution.row_mut(0))?;
            let problem = self.solver.problem();
            let action = self.solution.row(0).action;
            let mut moved = problem.lower().to_vec();
            let lower_cost = problem.cost(&moved, context);
            problem.usage(&moved, context, &mut usage);
            problem.usage_jacobian(&moved, context, &mut jacobian);
            for (value, (price, used)) in self.of_budgets.iter_mut().zip(self.price.iter().zip(&usage)) {
                *value -= price * used;
            }
            for (i, value) in self.of_actions.iter_mut().enumerate() {
                let lower = std::mem::replace(&mut moved[i], action[i]);
                let price: f64 = (0..m).map(|k| self.price[k] * jacobian[k * d + i]).sum();
                *value += lower_cost - problem.cost(&moved, context) - price * (action[i] - lower);
                moved[i] = lower;
            }
        }
        Ok(())
    }
}

/// Finds, for each part, the smallest share of what is available that earns a gain over the lower corner.
///
/// The shares are the allowances of the step: the layer is solved with them as its budgets, and all parts are searched at
/// once. In a part of one budget this is the smallest usage; in one of several it is the action with the
/// smallest `max_m (g_m − g_m(lower)) / (available_m − g_m(lower))`, the heuristic for coupled budgets.
#[derive(Clone)]
pub(crate) struct CheapestAction {
    solver: Box<dyn Differentiate>,
    solution: Solutions,
    projection: Projection,
    tie_price: Vec<f64>,
    base: Vec<f64>,
    limit: Vec<f64>,
}

/// Tolerances of [`CheapestAction`]: the gain is met from above, to this share of it; at most so many solves.
const GAIN_TOLERANCE: f64 = 1e-10;
const MOST_SOLVES: usize = 100;
/// The share of the pseudo-optimum's prices that breaks ties between actions of equal cost.
const TIE_SHARE: f64 = 1e-9;

/// The gain of a part at a share of what is available, and its slope.
#[derive(Debug, Clone, Copy)]
struct Point {
    share: f64,
    gain: f64,
    slope: f64,
}

/// The search for the share of one part: points on both sides of the required gain.
struct Search {
    wanted: f64,
    low: Point,
    high: Point,
    found: bool,
}

impl Search {
    /// Where to look next.
    fn next(&self, solve: usize) -> f64 {
        let (low, high) = (self.low, self.high);
        if self.found {
            return high.share;
        }
        // The gain is concave in the share: its tangent falls short of the share wanted, its chord is beyond it.
        let tangent = low.share + (self.wanted - low.gain) / low.slope;
        let chord = low.share + (self.wanted - low.gain) * (high.share - low.share) / (high.gain - low.gain);
        // Just beyond the chord, so that rounding does not leave the point on the near side.
        let chord = chord + 0.5 * GAIN_TOLERANCE * chord;
        let middle = 0.5 * (low.share + high.share);
        let next = match solve % 3 {
            0 => tangent,
            1 => chord,
            _ => middle,
        };
        let inside = next > low.share && next < high.share;
        if inside { next } else { middle }
    }

    /// Whether the two sides have met.
    fn has_met(&self) -> bool {
        self.high.gain <= self.wanted * (1.0 + GAIN_TOLERANCE)
            || self.high.share - self.low.share <= f64::EPSILON * self.high.share
    }
}

impl CheapestAction {
    pub(crate) fn new(solver: &dyn Differentiate) -> Self {
        let dimensions = solver.problem().dimensions();
        let Dimensions { budgets, .. } = dimensions;
        Self {
            projection: Projection::new(solver.problem()),
            solver: solver.fork(),
            solution: Solutions::new(dimensions, 1),
            tie_price: vec![0.0; budgets],
            base: vec![0.0; budgets],
            limit: vec![0.0; budgets],
        }
    }

    /// Writes the action that earns `1/ratio` of the growth of each part; says whether all that is available was too
    /// little for one of them.
    pub(crate) fn find(
        &mut self,
        observation: &Observation<'_>,
        growth: &Growth,
        ratio: f64,
        action: &mut [f64],
    ) -> Result<bool, Error> {
        let division = &growth.division;
        let problem = self.solver.problem();
        action.copy_from_slice(problem.lower());
        problem.usage(action, observation.context(), &mut self.base);
        if growth.of_part.iter().all(|growth| *growth <= 0.0) && !division.has_free_actions() {
            return Ok(false);
        }
        for (tie, price) in self.tie_price.iter_mut().zip(&growth.price) {
            *tie = TIE_SHARE * price;
        }
        let mut shares = vec![1.0; division.parts];
        let widest = self.evaluate(observation, division, &shares)?;
        let best = self.solution.row(0).action;
        for ((x, best), part) in action.iter_mut().zip(best).zip(&division.of_action) {
            if part.is_none() {
                *x = *best;
            }
        }
        let mut cut = false;
        let mut searches = Vec::with_capacity(division.parts);
        for (part, high) in widest.into_iter().enumerate() {
            let wanted = growth.of_part[part] / ratio;
            let nothing = wanted <= 0.0;
            if !nothing {
                division.copy_part(part, best, action);
                cut |= high.gain < wanted * (1.0 - GAIN_TOLERANCE);
            }
            searches.push(Search {
                wanted,
                low: Point {
                    share: 0.0,
                    gain: 0.0,
                    slope: f64::INFINITY,
                },
                high,
                found: nothing || high.gain < wanted,
            });
        }
        for solve in 0..MOST_SOLVES {
            for search in &mut searches {
                search.found |= search.has_met();
            }
            if searches.iter().all(|search| search.found) {
                break;
            }
            for (share, search) in shares.iter_mut().zip(&searches) {
                *share = search.next(solve);
            }
            let points = self.evaluate(observation, division, &shares)?;
            for (part, (search, point)) in searches.iter_mut().zip(points).enumerate() {
                if search.found {
                    continue;
                }
                if point.gain >= search.wanted {
                    search.high = point;
                    division.copy_part(part, self.solution.row(0).action, action);
                } else {
                    search.low = point;
                }
            }
        }
        // The parts of the action were each paid for; together they are, unless a usage is not as divided as it says.
        let mended = !division.is_joint()
            && self.projection.apply(
                self.solver.problem(),
                observation.context(),
                observation.available,
                action,
            );
        Ok(cut || mended)
    }

    /// The largest gain of each part within its share of what is available.
    fn evaluate(
        &mut self,
        observation: &Observation<'_>,
        division: &Division,
        shares: &[f64],
    ) -> Result<Vec<Point>, Error> {
        let context = observation.context();
        for (k, limit) in self.limit.iter_mut().enumerate() {
            let (base, available) = (self.base[k], observation.available[k]);
            let share = shares[division.of_budget[k]];
            *limit = if share >= 1.0 {
                available
            } else {
                (base + share * (available - base)).min(available)
            };
        }
        let query = Query {
            context,
            multiplier: &self.tie_price,
            available: &self.limit,
        };
        self.solver.solve(query, self.solution.row_mut(0))?;
        let solution = self.solution.row(0);
        let mut gains = vec![0.0; division.parts];
        division.gains(self.solver.problem(), context, solution.action, &mut gains);
        let slopes: Vec<f64> = (solution.duals.iter().zip(&self.tie_price))
            .zip(observation.available.iter().zip(&self.base))
            .map(|((dual, tie), (available, base))| (dual + tie) * (available - base))
            .collect();
        let slopes = division.sums(&[], &slopes);
        let points = shares.iter().zip(gains).zip(slopes);
        Ok(points
            .map(|((&share, gain), slope)| Point { share, gain, slope })
            .collect())
    }
}
