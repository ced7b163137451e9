//! The primal-dual interior point behind [`HorizonOptimum`](super::HorizonOptimum), block by block.

use laau_core::{Dimensions, Episode, Error, SmoothProblem};

use super::cholesky;
use super::horizon::{HorizonOptions, HorizonSolution, NAME};
use crate::error::Error as OwnError;

/// One run of the interior point.
pub(super) struct Iteration<'a> {
    problem: &'a dyn SmoothProblem,
    options: &'a HorizonOptions,
    episode: Episode<'a>,
    budgets: Vec<f64>,
    point: Point,
    trial: Point,
    factored: Factored,
    direction: Direction,
    /// The size of the cost below which "relative" has no meaning: a small share of what the box can move.
    floor: f64,
}

/// A point and the first derivatives there.
#[derive(Clone)]
struct Point {
    /// The actions `x`, `N × d`.
    x: Vec<f64>,
    /// The prices `λ` of the budgets.
    price: Vec<f64>,
    /// The duals of `x ≥ lower` and `x ≤ upper`, `N × d` each.
    at_lower: Vec<f64>,
    at_upper: Vec<f64>,
    /// `∇l`, `N × d`, and `∇g`, `N × M × d`.
    gradient: Vec<f64>,
    jacobian: Vec<f64>,
    /// What is left of the budgets, `s = B − Σ g`.
    slack: Vec<f64>,
}

/// A Newton direction; it is affine in the barrier parameter `τ`, of which it is put together.
struct Direction {
    x: Vec<f64>,
    price: Vec<f64>,
    /// To first order.
    slack: Vec<f64>,
    at_lower: Vec<f64>,
    at_upper: Vec<f64>,
}

/// What the Newton system leaves per step once it is factored.
struct Factored {
    /// `H⁻¹(−∇l − ∇gᵀλ)`, `H⁻¹(1/(x−lower) − 1/(upper−x))`, both `N × d`.
    pull: Vec<f64>,
    push: Vec<f64>,
    /// `H⁻¹∇gᵀ`, `N × M × d`.
    lever: Vec<f64>,
    /// `Σ ∇g pull`, `Σ ∇g push`, and the factored Schur complement.
    budget_pull: Vec<f64>,
    budget_push: Vec<f64>,
    schur: Vec<f64>,
}

impl<'a> Iteration<'a> {
    /// Enters the inside of the feasible set.
    pub(super) fn start(
        problem: &'a dyn SmoothProblem,
        options: &'a HorizonOptions,
        episode: Episode<'a>,
    ) -> Result<Self, Error> {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        let n = episode.horizon();
        let point = Point {
            x: vec![0.0; n * d],
            price: vec![0.0; m],
            at_lower: vec![0.0; n * d],
            at_upper: vec![0.0; n * d],
            gradient: vec![0.0; n * d],
            jacobian: vec![0.0; n * m * d],
            slack: vec![0.0; m],
        };
        let mut this = Self {
            problem,
            options,
            episode,
            budgets: episode.budgets().to_vec(),
            trial: point.clone(),
            point,
            factored: Factored {
                pull: vec![0.0; n * d],
                push: vec![0.0; n * d],
                lever: vec![0.0; n * m * d],
                budget_pull: vec![0.0; m],
                budget_push: vec![0.0; m],
                schur: vec![0.0; m * m],
            },
            direction: Direction {
                x: vec![0.0; n * d],
                price: vec![0.0; m],
                slack: vec![0.0; m],
                at_lower: vec![0.0; n * d],
                at_upper: vec![0.0; n * d],
            },
            floor: 0.0,
        };
        this.enter()?;
        Ok(this)
    }

