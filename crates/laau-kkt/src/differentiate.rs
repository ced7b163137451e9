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
//! **Exactness** follows Prop. 2: strict complementarity, no more active constraints than actions, and independent
//! gradients, else [`Exactness::Approximate`] with the reason, by pseudo-inverse where the system is singular. At a
//! kink [`Kink`] decides.

use laau_core::{
    Differentiate, Dimensions, Error, Exactness, GradientMut, Inexact, Queries, Query, SmoothProblem,
    SolutionRef, check_queries,
};

use crate::active_set::Bound;
use crate::dense::dot;
use crate::interior_point::{InteriorPoint, Workspace};
use crate::lengths::expect_length;
use crate::options::{Kink, Options};

/// The derivatives of an action in every input of its query, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Jacobians {
    /// `∇_λ x`, `d × M` (Prop. 1).
    pub multiplier: Vec<f64>,
    /// `∇_b x`, `d × M` (Prop. 1).
    pub remaining: Vec<f64>,
    /// `∇_c x`, `d × context` (the paper's appendix).
    pub context: Vec<f64>,
    /// Whether they are the derivatives.
    pub exactness: Exactness,
}

impl InteriorPoint {
    /// The full Jacobians of the action at a solution this solver gave for the query.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when a slice does not fit the problem.
    pub fn jacobians(&mut self, query: Query<'_>, solution: SolutionRef<'_>) -> Result<Jacobians, Error> {
        let dimensions = self.problem.dimensions();
        let Dimensions {
            actions: d,
            budgets: m,
            context,
        } = dimensions;
        check_sizes(query, solution, dimensions)?;
        let mut jacobians = Jacobians {
            multiplier: vec![0.0; d * m],
            remaining: vec![0.0; d * m],
            context: vec![0.0; d * context],
            exactness: self.prepare(query, solution),
        };
        if !solution.status.is_feasible() {
            return Ok(jacobians);
        }
        let smoothed = jacobians.exactness
            == Exactness::Approximate {
                reason: Inexact::Smoothed,
            };
        let (action, duals) = if smoothed {
            (self.work.barrier.x.clone(), self.work.barrier.dual.clone())
        } else {
            (solution.action.to_vec(), solution.duals.to_vec())
        };
        let problem = &*self.problem;
        let work = &mut self.work;
        for k in 0..m {
            work.q.fill(0.0);
            for i in 0..d {
                work.p[i] = -work.evaluations.jacobian[k * d + i];
            }
            work.solve_column(&mut jacobians.multiplier, m, k);
            work.p.fill(0.0);
            work.q.fill(0.0);
            work.q[k] = 1.0;
            work.solve_column(&mut jacobians.remaining, m, k);
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
                work.p[i] = -mixed[i * context + k];
            }
            for row in 0..m {
                work.q[row] = -usage[row * context + k];
            }
            work.solve_column(&mut jacobians.context, context, k);
        }
        Ok(jacobians)
    }

    /// Reads the active set from a solution and factorises its system.
    fn prepare(&mut self, query: Query<'_>, solution: SolutionRef<'_>) -> Exactness {
        let not_solved = Exactness::Approximate {
            reason: Inexact::NotSolved,
        };
        if !solution.status.is_feasible() {
            return not_solved;
        }
        let Self {
            problem,
            options,
            work,
        } = self;
        let problem = &**problem;
        work.evaluations.begin(problem, query, solution.action);
        work.evaluations.evaluate_usage(problem, query, solution.action);
        let weak = read_active_set(work, problem, query, solution, options);
        if let (true, Kink::Smoothed { barrier }) = (weak, options.kink) {
            self.smooth(query, barrier);
            return Exactness::Approximate {
                reason: Inexact::Smoothed,
            };
        }
        let work = &mut self.work;
        work.evaluations
            .evaluate_hessian(&*self.problem, query, solution.action, solution.duals);
        let Workspace {
            system,
            evaluations,
            polish,
            ..
        } = work;
        match (
            system.factorise(evaluations, &polish.set, self.options.rank_tolerance),
            weak,
        ) {
            (Some(reason), _) => Exactness::Approximate { reason },
            (None, true) => Exactness::Approximate {
                reason: Inexact::WeaklyActive,
            },
            // Short of the tolerance it is the derivative of a point nearby.
            (None, false) if !solution.status.is_solved() => not_solved,
            (None, false) => Exactness::Exact,
        }
    }

    /// Finds the solution of the barrier problem, and factorises the KKT system there.
    ///
    /// Every product of slack and dual is the barrier, so `dz = −(z/u) dx` and likewise for the others: the box joins the
    /// Hessian, and a budget has `−s/μ` on the diagonal.
    fn smooth(&mut self, query: Query<'_>, barrier: f64) {
        self.work
            .evaluations
            .evaluate_usage(&*self.problem, query, self.problem.lower());
        self.pin(query);
        let Self {
            problem,
            options,
            work,
        } = self;
        let problem = &**problem;
        work.barrier
            .begin(problem, &mut work.evaluations, query, &work.slack);
        work.barrier.advance(
            problem,
            &mut work.evaluations,
            query,
            SMOOTH_TOLERANCE,
            options.max_iterations,
            Some(barrier),
        );
        work.evaluations
            .evaluate_hessian(problem, query, &work.barrier.x, &work.barrier.dual);
        let d = work.evaluations.d;
        let stride = if work.evaluations.structure.diagonal_hessian {
            1
        } else {
            d + 1
        };
        for i in 0..d {
            let (z, y) = (work.barrier.z[i], work.barrier.y[i]);
            work.evaluations.hessian[i * stride] += z / work.barrier.u[i] + y / work.barrier.v[i];
            work.polish.set.bounds[i] = if work.barrier.free[i] == 0.0 {
                Bound::Lower
            } else {
                Bound::Free
            };
        }
        work.polish.set.budgets.clear();
        for m in 0..work.evaluations.m {
            // As a diagonal of the Schur complement: s/μ.
            work.slack[m] = if work.barrier.live[m] {
                work.polish.set.budgets.push(m);
                work.barrier.s[m] / work.barrier.dual[m]
            } else {
                0.0
            };
        }
        work.system
            .smooth(&work.evaluations, &work.polish.set, &work.slack);
    }
}

