//! KKT differentiation: the pullback, the full Jacobians, and whether they are exact.
//!
//! At a solution with free actions `F` and active budgets `A`, the KKT conditions are
//!
//! ```text
//!     ∇_x l + ∇_x gᵀ(λ + μ) = 0  on F,       g = b  on A,       x on its bound off F
//! ```
//!
//! and their differential, with `H` the Hessian of the Lagrangian and `J = ∇_x g`, is
//!
//! ```text
//!     | H_FF  J_AFᵀ | | dx |   | −Jᵀ dλ − L_xc dc |
//!     | J_AF  0     | | dμ | = |  db − g_c dc     |
//! ```
//!
//! This is Prop. 1 of the paper with three differences: its `Δ22 = diag(g − B_t)` must read `b_t`, the remaining budget;
//! rows of inactive budgets are left out rather than carried along with a zero multiplier; and the box is part of the
//! system, so an action on its bound does not move. The matrix is symmetric, so a pullback of `w` is one solve
//! `K (p, q) = (w, 0)`:
//!
//! ```text
//!     ∂/∂λ = −J p,     ∂/∂b = q,     ∂/∂c = −L_xcᵀ p − g_cᵀ q
//! ```
//!
//! where `J p` is zero for every active budget.
//!
//! **Exactness** follows Prop. 2: strict complementarity, no more active constraints than actions, and independent
//! gradients, else [`Exactness::Approximate`] with the reason, by pseudo-inverse where the system is singular. At a
//! kink [`Kink`] decides.

use laau_core::{
    Dimensions, Error, Exactness, GradientMut, Inexact, Queries, Query, SmoothProblem, SolutionRef,
    check_queries,
};

use crate::active_set::Bound;
use crate::dense::dot;
use crate::lengths::expect_length;
use crate::options::Kink;
use crate::workspace::Workspace;

/// The derivatives of an action in every input of its query, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Jacobians {
    /// `∇_λ x`, `d × M` (Prop. 1).
    pub multiplier: Vec<f64>,
    /// `∇_b x`, `d × M` (Prop. 1).
    pub available: Vec<f64>,
    /// `∇_c x`, `d × context` (the paper's appendix).
    pub context: Vec<f64>,
    /// Whether they are the derivatives.
    pub exactness: Exactness,
}

impl Workspace {
    /// The full Jacobians of the action at a solution of the query.
    pub(crate) fn jacobians(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        solution: SolutionRef<'_>,
    ) -> Result<Jacobians, Error> {
        let dimensions = problem.dimensions();
        let Dimensions {
            actions: d,
            budgets: m,
            context,
        } = dimensions;
        check_sizes(query, solution, dimensions)?;
        let mut jacobians = Jacobians {
            multiplier: vec![0.0; d * m],
            available: vec![0.0; d * m],
            context: vec![0.0; d * context],
            exactness: self.prepare(problem, query, solution),
        };
        if !solution.status.is_feasible() {
            return Ok(jacobians);
        }
        let smoothed = jacobians.exactness
            == Exactness::Approximate {
                reason: Inexact::Smoothed,
            };
        let (action, duals) = if smoothed {
            (self.barrier.x.clone(), self.barrier.dual.clone())
        } else {
            (solution.action.to_vec(), solution.duals.to_vec())
        };
        for k in 0..m {
            if smoothed || !self.polish.set.budgets.contains(&k) {
                self.q.fill(0.0);
                for i in 0..d {
                    self.p[i] = -self.evaluations.jacobian[k * d + i];
                }
                self.solve_column(&mut jacobians.multiplier, m, k);
            }
            self.p.fill(0.0);
            self.q.fill(0.0);
            self.q[k] = 1.0;
            self.solve_column(&mut jacobians.available, m, k);
        }
        let weights: Vec<f64> = query
            .multiplier
            .iter()
            .zip(&duals)
            .map(|(price, dual)| price + dual)
            .collect();
        let (mut mixed, mut usage) = (vec![0.0; d * context], vec![0.0; m * context]);
        problem.lagrangian_mixed(&action, query.context, &weights, &mut mixed);
        problem.usage_context_jacobian(&action, query.context, &mut usage);
        for k in 0..context {
            for i in 0..d {
                self.p[i] = -mixed[i * context + k];
            }
            for row in 0..m {
                self.q[row] = -usage[row * context + k];
            }
            self.solve_column(&mut jacobians.context, context, k);
        }
        Ok(jacobians)
    }

