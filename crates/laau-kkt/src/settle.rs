//! Turns a candidate into an answer: payable, with all duals and its residual.

use laau_core::{Query, SmoothProblem, SolutionMut};

use crate::active_set::Bound;
use crate::feasible::pull_in;
use crate::passes::{Point, box_duals, sum};
use crate::workspace::Workspace;

/// A point that may be the solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// The point on the active set that has settled.
    Polished,
    /// The interior point.
    Interior {
        /// Actions that look as if they were on a bound are put there.
        onto_bounds: bool,
        /// All of its duals are taken, not only those of budgets that look active.
        every_dual: bool,
    },
    /// The lower corner, without duals, for problems in which every cost is zero: there is no barrier to follow.
    LowerCorner,
}

/// The candidates in the order in which they are tried. Points on their bounds come first: an action just off an active
/// bound would have a derivative.
pub(crate) const CANDIDATES: [Candidate; 6] = {
    const fn interior(onto_bounds: bool, every_dual: bool) -> Candidate {
        Candidate::Interior {
            onto_bounds,
            every_dual,
        }
    }
    [
        Candidate::Polished,
        interior(true, false),
        interior(false, false),
        interior(false, true),
        interior(true, true),
        Candidate::LowerCorner,
    ]
};

impl Workspace {
    /// Makes a candidate payable, prices the budgets that pin actions, and writes the solution; returns its residual.
    pub(crate) fn settle(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        candidate: Candidate,
        solution: &mut SolutionMut<'_>,
    ) -> f64 {
        match candidate {
            Candidate::Polished => {}
            Candidate::Interior {
                onto_bounds,
                every_dual,
            } => self.take_interior(problem, query, onto_bounds, every_dual),
            Candidate::LowerCorner => {
                let polish = &mut self.polish;
                polish.set.bounds.fill(Bound::Lower);
                polish.set.budgets.clear();
                polish.x.copy_from_slice(problem.lower());
                polish.dual.fill(0.0);
                self.evaluate_candidate(problem, query);
            }
        }
        if pull_in(problem, &mut self.evaluations, query, &mut self.polish.x) {
            self.evaluations.evaluate(problem, query, &self.polish.x);
            self.polish.update_stationarity(&self.evaluations, query);
        }
        if self.barrier.live.contains(&false) {
            self.price_pinning_budgets(problem, query);
        }
        if !(candidate == Candidate::Polished && self.evaluations.structure.affine_usage) {
            // The curvature that the residual is measured by has other duals, or another point, in it.
            self.evaluations
                .evaluate_hessian(problem, query, &self.polish.x, &self.polish.dual);
        }
        let residual = self.finish(problem, query, solution);
        if residual <= self.options.tolerance {
            return residual;
        }
        let Workspace {
            evaluations,
            polish,
            system,
            q: before,
            ..
        } = self;
        before.copy_from_slice(&polish.dual);
        if polish.reprice(evaluations, system, query, problem.lower(), &self.options) {
            // The curvature that the residual is measured by is that of the duals it is measured at.
            evaluations.evaluate_hessian(problem, query, &polish.x, &polish.dual);
            let repriced = self.finish(problem, query, solution);
            if repriced < residual {
                return repriced;
            }
        }
        let Workspace {
            evaluations,
            polish,
            q: before,
            ..
        } = self;
        polish.dual.copy_from_slice(before);
        polish.update_stationarity(evaluations, query);
        evaluations.evaluate_hessian(problem, query, &polish.x, &polish.dual);
        self.finish(problem, query, solution)
    }

