//! A point of the interior point: actions, duals, and the first derivatives there.

use laau_core::{Dimensions, Episode, SmoothProblem};

use super::fine::Rises;
use super::region::{Region, raise};
use super::sum::Sum;

/// Actions and duals of a horizon, and the quantities derived from them.
#[derive(Clone)]
pub(super) struct Point {
    /// How far the actions are above their lower bounds, `N × d`. This, not the action, is what moves: near a bound the
    /// action has no digits left.
    pub(super) rise: Vec<f64>,
    /// The actions `x`, `N × d`, rounded.
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
            rise: vec![0.0; n * d],
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

    /// Fills in actions, prices, gradient, Jacobian and slack. A Jacobian that depends on the context alone is the region's.
    pub(super) fn evaluate(
        &mut self,
        problem: &dyn SmoothProblem,
        episode: Episode<'_>,
        limits: &[f64],
        region: &Region,
    ) {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        let affine = problem.structure().affine_usage;
        self.place(problem);
        for (step, x) in self.x.chunks_exact(d).enumerate() {
            let context = episode.context(step);
            problem.cost_gradient(x, context, &mut self.gradient[step * d..][..d]);
            if !affine {
                problem.usage_jacobian(x, context, &mut self.jacobian[step * m * d..][..m * d]);
            }
        }
        self.price.copy_from_slice(&self.dual);
        for at in (0..self.price.len() - m).rev() {
            self.price[at] += self.price[at + m];
        }
        self.measure(problem, episode, limits, region);
    }

    /// Fills in the actions.
    pub(super) fn place(&mut self, problem: &dyn SmoothProblem) {
        let d = problem.lower().len();
        for (at, (x, rise)) in self.x.iter_mut().zip(&self.rise).enumerate() {
            *x = raise(problem, at % d, *rise);
        }
    }

    /// Fills in the slack. Where usage is affine, or a room narrow, it is the room less what the rises use, to full relative
    /// accuracy.
    pub(super) fn measure(
        &mut self,
        problem: &dyn SmoothProblem,
        episode: Episode<'_>,
        limits: &[f64],
        region: &Region,
    ) {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        let affine = problem.structure().affine_usage;
        let (mut usage, mut used) = (vec![0.0; m], vec![Sum::default(); m]);
        let mut rises = region.narrow.contains(&true).then(|| Rises::new(problem));
        for (step, x) in self.x.chunks_exact(d).enumerate() {
            let rise = &self.rise[step * d..][..d];
            if !affine {
                problem.usage(x, episode.context(step), &mut usage);
            }
            if let Some(rises) = &mut rises {
                rises.measure(problem, episode.context(step), rise);
            }
            for k in 0..m {
                let at = step * m + k;
                if affine {
                    let jacobian = &self.jacobian[at * d..][..d];
                    usage[k] = jacobian.iter().zip(rise).map(|(j, u)| j * u).sum();
                } else if let Some(rises) = rises.as_ref().filter(|_| region.narrow[k]) {
                    usage[k] = rises.usage[k];
                }
                used[k].add(usage[k]);
                self.slack[at] = if region.room[at].is_infinite() {
                    f64::INFINITY
                } else {
                    used[k].below(if affine || region.narrow[k] {
                        region.room[at]
                    } else {
                        limits[at]
                    })
                };
            }
        }
    }

    /// Visits the entries of the reduced gradient `ρ = ∇l + ∇gᵀp` and of the dual residual `ρ − z_lower + z_upper`, but for
    /// those of held actions.
    pub(super) fn each_dual_residual(&self, region: &Region, mut visit: impl FnMut(usize, f64, f64)) {
        let m = region.dropped.len();
        let d = self.jacobian.len() / self.price.len();
        for (step, widths) in region.width.chunks_exact(d).enumerate() {
            for (i, width) in widths.iter().enumerate() {
                if *width > 0.0 {
                    let at = step * d + i;
                    let reduced = self.reduced_gradient(step, i, (d, m));
                    visit(at, reduced, reduced - self.at_lower[at] + self.at_upper[at]);
                }
            }
        }
    }

    /// An entry of `∇l + ∇gᵀp`, for given numbers of actions and budgets.
    pub(super) fn reduced_gradient(&self, step: usize, i: usize, (d, m): (usize, usize)) -> f64 {
        (0..m).fold(self.gradient[step * d + i], |sum, k| {
            sum + self.jacobian[(step * m + k) * d + i] * self.price[step * m + k]
        })
    }

    /// What the limits leave unused, at the prices of their duals.
    pub(super) fn unused(&self) -> f64 {
        let limited = self.dual.iter().zip(&self.slack);
        limited
            .filter(|(_, slack)| slack.is_finite())
            .map(|(dual, slack)| dual * slack)
            .sum()
    }

    /// Visits every complementarity product with its weight in the barrier: bounds of actions count 1.
    pub(super) fn each_product(&self, region: &Region, limit_weight: f64, mut visit: impl FnMut(f64, f64)) {
        for (at, (rise, width)) in self.rise.iter().zip(&region.width).enumerate() {
            if *width > 0.0 {
                visit(self.at_lower[at] * rise, 1.0);
                visit(self.at_upper[at] * (width - rise), 1.0);
            }
        }
        for (dual, slack) in self.dual.iter().zip(&self.slack) {
            if slack.is_finite() {
                visit(dual * slack, limit_weight);
            }
        }
    }

    /// Raises the price of a budget until it holds at their lower bounds all actions that are held there and use it; gives
    /// that price.
    pub(super) fn price_held(
        &mut self,
        problem: &dyn SmoothProblem,
        region: &Region,
        resource: usize,
    ) -> f64 {
        let (lower, upper) = (problem.lower(), problem.upper());
        let (d, m) = (lower.len(), region.dropped.len());
        let mut price = 0.0_f64;
        for (at, gradient) in self.gradient.iter().enumerate() {
            let (step, i) = (at / d, at % d);
            let jacobian = |k: usize| self.jacobian[(step * m + k) * d + i];
            if region.width[at] > 0.0 || lower[i] == upper[i] || jacobian(resource) <= 0.0 {
                continue;
            }
            let paid: f64 = (0..m).map(|k| jacobian(k) * self.price[step * m + k]).sum();
            price = price.max((-gradient - paid) / jacobian(resource));
        }
        for prices in self.price.chunks_exact_mut(m) {
            prices[resource] += price;
        }
        price
    }

    /// The cost, and the size of its terms: their sum without signs, or what the rises are worth at the slopes here.
    pub(super) fn cost(&self, problem: &dyn SmoothProblem, episode: Episode<'_>) -> (f64, f64) {
        let (mut cost, mut size) = (0.0, 0.0);
        for (step, x) in self.x.chunks_exact(problem.lower().len()).enumerate() {
            let term = problem.cost(x, episode.context(step));
            cost += term;
            size += term.abs();
        }
        let worth: f64 = self
            .gradient
            .iter()
            .zip(&self.rise)
            .map(|(slope, rise)| (slope * rise).abs())
            .sum();
        (cost, f64::max(size, worth))
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
