//! Where the derivative of a layer has kinks, told from a solution by arithmetic of our own.

use laau_core::{Dimensions, Inexact, SolutionRef};

use crate::certificate::Lagrangian;
use crate::query::Resolved;

/// A kink at this relative distance or nearer excuses a flag.
pub(super) const NEAR: f64 = 1e-6;

/// How near each constraint is to being active with a zero dual: the larger of relative slack and relative dual.
pub(super) struct Kinks {
    margins: Vec<f64>,
    free: usize,
    active: usize,
    flat: bool,
    /// Whether an active budget is as near the end of all feasible ones, what the lower corner uses.
    cornered: bool,
    /// The share that eight roundings of an active budget are of what it leaves above the lower corner: answers are no finer.
    pub(super) grain: f64,
    /// Whether an action that no bound holds is not where its own terms cancel: its gain is too small a part of the whole to count.
    unsettled: bool,
}

impl Kinks {
    pub(super) fn new(resolved: &Resolved, solution: SolutionRef<'_>) -> Self {
        let problem = &*resolved.problem;
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        let query = resolved.query();
        let x = solution.action;
        let (mut slope, mut terms) = (vec![0.0; d], vec![0.0; d]);
        Lagrangian::new(problem, query, solution.duals).gradient_and_terms(x, &mut slope, &mut terms);
        let mut jacobian = vec![0.0; m * d];
        problem.usage_jacobian(x, query.context, &mut jacobian);
        let usage = resolved.usage(x);
        let weights = resolved.weights(solution.duals);
        let mut hessian = vec![0.0; d * d];
        problem.lagrangian_hessian(x, query.context, &weights, &mut hessian);
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let mut kinks = Self {
            margins: Vec::new(),
            free: 0,
            active: 0,
            flat: false,
            cornered: false,
            grain: 0.0,
            unsettled: false,
        };
        let corner = resolved.usage(problem.lower());
        let mut is_free = vec![false; d];
        for i in 0..d {
            // What the gradient changes by over the action's own size: terms may cancel inside the cost.
            terms[i] += (hessian[i * d + i] * x[i]).abs();
            let (lower, upper) = (problem.lower()[i], problem.upper()[i]);
            let dual = ratio(slope[i].abs(), terms[i]);
            let slack = |bound: f64| {
                ratio(
                    (x[i] - bound).abs(),
                    (x[i].abs() + bound.abs()).max(1e-9 * upper.abs()),
                )
            };
            let nearest = slack(lower).min(slack(upper));
            kinks.margins.push(nearest.max(dual));
            let is_held = (x[i] == lower && slope[i] > 0.0) || (x[i] == upper && slope[i] < 0.0);
            kinks.unsettled |= dual > NEAR && !is_held;
            is_free[i] = nearest > NEAR;
            if is_free[i] {
                kinks.free += 1;
                kinks.flat |= hessian[i * d + i] * x[i].abs() <= 1e-6 * terms[i];
            }
        }
        let mut used = vec![false; m];
        let mut at = vec![0.0; m * d];
        for point in [problem.lower(), x, problem.upper()] {
            problem.usage_jacobian(point, query.context, &mut at);
            for (used, row) in used.iter_mut().zip(at.chunks_exact(d)) {
                *used |= row.iter().any(|slope| *slope != 0.0);
            }
        }
        // A budget that nothing uses has no kink, though slack and dual are zero.
        for row in (0..m).filter(|row| used[*row]) {
            let slack = ratio(
                query.available[row] - usage[row],
                query.available[row].abs() + usage[row].abs(),
            );
            let push = |i: usize| ratio(solution.duals[row] * jacobian[row * d + i].abs(), terms[i]);
            let dual = (0..d).map(push).fold(0.0, f64::max);
            // By how much of itself the budget would have to grow for its dual to vanish, if that moves the actions only a little.
            let moves = |i: usize| solution.duals[row] * jacobian[row * d + i] / hessian[i * d + i];
            let is_little = |i: usize| moves(i).abs() <= 1e-2 * (x[i].abs() + (x[i] - problem.lower()[i]));
            let mut users = (0..d).filter(|i| is_free[*i] && jacobian[row * d + i] != 0.0);
            let idle = ratio(
                users.clone().map(|i| jacobian[row * d + i] * moves(i)).sum(),
                query.available[row].abs() + usage[row].abs(),
            );
            let is_known = idle > 0.0 && users.all(is_little);
            let dual = if is_known { dual.min(idle) } else { dual };
            kinks.margins.push(slack.max(dual));
            kinks.active += usize::from(slack <= NEAR);
            let room = ratio(
                query.available[row] - corner[row],
                query.available[row].abs() + corner[row].abs(),
            );
            if slack <= NEAR && room <= NEAR {
                kinks.cornered = true;
                kinks.grain = kinks.grain.max(8.0 * f64::EPSILON / room);
            }
        }
        kinks
    }

    pub(super) fn nearest(&self) -> f64 {
        self.margins.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(super) fn within(&self, distance: f64) -> usize {
        self.margins.iter().filter(|margin| **margin <= distance).count()
    }

    /// Whether a flag other than that of a kink is plausible.
    pub(super) fn excuses(&self, reason: Inexact) -> bool {
        match reason {
            Inexact::SingularHessian => self.flat,
            Inexact::TooManyActive => self.active > self.free,
            Inexact::DependentConstraints => self.active > 1 || self.active > self.free,
            // Beyond the lower corner there is no solution: the end of the domain, which a rounding of usage may be. And what is not
            // where it should be has no derivative of its own.
            Inexact::NotSolved => self.cornered || self.unsettled,
            // What a budget leaves above the lower corner may be worth too little to settle who has it: several stand beside their bounds.
            Inexact::WeaklyActive => self.cornered && self.unsettled,
            Inexact::Smoothed => false,
        }
    }
}