    /// Uses the interior point itself where no active set has settled, with the duals of all budgets or of those that look
    /// active. Its products of slack and dual are as small as the last barrier, which is enough for optimality; all duals
    /// are needed where the dual of an inactive budget is the only gradient an action has.
    fn take_interior(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        onto_bounds: bool,
        every_dual: bool,
    ) {
        let (lower, upper) = (problem.lower(), problem.upper());
        // The guess of what is active reads the derivatives at the interior point.
        self.evaluations.evaluate(problem, query, &self.barrier.x);
        self.evaluations
            .evaluate_hessian(problem, query, &self.barrier.x, &self.barrier.dual);
        self.polish.guess(
            &self.evaluations,
            query,
            &self.barrier,
            (lower, upper),
            &self.options,
        );
        for i in 0..self.evaluations.d {
            let x = self.barrier.x[i];
            if self.barrier.free[i] != 0.0 && !(onto_bounds && self.polish.set.bounds[i] != Bound::Free) {
                self.polish.x[i] = if x.is_finite() {
                    x.clamp(lower[i], upper[i])
                } else {
                    lower[i]
                };
            }
        }
        for m in 0..self.evaluations.m {
            let dual = self.barrier.dual[m];
            let taken = every_dual || self.polish.dual[m] > 0.0;
            self.polish.dual[m] = if taken && self.barrier.live[m] && dual.is_finite() {
                dual
            } else {
                0.0
            };
        }
        self.evaluate_candidate(problem, query);
    }

    /// Gradients, usage and stationarity at the point that may be the solution.
    pub(crate) fn evaluate_candidate(&mut self, problem: &dyn SmoothProblem, query: Query<'_>) {
        self.evaluations.evaluate(problem, query, &self.polish.x);
        self.evaluations.evaluate_usage(problem, query, &self.polish.x);
        self.polish.update_stationarity(&self.evaluations, query);
    }

    /// Assigns duals to the budgets that pin actions, large enough that no dual of a lower bound is negative.
    fn price_pinning_budgets(&mut self, problem: &dyn SmoothProblem, query: Query<'_>) {
        let d = self.evaluations.d;
        let (lower, upper) = (problem.lower(), problem.upper());
        for row in 0..self.evaluations.m {
            if self.barrier.live[row] {
                continue;
            }
            let jacobian = &self.evaluations.jacobian[row * d..][..d];
            let mut dual = 0.0_f64;
            for i in 0..d {
                // A box without width needs no price to stay where it is.
                let pinned = self.barrier.free[i] == 0.0 && lower[i] < upper[i];
                if pinned && jacobian[i] > 0.0 {
                    dual = dual.max(-self.polish.stationarity[i] / jacobian[i]);
                }
            }
            self.polish.dual[row] = dual;
            self.polish.update_stationarity(&self.evaluations, query);
        }
    }

    /// Writes the duals of the box and returns the residual; [`Workspace::gap`] is then what the solution could still gain.
    pub(crate) fn finish(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        solution: &mut SolutionMut<'_>,
    ) -> f64 {
        let (lower, upper) = (problem.lower(), problem.upper());
        let (polish, judged) = (&self.polish, &mut self.judged);
        let point = Point {
            x: &polish.x,
            stationarity: &polish.stationarity,
            scale: &polish.scale,
            curvature: self.evaluations.curvatures(),
        };
        solution.action.copy_from_slice(&polish.x);
        box_duals(
            solution.lower_duals,
            solution.upper_duals,
            point,
            &polish.set.bounds,
            (lower, upper),
            self.options.active_tolerance,
        );
        judged.judge(point, (&self.barrier.free, &self.barrier.most), (lower, upper));
        // What the solution could still gain, action by action, and the size of the terms of the priced cost.
        let (mut gain, mut reachable) = (sum(&judged.gains), sum(&judged.reachable));
        let worth = sum(&judged.worth);
        for m in 0..self.evaluations.m {
            let (dual, remaining, used) = (polish.dual[m], query.available[m], self.evaluations.usage[m]);
            solution.duals[m] = dual;
            if dual > 0.0 && self.barrier.live[m] {
                let rounding = 8.0 * f64::EPSILON * (remaining.abs() + used.abs());
                let unused = dual * (remaining - used - rounding).max(0.0);
                gain += unused;
                reachable += unused;
            }
        }
        self.gap = if reachable > 0.0 { reachable / worth } else { 0.0 };
        let mut residual = if gain > 0.0 { gain / worth } else { 0.0 };
        // A gradient that vanishes with the action stays as large as its terms down to the last digit. A NaN counts.
        let negligible = self.options.negligible_gain * worth;
        for (gain, relative) in judged.gains.iter().zip(&judged.relative) {
            if !(*gain <= negligible || *relative <= residual) {
                residual = *relative;
            }
        }
        if residual.is_finite() {
            residual
        } else {
            f64::INFINITY
        }
    }
}
