//! The primal-dual interior point behind [`HorizonOptimum`](super::HorizonOptimum), step by step.

use laau_core::{Dimensions, Episode, Error, SmoothProblem};

use super::chain::Chain;
use super::cholesky;
use super::horizon::{HorizonOptions, HorizonSolution, NAME};
use super::point::Point;
use crate::error::Error as OwnError;

/// One run of the interior point.
pub(super) struct Iteration<'a> {
    problem: &'a dyn SmoothProblem,
    options: &'a HorizonOptions,
    episode: Episode<'a>,
    /// What may be used up to and including each step, `N × M`; infinite where it does not matter.
    limits: Vec<f64>,
    /// The weight of a limit in the barrier. All limits of a budget together count as much as one bound of each
    /// step, so that slack and barrier shrink alike at every horizon.
    weight: f64,
    point: Point,
    trial: Point,
    factored: Factored,
    direction: Direction,
    /// The size of the cost below which "relative" has no meaning: a small share of what the box can move.
    floor: f64,
}

/// A Newton direction; slack to first order.
struct Direction {
    x: Vec<f64>,
    dual: Vec<f64>,
    slack: Vec<f64>,
    at_lower: Vec<f64>,
    at_upper: Vec<f64>,
    /// Of the prices and of all usage so far, `N × M`.
    price: Vec<f64>,
    usage: Vec<f64>,
}

/// What the Newton system leaves per step once it is factored. A direction is affine in the barrier parameter `τ`.
struct Factored {
    /// `H⁻¹(−∇l − ∇gᵀp)`, `H⁻¹(1/(x−lower) − 1/(upper−x))`, both `N × d`.
    pull: Vec<f64>,
    push: Vec<f64>,
    /// `H⁻¹∇gᵀ`, `N × M × d`.
    lever: Vec<f64>,
    /// `∇g pull` and `∇g push`, `N × M` each.
    usage_pull: Vec<f64>,
    usage_push: Vec<f64>,
    chain: Chain,
}

impl<'a> Iteration<'a> {
    /// Enters the inside of the feasible set.
    pub(super) fn start(
        problem: &'a dyn SmoothProblem,
        options: &'a HorizonOptions,
        episode: Episode<'a>,
        limits: Vec<f64>,
    ) -> Result<Self, Error> {
        let dimensions = problem.dimensions();
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = dimensions;
        let n = episode.horizon();
        let limited = limits.iter().step_by(m).filter(|limit| limit.is_finite()).count();
        let mut this = Self {
            problem,
            options,
            episode,
            limits,
            weight: n as f64 / limited as f64,
            point: Point::new(n, dimensions),
            trial: Point::new(n, dimensions),
            factored: Factored {
                pull: vec![0.0; n * d],
                push: vec![0.0; n * d],
                lever: vec![0.0; n * m * d],
                usage_pull: vec![0.0; n * m],
                usage_push: vec![0.0; n * m],
                chain: Chain::new(n, m),
            },
            direction: Direction {
                x: vec![0.0; n * d],
                dual: vec![0.0; n * m],
                slack: vec![0.0; n * m],
                at_lower: vec![0.0; n * d],
                at_upper: vec![0.0; n * d],
                price: vec![0.0; n * m],
                usage: vec![0.0; n * m],
            },
            floor: 0.0,
        };
        let share = this.enter()?;
        this.start_duals(share);
        Ok(this)
    }

    /// Finds a point strictly inside the box and the limits; gives its share of the way to the upper corner.
    fn enter(&mut self) -> Result<f64, Error> {
        const FIRST_SHARE: f64 = 0.5;
        const ROOM_TO_KEEP: f64 = 0.1;
        let m = self.problem.dimensions().budgets;
        let budgets = self.episode.budgets();
        let last = self.limits.len() - m;

        let widest = self.slacks_at(1.0);
        let mut room = self.slacks_at(0.0);
        for at in 0..self.limits.len() {
            let (limit, resource) = (self.limits[at], at % m);
            if limit.is_infinite() {
                continue;
            }
            if room[at] < -self.options.relaxation * budgets[resource] {
                return Err(Error::BudgetTooSmall {
                    episode: 0,
                    resource,
                    budget: budgets[resource],
                    least: budgets[resource] - room[at],
                    horizon: self.episode.horizon(),
                });
            }
            let most = self.limits[last + resource] - widest[last + resource];
            let scale = budgets[resource].max(most);
            let least = self.options.relaxation * if scale > 0.0 { scale } else { 1.0 };
            if room[at] < least {
                self.limits[at] += least - room[at];
                room[at] = least;
            }
        }
        let mut share = FIRST_SHARE;
        loop {
            let left = self.slacks_at(share);
            if left
                .iter()
                .zip(&room)
                .all(|(left, room)| *left >= ROOM_TO_KEEP * room)
            {
                return Ok(share);
            }
            share *= 0.5;
        }
    }

