//! The convex layer with a limit on its cost.

use crate::error::Error;
use crate::guard::safe::{SafeSet, Scratch};
use crate::solver::{
    Differentiate, Exactness, GradientMut, Gradients, Inexact, Query, SolutionMut, SolutionRef, Solutions,
    StepSolver as _,
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
}

/// What a limit on the cost did to a solution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cap {
    /// It does not bind: the solution is the plain layer's.
    Free,
    /// It binds; the prices of the solution are this share of those asked for.
    Binding {
        /// The factor `θ` of all prices.
        share: f64,
    },
    /// No action that the budgets allow costs so little; the action is the cheapest.
    Empty,
}

/// Solves of a search for the factor, at most; halving alone would need 50.
const MOST_SOLVES: usize = 64;

/// The relative width of a bracket of factors at which the line between its solutions stands for the way between them: they
/// part by its square.
const WIDTH: f64 = 1e-6;

impl CappedLayer {
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
            solver,
        }
    }

    /// Solves one query under a limit on the cost.
    ///
    /// # Errors
    /// As [`crate::StepSolver::solve`].
    pub fn solve(
        &mut self,
        query: Query<'_>,
        cost: f64,
        mut solution: SolutionMut<'_>,
    ) -> Result<Cap, Error> {
        let [high, low, trial] = &mut self.ends;
        self.solver.solve(query, high.row_mut(0))?;
        let problem = self.solver.problem();
        let cost_of = |solutions: &Solutions| problem.cost(solutions.row(0).action, query.context);
        let mut at_high = cost_of(high);
        if at_high <= cost || !high.row(0).status.is_feasible() {
            copy(high.row(0), &mut solution);
            return Ok(Cap::Free);
        }
        self.prices.fill(0.0);
        let free = Query {
            multiplier: &self.prices,
            ..query
        };
        self.solver.solve(free, low.row_mut(0))?;
        let problem = self.solver.problem();
        let mut at_low = problem.cost(low.row(0).action, query.context);
        if at_low > cost || at_low.is_nan() {
            copy(low.row(0), &mut solution);
            return Ok(Cap::Empty);
        }
        let (mut low_share, mut high_share) = (0.0, 1.0);
        // One action meets its cost on the line between the ends, without a price.
        let solves = if problem.dimensions().actions == 1 {
            0
        } else {
            MOST_SOLVES
        };
        let mut kept = 0_i32;
        for round in 0..solves {
            let width = high_share - low_share;
            if width <= WIDTH * high_share || at_low >= cost {
                break;
            }
            // The Illinois method: an end that stays twice counts half.
            let (low_gap, high_gap) = (
                (at_low - cost) * 0.5_f64.powi((-kept - 1).max(0)),
                (at_high - cost) * 0.5_f64.powi((kept - 1).max(0)),
            );
            let secant = low_share + width * (low_gap / (low_gap - high_gap));
            let share = if round % 8 == 7 || !(secant > low_share && secant < high_share) {
                low_share + 0.5 * width
            } else {
                secant
            };
            for (scaled, price) in self.prices.iter_mut().zip(query.multiplier) {
                *scaled = share * price;
            }
            let scaled = Query {
                multiplier: &self.prices,
                ..query
            };
            self.solver.solve(scaled, trial.row_mut(0))?;
            let at = self.solver.problem().cost(trial.row(0).action, query.context);
            if at <= cost {
                (low_share, at_low) = (share, at);
                std::mem::swap(low, trial);
                kept = kept.max(0) + 1;
            } else {
                (high_share, at_high) = (share, at);
                std::mem::swap(high, trial);
                kept = kept.min(0) - 1;
            }
        }
        copy(low.row(0), &mut solution);
        let set = SafeSet {
            problem: self.solver.problem(),
            context: query.context,
            cost,
            usage: query.available,
        };
        set.walk(high.row(0).action, solution.action, &mut self.scratch);
        Ok(Cap::Binding { share: low_share })
    }

    /// The gradient of `upstreamᵀ x` in the query's inputs and, as the second result, in the limit on the cost.
    ///
    /// With `J` the plain layer's Jacobians at the prices `θλ`, and `θ` defined by `l(x) = κ`:
    ///
    /// ```text
    ///     ω = vᵀJ_λ λ / ∇lᵀJ_λ λ        dκ: ω        dλ: θ (J_λᵀv − ω J_λᵀ∇l)        db: J_bᵀv − ω J_bᵀ∇l
    /// ```
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
            Cap::Binding { share } => share,
            Cap::Empty => 0.0,
        };
        let GradientMut {
            multiplier,
            available,
            mut context,
        } = gradient;
        self.solver
            .problem()
            .cost_gradient(solution.action, query.context, &mut self.slope);
        let singular = Exactness::Approximate {
            reason: Inexact::DependentConstraints,
        };
        if let ([slope], [upstream]) = (&*self.slope, upstream) {
            // One action is what its cost says, whatever the prices and budgets.
            multiplier.fill(0.0);
            available.fill(0.0);
            let weight = if cap == Cap::Empty || *slope == 0.0 {
                0.0
            } else {
                upstream / slope
            };
            if let Some(context) = &mut context {
                self.solver
                    .problem()
                    .cost_context_gradient(solution.action, query.context, context);
                for value in context.iter_mut() {
                    *value *= -weight;
                }
            }
            let exactness = if weight == 0.0 && *upstream != 0.0 {
                singular
            } else {
                Exactness::Exact
            };
            return Ok((exactness, weight));
        }
        for (scaled, price) in self.prices.iter_mut().zip(query.multiplier) {
            *scaled = share * price;
        }
        let scaled = Query {
            multiplier: &self.prices,
            ..query
        };
        let [ours, costs] = &mut self.gradients;
        let first = self
            .solver
            .pullback(scaled, solution, upstream, ours.row_mut(0))?;
        let second = self
            .solver
            .pullback(scaled, solution, &self.slope, costs.row_mut(0))?;
        let along = |gradients: &Gradients| -> f64 {
            (gradients.multipliers.iter().zip(query.multiplier))
                .map(|(slope, price)| slope * price)
                .sum()
        };
        let (numerator, denominator) = (along(ours), along(costs));
        let weight = if cap == Cap::Empty || denominator == 0.0 {
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
            _ if cap == Cap::Empty || denominator == 0.0 => singular,
            (Exactness::Exact, second) => second,
            (first, _) => first,
        };
        Ok((exactness, weight))
    }
}

fn copy(from: SolutionRef<'_>, to: &mut SolutionMut<'_>) {
    to.action.copy_from_slice(from.action);
    to.duals.copy_from_slice(from.duals);
    to.lower_duals.copy_from_slice(from.lower_duals);
    to.upper_duals.copy_from_slice(from.upper_duals);
    *to.status = from.status;
}
