//! The convex layer with a limit on its cost.

use crate::error::Error;
use crate::guard::safe::{SafeSet, Scratch};
use crate::problem::SmoothProblem;
use crate::solver::{
    Differentiate, Exactness, GradientMut, Gradients, Inexact, Query, SolutionMut, SolutionRef, Solutions,
    Status, StepSolver as _,
};

/// The layer of a guarded step: `min_x l + λᵀg` subject to `g ≤ b`, the box, and `l ≤ κ`.
///
/// It needs no other solver. With `ν` the dual of the last row, the Lagrangian is `(1 + ν) l + λᵀg`, which has the minimiser of
/// `l + θ λᵀg` for `θ = 1 / (1 + ν)`: *where the limit binds, the guard lowers all prices by one factor*, as far as it takes
/// for the cost to meet `κ`. That factor is found on the plain layer, whichever solver that has, and differentiated
/// through it.
#[derive(Clone)]
pub struct CappedLayer {
    solver: Box<dyn Differentiate>,
    prices: Vec<f64>,
    /// The solutions at the two ends of a bracket, and at a trial.
    ends: [Solutions; 3],
    scratch: Scratch,
    gradients: [Gradients; 2],
    slope: Vec<f64>,
    /// Where a solve of a search starts.
    near: Vec<f64>,
}

/// What a limit on the cost did to a solution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cap {
    /// It does not bind: the solution is the plain layer's.
    Free,
    /// The plain layer's solution meets it to [`CappedLayer::WEAK`]: a kink. Its derivatives are those of the plain layer.
    Touched,
    /// It binds; the prices of the solution are this share of those asked for.
    Binding {
        /// The factor `θ` of all prices; 0 where even the cheapest action only just costs so little, which is a kink.
        share: f64,
    },
    /// No action that the budgets allow costs so little; the action is the cheapest.
    Empty,
}

/// Solves of a search for the factor, at most; halving alone would need 50.
const MOST_SOLVES: usize = 64;

/// Solves of it without the cheapest action, at most: few searches need to know it.
const MOST_BLIND_SOLVES: usize = 4;

/// The relative width of a bracket of factors at which the line between its solutions stands for the way between them.
const WIDTH: f64 = 1e-12;

/// How closely a search meets the limit, relative to the cost: a few units in the last place.
const MET: f64 = 4e-15;

/// Where a solver's own rounding may keep a search from coming closer.
const NEARLY_MET: f64 = 1e-11;

impl CappedLayer {
    /// The relative distance of a cost from its limit within which a limit counts as met.
    pub const WEAK: f64 = 1e-9;

    /// Whether a cost is so close to a limit that the limit is neither active nor inactive.
    #[must_use]
    pub fn is_weak(cost: f64, limit: f64) -> bool {
        (cost - limit).abs() <= Self::WEAK * cost.abs().max(limit.abs())
    }

    /// A layer over a step solver.
    #[must_use]
    pub fn new(solver: Box<dyn Differentiate>) -> Self {
        let dimensions = solver.problem().dimensions();
        let solutions = Solutions::new(dimensions, 1);
        Self {
            prices: vec![0.0; dimensions.budgets],
            ends: [solutions.clone(), solutions.clone(), solutions],
            scratch: Scratch::new(solver.problem()),
            gradients: [
                Gradients::with_contexts(dimensions, 1),
                Gradients::with_contexts(dimensions, 1),
            ],
            slope: vec![0.0; dimensions.actions],
            near: vec![0.0; dimensions.actions],
            solver,
        }
    }

    /// The problem of the layer.
    #[must_use]
    pub fn problem(&self) -> &dyn SmoothProblem {
        self.solver.problem()
    }

    /// Solves one query without a limit on the cost.
    pub(super) fn solve_unlimited(
        &mut self,
        query: Query<'_>,
        solution: SolutionMut<'_>,
    ) -> Result<(), Error> {
        self.solver.solve(query, solution)
    }

    /// Solves one query under a limit on the cost.
    ///
    /// # Errors
    /// As [`crate::StepSolver::solve`].
    pub fn solve(&mut self, query: Query<'_>, cost: f64, solution: SolutionMut<'_>) -> Result<Cap, Error> {
        self.solver.solve(query, self.ends[HIGH].row_mut(0))?;
        self.limit(query, cost, solution)
    }

