//! From a point that may be the solution to an answer: payable, with all its duals, and with its residual.

use laau_core::{Query, SolutionMut};

use crate::active_set::Bound;
use crate::feasible::pull_in;
use crate::interior_point::{InteriorPoint, Workspace};

/// What an action could still gain is nothing below this share of the whole.
const NEGLIGIBLE_GAIN: f64 = 1e-25;

/// What may be the solution.
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
    /// The lower corner, without duals: where nothing is worth anything there is no barrier to follow.
    LowerCorner,
}

/// What may be the solution, in this order: an action a hair off a bound that holds it would have a derivative.
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

impl InteriorPoint {
    /// Makes a candidate payable, prices the budgets that pin actions, and writes the solution; returns its residual.
    pub(crate) fn settle(
        &mut self,
        query: Query<'_>,
        candidate: Candidate,
        solution: &mut SolutionMut<'_>,
    ) -> f64 {
        match candidate {
            Candidate::Polished => {}
            Candidate::Interior {
                onto_bounds,
                every_dual,
            } => self.take_interior(query, onto_bounds, every_dual),
            Candidate::LowerCorner => {
                let polish = &mut self.work.polish;
                polish.set.bounds.fill(Bound::Lower);
                polish.set.budgets.clear();
                polish.x.copy_from_slice(self.problem.lower());
                polish.dual.fill(0.0);
                self.evaluate_candidate(query);
            }
        }
        let work = &mut self.work;
        if pull_in(&*self.problem, &mut work.evaluations, query, &mut work.polish.x) {
            work.evaluations.evaluate(&*self.problem, query, &work.polish.x);
            work.polish.update_stationarity(&work.evaluations, query);
        }
        if work.barrier.live.contains(&false) {
            self.price_pinning_budgets(query);
        }
        let work = &mut self.work;
        if !(candidate == Candidate::Polished && work.evaluations.structure.affine_usage) {
            // The curvature that the residual is measured by has other duals, or another point, in it.
            work.evaluations
                .evaluate_hessian(&*self.problem, query, &work.polish.x, &work.polish.dual);
        }
        let residual = self.finish(query, solution);
        if residual <= self.options.tolerance {
            return residual;
        }
        let Workspace {
            evaluations,
            polish,
            system,
            q: before,
            ..
        } = &mut self.work;
        before.copy_from_slice(&polish.dual);
        if polish.reprice(evaluations, system, query, self.problem.lower(), &self.options) {
            // The curvature that the residual is measured by is that of the duals it is measured at.
            evaluations.evaluate_hessian(&*self.problem, query, &polish.x, &polish.dual);
            let repriced = self.finish(query, solution);
            if repriced < residual {
                return repriced;
            }
        }
        let Workspace {
            evaluations,
            polish,
            q: before,
            ..
        } = &mut self.work;
        polish.dual.copy_from_slice(before);
        polish.update_stationarity(evaluations, query);
        evaluations.evaluate_hessian(&*self.problem, query, &polish.x, &polish.dual);
        self.finish(query, solution)
    }

    /// Takes the interior point as it is where no active set has settled, with the duals of all budgets or of those that
    /// look active. Its products of slack and dual are as small as the last barrier, which is all that optimality asks for;
    /// but the dual of an inactive budget is all the gradient that an action without worth has.
    fn take_interior(&mut self, query: Query<'_>, onto_bounds: bool, every_dual: bool) {
        let work = &mut self.work;
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        // The guess of what is active reads the derivatives at the interior point.
        work.evaluations.evaluate(&*self.problem, query, &work.barrier.x);
        work.evaluations
            .evaluate_hessian(&*self.problem, query, &work.barrier.x, &work.barrier.dual);
        work.polish
            .guess(&work.evaluations, query, &work.barrier, lower, upper);
        for i in 0..work.evaluations.d {
            let x = work.barrier.x[i];
            if work.barrier.free[i] != 0.0 && !(onto_bounds && work.polish.set.bounds[i] != Bound::Free) {
                work.polish.x[i] = if x.is_finite() {
                    x.clamp(lower[i], upper[i])
                } else {
                    lower[i]
                };
            }
        }
        for m in 0..work.evaluations.m {
            let dual = work.barrier.dual[m];
            let taken = every_dual || work.polish.dual[m] > 0.0;
            work.polish.dual[m] = if taken && work.barrier.live[m] && dual.is_finite() {
                dual
            } else {
                0.0
            };
        }
        self.evaluate_candidate(query);
    }

