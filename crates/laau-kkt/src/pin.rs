//! Queries without an interior at the lower corner: which actions a used-up budget pins, and which can rise all the same.

use laau_core::Query;

use crate::interior_point::InteriorPoint;

/// Halvings of a box before a rise counts as none.
const MOST_HALVINGS: i32 = 100;

impl InteriorPoint {
    /// Finds the budgets that the lower corner uses up, and the actions they pin to their lower bounds.
    ///
    /// A budget whose usage *falls* in an action is not a limit yet: that action is raised first, and the iteration starts
    /// from there. The evaluations hold the usage of the lower corner.
    pub(crate) fn pin(&mut self, query: Query<'_>) {
        let work = &mut self.work;
        let (d, m) = (work.evaluations.d, work.evaluations.m);
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        for i in 0..d {
            work.barrier.free[i] = if lower[i] < upper[i] { 1.0 } else { 0.0 };
        }
        work.barrier.raise.fill(0.0);
        for row in 0..m {
            work.slack[row] = query.available[row] - work.evaluations.usage[row];
            let size = query.available[row].abs() + work.evaluations.usage[row].abs();
            work.barrier.live[row] = work.slack[row] > self.options.exhausted_tolerance * size;
        }
        work.evaluations.begin(&*self.problem, query, lower);
        let mut falling = false;
        for row in 0..m {
            if !self.work.barrier.live[row] {
                if self.falls(row) {
                    falling = true;
                } else if self.work.slack[row] > 0.0 && self.starts_flat(query, row) {
                    self.work.barrier.live[row] = true;
                } else {
                    self.pin_users(query, row);
                }
            }
        }
        if falling {
            self.raise(query);
        }
    }

    /// Whether some action that may move lowers a budget's usage.
    fn falls(&self, row: usize) -> bool {
        let d = self.work.evaluations.d;
        let jacobian = &self.work.evaluations.jacobian[row * d..][..d];
        (0..d).any(|i| jacobian[i] < 0.0 && self.work.barrier.free[i] != 0.0)
    }

    /// Whether usage starts flat in some action that may move, and rises later: a slack of the last digits is then far from
    /// nothing, since what `x²` may use is the square of what `x` may rise to.
    fn starts_flat(&mut self, query: Query<'_>, row: usize) -> bool {
        let work = &mut self.work;
        let d = work.evaluations.d;
        if work.evaluations.structure.affine_usage {
            return false;
        }
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        for i in 0..d {
            let flat = work.barrier.free[i] != 0.0 && work.evaluations.jacobian[row * d + i] == 0.0;
            work.scratch[i] = if flat { upper[i] } else { lower[i] };
        }
        work.evaluations.begin(&*self.problem, query, &work.scratch);
        let rises = |i: usize| work.scratch[i] > lower[i] && work.evaluations.jacobian[row * d + i] > 0.0;
        let rises = (0..d).any(rises);
        work.evaluations.begin(&*self.problem, query, lower);
        rises
    }

    /// Pins the actions that use a budget: those in which usage rises at once, or later on.
    ///
    /// What an action uses beside what others use may be lost in rounding, so the derivative at its upper bound tells
    /// whether a usage that starts flat grows at all. One that cannot use up its part of the slack is left alone.
    fn pin_users(&mut self, query: Query<'_>, row: usize) {
        let work = &mut self.work;
        let d = work.evaluations.d;
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let at_corner = query.available[row] - work.slack[row];
        let part = work.slack[row].max(0.0) / d as f64;
        for i in 0..d {
            work.scratch[i] = work.evaluations.jacobian[row * d + i];
            if work.scratch[i] > 0.0 {
                work.barrier.free[i] = 0.0;
            }
        }
        if work.evaluations.structure.affine_usage {
            return;
        }
        work.p.copy_from_slice(lower);
        for i in 0..d {
            if work.barrier.free[i] == 0.0 {
                continue;
            }
            work.p[i] = upper[i];
            let uses = if work.scratch[i] < 0.0 {
                work.evaluations.evaluate_usage(&*self.problem, query, &work.p);
                work.evaluations.usage[row] > at_corner
            } else {
                work.evaluations.begin(&*self.problem, query, &work.p);
                work.evaluations.jacobian[row * d + i] * (upper[i] - lower[i]) > part
            };
            work.p[i] = lower[i];
            if uses {
                work.barrier.free[i] = 0.0;
            }
        }
        work.evaluations.begin(&*self.problem, query, lower);
    }

    /// Raises the actions in which a used-up budget falls, one by one, half as far as they can go. A budget that has room
    /// then takes part; one that still has none pins its users.
    fn raise(&mut self, query: Query<'_>) {
        let (d, m) = (self.work.evaluations.d, self.work.evaluations.m);
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        for row in 0..m {
            self.work.falling[row] = !self.work.barrier.live[row] && self.falls(row);
        }
        let work = &mut self.work;
        work.scratch.copy_from_slice(lower);
        for i in 0..d {
            let falls = |row: usize| work.falling[row] && work.evaluations.jacobian[row * d + i] < 0.0;
            if work.barrier.free[i] == 0.0 || !(0..m).any(falls) {
                continue;
            }
            for halvings in 0..MOST_HALVINGS {
                let rise = (upper[i] - lower[i]) * 0.5_f64.powi(halvings);
                work.scratch[i] = lower[i] + rise;
                work.evaluations
                    .evaluate_usage(&*self.problem, query, &work.scratch);
                let fits = |row: usize| {
                    let left = query.available[row] - work.evaluations.usage[row];
                    if work.barrier.live[row] {
                        left >= 0.5 * work.slack[row]
                    } else {
                        !work.falling[row] || left >= 0.0
                    }
                };
                if (0..m).all(fits) {
                    work.barrier.raise[i] = 0.5 * rise;
                    break;
                }
            }
            work.scratch[i] = lower[i] + work.barrier.raise[i];
        }
        work.evaluations
            .evaluate_usage(&*self.problem, query, &work.scratch);
        let mut stuck = false;
        for row in 0..m {
            let left = query.available[row] - work.evaluations.usage[row];
            let size = query.available[row].abs() + work.evaluations.usage[row].abs();
            if work.falling[row] {
                work.barrier.live[row] = left > self.options.exhausted_tolerance * size;
                stuck |= !work.barrier.live[row];
            }
            if work.barrier.live[row] {
                work.slack[row] = left;
            }
        }
        if stuck {
            for row in 0..m {
                if self.work.falling[row] && !self.work.barrier.live[row] {
                    self.pin_users(query, row);
                }
            }
        }
    }
}
