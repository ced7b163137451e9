//! From another solver's answer to one that can be differentiated.

use laau_core::{Query, SmoothProblem, SolutionMut, Status};

use crate::active_set::Bound;
use crate::feasible::pull_in;
use crate::settle::CANDIDATES;
use crate::workspace::Workspace;

impl Workspace {
    /// Refines an answer on the active set that its slacks and duals suggest.
    ///
    /// The answer takes the place of the interior point's iterate; from there on all is as after the interior point. If no
    /// candidate is within the tolerance, the action stays, pulled in if it must be, and the duals of constraints that look
    /// inactive become zero: differentiation reads the active set from them.
    pub(crate) fn refine(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        mut solution: SolutionMut<'_>,
    ) {
        let (Status::Solved { iterations, .. } | Status::NotConverged { iterations, .. }) = *solution.status
        else {
            return;
        };
        self.evaluations.evaluate_usage(problem, query, problem.lower());
        self.pin(problem, query);
        self.barrier
            .begin(problem, &mut self.evaluations, query, &self.slack);
        self.resume(problem, query, &solution);
        let Self {
            options,
            evaluations,
            system,
            polish,
            barrier,
            ..
        } = self;
        let settled = polish.run(problem, evaluations, system, query, barrier, options);
        let iterations = iterations + polish.steps;
        for &candidate in &CANDIDATES[usize::from(!settled)..CANDIDATES.len() - 1] {
            let residual = self.settle(problem, query, candidate, &mut solution);
            if residual <= self.options.tolerance {
                *solution.status = Status::Solved { iterations, residual };
                return;
            }
        }
        self.keep(problem, query, &mut solution);
    }

    /// Puts an answer in the place of the interior point's iterate. The duals of the box follow from stationarity.
    fn resume(&mut self, problem: &dyn SmoothProblem, query: Query<'_>, solution: &SolutionMut<'_>) {
        let (lower, upper) = (problem.lower(), problem.upper());
        // A slack of zero is one of the last digit, so that its dual can be compared with it.
        let at_least = |slack: f64, size: f64| slack.max(f64::EPSILON * size).max(f64::MIN_POSITIVE);
        for i in 0..self.evaluations.d {
            let (barrier, x) = (&mut self.barrier, solution.action[i]);
            if barrier.free[i] != 0.0 {
                barrier.x[i] = if x.is_finite() {
                    x.clamp(lower[i], upper[i])
                } else {
                    lower[i]
                };
                barrier.u[i] = at_least(barrier.x[i] - lower[i], barrier.reach[i]);
                barrier.v[i] = at_least(upper[i] - barrier.x[i], barrier.reach[i]);
            }
        }
        self.polish.x.copy_from_slice(&self.barrier.x);
        for (m, dual) in solution.duals.iter().enumerate() {
            let taken = self.barrier.live[m] && dual.is_finite();
            self.polish.dual[m] = if taken { dual.max(0.0) } else { 0.0 };
        }
        self.evaluate_candidate(problem, query);
        if self.polish.dual.iter().all(|dual| *dual == 0.0) {
            self.fit_duals(problem, query);
        }
        let Self {
            evaluations,
            barrier,
            polish,
            ..
        } = self;
        for i in 0..evaluations.d {
            barrier.z[i] = barrier.free[i] * polish.stationarity[i].max(0.0);
            barrier.y[i] = barrier.free[i] * (-polish.stationarity[i]).max(0.0);
        }
        for m in 0..evaluations.m {
            if barrier.live[m] {
                let (used, available) = (evaluations.usage[m], query.available[m]);
                barrier.s[m] = at_least(available - used, used.abs() + available.abs());
                barrier.dual[m] = polish.dual[m];
            }
        }
        evaluations.evaluate_hessian(problem, query, &barrier.x, &barrier.dual);
        // For how much slacks give way to their duals; with a dual of zero there is no more to factorise than that.
        let _ = barrier.factorise(evaluations);
    }

    /// Finds the duals that a solver did not give, from the constraints that its action is near to.
    fn fit_duals(&mut self, problem: &dyn SmoothProblem, query: Query<'_>) {
        let Self {
            options,
            evaluations,
            barrier,
            polish,
            system,
            ..
        } = self;
        let near = options.near_tolerance;
        for i in 0..evaluations.d {
            let reach = near * barrier.reach[i];
            polish.set.bounds[i] = if barrier.free[i] == 0.0 || barrier.u[i] <= reach {
                Bound::Lower
            } else if barrier.v[i] <= reach {
                Bound::Upper
            } else {
                Bound::Free
            };
        }
        polish.set.budgets.clear();
        for m in 0..evaluations.m {
            let (used, available) = (evaluations.usage[m], query.available[m]);
            if barrier.live[m] && available - used <= near * (used.abs() + available.abs()) {
                polish.set.budgets.push(m);
            }
        }
        evaluations.evaluate_hessian(problem, query, &polish.x, &polish.dual);
        polish.reprice(evaluations, system, query, problem.lower(), options);
    }

    /// Writes the answer as it was, without the duals of constraints that look inactive.
    fn keep(&mut self, problem: &dyn SmoothProblem, query: Query<'_>, solution: &mut SolutionMut<'_>) {
        let Self {
            options,
            evaluations,
            barrier,
            polish,
            ..
        } = self;
        evaluations.evaluate(problem, query, &barrier.x);
        evaluations.evaluate_hessian(problem, query, &barrier.x, &barrier.dual);
        polish.guess(
            evaluations,
            query,
            barrier,
            (problem.lower(), problem.upper()),
            options,
        );
        solution.action.copy_from_slice(&barrier.x);
        solution.duals.copy_from_slice(&polish.dual);
        for i in 0..evaluations.d {
            let of = |bound: Bound, dual: f64| if polish.set.bounds[i] == bound { dual } else { 0.0 };
            solution.lower_duals[i] = of(Bound::Lower, barrier.z[i]);
            solution.upper_duals[i] = of(Bound::Upper, barrier.y[i]);
        }
        evaluations.evaluate_usage(problem, query, solution.action);
        pull_in(problem, evaluations, query, solution.action);
    }
}