    fn slacks_at(&mut self, share: f64) -> Vec<f64> {
        self.point.place(self.problem, share);
        self.point.measure(self.problem, self.episode, &self.limits);
        self.point.slack.clone()
    }

    /// Starts the duals: prices that balance the gradients in the mean, box duals that take what is left of each, and
    /// all of them a little inside.
    fn start_duals(&mut self, share: f64) {
        const FLOOR_SHARE: f64 = 1e-3;
        const CENTRALITY: f64 = 0.1;
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let (d, m) = (lower.len(), self.problem.dimensions().budgets);
        let point = &mut self.point;
        point.evaluate(self.problem, self.episode, &self.limits);
        let spread: f64 = point
            .gradient
            .iter()
            .enumerate()
            .map(|(at, gradient)| gradient.abs() * (upper[at % d] - lower[at % d]))
            .sum();
        self.floor = FLOOR_SHARE * spread;
        let barrier = CENTRALITY * share * spread / point.x.len() as f64;
        for (dual, slack) in point.dual.iter_mut().zip(&point.slack) {
            *dual = self.weight * barrier / slack;
        }
        let last = point.dual.len() - m;
        for k in 0..m {
            let (mut gained, mut used) = (0.0, 0.0);
            for (at, gradient) in point.gradient.iter().enumerate() {
                let jacobian = point.jacobian[(at / d * m + k) * d + at % d];
                gained += (-gradient * jacobian).max(0.0);
                used += jacobian * jacobian;
            }
            if used > 0.0 {
                point.dual[last + k] += gained / used / m as f64;
            }
        }
        point.evaluate(self.problem, self.episode, &self.limits);
        for at in 0..point.x.len() {
            let (step, i) = (at / d, at % d);
            let mut residual = point.gradient[at];
            for k in 0..m {
                residual += point.jacobian[(step * m + k) * d + i] * point.price[step * m + k];
            }
            point.at_lower[at] = residual.max(0.0) + barrier / (point.x[at] - lower[i]);
            point.at_upper[at] = (-residual).max(0.0) + barrier / (upper[i] - point.x[at]);
        }
    }

