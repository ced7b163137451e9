//! Newton steps on the active set: from a rough interior point to the last digits.
//!
//! The interior point guesses which constraints are active. On that set the KKT conditions are equations, and Newton's
//! method on them converges quadratically, to duals that are exactly zero where a constraint is inactive. After each step
//! the set is corrected: a constraint that is violated joins, one whose dual is negative leaves. This is a semi-smooth
//! Newton method for the KKT conditions; where it does not settle, the interior point goes on and a better guess follows.

#![expect(
    clippy::needless_bitwise_bool,
    reason = "loops without branches become vectors"
)]

use laau_core::{Query, SmoothProblem};

use crate::active_set::{ActiveSet, Bound, Failure, System};
use crate::barrier::{Barrier, beyond_rounding};
use crate::evaluations::Evaluations;
use crate::options::Options;
use crate::passes::{least_size, ridge, take_step};
use crate::rows::add_rows_and_sizes;

/// A point on its active set, and memory for the steps.
#[derive(Debug, Clone)]
pub(crate) struct Polish {
    pub(crate) set: ActiveSet,
    pub(crate) x: Vec<f64>,
    pub(crate) dual: Vec<f64>,
    /// `∇l + ∇gᵀ(λ + μ)` at `x`.
    pub(crate) stationarity: Vec<f64>,
    /// The scale of its terms.
    pub(crate) scale: Vec<f64>,
    pub(crate) steps: u32,
    ridge: Vec<f64>,
    dx: Vec<f64>,
    d_dual: Vec<f64>,
    /// The relative changes of the actions in a step; elsewhere scratch.
    change: Vec<f64>,
    /// `λ + μ`.
    weights: Vec<f64>,
}

impl Polish {
    pub(crate) fn new(d: usize, m: usize) -> Self {
        Self {
            set: ActiveSet::new(d, m),
            x: vec![0.0; d],
            dual: vec![0.0; m],
            stationarity: vec![0.0; d],
            scale: vec![0.0; d],
            steps: 0,
            ridge: vec![0.0; d],
            dx: vec![0.0; d],
            d_dual: vec![0.0; m],
            change: vec![0.0; d],
            weights: vec![0.0; m],
        }
    }