    /// Finds a point strictly inside the box and the budgets, and duals to go with it.
    fn enter(&mut self) -> Result<(), Error> {
        const FIRST_SHARE: f64 = 0.5;
        const ROOM_TO_KEEP: f64 = 0.1;
        let n = self.episode.horizon();
        let m = self.budgets.len();

        self.place(0.0);
        let mut room = self.room();
        self.place(1.0);
        let at_upper = self.room();
        for resource in 0..m {
            let budget = self.budgets[resource];
            if room[resource] < -self.options.relaxation * budget {
                return Err(Error::BudgetTooSmall {
                    episode: 0,
                    resource,
                    budget,
                    least: budget - room[resource],
                    horizon: n,
                });
            }
            let mut scale = budget.max(budget - at_upper[resource]);
            if scale == 0.0 {
                scale = 1.0;
            }
            let least = self.options.relaxation * scale;
            if room[resource] < least {
                self.budgets[resource] += least - room[resource];
                room[resource] = least;
            }
        }
        let mut share = FIRST_SHARE;
        loop {
            self.place(share);
            let left = self.room();
            if left
                .iter()
                .zip(&room)
                .all(|(left, room)| *left >= ROOM_TO_KEEP * room)
            {
                break;
            }
            share *= 0.5;
        }
        let episode = self.episode;
        evaluate(self.problem, episode, &self.budgets, &mut self.point);

        self.start_duals(share);
        Ok(())
    }

    /// Starts the duals: prices that balance the gradients in the mean, box duals that take what is left of each, and
    /// all of them a little inside.
    fn start_duals(&mut self, share: f64) {
        const FLOOR_SHARE: f64 = 1e-3;
        const CENTRALITY: f64 = 0.1;
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let (d, m) = (lower.len(), self.budgets.len());
        let weight = self.weight();
        let point = &mut self.point;
        let spread: f64 = point
            .gradient
            .iter()
            .enumerate()
            .map(|(i, gradient)| gradient.abs() * (upper[i % d] - lower[i % d]))
            .sum();
        self.floor = FLOOR_SHARE * spread;
        let barrier = CENTRALITY * share * spread / point.x.len() as f64;
        for k in 0..m {
            let (mut gained, mut used) = (0.0, 0.0);
            for (at, gradient) in point.gradient.iter().enumerate() {
                let (step, i) = (at / d, at % d);
                let jacobian = point.jacobian[(step * m + k) * d + i];
                gained += (-gradient * jacobian).max(0.0);
                used += jacobian * jacobian;
            }
            let balance = if used > 0.0 { gained / used / m as f64 } else { 0.0 };
            point.price[k] = balance + weight * barrier / point.slack[k];
        }
        for at in 0..point.x.len() {
            let (step, i) = (at / d, at % d);
            let mut residual = point.gradient[at];
            for k in 0..m {
                residual += point.jacobian[(step * m + k) * d + i] * point.price[k];
            }
            point.at_lower[at] = residual.max(0.0) + barrier / (point.x[at] - lower[i]);
            point.at_upper[at] = (-residual).max(0.0) + barrier / (upper[i] - point.x[at]);
        }
    }

    /// The weight of a budget in the barrier: it is shared by all steps, and counts as much as one bound of each. So
    /// slack and barrier shrink alike at every horizon.
    fn weight(&self) -> f64 {
        self.episode.horizon() as f64
    }

    /// Puts every step at the same share of the way from the lower to the upper corner.
    fn place(&mut self, share: f64) {
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        for x in self.point.x.chunks_exact_mut(lower.len()) {
            for ((x, lower), upper) in x.iter_mut().zip(lower).zip(upper) {
                *x = lower + share * (upper - lower);
            }
        }
    }

    fn room(&self) -> Vec<f64> {
        let mut slack = vec![0.0; self.budgets.len()];
        slacks(
            self.problem,
            self.episode,
            &self.budgets,
            &self.point.x,
            &mut slack,
        );
        slack
    }