    /// The same from an action that is near the answer without the limit.
    ///
    /// # Errors
    /// As [`crate::StepSolver::solve_near`].
    pub fn solve_near(
        &mut self,
        query: Query<'_>,
        near: &[f64],
        cost: f64,
        solution: SolutionMut<'_>,
    ) -> Result<Cap, Error> {
        self.solver.solve_near(query, near, self.ends[HIGH].row_mut(0))?;
        self.limit(query, cost, solution)
    }

    /// Limits the cost of the plain solution at the high end.
    fn limit(&mut self, query: Query<'_>, cost: f64, mut solution: SolutionMut<'_>) -> Result<Cap, Error> {
        let plain = self.cost_of(HIGH, query);
        let is_weak = Self::is_weak(plain, cost);
        if plain <= cost || !self.ends[HIGH].row(0).status.is_feasible() {
            copy(self.ends[HIGH].row(0), &mut solution);
            return Ok(if is_weak { Cap::Touched } else { Cap::Free });
        }
        let Some((mut share, nearer)) = self.search(query, cost, plain)? else {
            copy(self.ends[LOW].row(0), &mut solution);
            return Ok(Cap::Empty);
        };
        // The duals, and with them what is active, are those of the factor.
        copy(self.ends[nearer].row(0), &mut solution);
        (solution.action).copy_from_slice(self.ends[LOW].row(0).action);
        if share == 0.0 && Self::is_weak(self.cost_of(LOW, query), cost) {
            return Ok(if is_weak {
                Cap::Touched
            } else {
                Cap::Binding { share: 0.0 }
            });
        }
        let set = SafeSet {
            problem: self.solver.problem(),
            context: query.context,
            cost,
            usage: query.available,
        };
        set.walk(self.ends[HIGH].row(0).action, solution.action, &mut self.scratch);
        if is_weak {
            return Ok(Cap::Touched);
        }
        if let [action] = &*solution.action {
            share = self.price_share(*action, query);
        }
        Ok(Cap::Binding { share })
    }

    /// Solves one query under a limit on the cost; where no action is found, the given one, which is known to be
    /// payable, is the answer, and [`Cap::Empty`] says so.
    ///
    /// # Errors
    /// As [`crate::StepSolver::solve`], and [`Error::Unsolved`] for a query that is invalid.
    pub fn solve_or(
        &mut self,
        query: Query<'_>,
        cost: f64,
        otherwise: &[f64],
        solutions: &mut Solutions,
        row: usize,
        step: usize,
    ) -> Result<Cap, Error> {
        let cap = self.solve(query, cost, solutions.row_mut(row))?;
        let solution = solutions.row_mut(row);
        match *solution.status {
            Status::Invalid { .. } => solution.status.expect_feasible(step).map(|()| cap),
            Status::Solved { .. } | Status::NotConverged { .. } if cap != Cap::Empty => Ok(cap),
            _ => {
                solution.action.copy_from_slice(otherwise);
                *solution.status = Status::NotConverged {
                    iterations: 0,
                    residual: f64::INFINITY,
                };
                Ok(Cap::Empty)
            }
        }
    }