impl Workspace {
    /// Solves for the right-hand side in `p` and `q`, and writes the actions' part as column `k` of a table.
    fn solve_column(&mut self, out: &mut [f64], width: usize, k: usize) {
        self.system
            .solve(&self.evaluations, &self.polish.set, &mut self.p, &mut self.q);
        for (i, value) in self.p.iter().enumerate() {
            out[i * width + k] = *value;
        }
    }
}

/// How near to the central path a smoothed gradient is taken.
const SMOOTH_TOLERANCE: f64 = 1e-9;

/// Fills the active set from the duals; returns whether a constraint is active with a zero dual.
fn read_active_set(
    work: &mut Workspace,
    problem: &dyn SmoothProblem,
    query: Query<'_>,
    solution: SolutionRef<'_>,
    options: &Options,
) -> bool {
    let (lower, upper) = (problem.lower(), problem.upper());
    let set = &mut work.polish.set;
    let mut weak = false;
    for i in 0..work.evaluations.d {
        let x = solution.action[i];
        let near = |bound: f64| (x - bound).abs() <= options.active_tolerance * (x.abs() + bound.abs());
        set.bounds[i] = if solution.lower_duals[i] > 0.0 {
            Bound::Lower
        } else if solution.upper_duals[i] > 0.0 {
            Bound::Upper
        } else {
            weak |= near(lower[i]) || near(upper[i]);
            Bound::Free
        };
    }
    set.budgets.clear();
    for m in 0..work.evaluations.m {
        let (used, remaining) = (work.evaluations.usage[m], query.available[m]);
        if solution.duals[m] > 0.0 {
            set.budgets.push(m);
        } else {
            // A smaller budget would move an action off its upper bound; on the lower bound it would only be infeasible.
            let uses = (0..work.evaluations.d).any(|i| {
                set.bounds[i] != Bound::Lower && work.evaluations.jacobian[m * work.evaluations.d + i] != 0.0
            });
            weak |= uses && remaining - used <= options.active_tolerance * (remaining.abs() + used.abs());
        }
    }
    weak
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

impl Differentiate for InteriorPoint {
    fn pullback(
        &mut self,
        query: Query<'_>,
        solution: SolutionRef<'_>,
        upstream: &[f64],
        gradient: GradientMut<'_>,
    ) -> Result<Exactness, Error> {
        let dimensions = self.problem.dimensions();
        let Dimensions {
            actions: d,
            budgets: m,
            context,
        } = dimensions;
        check_sizes(query, solution, dimensions)?;
        expect_length("upstream", upstream, d)?;
        expect_length("the multiplier gradient", gradient.multiplier, m)?;
        expect_length("the remaining gradient", gradient.available, m)?;
        if let Some(out) = &gradient.context {
            expect_length("the context gradient", out, context)?;
        }
        let exactness = self.prepare(query, solution);
        if !solution.status.is_feasible() {
            gradient.multiplier.fill(0.0);
            gradient.available.fill(0.0);
            if let Some(out) = gradient.context {
                out.fill(0.0);
            }
            return Ok(exactness);
        }
        let Workspace {
            evaluations,
            system,
            polish,
            p,
            q,
            mixed,
            slack: weights,
            barrier,
            ..
        } = &mut self.work;
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
        gradient.available.copy_from_slice(q);
        if let Some(out) = gradient.context {
            for row in 0..m {
                weights[row] = query.multiplier[row] + duals[row];
            }
            out.fill(0.0);
            let mut subtract = |matrix: &[f64], weights: &[f64]| {
                for (row, weight) in matrix.chunks_exact(context).zip(weights) {
                    for (out, value) in out.iter_mut().zip(row) {
                        *out -= weight * value;
                    }
                }
            };
            let by_action = &mut mixed[..d * context];
            self.problem
                .lagrangian_mixed(action, query.context, weights, by_action);
            subtract(by_action, p);
            let by_budget = &mut mixed[..m * context];
            self.problem
                .usage_context_jacobian(action, query.context, by_budget);
            subtract(by_budget, q);
        }
        Ok(exactness)
    }

    fn fork(&self) -> Box<dyn Differentiate> {
        Box::new(self.clone())
    }
}