    /// Follows the central path to the tolerance.
    pub(super) fn run(mut self) -> Result<HorizonSolution, Error> {
        const PREDICTOR_POWER: i32 = 3;
        const LEAST_CENTRING: f64 = 1e-3;
        // Complementarity must not run ahead of the dual residual: near the boundary short steps are all there is.
        const BALANCE: f64 = 0.01;
        const MOST_BALANCE: f64 = 0.5;
        let constraints = 2.0 * self.point.x.len() as f64 + self.weight() * self.budgets.len() as f64;
        let mut centring_wanted = 0.0_f64;
        let mut last_gap = f64::INFINITY;
        for iterations in 0..=self.options.max_iterations {
            let complementarity = self.complementarity();
            let dual_residual = self.dual_residual();
            last_gap = complementarity + dual_residual;
            let (cost, size) = self.cost();
            if last_gap <= self.options.tolerance * size.max(self.floor) {
                return Ok(HorizonSolution {
                    actions: self.point.x,
                    multipliers: self.point.price,
                    cost,
                    gap: last_gap,
                    iterations,
                });
            }
            self.factor();
            self.direct(0.0);
            let predicted = 1.0 - self.longest_step(1.0);
            let centring = predicted
                .powi(PREDICTOR_POWER)
                .max(LEAST_CENTRING)
                .max((BALANCE * dual_residual / complementarity).min(MOST_BALANCE))
                .max(centring_wanted);
            let barrier = centring * complementarity / constraints;
            self.direct(barrier);
            let Some(step) = self.search(barrier) else {
                break;
            };
            std::mem::swap(&mut self.point, &mut self.trial);
            // A short step says that the point is off the central path: the next one goes back to it.
            centring_wanted = if step < 0.1 { 0.8 } else { 0.0 };
        }
        Err(OwnError::NotConverged {
            policy: NAME,
            what: "the interior point",
            iterations: self.options.max_iterations,
            residual: last_gap / self.cost().1.max(self.floor),
            tolerance: self.options.tolerance,
        }
        .into())
    }

    /// `λᵀs + Σ z (distance to the bound)`.
    fn complementarity(&self) -> f64 {
        let point = &self.point;
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let d = lower.len();
        let budgets: f64 = point.price.iter().zip(&point.slack).map(|(p, s)| p * s).sum();
        (0..point.x.len())
            .map(|i| {
                point.at_lower[i] * (point.x[i] - lower[i % d])
                    + point.at_upper[i] * (upper[i % d] - point.x[i])
            })
            .sum::<f64>()
            + budgets
    }

    /// `Σ |∇l + ∇gᵀλ − z_lower + z_upper| (upper − lower)`: what the dual residual can cost within the box.
    fn dual_residual(&self) -> f64 {
        let mut sum = 0.0;
        each_dual_residual(self.problem, &self.point, |residual, width| {
            sum += (residual * width).abs();
        });
        sum
    }

    /// The cost, and the sum of the sizes of its terms.
    fn cost(&self) -> (f64, f64) {
        let d = self.problem.dimensions().actions;
        let mut sums = (0.0, 0.0);
        for (step, x) in self.point.x.chunks_exact(d).enumerate() {
            let cost = self.problem.cost(x, self.episode.context(step));
            sums.0 += cost;
            sums.1 += cost.abs();
        }
        sums
    }

    /// Factors the Newton system: `H_t = ∇²l + Σ λ ∇²g + diag(z/(x−lower) + z/(upper−x))` per step, and
    /// `S = Σ ∇g H⁻¹ ∇gᵀ + diag(s/λ)` over all of them.
    fn factor(&mut self) {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let Self { point, factored, .. } = self;
        let mut hessian = vec![0.0; d * d];
        factored.schur.fill(0.0);
        factored.budget_pull.fill(0.0);
        factored.budget_push.fill(0.0);
        for step in 0..self.episode.horizon() {
            let x = &point.x[step * d..][..d];
            let jacobian = &point.jacobian[step * m * d..][..m * d];
            let context = self.episode.context(step);
            self.problem
                .lagrangian_hessian(x, context, &point.price, &mut hessian);
            let pull = &mut factored.pull[step * d..][..d];
            let push = &mut factored.push[step * d..][..d];
            for i in 0..d {
                let (below, above) = (x[i] - lower[i], upper[i] - x[i]);
                hessian[i * d + i] +=
                    point.at_lower[step * d + i] / below + point.at_upper[step * d + i] / above;
                push[i] = below.recip() - above.recip();
                pull[i] = -point.gradient[step * d + i];
                for k in 0..m {
                    pull[i] -= jacobian[k * d + i] * point.price[k];
                }
            }
            cholesky::factor(&mut hessian, d);
            cholesky::solve(&hessian, d, pull);
            cholesky::solve(&hessian, d, push);
            let lever = &mut factored.lever[step * m * d..][..m * d];
            lever.copy_from_slice(jacobian);
            for row in lever.chunks_exact_mut(d) {
                cholesky::solve(&hessian, d, row);
            }
            for (k, row) in jacobian.chunks_exact(d).enumerate() {
                factored.budget_pull[k] += dot(row, pull);
                factored.budget_push[k] += dot(row, push);
                for (j, column) in lever.chunks_exact(d).enumerate() {
                    factored.schur[k * m + j] += dot(row, column);
                }
            }
        }
        for k in 0..m {
            factored.schur[k * m + k] += point.slack[k] / point.price[k];
        }
        cholesky::factor(&mut factored.schur, m);
    }