    /// Brackets the factor at which the cost meets its limit: leaves a solution that costs at most so much at the low end, one
    /// that costs more at the high end, and gives the factor of the nearer end, and which it is. None if even the cheapest
    /// costs more.
    ///
    /// Newton's method on the logarithm of the factor, in which the cost of a logarithmic utility is a straight line.
    fn search(&mut self, query: Query<'_>, cost: f64, plain: f64) -> Result<Option<(f64, usize)>, Error> {
        let (mut low, mut high) = (None, (1.0, plain));
        // One action meets its cost on the line between the ends, without a price.
        if self.slope.len() == 1 {
            low = Some((0.0, self.solve_at(0.0, query, LOW)?));
        }
        let (mut last, mut distance) = (high, f64::INFINITY);
        for solve in 0..MOST_SOLVES {
            if let Some((low_share, at_low)) = low {
                if at_low > cost || at_low.is_nan() {
                    return Ok(None);
                }
                let is_narrow = high.0 - low_share <= WIDTH * high.0;
                if is_narrow || self.slope.len() == 1 || (low_share == 0.0 && Self::is_weak(at_low, cost)) {
                    break;
                }
            }
            let before = distance;
            distance = (last.1 - cost).abs() / cost.abs().max(last.1.abs());
            if distance <= MET || (distance <= NEARLY_MET && distance >= 0.5 * before) {
                break;
            }
            let end = if last.1 <= cost { LOW } else { HIGH };
            let next = last.0 * (-(last.1 - cost) / (last.0 * self.cost_slope(last.0, query, end)?)).exp();
            let least = low.map_or(0.0, |(share, _)| share);
            if distance <= NEARLY_MET && !(next > least && next < high.0) {
                break;
            }
            let share = match low {
                None if solve >= MOST_BLIND_SOLVES || !(next > 0.0 && next < high.0) => 0.0,
                _ if next > least && next < high.0 => next,
                _ => f64::midpoint(least, high.0),
            };
            let at = self.solve_at(share, query, TRIAL)?;
            if at <= cost || share == 0.0 {
                low = Some((share, at));
                self.ends.swap(LOW, TRIAL);
            } else {
                high = (share, at);
                self.ends.swap(HIGH, TRIAL);
            }
            if share > 0.0 {
                last = (share, at);
            }
        }
        let (low_share, at_low) = match low {
            Some(low) => low,
            None => (0.0, self.solve_at(0.0, query, LOW)?),
        };
        Ok(if at_low > cost || at_low.is_nan() {
            None
        } else if high.1 - cost < cost - at_low {
            Some((high.0, HIGH))
        } else {
            Some((low_share, LOW))
        })
    }

    /// Solves the plain layer at a share of the prices; gives the cost.
    fn solve_at(&mut self, share: f64, query: Query<'_>, end: usize) -> Result<f64, Error> {
        self.near.copy_from_slice(self.ends[HIGH].row(0).action);
        let scaled = scale(&mut self.prices, share, query);
        let solution = self.ends[end].row_mut(0);
        if share == 0.0 {
            self.solver.solve(scaled, solution)?;
        } else {
            self.solver.solve_near(scaled, &self.near, solution)?;
        }
        Ok(self.cost_of(end, query))
    }

    fn cost_of(&self, end: usize, query: Query<'_>) -> f64 {
        let action = self.ends[end].row(0).action;
        self.solver.problem().cost(action, query.context)
    }

    /// The derivative of the cost in the factor, at the solution for one: `∇lᵀJ_λ λ`.
    fn cost_slope(&mut self, share: f64, query: Query<'_>, end: usize) -> Result<f64, Error> {
        let solution = self.ends[end].row(0);
        (self.solver.problem()).cost_gradient(solution.action, query.context, &mut self.slope);
        let scaled = scale(&mut self.prices, share, query);
        let [_, costs] = &mut self.gradients;
        (self.solver).pullback(scaled, solution, &self.slope, costs.row_mut(0))?;
        Ok(dot(&costs.multipliers, query.multiplier))
    }

    /// The factor of all prices at which a single action inside its bounds is the plain layer's: `−l′ / λᵀg′`.
    fn price_share(&mut self, action: f64, query: Query<'_>) -> f64 {
        let problem = self.solver.problem();
        problem.cost_gradient(&[action], query.context, &mut self.slope);
        problem.usage_jacobian(&[action], query.context, &mut self.prices);
        let share = -self.slope[0] / dot(&self.prices, query.multiplier);
        if share.is_nan() {
            1.0
        } else {
            share.clamp(0.0, 1.0)
        }
    }