    /// Reads the active set from a solution and factorises its system.
    fn prepare(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        solution: SolutionRef<'_>,
    ) -> Exactness {
        let not_solved = Exactness::Approximate {
            reason: Inexact::NotSolved,
        };
        if !solution.status.is_feasible() {
            return not_solved;
        }
        self.evaluations.begin(problem, query, solution.action);
        self.evaluations.evaluate_usage(problem, query, solution.action);
        let weak = self.read_active_set(problem, query, solution);
        if let (true, Kink::Smoothed { barrier }) = (weak, self.options.kink) {
            self.smooth(problem, query, barrier);
            return Exactness::Approximate {
                reason: Inexact::Smoothed,
            };
        }
        self.evaluations
            .evaluate_hessian(problem, query, solution.action, solution.duals);
        let Self {
            system,
            evaluations,
            polish,
            ..
        } = self;
        match (
            system.factorise(evaluations, &polish.set, self.options.rank_tolerance),
            weak,
        ) {
            (Some(reason), _) => Exactness::Approximate { reason },
            // Short of the tolerance it is the derivative of a point nearby.
            (None, _)
                if !solution.status.is_solved()
                    || self.is_on_steps(problem, query, solution)
                    || self.leaves_aside(problem, query, solution) =>
            {
                not_solved
            }
            (None, weak) if weak || self.is_almost_idle(problem, query, solution) => Exactness::Approximate {
                reason: Inexact::WeaklyActive,
            },
            (None, _) => Exactness::Exact,
        }
    }

    /// Whether an active budget that was larger by its tolerance would not bind: the same kink as one that has so much left.
    ///
    /// How much larger is read off the system, whose Hessian has the dual's part: so only where the dual weighs next to nothing.
    fn is_almost_idle(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        solution: SolutionRef<'_>,
    ) -> bool {
        /// A share of an action's marginal price, or of what its marginal cost changes by over its size, that is next to nothing.
        const SLIGHT: f64 = 1e-6;
        let Self {
            options,
            system,
            evaluations,
            polish,
            ..
        } = self;
        let d = evaluations.d;
        let duals = solution.duals;
        let weighs_nothing = |budget: usize| {
            (0..d).filter(|i| polish.set.bounds[*i] == Bound::Free).all(|i| {
                let priced = |m: usize, price: f64| price * evaluations.jacobian[m * d + i].abs();
                let all = query.multiplier.iter().zip(duals).enumerate();
                let all: f64 = all.map(|(m, (price, dual))| priced(m, price + dual)).sum();
                let unpriced =
                    (query.multiplier.iter().enumerate()).all(|(m, price)| priced(m, *price) == 0.0);
                let x = solution.action[i];
                let own = evaluations.curvatures()[i] * (x.abs() + (x - problem.lower()[i]));
                // Where nothing has a price, all of it is the dual's.
                priced(budget, duals[budget]) <= SLIGHT * if unpriced { own } else { all }
            })
        };
        let set = &polish.set;
        set.budgets.iter().enumerate().any(|(row, &m)| {
            let size = query.available[m].abs() + evaluations.usage[m].abs();
            weighs_nothing(m)
                && (system.idle_distance(set, row, duals[m]))
                    .is_some_and(|distance| distance <= options.active_tolerance * size)
        })
    }

    /// Whether a rounding of an active budget of curved usage is worth noticing beside all that it pays for above the lower corner.
    /// Usage, as it is computed, is a staircase there, and where on a step the action stands is not what the derivative is of.
    fn is_on_steps(&self, problem: &dyn SmoothProblem, query: Query<'_>, solution: SolutionRef<'_>) -> bool {
        /// The share of what is paid for above the lower corner that a rounding of the budget may be.
        const NOTICEABLE: f64 = 1e-6;
        let Self {
            evaluations, polish, ..
        } = self;
        if evaluations.structure.affine_usage {
            return false;
        }
        polish.set.budgets.iter().any(|&m| {
            let jacobian = &evaluations.jacobian[m * evaluations.d..][..evaluations.d];
            let rises = jacobian.iter().zip(solution.action.iter().zip(problem.lower()));
            let risen: f64 = rises.map(|(j, (x, lower))| j.abs() * (x - lower)).sum();
            let size = query.available[m].abs() + evaluations.usage[m].abs();
            NOTICEABLE * risen <= f64::EPSILON * size
        })
    }