    /// Puts the Newton direction for a barrier parameter together.
    fn direct(&mut self, barrier: f64) {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let weight = self.weight();
        let Self {
            point,
            factored,
            direction,
            ..
        } = self;
        for k in 0..m {
            direction.price[k] = factored.budget_pull[k] - point.slack[k]
                + barrier * (factored.budget_push[k] + weight / point.price[k]);
        }
        cholesky::solve(&factored.schur, m, &mut direction.price);
        // `s Δλ + λ Δs = τ − λ s`, solved for `Δs`: no sum over steps is needed, and none is rounded.
        for k in 0..m {
            let (price, slack) = (point.price[k], point.slack[k]);
            direction.slack[k] = (weight * barrier - slack * direction.price[k]) / price - slack;
        }
        for step in 0..self.episode.horizon() {
            for i in 0..d {
                let at = step * d + i;
                let mut dx = factored.pull[at] + barrier * factored.push[at];
                for k in 0..m {
                    dx -= factored.lever[(step * m + k) * d + i] * direction.price[k];
                }
                direction.x[at] = dx;
                let (below, above) = (point.x[at] - lower[i], upper[i] - point.x[at]);
                direction.at_lower[at] = (barrier - point.at_lower[at] * dx) / below - point.at_lower[at];
                direction.at_upper[at] = (barrier + point.at_upper[at] * dx) / above - point.at_upper[at];
            }
        }
    }

    /// The longest step, at most 1, that goes no further than `fraction` of the way to any bound; usage to first order.
    fn longest_step(&self, fraction: f64) -> f64 {
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let d = lower.len();
        let (point, direction) = (&self.point, &self.direction);
        let mut longest = 1.0_f64;
        let mut keep = |value: f64, change: f64| {
            if change < 0.0 {
                longest = longest.min(-fraction * value / change);
            }
        };
        for i in 0..point.x.len() {
            keep(point.x[i] - lower[i % d], direction.x[i]);
            keep(upper[i % d] - point.x[i], -direction.x[i]);
            keep(point.at_lower[i], direction.at_lower[i]);
            keep(point.at_upper[i], direction.at_upper[i]);
        }
        for k in 0..point.price.len() {
            keep(point.price[k], direction.price[k]);
            keep(point.slack[k], direction.slack[k]);
        }
        longest
    }

    /// Backtracks until the budgets hold strictly and the residual of the perturbed KKT conditions falls; the new point
    /// is then in `trial`. `None` when rounding leaves nothing to gain.
    fn search(&mut self, barrier: f64) -> Option<f64> {
        const SHORTEST_STEP: f64 = 1e-12;
        const SHORTEN: f64 = 0.6;
        // The longest step leaves `1 − fraction` of a budget to first order; curvature and rounding may take half of it.
        const CURVATURE_SHARE: f64 = 0.5;
        let fraction = self.options.fraction_to_boundary;
        let before = self.residual(&self.point, barrier);
        let mut step = self.longest_step(fraction);
        while step > SHORTEST_STEP {
            self.move_trial(step);
            let inside = self
                .trial
                .slack
                .iter()
                .zip(&self.point.slack)
                .all(|(new, old)| *new >= CURVATURE_SHARE * (1.0 - fraction) * old);
            if inside {
                let after = self.residual(&self.trial, barrier);
                if after <= (1.0 - self.options.sufficient_decrease * step) * before {
                    return Some(step);
                }
            }
            step *= SHORTEN;
        }
        None
    }