    /// The gradient of `upstreamᵀ x` in the query's inputs and, as the second result, in the limit on the cost.
    ///
    /// With `J` the plain layer's Jacobians at the prices `θλ`, and `θ` defined by `l(x) = κ`:
    ///
    /// ```text
    ///     ω = vᵀJ_λ λ / ∇lᵀJ_λ λ        dκ: ω        dλ: θ (J_λᵀv − ω J_λᵀ∇l)        db: J_bᵀv − ω J_bᵀ∇l
    /// ```
    ///
    /// Where no action meets the limit, all gradients are zero: what is played there is no function of the query.
    ///
    /// # Errors
    /// As [`Differentiate::pullback`].
    pub fn pullback(
        &mut self,
        query: Query<'_>,
        cap: Cap,
        solution: SolutionRef<'_>,
        upstream: &[f64],
        gradient: GradientMut<'_>,
    ) -> Result<(Exactness, f64), Error> {
        let share = match cap {
            Cap::Free => return Ok((self.solver.pullback(query, solution, upstream, gradient)?, 0.0)),
            Cap::Touched => {
                self.solver.pullback(query, solution, upstream, gradient)?;
                return Ok((WEAKLY_ACTIVE, 0.0));
            }
            Cap::Binding { share } => share,
            Cap::Empty => {
                gradient.multiplier.fill(0.0);
                gradient.available.fill(0.0);
                if let Some(context) = gradient.context {
                    context.fill(0.0);
                }
                return Ok((SINGULAR, 0.0));
            }
        };
        let GradientMut {
            multiplier,
            available,
            mut context,
        } = gradient;
        self.solver
            .problem()
            .cost_gradient(solution.action, query.context, &mut self.slope);
        let exactness = if share == 0.0 {
            WEAKLY_ACTIVE
        } else {
            Exactness::Exact
        };
        if let ([slope], [upstream]) = (&*self.slope, upstream) {
            // One action is what its cost says, whatever the prices and budgets.
            multiplier.fill(0.0);
            available.fill(0.0);
            let weight = if *slope == 0.0 { 0.0 } else { upstream / slope };
            if let Some(context) = &mut context {
                self.solver
                    .problem()
                    .cost_context_gradient(solution.action, query.context, context);
                for value in context.iter_mut() {
                    *value *= -weight;
                }
            }
            return Ok((if *slope == 0.0 { SINGULAR } else { exactness }, weight));
        }
        let scaled = scale(&mut self.prices, share, query);
        let [ours, costs] = &mut self.gradients;
        let first = self
            .solver
            .pullback(scaled, solution, upstream, ours.row_mut(0))?;
        let second = self
            .solver
            .pullback(scaled, solution, &self.slope, costs.row_mut(0))?;
        let numerator = dot(&ours.multipliers, query.multiplier);
        let denominator = dot(&costs.multipliers, query.multiplier);
        let weight = if denominator == 0.0 {
            0.0
        } else {
            numerator / denominator
        };
        let combine = |out: &mut [f64], ours: &[f64], costs: &[f64], factor: f64| {
            for ((out, ours), costs) in out.iter_mut().zip(ours).zip(costs) {
                *out = factor * (ours - weight * costs);
            }
        };
        combine(multiplier, &ours.multipliers, &costs.multipliers, share);
        combine(available, &ours.available, &costs.available, 1.0);
        if let Some(context) = context {
            combine(context, &ours.contexts, &costs.contexts, 1.0);
            self.solver
                .problem()
                .cost_context_gradient(solution.action, query.context, &mut costs.contexts);
            for (value, slope) in context.iter_mut().zip(&costs.contexts) {
                *value -= weight * slope;
            }
        }
        let exactness = match (first, second) {
            _ if denominator == 0.0 => SINGULAR,
            (Exactness::Exact, Exactness::Exact) => exactness,
            (Exactness::Exact, second) => second,
            (first, _) => first,
        };
        Ok((exactness, weight))
    }
}

const WEAKLY_ACTIVE: Exactness = Exactness::Approximate {
    reason: Inexact::WeaklyActive,
};

const SINGULAR: Exactness = Exactness::Approximate {
    reason: Inexact::DependentConstraints,
};

/// The places of the solutions of a search.
const HIGH: usize = 0;
const LOW: usize = 1;
const TRIAL: usize = 2;

/// The same query at a share of its prices, which are written to `prices`.
fn scale<'a>(prices: &'a mut [f64], share: f64, query: Query<'a>) -> Query<'a> {
    for (scaled, price) in prices.iter_mut().zip(query.multiplier) {
        *scaled = share * price;
    }
    Query {
        multiplier: prices,
        ..query
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn copy(from: SolutionRef<'_>, to: &mut SolutionMut<'_>) {
    to.action.copy_from_slice(from.action);
    to.duals.copy_from_slice(from.duals);
    to.lower_duals.copy_from_slice(from.lower_duals);
    to.upper_duals.copy_from_slice(from.upper_duals);
    *to.status = from.status;
}