    /// Whether a free action is not where it should be: one whose whole gain is negligible beside all that is paid counts as solved
    /// wherever it is, but then its place has another derivative.
    ///
    /// The gradient is evaluated only if an action is so small a part of what is paid that it could have moved.
    fn leaves_aside(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        solution: SolutionRef<'_>,
    ) -> bool {
        /// The share of an action, and of the terms that should cancel in its stationarity, that counts as a move.
        const MOVED: f64 = 1e-6;
        let Self {
            options,
            evaluations,
            polish,
            slack: weights,
            p: size,
            ..
        } = self;
        let d = evaluations.d;
        let action = solution.action;
        for (weight, (price, dual)) in weights
            .iter_mut()
            .zip(query.multiplier.iter().zip(solution.duals))
        {
            *weight = price + dual;
        }
        // Of a held action the dual of its bound and what it pays bound its gradient; of a free one, what it pays is its gradient.
        let mut worth = 0.0;
        let duals = solution.lower_duals.iter().zip(solution.upper_duals);
        for (((size, x), lower), (low, high)) in size.iter_mut().zip(action).zip(problem.lower()).zip(duals) {
            *size = x.abs() + (x - lower);
            worth += (low + high) * *size;
        }
        for (row, weight) in evaluations.jacobian.chunks_exact(d).zip(weights.iter()) {
            let paid: f64 = row.iter().zip(&*size).map(|(j, size)| j.abs() * size).sum();
            worth += 2.0 * weight * paid;
        }
        let negligible = options.negligible_gain * worth / (MOVED * MOVED);
        let bounds = &polish.set.bounds;
        let small = (evaluations.curvatures().iter().zip(&*size))
            .zip(bounds)
            .any(|((curvature, size), bound)| *bound == Bound::Free && curvature * size * size <= negligible);
        if !small {
            return false;
        }
        evaluations.evaluate(problem, query, action);
        let curvatures = evaluations.curvatures();
        (0..d).filter(|i| bounds[*i] == Bound::Free).any(|i| {
            let own = evaluations.gradient[i];
            let (mut force, mut terms) = (own, own.abs());
            for (row, weight) in evaluations.jacobian.chunks_exact(d).zip(weights.iter()) {
                force += weight * row[i];
                terms += (weight * row[i]).abs();
            }
            force.abs() > MOVED * terms && force.abs() > MOVED * curvatures[i] * size[i]
        })
    }

    /// Finds the solution of the barrier problem, and factorises the KKT system there.
    ///
    /// Every product of slack and dual is the barrier, so `dz = −(z/u) dx` and likewise for the others: the box joins the
    /// Hessian, and a budget has `−s/μ` on the diagonal.
    fn smooth(&mut self, problem: &dyn SmoothProblem, query: Query<'_>, barrier: f64) {
        self.evaluations.evaluate_usage(problem, query, problem.lower());
        self.pin(problem, query);
        self.barrier
            .begin(problem, &mut self.evaluations, query, &self.slack);
        self.barrier.advance(
            problem,
            &mut self.evaluations,
            query,
            self.options.smooth_tolerance,
            self.options.max_iterations,
            Some(barrier),
        );
        self.evaluations
            .evaluate_hessian(problem, query, &self.barrier.x, &self.barrier.dual);
        let d = self.evaluations.d;
        let stride = if self.evaluations.structure.diagonal_hessian {
            1
        } else {
            d + 1
        };
        for i in 0..d {
            let (z, y) = (self.barrier.z[i], self.barrier.y[i]);
            self.evaluations.hessian[i * stride] += z / self.barrier.u[i] + y / self.barrier.v[i];
            self.polish.set.bounds[i] = if self.barrier.free[i] == 0.0 {
                Bound::Lower
            } else {
                Bound::Free
            };
        }
        self.polish.set.budgets.clear();
        for m in 0..self.evaluations.m {
            // As a diagonal of the Schur complement: s/μ.
            self.slack[m] = if self.barrier.live[m] {
                self.polish.set.budgets.push(m);
                self.barrier.s[m] / self.barrier.dual[m]
            } else {
                0.0
            };
        }
        self.system
            .smooth(&self.evaluations, &self.polish.set, &self.slack);
    }

    /// Solves for the right-hand side in `p` and `q`, and writes the actions' part as column `k` of a table.
    fn solve_column(&mut self, out: &mut [f64], width: usize, k: usize) {
        self.system
            .solve(&self.evaluations, &self.polish.set, &mut self.p, &mut self.q);
        for (i, value) in self.p.iter().enumerate() {
            out[i * width + k] = *value;
        }
    }