    fn move_trial(&mut self, step: f64) {
        let Self {
            point,
            trial,
            direction,
            ..
        } = self;
        let along = |to: &mut [f64], from: &[f64], change: &[f64]| {
            for ((to, from), change) in to.iter_mut().zip(from).zip(change) {
                *to = from + step * change;
            }
        };
        along(&mut trial.x, &point.x, &direction.x);
        along(&mut trial.price, &point.price, &direction.price);
        along(&mut trial.at_lower, &point.at_lower, &direction.at_lower);
        along(&mut trial.at_upper, &point.at_upper, &direction.at_upper);
        // A rounded sum may land on a bound; nothing but the inside will do.
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let d = lower.len();
        for (i, x) in trial.x.iter_mut().enumerate() {
            *x = x.clamp(lower[i % d].next_up(), upper[i % d].next_down());
        }
        evaluate(self.problem, self.episode, &self.budgets, trial);
    }

    /// The norm of the perturbed KKT conditions, every one in units of cost.
    fn residual(&self, point: &Point, barrier: f64) -> f64 {
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let d = lower.len();
        let weight = self.weight();
        let mut sum = 0.0;
        each_dual_residual(self.problem, point, |residual, width| {
            sum += (residual * width).powi(2);
        });
        for i in 0..point.x.len() {
            sum += (point.at_lower[i] * (point.x[i] - lower[i % d]) - barrier).powi(2)
                + (point.at_upper[i] * (upper[i % d] - point.x[i]) - barrier).powi(2);
        }
        for (price, slack) in point.price.iter().zip(&point.slack) {
            sum += (price * slack - weight * barrier).powi(2);
        }
        sum.sqrt()
    }
}

/// Visits every entry of the dual residual with the width of its box.
fn each_dual_residual(problem: &dyn SmoothProblem, point: &Point, mut visit: impl FnMut(f64, f64)) {
    let (lower, upper) = (problem.lower(), problem.upper());
    let (d, m) = (lower.len(), point.price.len());
    for (step, jacobian) in point.jacobian.chunks_exact(m * d).enumerate() {
        for i in 0..d {
            let at = step * d + i;
            let mut residual = point.gradient[at] - point.at_lower[at] + point.at_upper[at];
            for k in 0..m {
                residual += jacobian[k * d + i] * point.price[k];
            }
            visit(residual, upper[i] - lower[i]);
        }
    }
}

/// Fills in gradient, Jacobian and slack at a point's actions.
fn evaluate(problem: &dyn SmoothProblem, episode: Episode<'_>, budgets: &[f64], point: &mut Point) {
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = problem.dimensions();
    for (step, x) in point.x.chunks_exact(d).enumerate() {
        let context = episode.context(step);
        problem.cost_gradient(x, context, &mut point.gradient[step * d..][..d]);
        problem.usage_jacobian(x, context, &mut point.jacobian[step * m * d..][..m * d]);
    }
    slacks(problem, episode, budgets, &point.x, &mut point.slack);
}

/// `B − Σ g`, summed with compensation (Neumaier): near the optimum it is a small difference of large sums.
fn slacks(problem: &dyn SmoothProblem, episode: Episode<'_>, budgets: &[f64], x: &[f64], slack: &mut [f64]) {
    let d = problem.dimensions().actions;
    let mut usage = vec![0.0; budgets.len()];
    let mut lost = vec![0.0; budgets.len()];
    slack.copy_from_slice(budgets);
    for (step, x) in x.chunks_exact(d).enumerate() {
        problem.usage(x, episode.context(step), &mut usage);
        for ((slack, lost), used) in slack.iter_mut().zip(&mut lost).zip(&usage) {
            let sum = *slack - used;
            *lost += if slack.abs() >= used.abs() {
                (*slack - sum) - used
            } else {
                (-used - sum) + *slack
            };
            *slack = sum;
        }
    }
    for (slack, lost) in slack.iter_mut().zip(&lost) {
        *slack += lost;
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