    /// Follows the central path to the tolerance.
    pub(super) fn run(mut self) -> Result<HorizonSolution, Error> {
        const PREDICTOR_POWER: i32 = 3;
        const LEAST_CENTRING: f64 = 1e-3;
        // Complementarity must not run ahead of the dual residual: near the boundary short steps are all there is.
        const BALANCE: f64 = 0.01;
        const MOST_BALANCE: f64 = 0.5;
        let m = self.problem.dimensions().budgets;
        let mut centring_wanted = 0.0_f64;
        let mut relative = f64::INFINITY;
        let mut taken = 0;
        for iterations in 0..=self.options.max_iterations {
            taken = iterations;
            let (mut complementarity, mut constraints, mut dual_residual) = (0.0, 0.0, 0.0);
            self.point
                .each_product(self.problem, self.weight, |product, weight| {
                    complementarity += product;
                    constraints += weight;
                });
            // What the dual residual can cost within the box.
            self.point.each_dual_residual(self.problem, |residual, width| {
                dual_residual += (residual * width).abs();
            });
            let gap = complementarity + dual_residual;
            let (cost, size) = self.point.cost(self.problem, self.episode);
            if gap <= self.options.tolerance * size.max(self.floor) {
                self.point.price.truncate(m);
                return Ok(HorizonSolution {
                    actions: self.point.x,
                    multipliers: self.point.price,
                    cost,
                    gap,
                    iterations,
                });
            }
            relative = gap / size.max(self.floor);
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
            iterations: taken,
            residual: relative,
            tolerance: self.options.tolerance,
        }
        .into())
    }

    /// Factors the Newton system: `H_t = ∇²l + Σ p ∇²g + diag(z/(x−lower) + z/(upper−x))` per step, then the chain.
    fn factor(&mut self) {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let Self { point, factored, .. } = self;
        let mut hessian = vec![0.0; d * d];
        for step in 0..self.episode.horizon() {
            let x = &point.x[step * d..][..d];
            let price = &point.price[step * m..][..m];
            let jacobian = &point.jacobian[step * m * d..][..m * d];
            let context = self.episode.context(step);
            self.problem.lagrangian_hessian(x, context, price, &mut hessian);
            let pull = &mut factored.pull[step * d..][..d];
            let push = &mut factored.push[step * d..][..d];
            for i in 0..d {
                let (below, above) = (x[i] - lower[i], upper[i] - x[i]);
                hessian[i * d + i] +=
                    point.at_lower[step * d + i] / below + point.at_upper[step * d + i] / above;
                push[i] = below.recip() - above.recip();
                pull[i] = -point.gradient[step * d + i];
                for k in 0..m {
                    pull[i] -= jacobian[k * d + i] * price[k];
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
                let at = step * m + k;
                factored.usage_pull[at] = dot(row, pull);
                factored.usage_push[at] = dot(row, push);
                for (j, column) in lever.chunks_exact(d).enumerate() {
                    factored.chain.response[at * m + j] = dot(row, column);
                }
                if point.slack[at].is_finite() {
                    factored.chain.softness[at] = point.slack[at] / point.dual[at];
                }
            }
        }
        factored.chain.factor();
    }

    /// Puts the Newton direction for a barrier parameter together.
    fn direct(&mut self, barrier: f64) {
        // From this share of the price on, a dual is taken from differences of prices; below, from its slack.
        const ACTIVE: f64 = 0.01;
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let target = self.weight * barrier;
        let Self {
            point,
            factored,
            direction,
            ..
        } = self;
        let count = point.dual.len();
        let mut usage = vec![0.0; count];
        let mut room = vec![0.0; count];
        for at in 0..count {
            usage[at] = factored.usage_pull[at] + barrier * factored.usage_push[at];
            if point.slack[at].is_finite() {
                room[at] = point.slack[at] - target / point.dual[at];
            }
        }
        factored
            .chain
            .solve(&usage, &room, &mut direction.price, &mut direction.usage);
        for at in 0..count {
            let (dual, slack) = (point.dual[at], point.slack[at]);
            if slack.is_infinite() {
                continue;
            }
            // `s Δμ + μ Δs = τ − μ s` and `Δs = −u`: each is solved for what it determines well.
            if dual >= ACTIVE * point.price[at] {
                let later = if at + m < count {
                    direction.price[at + m]
                } else {
                    0.0
                };
                direction.dual[at] = direction.price[at] - later;
                direction.slack[at] = (target - slack * direction.dual[at]) / dual - slack;
            } else {
                direction.dual[at] = dual / slack * (direction.usage[at] - room[at]);
                direction.slack[at] = -direction.usage[at];
            }
        }
        for at in 0..point.x.len() {
            let (step, i) = (at / d, at % d);
            let mut dx = factored.pull[at] + barrier * factored.push[at];
            for k in 0..m {
                dx -= factored.lever[(step * m + k) * d + i] * direction.price[step * m + k];
            }
            direction.x[at] = dx;
            let (below, above) = (point.x[at] - lower[i], upper[i] - point.x[at]);
            direction.at_lower[at] = (barrier - point.at_lower[at] * dx) / below - point.at_lower[at];
            direction.at_upper[at] = (barrier + point.at_upper[at] * dx) / above - point.at_upper[at];
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
        for at in 0..point.dual.len() {
            keep(point.dual[at], direction.dual[at]);
            keep(point.slack[at], direction.slack[at]);
        }
        longest
    }

    /// Backtracks until the limits hold strictly and the residual of the perturbed KKT conditions falls; the new point is
    /// then in `trial`. `None` when rounding leaves nothing to gain.
    fn search(&mut self, barrier: f64) -> Option<f64> {
        const SHORTEST_STEP: f64 = 1e-12;
        const SHORTEN: f64 = 0.6;
        // The longest step leaves `1 − fraction` of a limit to first order; curvature and rounding may take half of it.
        const CURVATURE_SHARE: f64 = 0.5;
        let fraction = self.options.fraction_to_boundary;
        let least = CURVATURE_SHARE * (1.0 - fraction);
        let before = self.residual(&self.point, barrier);
        let mut step = self.longest_step(fraction);
        while step > SHORTEST_STEP {
            self.move_trial(step);
            let slacks = self.trial.slack.iter().zip(&self.point.slack);
            if slacks.clone().all(|(new, old)| *new >= least * old) {
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
        along(&mut trial.dual, &point.dual, &direction.dual);
        along(&mut trial.at_lower, &point.at_lower, &direction.at_lower);
        along(&mut trial.at_upper, &point.at_upper, &direction.at_upper);
        // A rounded sum may land on a bound; nothing but the inside will do.
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let d = lower.len();
        for (i, x) in trial.x.iter_mut().enumerate() {
            *x = x.clamp(lower[i % d].next_up(), upper[i % d].next_down());
        }
        trial.evaluate(self.problem, self.episode, &self.limits);
    }

    /// The norm of the perturbed KKT conditions, every one in units of cost.
    fn residual(&self, point: &Point, barrier: f64) -> f64 {
        let mut sum = 0.0;
        point.each_dual_residual(self.problem, |residual, width| {
            sum += (residual * width).powi(2);
        });
        point.each_product(self.problem, self.weight, |product, weight| {
            sum += (product - weight * barrier).powi(2);
        });
        sum.sqrt()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