    /// Takes over the point, its duals and its active set.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.set.bounds.copy_from_slice(&other.set.bounds);
        self.set.budgets.clear();
        self.set.budgets.extend_from_slice(&other.set.budgets);
        self.x.copy_from_slice(&other.x);
        self.dual.copy_from_slice(&other.dual);
    }

    /// Polishes the barrier's iterate. When it settles, the evaluations hold the derivatives at the polished point.
    pub(crate) fn run(
        &mut self,
        problem: &dyn SmoothProblem,
        evaluations: &mut Evaluations,
        system: &mut System,
        query: Query<'_>,
        barrier: &Barrier,
        options: &Options,
    ) -> bool {
        let bounds = (problem.lower(), problem.upper());
        self.guess(evaluations, query, barrier, bounds, options);
        evaluations.evaluate_usage(problem, query, &self.x);
        let steps = options.max_newton_steps;
        self.newton_steps(problem, evaluations, system, query, (barrier, options, steps))
    }

    /// The active set of the point itself: the bounds it has reached, and the budgets it pays for or violates.
    pub(crate) fn read_set(
        &mut self,
        problem: &dyn SmoothProblem,
        evaluations: &mut Evaluations,
        query: Query<'_>,
        barrier: &Barrier,
        options: &Options,
    ) {
        self.set.bounds.fill(Bound::Free);
        self.set.budgets.clear();
        for m in 0..evaluations.m {
            if self.dual[m] > 0.0 {
                self.set.budgets.push(m);
            }
        }
        self.hit_bounds(problem.lower(), problem.upper());
        evaluations.evaluate_usage(problem, query, &self.x);
        self.join_violated(evaluations, query, barrier, options);
    }

    /// Newton steps from a point and its active set, until they settle; the evaluations hold the usage of the point.
    pub(crate) fn newton_steps(
        &mut self,
        problem: &dyn SmoothProblem,
        evaluations: &mut Evaluations,
        system: &mut System,
        query: Query<'_>,
        (barrier, options, most): (&Barrier, &Options, u32),
    ) -> bool {
        let (lower, upper) = (problem.lower(), problem.upper());
        self.steps = 0;
        evaluations.evaluate(problem, query, &self.x);
        self.update_stationarity(evaluations, query);
        while self.steps < most {
            self.steps += 1;
            evaluations.evaluate_hessian(problem, query, &self.x, &self.dual);
            if !self.factorise(evaluations, system, query, lower, options) {
                return false;
            }
            let step = self.newton(
                evaluations,
                system,
                query,
                (lower, upper),
                (&barrier.noise, options),
            );
            if !step.is_finite() {
                return false;
            }
            let mut changed = self.hit_bounds(lower, upper);
            changed |= self.drop_negative(evaluations, options);
            evaluations.evaluate(problem, query, &self.x);
            evaluations.evaluate_usage(problem, query, &self.x);
            self.update_stationarity(evaluations, query);
            changed |= self.release_bounds(barrier, options);
            changed |= self.join_violated(evaluations, query, barrier, options);
            if !changed
                && (step <= options.last_newton_step
                    || self.is_within(evaluations, query, options.newton_rounding))
            {
                self.clean(evaluations, query, options);
                return true;
            }
        }
        false
    }

    /// Which constraints are active: those whose dual is large for their slack.
    pub(crate) fn guess(
        &mut self,
        evaluations: &Evaluations,
        query: Query<'_>,
        barrier: &Barrier,
        (lower, upper): (&[f64], &[f64]),
        options: &Options,
    ) {
        let d = evaluations.d;
        let mut any_held = false;
        let centre = options.centre_share;
        let curvatures = evaluations.curvatures();
        for i in 0..d {
            let (u, v, z, y) = (barrier.u[i], barrier.v[i], barrier.z[i], barrier.y[i]);
            // What a slack is worth in units of its dual: how much the gradient changes over it.
            let scale = evaluations.gradient_scale(i, query.multiplier, &barrier.dual);
            let worth = curvatures[i] + scale / barrier.reach[i];
            let (low, high) = (z > worth * u, y > worth * v);
            // The barrier alone holds an action far from a bound whose dual dwarfs the action's own gradient.
            let dwarfs = |dual: f64, slack: f64| {
                let (own, all) = (evaluations.gradient[i], evaluations.priced[i]);
                slack > centre * barrier.reach[i] && own.abs() + (all - own).abs() < centre * dual
            };
            let held = (low && dwarfs(z, u)) || (high && dwarfs(y, v));
            let held = held && barrier.free[i] != 0.0 && !barrier.worthless();
            any_held |= held;
            self.dx[i] = if held { 0.0 } else { 1.0 };
            (self.set.bounds[i], self.x[i]) = if barrier.free[i] == 0.0 || (low && !held) {
                (Bound::Lower, lower[i])
            } else if high && !held {
                (Bound::Upper, upper[i])
            } else {
                (Bound::Free, barrier.x[i])
            };
        }
        self.set.budgets.clear();
        for m in 0..evaluations.m {
            let mut active =
                barrier.live[m] && barrier.dual[m] * barrier.softness(evaluations, m) > barrier.s[m];
            if active && any_held {
                // Nor does it hold a budget that only such actions use.
                let jacobian = &evaluations.jacobian[m * d..][..d];
                active = (0..d).any(|i| jacobian[i] * self.dx[i] != 0.0);
            }
            self.dual[m] = if active { barrier.dual[m] } else { 0.0 };
            if active {
                self.set.budgets.push(m);
            }
        }
    }

    /// Factorises the system of the active set; a budget that depends on those before it leaves the set.
    fn factorise(
        &mut self,
        evaluations: &Evaluations,
        system: &mut System,
        query: Query<'_>,
        lower: &[f64],
        options: &Options,
    ) -> bool {
        self.update_ridge(evaluations, lower, options);
        let mut strengthened = false;
        loop {
            match system.eliminate(
                evaluations,
                &self.set,
                Some(&self.ridge),
                None,
                options.rank_tolerance,
            ) {
                Ok(()) => return true,
                Err(Failure::Dependent { row }) => {
                    let m = self.set.budgets[row];
                    if self.give_way(evaluations, query, m) {
                        continue;
                    }
                    self.set.budgets.remove(row);
                    self.dual[m] = 0.0;
                    self.update_stationarity(evaluations, query);
                }
                Err(Failure::Hessian) if !strengthened => {
                    strengthened = true;
                    for ridge in &mut self.ridge {
                        *ridge *= options.ridge_growth;
                    }
                }
                Err(Failure::Hessian) => return false,
            }
        }
    }

    fn update_ridge(&mut self, evaluations: &Evaluations, lower: &[f64], options: &Options) {
        let terms = (&self.scale[..], evaluations.curvatures());
        ridge(&mut self.ridge, &self.x, lower, terms, options.ridge);
    }

    /// Fits the duals to a fixed point, for instance one that the pull-in has moved: where an action uses little of a
    /// budget, the last digits of the budget are leading digits of the action. The evaluations hold the derivatives.
    pub(crate) fn reprice(
        &mut self,
        evaluations: &Evaluations,
        system: &mut System,
        query: Query<'_>,
        lower: &[f64],
        options: &Options,
    ) -> bool {
        self.update_ridge(evaluations, lower, options);
        let ridge = Some(&self.ridge[..]);
        if system
            .eliminate(evaluations, &self.set, ridge, None, options.rank_tolerance)
            .is_err()
        {
            return false;
        }
        for i in 0..evaluations.d {
            self.dx[i] = -self.stationarity[i];
        }
        self.d_dual.fill(0.0);
        system.solve(evaluations, &self.set, &mut self.dx, &mut self.d_dual);
        for &m in &self.set.budgets {
            self.dual[m] = (self.dual[m] + self.d_dual[m]).max(0.0);
        }
        self.update_stationarity(evaluations, query);
        true
    }

    /// Frees an action from its upper bound for a budget that is violated and that no free action can meet: the one whose
    /// dual a rising price of the budget would use up first.
    fn give_way(&mut self, evaluations: &Evaluations, query: Query<'_>, m: usize) -> bool {
        let jacobian = &evaluations.jacobian[m * evaluations.d..][..evaluations.d];
        let met = |i: usize| self.set.bounds[i] == Bound::Free && jacobian[i] != 0.0;
        if evaluations.usage[m] <= query.available[m] || (0..evaluations.d).any(met) {
            return false;
        }
        let first = (0..evaluations.d)
            .filter(|&i| self.set.bounds[i] == Bound::Upper && jacobian[i] > 0.0)
            .map(|i| (i, -self.stationarity[i] / jacobian[i]))
            .min_by(|(_, a), (_, b)| a.total_cmp(b));
        match first {
            Some((i, _)) => {
                self.set.bounds[i] = Bound::Free;
                true
            }
            None => false,
        }
    }

    /// One Newton step; returns its largest relative change of an action.
    fn newton(
        &mut self,
        evaluations: &Evaluations,
        system: &mut System,
        query: Query<'_>,
        (lower, upper): (&[f64], &[f64]),
        (noise, options): (&[f64], &Options),
    ) -> f64 {
        for (dx, r) in self.dx.iter_mut().zip(&self.stationarity) {
            *dx = -r;
        }
        for m in 0..evaluations.m {
            self.d_dual[m] = query.available[m] - evaluations.usage[m];
            if self.steps > options.exact_newton_steps {
                self.d_dual[m] = -beyond_rounding(-self.d_dual[m], noise[m]);
            }
        }
        system.solve(evaluations, &self.set, &mut self.dx, &mut self.d_dual);
        // Not for ever: a budget may hold an action that near to its bound.
        let onto = if self.steps > options.exact_newton_steps {
            0.0
        } else {
            options.onto_bound
        };
        let (x, change) = (&mut self.x, &mut self.change);
        let step = take_step(x, change, &self.dx, &self.set.bounds, (lower, upper), onto);
        for &m in &self.set.budgets {
            self.dual[m] += self.d_dual[m];
        }
        step
    }

    fn hit_bounds(&mut self, lower: &[f64], upper: &[f64]) -> bool {
        let d = self.x.len();
        let (x, bounds) = (&self.x[..d], &self.set.bounds[..d]);
        let (below, above) = (&lower[..d], &upper[..d]);
        let mut changed = false;
        for i in 0..d {
            changed |= (bounds[i] == Bound::Free) & ((x[i] <= below[i]) | (x[i] >= above[i]));
        }
        if !changed {
            return false;
        }
        for i in 0..d {
            if self.set.bounds[i] == Bound::Free {
                if self.x[i] <= lower[i] {
                    self.x[i] = lower[i];
                    self.set.bounds[i] = Bound::Lower;
                } else if self.x[i] >= upper[i] {
                    self.x[i] = upper[i];
                    self.set.bounds[i] = Bound::Upper;
                }
            }
        }
        true
    }

    fn drop_negative(&mut self, evaluations: &Evaluations, options: &Options) -> bool {
        let before = self.set.budgets.len();
        let (x, scale, bounds, dual) = (&self.x, &self.scale, &self.set.bounds, &mut self.dual);
        let sizes = &mut self.change;
        self.set.budgets.retain(|&m| {
            let mut least =
                || options.active_tolerance * dual_scale(evaluations, (x, scale, bounds), sizes, m);
            let keep = dual[m] >= 0.0 || -dual[m] <= least();
            if !keep {
                dual[m] = 0.0;
            }
            keep
        });
        self.set.budgets.len() != before
    }

    fn release_bounds(&mut self, barrier: &Barrier, options: &Options) -> bool {
        let d = self.x.len();
        let (bounds, r) = (&self.set.bounds[..d], &self.stationarity[..d]);
        let (scale, free) = (&self.scale[..d], &barrier.free[..d]);
        let mut changed = false;
        for i in 0..d {
            let least = -options.active_tolerance * scale[i];
            let (low, high) = (bounds[i] == Bound::Lower, bounds[i] == Bound::Upper);
            changed |= (free[i] != 0.0) & ((low & (r[i] < least)) | (high & (-r[i] < least)));
        }
        if !changed {
            return false;
        }
        for i in 0..d {
            let dual = match self.set.bounds[i] {
                Bound::Free => continue,
                Bound::Lower => self.stationarity[i],
                Bound::Upper => -self.stationarity[i],
            };
            if dual < -options.active_tolerance * self.scale[i] && barrier.free[i] != 0.0 {
                self.set.bounds[i] = Bound::Free;
            }
        }
        true
    }

    fn join_violated(
        &mut self,
        evaluations: &Evaluations,
        query: Query<'_>,
        barrier: &Barrier,
        options: &Options,
    ) -> bool {
        let before = self.set.budgets.len();
        for m in 0..evaluations.m {
            let (used, remaining) = (evaluations.usage[m], query.available[m]);
            if used - remaining > options.active_tolerance * (used.abs() + remaining.abs())
                && barrier.live[m]
                && !self.set.budgets.contains(&m)
            {
                self.set.budgets.push(m);
            }
        }
        self.set.budgets.len() != before
    }

    /// `∇l + ∇gᵀ(λ + μ)` and the scale of its terms.
    pub(crate) fn update_stationarity(&mut self, evaluations: &Evaluations, query: Query<'_>) {
        let d = evaluations.d;
        let (stationarity, scale) = (&mut self.stationarity[..d], &mut self.scale[..d]);
        let gradient = &evaluations.gradient[..d];
        for i in 0..d {
            (stationarity[i], scale[i]) = (gradient[i], gradient[i].abs());
        }
        for ((weight, price), dual) in self.weights.iter_mut().zip(query.multiplier).zip(&self.dual) {
            *weight = price + dual;
        }
        add_rows_and_sizes(stationarity, scale, &evaluations.jacobian, &self.weights);
    }

    /// Whether no relative residual on the active set is above a limit. Far from the solution the first few tell.
    fn is_within(&self, evaluations: &Evaluations, query: Query<'_>, limit: f64) -> bool {
        let above = |residual: f64, scale: f64| residual.abs() / scale.max(f64::MIN_POSITIVE) > limit;
        let of_budget = |&m: &usize| {
            let (used, remaining) = (evaluations.usage[m], query.available[m]);
            above(used - remaining, used.abs() + remaining.abs())
        };
        let of_action =
            |i: usize| self.set.bounds[i] == Bound::Free && above(self.stationarity[i], self.scale[i]);
        !self.set.budgets.iter().any(of_budget) && !(0..evaluations.d).any(of_action)
    }

    /// Whether every constraint is clearly active or clearly not, and every action off its bounds is held by a curvature. What to
    /// answer elsewhere (at a kink, or where nothing is worth anything) is the interior point's to say.
    pub(crate) fn is_regular(
        &mut self,
        evaluations: &Evaluations,
        query: Query<'_>,
        (problem, barrier): (&dyn SmoothProblem, &Barrier),
        options: &Options,
    ) -> bool {
        let near = options.near_tolerance;
        let d = evaluations.d;
        let (lower, upper) = (&problem.lower()[..d], &problem.upper()[..d]);
        let (x, r, scale) = (&self.x[..d], &self.stationarity[..d], &self.scale[..d]);
        let (bounds, curvatures) = (&self.set.bounds[..d], &evaluations.curvatures()[..d]);
        let (free, reach) = (&barrier.free[..d], &barrier.reach[..d]);
        let mut held = true;
        for i in 0..d {
            let (reach, pushed) = (near * reach[i], near * scale[i]);
            let inside = (curvatures[i] > f64::MIN_POSITIVE)
                & (x[i] - lower[i] > reach.min(near * x[i].abs()))
                & (upper[i] - x[i] > reach);
            let of_its_own = ((bounds[i] == Bound::Free) & inside)
                | ((bounds[i] == Bound::Lower) & (r[i] > pushed))
                | ((bounds[i] == Bound::Upper) & (-r[i] > pushed));
            held &= (free[i] == 0.0) | of_its_own;
        }
        let sizes = &mut self.change;
        held && (0..evaluations.m).all(|m| {
            let (used, available) = (evaluations.usage[m], query.available[m]);
            if self.set.budgets.contains(&m) {
                let scale = dual_scale(evaluations, (&self.x, &self.scale, &self.set.bounds), sizes, m);
                self.dual[m] > near * scale
            } else {
                !barrier.live[m] || available - used > near * (used.abs() + available.abs())
            }
        })
    }

    /// Duals of active budgets that are zero to rounding become zero.
    fn clean(&mut self, evaluations: &Evaluations, query: Query<'_>, options: &Options) {
        let before = self.set.budgets.len();
        let (x, scale, bounds, dual) = (&self.x, &self.scale, &self.set.bounds, &mut self.dual);
        let sizes = &mut self.change;
        self.set.budgets.retain(|&m| {
            let keep =
                dual[m] > options.active_tolerance * dual_scale(evaluations, (x, scale, bounds), sizes, m);
            if !keep {
                dual[m] = 0.0;
            }
            keep
        });
        if self.set.budgets.len() != before {
            self.update_stationarity(evaluations, query);
        }
    }
}

/// The size of a dual that would matter to an action off its bounds: the least over them of gradient over usage. Other
/// actions may be worth many orders of magnitude more and do not count, unless none is off its bounds. A gradient that
/// vanishes is as large as the curvature times the action: so large are the terms that cancel in it.
fn dual_scale(
    evaluations: &Evaluations,
    (x, scale, bounds): (&[f64], &[f64], &[Bound]),
    sizes: &mut [f64],
    m: usize,
) -> f64 {
    let jacobian = &evaluations.jacobian[m * evaluations.d..][..evaluations.d];
    let point = (x, scale, evaluations.curvatures());
    let free = least_size(sizes, jacobian, bounds, point, false);
    let any = if free < f64::INFINITY {
        free
    } else {
        least_size(sizes, jacobian, bounds, point, true)
    };
    if any < f64::INFINITY { any } else { 0.0 }
}
