//! Where the iteration starts.

use laau_core::{Query, SmoothProblem};

use super::Barrier;
use crate::evaluations::Evaluations;
use crate::passes::shorten;

impl Barrier {
    /// Chooses a strictly interior start; `slack` is `b − g(lower + raise)`, and the evaluations hold `∇g` at the lower corner.
    ///
    /// An action can rise to its upper bound or until it alone uses up a budget, whichever comes first: the width of
    /// the box does not matter where a budget is narrower. Of that reach every action takes the smallest share of slack
    /// over the budgets that it uses, so that for increasing affine usage at least half of every slack is left.
    pub(crate) fn begin(
        &mut self,
        problem: &dyn SmoothProblem,
        evaluations: &mut Evaluations,
        query: Query<'_>,
        slack: &[f64],
    ) {
        let (d, m) = (evaluations.d, evaluations.m);
        let (lower, upper) = (&problem.lower()[..d], &problem.upper()[..d]);
        self.limit_reach(problem, evaluations, slack);
        self.u.fill(self.options.start_share);
        for row in 0..m {
            if !self.live[row] {
                continue;
            }
            let jacobian = &evaluations.jacobian[row * d..][..d];
            let mut most = 0.0;
            for i in 0..d {
                most += self.free[i] * jacobian[i].max(0.0) * self.reach[i];
            }
            let share = self.options.start_share * slack[row] / most;
            for i in 0..d {
                if jacobian[i] > 0.0 && share < self.u[i] {
                    self.u[i] = share;
                }
            }
        }
        for i in 0..d {
            let left = 1.0 - self.raise[i] / (upper[i] - lower[i]);
            self.u[i] *= self.reach[i] * if self.raise[i] > 0.0 { left } else { 1.0 };
            self.u[i] += self.raise[i];
        }
        self.enter(problem, evaluations, query, slack);
        for i in 0..d {
            if self.free[i] == 0.0 {
                self.u[i] = 1.0;
                self.v[i] = 1.0;
            } else {
                self.v[i] = (upper[i] - lower[i]) - self.u[i];
            }
        }
        self.products = 0.0;
        evaluations.evaluate(problem, query, &self.x);
        let mut work = 0.0;
        for i in 0..d {
            work += self.free[i] * evaluations.priced[i].abs() * self.u[i].min(self.v[i]);
            self.products += 2.0 * self.free[i];
        }
        for row in 0..m {
            self.s[row] = if self.live[row] {
                self.products += 1.0;
                if evaluations.structure.affine_usage {
                    // Not the difference to the usage, which has no digits left where the slack is small.
                    let jacobian = &evaluations.jacobian[row * d..][..d];
                    let rise = |i: usize| self.free[i] * jacobian[i] * (self.u[i] - self.raise[i]);
                    slack[row] - (0..d).map(rise).sum::<f64>()
                } else {
                    query.available[row] - evaluations.usage[row]
                }
            } else {
                1.0
            };
        }
        self.excess.fill(0.0);
        self.room.copy_from_slice(&self.s);
        self.update_noise(query);
        let count = self.products.max(1.0);
        self.product = (work / count).max(f64::MIN_POSITIVE.sqrt());
        self.start = self.product;
        for i in 0..d {
            self.z[i] = self.free[i] * self.product / self.u[i];
            self.y[i] = self.free[i] * self.product / self.v[i];
        }
        for row in 0..m {
            self.dual[row] = if self.live[row] {
                self.product / self.s[row]
            } else {
                0.0
            };
        }
        evaluations.evaluate_hessian(problem, query, &self.x, &self.dual);
        self.solved.fill(0.0);
        self.residual = f64::INFINITY;
        self.iterations = 0;
        self.held = 0;
        self.kept.forget();
    }

    /// How far each action can rise alone; the evaluations hold `∇g` at the lower corner.
    pub(crate) fn limit_reach(
        &mut self,
        problem: &dyn SmoothProblem,
        evaluations: &Evaluations,
        slack: &[f64],
    ) {
        let d = evaluations.d;
        let (lower, upper) = (&problem.lower()[..d], &problem.upper()[..d]);
        let (reach, most) = (&mut self.reach[..d], &mut self.most[..d]);
        for i in 0..d {
            reach[i] = upper[i] - lower[i];
        }
        most.copy_from_slice(reach);
        let rows = || (0..evaluations.m).map(|row| (row, &evaluations.jacobian[row * d..][..d]));
        let raised = self.raise.iter().any(|raise| *raise > 0.0);
        let mut any_falls = false;
        for (row, jacobian) in rows().filter(|(row, _)| self.live[*row]) {
            any_falls |= shorten(reach, jacobian, slack[row]);
        }
        if !raised && !any_falls {
            most.copy_from_slice(reach);
        } else if !raised {
            for (row, jacobian) in rows().filter(|(row, _)| self.live[*row]) {
                if !jacobian.iter().any(|usage| *usage < 0.0) {
                    shorten(most, jacobian, slack[row]);
                }
            }
        }
    }

    /// What rounding leaves of usages, next to the room of each budget.
    pub(crate) fn update_noise(&mut self, query: Query<'_>) {
        for row in 0..self.room.len() {
            let noise = 4.0 * f64::EPSILON * query.available[row].abs();
            self.noise[row] = noise.min(self.options.noise_share * self.room[row]);
        }
    }

    /// Shortens a start that curved budgets do not allow, in the actions that use most of what is exceeded: one whose box is
    /// wide does not drag the others down with it.
    fn enter(
        &mut self,
        problem: &dyn SmoothProblem,
        evaluations: &mut Evaluations,
        query: Query<'_>,
        slack: &[f64],
    ) {
        let (d, m) = (evaluations.d, evaluations.m);
        let lower = &problem.lower()[..d];
        for _ in 0..self.options.max_start_cuts {
            for i in 0..d {
                self.x[i] = lower[i] + self.free[i] * self.u[i];
            }
            if evaluations.structure.affine_usage {
                return;
            }
            evaluations.evaluate_usage(problem, query, &self.x);
            // A NaN is not inside.
            let inside = |row: usize| {
                query.available[row] - evaluations.usage[row] >= self.options.start_slack * slack[row]
            };
            let Some(row) = (0..m).find(|&row| self.live[row] && !inside(row)) else {
                return;
            };
            evaluations.begin(problem, query, &self.x);
            let jacobian = &evaluations.jacobian[row * d..][..d];
            let gain = |i: usize, u: &[f64]| self.free[i] * jacobian[i].max(0.0) * (u[i] - self.raise[i]);
            let most = (0..d).fold(0.0_f64, |most, i| most.max(gain(i, &self.u)));
            for i in 0..d {
                // Without a derivative, all of them.
                if gain(i, &self.u) >= self.options.start_cut_share * most {
                    self.u[i] = self.raise[i] + self.options.start_cut * (self.u[i] - self.raise[i]);
                }
            }
        }
    }
}