    /// Gradients, usage and stationarity at the point that may be the solution.
    fn evaluate_candidate(&mut self, query: Query<'_>) {
        let work = &mut self.work;
        work.evaluations.evaluate(&*self.problem, query, &work.polish.x);
        work.evaluations
            .evaluate_usage(&*self.problem, query, &work.polish.x);
        work.polish.update_stationarity(&work.evaluations, query);
    }

    /// Assigns duals to the budgets that pin actions, large enough that no dual of a lower bound is negative.
    fn price_pinning_budgets(&mut self, query: Query<'_>) {
        let work = &mut self.work;
        let d = work.evaluations.d;
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        for row in 0..work.evaluations.m {
            if work.barrier.live[row] {
                continue;
            }
            let jacobian = &work.evaluations.jacobian[row * d..][..d];
            let mut dual = 0.0_f64;
            for i in 0..d {
                // A box without width needs no price to stay where it is.
                let pinned = work.barrier.free[i] == 0.0 && lower[i] < upper[i];
                if pinned && jacobian[i] > 0.0 {
                    dual = dual.max(-work.polish.stationarity[i] / jacobian[i]);
                }
            }
            work.polish.dual[row] = dual;
            work.polish.update_stationarity(&work.evaluations, query);
        }
    }

    /// Writes the duals of the box and returns the residual.
    pub(crate) fn finish(&mut self, query: Query<'_>, solution: &mut SolutionMut<'_>) -> f64 {
        let work = &mut self.work;
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let (polish, gains, relative) = (&work.polish, &mut work.scratch, &mut work.p);
        // What the solution could still gain, action by action, and the size of the terms of the priced cost.
        let (mut gain, mut worth) = (0.0, 0.0);
        gains.fill(0.0);
        for i in 0..work.evaluations.d {
            let (x, r, scale) = (polish.x[i], polish.stationarity[i], polish.scale[i]);
            let size = x.abs() + (x - lower[i]);
            let zero =
                self.options.active_tolerance * (scale + work.evaluations.curvature(i).abs() * x.abs());
            solution.action[i] = x;
            solution.lower_duals[i] = 0.0;
            solution.upper_duals[i] = 0.0;
            worth += scale * size;
            match polish.set.bounds[i] {
                Bound::Lower if r > zero => solution.lower_duals[i] = r,
                Bound::Upper if -r > zero => solution.upper_duals[i] = -r,
                Bound::Lower if -r > zero && upper[i] <= lower[i] => solution.upper_duals[i] = -r,
                _ => {}
            }
            if r == 0.0 || work.barrier.free[i] == 0.0 {
                continue;
            }
            let room = if r > 0.0 { x - lower[i] } else { upper[i] - x };
            if room == 0.0 {
                continue;
            }
            let (distance, force) = (r.abs() * room, r * r);
            let curvature = work.evaluations.curvature(i).abs();
            gains[i] = if force < distance * curvature {
                force / curvature
            } else {
                distance
            };
            gain += gains[i];
            relative[i] = r.abs() / (scale + curvature * size);
            if distance < relative[i] * scale * size {
                relative[i] = distance / (scale * size);
            }
        }
        for m in 0..work.evaluations.m {
            let (dual, remaining, used) = (polish.dual[m], query.available[m], work.evaluations.usage[m]);
            solution.duals[m] = dual;
            if dual > 0.0 && work.barrier.live[m] {
                let rounding = 8.0 * f64::EPSILON * (remaining.abs() + used.abs());
                gain += dual * (remaining - used - rounding).max(0.0);
            }
        }
        let mut residual = if gain > 0.0 { gain / worth } else { 0.0 };
        for i in 0..work.evaluations.d {
            // A gradient that vanishes with the action stays as large as its terms down to the last digit. A NaN counts.
            let negligible = gains[i] <= NEGLIGIBLE_GAIN * worth || relative[i] <= residual;
            if !negligible {
                residual = relative[i];
            }
        }
        if residual.is_finite() {
            residual
        } else {
            f64::INFINITY
        }
    }
}
