//! Queries without an interior at the lower corner: which actions an exhausted budget pins, and which can still rise.

use laau_core::{Query, SmoothProblem};

use crate::workspace::Workspace;

impl Workspace {
    /// Finds the budgets that the lower corner uses up, and the actions they pin to their lower bounds.
    ///
    /// A budget whose usage *falls* in an action is not a limit yet: that action is raised first, and the iteration starts
    /// from there. The evaluations hold the usage of the lower corner.
    pub(crate) fn pin(&mut self, problem: &dyn SmoothProblem, query: Query<'_>) {
        let (d, m) = (self.evaluations.d, self.evaluations.m);
        let (lower, upper) = (problem.lower(), problem.upper());
        for i in 0..d {
            self.barrier.free[i] = if lower[i] < upper[i] { 1.0 } else { 0.0 };
        }
        self.barrier.raise.fill(0.0);
        for row in 0..m {
            self.slack[row] = query.available[row] - self.evaluations.usage[row];
            let size = query.available[row].abs() + self.evaluations.usage[row].abs();
            self.barrier.live[row] = self.slack[row] > self.options.exhausted_tolerance * size;
        }
        self.evaluations.begin(problem, query, lower);
        let mut falling = false;
        for row in 0..m {
            if !self.barrier.live[row] {
                if self.falls(row) {
                    falling = true;
                } else if self.slack[row] > 0.0 && self.starts_flat(problem, query, row) {
                    self.barrier.live[row] = true;
                } else {
                    self.pin_users(problem, query, row);
                }
            }
        }
        if falling {
            self.raise(problem, query);
        }
    }

    /// Whether some action that may move lowers a budget's usage.
    fn falls(&self, row: usize) -> bool {
        let d = self.evaluations.d;
        let jacobian = &self.evaluations.jacobian[row * d..][..d];
        (0..d).any(|i| jacobian[i] < 0.0 && self.barrier.free[i] != 0.0)
    }

    /// Whether usage starts flat in some action that may move, and rises later. Even a slack of a few roundings then leaves
    /// room: `x²` uses only the square of what `x` rises to.
    fn starts_flat(&mut self, problem: &dyn SmoothProblem, query: Query<'_>, row: usize) -> bool {
        let d = self.evaluations.d;
        if self.evaluations.structure.affine_usage {
            return false;
        }
        let (lower, upper) = (problem.lower(), problem.upper());
        for i in 0..d {
            let flat = self.barrier.free[i] != 0.0 && self.evaluations.jacobian[row * d + i] == 0.0;
            self.scratch[i] = if flat { upper[i] } else { lower[i] };
        }
        self.evaluations.begin(problem, query, &self.scratch);
        let rises = |i: usize| self.scratch[i] > lower[i] && self.evaluations.jacobian[row * d + i] > 0.0;
        let rises = (0..d).any(rises);
        self.evaluations.begin(problem, query, lower);
        rises
    }

    /// Pins the actions that use a budget: those in which usage rises at once, or later on.
    ///
    /// What an action uses beside what others use may be lost in rounding, so the derivative at its upper bound tells
    /// whether a usage that starts flat grows at all. One that cannot use up its part of the slack is left alone.
    fn pin_users(&mut self, problem: &dyn SmoothProblem, query: Query<'_>, row: usize) {
        let d = self.evaluations.d;
        let (lower, upper) = (problem.lower(), problem.upper());
        let at_corner = query.available[row] - self.slack[row];
        let part = self.slack[row].max(0.0) / d as f64;
        for i in 0..d {
            self.scratch[i] = self.evaluations.jacobian[row * d + i];
            if self.scratch[i] > 0.0 {
                self.barrier.free[i] = 0.0;
            }
        }
        if self.evaluations.structure.affine_usage {
            return;
        }
        self.p.copy_from_slice(lower);
        for i in 0..d {
            if self.barrier.free[i] == 0.0 {
                continue;
            }
            self.p[i] = upper[i];
            let uses = if self.scratch[i] < 0.0 {
                self.evaluations.evaluate_usage(problem, query, &self.p);
                self.evaluations.usage[row] > at_corner
            } else {
                self.evaluations.begin(problem, query, &self.p);
                self.evaluations.jacobian[row * d + i] * (upper[i] - lower[i]) > part
            };
            self.p[i] = lower[i];
            if uses {
                self.barrier.free[i] = 0.0;
            }
        }
        self.evaluations.begin(problem, query, lower);
    }

    /// Raises the actions in which a used-up budget falls, one by one, half as far as they can go. A budget that has room
    /// then takes part; one that still has none pins its users.
    fn raise(&mut self, problem: &dyn SmoothProblem, query: Query<'_>) {
        let (d, m) = (self.evaluations.d, self.evaluations.m);
        let (lower, upper) = (problem.lower(), problem.upper());
        for row in 0..m {
            self.falling[row] = !self.barrier.live[row] && self.falls(row);
        }
        self.scratch.copy_from_slice(lower);
        for i in 0..d {
            let falls = |row: usize| self.falling[row] && self.evaluations.jacobian[row * d + i] < 0.0;
            if self.barrier.free[i] == 0.0 || !(0..m).any(falls) {
                continue;
            }
            for halvings in 0..self.options.max_halvings {
                let rise = (upper[i] - lower[i]) * 0.5_f64.powi(halvings.cast_signed());
                self.scratch[i] = lower[i] + rise;
                self.evaluations.evaluate_usage(problem, query, &self.scratch);
                let fits = |row: usize| {
                    let left = query.available[row] - self.evaluations.usage[row];
                    if self.barrier.live[row] {
                        left >= 0.5 * self.slack[row]
                    } else {
                        !self.falling[row] || left >= 0.0
                    }
                };
                if (0..m).all(fits) {
                    self.barrier.raise[i] = 0.5 * rise;
                    break;
                }
            }
            self.scratch[i] = lower[i] + self.barrier.raise[i];
        }
        self.evaluations.evaluate_usage(problem, query, &self.scratch);
        let mut stuck = false;
        for row in 0..m {
            let left = query.available[row] - self.evaluations.usage[row];
            let size = query.available[row].abs() + self.evaluations.usage[row].abs();
            if self.falling[row] {
                self.barrier.live[row] = left > self.options.exhausted_tolerance * size;
                stuck |= !self.barrier.live[row];
            }
            if self.barrier.live[row] {
                self.slack[row] = left;
            }
        }
        if stuck {
            for row in 0..m {
                if self.falling[row] && !self.barrier.live[row] {
                    self.pin_users(problem, query, row);
                }
            }
        }
    }
}