    /// Fills the active set from the duals; returns whether a constraint is active with a zero dual.
    fn read_active_set(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        solution: SolutionRef<'_>,
    ) -> bool {
        let Self {
            options,
            evaluations,
            polish,
            ..
        } = self;
        let (lower, upper) = (problem.lower(), problem.upper());
        let set = &mut polish.set;
        let d = evaluations.d;
        let near = |i: usize, bound: f64| {
            let x = solution.action[i];
            (x - bound).abs() <= options.active_tolerance * (x.abs() + bound.abs())
        };
        let (mut weak, mut near_lower) = (false, false);
        for i in 0..d {
            set.bounds[i] = if solution.lower_duals[i] > 0.0 {
                Bound::Lower
            } else if solution.upper_duals[i] > 0.0 {
                Bound::Upper
            } else {
                near_lower |= near(i, lower[i]);
                weak |= near(i, upper[i]);
                Bound::Free
            };
        }
        set.budgets.clear();
        for m in 0..evaluations.m {
            let (used, available) = (evaluations.usage[m], query.available[m]);
            let (slack, size) = (available - used, available.abs() + used.abs());
            if solution.duals[m] > 0.0 {
                // With a slack like this, the dual is what the last barrier left of it.
                if slack <= options.near_tolerance * size {
                    set.budgets.push(m);
                }
            } else {
                // A smaller budget would move an action off its upper bound; on the lower bound it would only be infeasible.
                let uses =
                    (0..d).any(|i| set.bounds[i] != Bound::Lower && evaluations.jacobian[m * d + i] != 0.0);
                weak |= uses && slack <= options.active_tolerance * size;
            }
        }
        if weak || !near_lower {
            return weak;
        }
        // An action that alone has what a budget leaves above the lower corner reaches its bound only where nothing is feasible.
        let is_alone = |i: usize| {
            set.budgets.iter().any(|&m| {
                let mut users = (0..d)
                    .filter(|&k| set.bounds[k] != Bound::Lower && evaluations.jacobian[m * d + k] != 0.0);
                (users.next(), users.next()) == (Some(i), None)
            })
        };
        let is_inside = |i: usize| solution.action[i] > lower[i];
        (0..d).any(|i| set.bounds[i] == Bound::Free && near(i, lower[i]) && !(is_inside(i) && is_alone(i)))
    }

    /// The gradient of `upstreamᵀ x` in the inputs of the query.
    pub(crate) fn pullback(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        solution: SolutionRef<'_>,
        upstream: &[f64],
        gradient: GradientMut<'_>,
    ) -> Result<Exactness, Error> {
        let dimensions = problem.dimensions();
        let Dimensions {
            actions: d,
            budgets: m,
            context,
        } = dimensions;
        check_sizes(query, solution, dimensions)?;
        expect_length("upstream", upstream, d)?;
        expect_length("the multiplier gradient", gradient.multiplier, m)?;
        expect_length("the available gradient", gradient.available, m)?;
        if let Some(out) = &gradient.context {
            expect_length("the context gradient", out, context)?;
        }
        let exactness = self.prepare(problem, query, solution);
        if !solution.status.is_feasible() {
            gradient.multiplier.fill(0.0);
            gradient.available.fill(0.0);
            if let Some(out) = gradient.context {
                out.fill(0.0);
            }
            return Ok(exactness);
        }
        let Self {
            evaluations,
            system,
            polish,
            p,
            q,
            mixed,
            slack: weights,
            barrier,
            ..
        } = self;
        let smoothed = exactness
            == Exactness::Approximate {
                reason: Inexact::Smoothed,
            };
        let (action, duals) = if smoothed {
            (&barrier.x[..], &barrier.dual[..])
        } else {
            (solution.action, solution.duals)
        };
        p.copy_from_slice(upstream);
        q.fill(0.0);
        system.solve(evaluations, &polish.set, p, q);
        for (out, row) in gradient
            .multiplier
            .iter_mut()
            .zip(evaluations.jacobian.chunks_exact(d))
        {
            *out = -dot(row, p);
        }
        if !smoothed {
            // A budget that binds holds its usage at any price. What is left of a sum that cancels may be large beside everything else.
            for &m in &polish.set.budgets {
                gradient.multiplier[m] = 0.0;
            }
        }
        gradient.available.copy_from_slice(q);
        if let Some(out) = gradient.context {
            for row in 0..m {
                weights[row] = query.multiplier[row] + duals[row];
            }
            problem.context_pullback(action, query.context, weights, (p, q), mixed, out);
        }
        Ok(exactness)
    }
}

fn check_sizes(query: Query<'_>, solution: SolutionRef<'_>, dimensions: Dimensions) -> Result<(), Error> {
    let queries = Queries {
        contexts: query.context,
        multipliers: query.multiplier,
        available: query.available,
    };
    check_queries(queries, dimensions, 1)?;
    expect_length("action", solution.action, dimensions.actions)?;
    expect_length("duals", solution.duals, dimensions.budgets)?;
    expect_length("lower duals", solution.lower_duals, dimensions.actions)?;
    expect_length("upper duals", solution.upper_duals, dimensions.actions)
}
