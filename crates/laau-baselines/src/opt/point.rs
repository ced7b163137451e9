//! A point of the interior point: actions, duals, and the first derivatives there.

use laau_core::{Dimensions, Episode, SmoothProblem};

/// Actions and duals of a horizon, and what follows from them.
#[derive(Clone)]
pub(super) struct Point {
    /// The actions `x`, `N × d`.
    pub(super) x: Vec<f64>,
    /// The duals `μ_t` of the limits on usage, `N × M`; zero where there is no limit.
    pub(super) dual: Vec<f64>,
    /// The prices `p_t = Σ_{s ≥ t} μ_s` that step `t` pays, `N × M`.
    pub(super) price: Vec<f64>,
    /// The duals of `x ≥ lower` and `x ≤ upper`, `N × d` each.
    pub(super) at_lower: Vec<f64>,
    pub(super) at_upper: Vec<f64>,
    /// `∇l`, `N × d`, and `∇g`, `N × M × d`.
    pub(super) gradient: Vec<f64>,
    pub(super) jacobian: Vec<f64>,
    /// What is left of each limit, `s_t = limit_t − Σ_{s ≤ t} g_s`, `N × M`; infinite where there is none.
    pub(super) slack: Vec<f64>,
}

impl Point {
    pub(super) fn new(
        n: usize,
        Dimensions {
            actions: d,
            budgets: m,
            ..
        }: Dimensions,
    ) -> Self {
        Self {
            x: vec![0.0; n * d],
            dual: vec![0.0; n * m],
            price: vec![0.0; n * m],
            at_lower: vec![0.0; n * d],
            at_upper: vec![0.0; n * d],
            gradient: vec![0.0; n * d],
            jacobian: vec![0.0; n * m * d],
            slack: vec![f64::INFINITY; n * m],
        }
    }

    /// Puts every step at the same share of the way from the lower to the upper corner.
    pub(super) fn place(&mut self, problem: &dyn SmoothProblem, share: f64) {
        let (lower, upper) = (problem.lower(), problem.upper());
        for x in self.x.chunks_exact_mut(lower.len()) {
            for ((x, lower), upper) in x.iter_mut().zip(lower).zip(upper) {
                *x = lower + share * (upper - lower);
            }
        }
    }

    /// Fills in prices, gradient, Jacobian and slack.
    pub(super) fn evaluate(&mut self, problem: &dyn SmoothProblem, episode: Episode<'_>, limits: &[f64]) {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        for (step, x) in self.x.chunks_exact(d).enumerate() {
            let context = episode.context(step);
            problem.cost_gradient(x, context, &mut self.gradient[step * d..][..d]);
            problem.usage_jacobian(x, context, &mut self.jacobian[step * m * d..][..m * d]);
        }
        self.price.copy_from_slice(&self.dual);
        for at in (0..self.price.len() - m).rev() {
            self.price[at] += self.price[at + m];
        }
        self.measure(problem, episode, limits);
    }

    /// Fills in the slack. Usage is summed with compensation (Neumaier): near the optimum slack is a small difference of
    /// large sums.
    pub(super) fn measure(&mut self, problem: &dyn SmoothProblem, episode: Episode<'_>, limits: &[f64]) {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        let (mut usage, mut total, mut lost) = (vec![0.0; m], vec![0.0_f64; m], vec![0.0; m]);
        for (step, x) in self.x.chunks_exact(d).enumerate() {
            problem.usage(x, episode.context(step), &mut usage);
            for k in 0..m {
                let sum = total[k] + usage[k];
                lost[k] += if total[k] >= usage[k] {
                    (total[k] - sum) + usage[k]
                } else {
                    (usage[k] - sum) + total[k]
                };
                total[k] = sum;
                self.slack[step * m + k] = (limits[step * m + k] - total[k]) - lost[k];
            }
        }
    }

    /// Visits every entry of the dual residual `∇l + ∇gᵀp − z_lower + z_upper` with the width of its box.
    pub(super) fn each_dual_residual(&self, problem: &dyn SmoothProblem, mut visit: impl FnMut(f64, f64)) {
        let (lower, upper) = (problem.lower(), problem.upper());
        let d = lower.len();
        let m = problem.dimensions().budgets;
        for (step, jacobian) in self.jacobian.chunks_exact(m * d).enumerate() {
            for i in 0..d {
                let at = step * d + i;
                let mut residual = self.gradient[at] - self.at_lower[at] + self.at_upper[at];
                for k in 0..m {
                    residual += jacobian[k * d + i] * self.price[step * m + k];
                }
                visit(residual, upper[i] - lower[i]);
            }
        }
    }

    /// Visits every complementarity product with its weight in the barrier: bounds of actions count 1.
    pub(super) fn each_product(
        &self,
        problem: &dyn SmoothProblem,
        limit_weight: f64,
        mut visit: impl FnMut(f64, f64),
    ) {
        let (lower, upper) = (problem.lower(), problem.upper());
        let d = lower.len();
        for (at, x) in self.x.iter().enumerate() {
            visit(self.at_lower[at] * (x - lower[at % d]), 1.0);
            visit(self.at_upper[at] * (upper[at % d] - x), 1.0);
        }
        for (dual, slack) in self.dual.iter().zip(&self.slack) {
            if slack.is_finite() {
                visit(dual * slack, limit_weight);
            }
        }
    }

    /// The cost, and the sum of the sizes of its terms.
    pub(super) fn cost(&self, problem: &dyn SmoothProblem, episode: Episode<'_>) -> (f64, f64) {
        let mut sums = (0.0, 0.0);
        for (step, x) in self.x.chunks_exact(problem.lower().len()).enumerate() {
            let cost = problem.cost(x, episode.context(step));
            sums.0 += cost;
            sums.1 += cost.abs();
        }
        sums
    }
}
