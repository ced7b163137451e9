//! The primal-dual interior point behind [`HorizonOptimum`](super::HorizonOptimum), step by step.

use laau_core::{Episode, Error, SmoothProblem};

use super::horizon::{HorizonOptions, NAME};
use super::newton::Newton;
use super::point::{Point, dot};
use super::region::Region;

/// One run of the interior point.
pub(super) struct Iteration<'a> {
    problem: &'a dyn SmoothProblem,
    options: &'a HorizonOptions,
    episode: Episode<'a>,
    limits: &'a [f64],
    region: &'a Region,
    /// The weight of a limit in the barrier. All limits of a budget together count as much as one bound of each
    /// step, so that slack and barrier shrink alike at every horizon.
    weight: f64,
    point: Point,
    trial: Point,
    newton: Newton,
}

/// The point at which an iteration ended well.
pub(super) struct Found {
    pub(super) point: Point,
    pub(super) cost: f64,
    pub(super) gap: f64,
    pub(super) iterations: usize,
}

/// The best point so far that would do if there were no step to take.
struct Best {
    point: Point,
    cost: f64,
    gap: f64,
}

impl<'a> Iteration<'a> {
    /// Starts in the interior of the feasible set. `limits` is what may be used up to and including each step, `N × M`.
    pub(super) fn start(
        problem: &'a dyn SmoothProblem,
        options: &'a HorizonOptions,
        episode: Episode<'a>,
        limits: &'a [f64],
        region: &'a Region,
    ) -> Self {
        let dimensions = problem.dimensions();
        let (n, m) = (episode.horizon(), dimensions.budgets);
        let limited = (0..m)
            .map(|k| {
                let rooms = region.room.iter().skip(k).step_by(m);
                rooms.filter(|room| room.is_finite()).count()
            })
            .max();
        let mut this = Self {
            problem,
            options,
            episode,
            limits,
            region,
            weight: n as f64 / limited.unwrap_or(1).max(1) as f64,
            point: Point::new(n, dimensions),
            trial: Point::new(n, dimensions),
            newton: Newton::new(n, dimensions),
        };
        this.point.jacobian.copy_from_slice(&region.jacobian);
        this.trial.jacobian.copy_from_slice(&region.jacobian);
        let point = &mut this.point;
        let start = region.start(problem.structure().affine_usage, |rise| {
            point.rise.copy_from_slice(rise);
            point.place(problem);
            point.measure(problem, episode, limits, region);
            point.slack.clone()
        });
        point.rise.copy_from_slice(&start);
        this.start_duals();
        this
    }

    /// Starts the duals: prices that balance the gradients in the mean, box duals that take what is left of each, and
    /// all of them a little inside.
    fn start_duals(&mut self) {
        const CENTRALITY: f64 = 0.1;
        let (d, m) = (self.problem.lower().len(), self.problem.dimensions().budgets);
        let region = self.region;
        let free = |at: &usize| region.width[*at] > 0.0;
        let point = &mut self.point;
        let count = point.x.len();
        point.evaluate(self.problem, self.episode, self.limits, region);
        let worth: f64 = (0..count)
            .filter(free)
            .map(|at| point.gradient[at].abs() * point.rise[at])
            .sum();
        let barrier = CENTRALITY * worth / (0..count).filter(free).count().max(1) as f64;
        for (dual, slack) in point.dual.iter_mut().zip(&point.slack) {
            *dual = self.weight * barrier / slack;
        }
        let last = point.dual.len() - m;
        for k in 0..m {
            let (mut gained, mut used) = (0.0, 0.0);
            for at in (0..count).filter(free) {
                let jacobian = point.jacobian[(at / d * m + k) * d + at % d];
                gained += (-point.gradient[at] * jacobian).max(0.0);
                used += jacobian * jacobian;
            }
            let slack = point.slack[last + k];
            if used > 0.0 && slack.is_finite() {
                // A wide budget is worth at most the total gain.
                point.dual[last + k] += f64::min(gained / used / m as f64, worth / slack);
            }
        }
        point.evaluate(self.problem, self.episode, self.limits, region);
        for at in (0..count).filter(free) {
            let residual = point.reduced_gradient(at / d, at % d, (d, m));
            point.at_lower[at] = residual.max(0.0) + barrier / point.rise[at];
            point.at_upper[at] = (-residual).max(0.0) + barrier / (region.width[at] - point.rise[at]);
        }
    }

    /// Follows the central path to the tolerance.
    pub(super) fn run(mut self) -> Result<Found, Error> {
        const PREDICTOR_POWER: i32 = 3;
        const LEAST_CENTRING: f64 = 1e-3;
        // Complementarity must not run ahead of the dual residual: near the boundary short steps are all there is.
        const BALANCE: f64 = 0.01;
        const MOST_BALANCE: f64 = 0.5;
        // The path is followed to the tolerance itself, and the gap is then far below it; unless the path strays from it.
        const AHEAD: f64 = 100.0;
        // A cost that vanishes like the square of a distance is known to the root of a rounding of its size.
        const VANISHING: f64 = 1e-6;
        let options = self.options;
        let mut centring_wanted = 0.0_f64;
        let mut iterations = 0;
        let mut settled = false;
        let mut best: Option<Best> = None;
        // An optimum whose costs are zero has no scale: it takes that of the starting point, up to the unit in which a difference from
        // OPT is judged.
        let floor = f64::min(1.0, f64::EPSILON * self.point.cost(self.problem, self.episode).1);
        loop {
            let (mut complementarity, mut constraints, mut dual_residual) = (0.0, 0.0, 0.0);
            self.point
                .each_product(self.region, self.weight, |product, weight| {
                    complementarity += product;
                    constraints += weight;
                });
            // What the dual residual can cost: it pulls each action towards one end of its range. The optimum is no further away
            // than what the reduced gradient can gain there, whatever the duals of the bounds are: those of a range that is
            // wide beside its action need not have come to rest.
            let mut gap = self.point.unused();
            self.point
                .each_dual_residual(self.region, |at, reduced, residual| {
                    let below = self.point.rise[at];
                    let above = self.region.width[at] - below;
                    dual_residual += (residual * below).max(-residual * above);
                    gap += (reduced * below).max(-reduced * above);
                });
            let (cost, size) = self.point.cost(self.problem, self.episode);
            let size = size.max(floor);
            let path = complementarity + dual_residual;
            // Where the terms of a cost cancel, a policy is still compared with OPT by the cost itself, or by one.
            let aim = options.tolerance * size.min(cost.abs().max(1.0));
            if f64::min(path, AHEAD * gap) <= aim {
                return Ok(self.found(cost, gap, iterations));
            }
            // Budgets are resolved to rounding, and that has its price. It is an excuse, not an aim: beside a rounding that is dear
            // there may be more to gain, and steps that find nothing more may lose some of what was found.
            let resolved: f64 = options.rounding * dot(self.episode.budgets(), &self.point.price);
            // Nor is there more to gain than a rounding of the cost at the start where the cost vanishes towards the optimum.
            let vanishing = gap <= f64::min(floor, VANISHING * size);
            let excused = gap <= f64::max(options.acceptable * size, resolved) || vanishing;
            if excused && best.as_ref().is_none_or(|best| gap < best.gap) {
                best = Some(Best {
                    point: self.point.clone(),
                    cost,
                    gap,
                });
            }
            let stepped = if iterations < options.max_iterations {
                self.newton
                    .factor(self.problem, self.episode, self.region, &self.point);
                self.newton.direct(self.region, &self.point, 0.0, 0.0);
                let predicted = 1.0 - self.longest_step(1.0);
                let centring = predicted
                    .powi(PREDICTOR_POWER)
                    .max(LEAST_CENTRING)
                    .max((BALANCE * dual_residual / complementarity).min(MOST_BALANCE))
                    .max(centring_wanted);
                let barrier = centring * complementarity / constraints;
                self.newton
                    .direct(self.region, &self.point, barrier, self.weight * barrier);
                self.search(barrier)
            } else {
                None
            };
            let Some(step) = stepped else {
                if !settled && iterations < options.max_iterations {
                    self.settle();
                    settled = true;
                    continue;
                }
                if let Some(Best { point, cost, gap }) = best {
                    self.point = point;
                    return Ok(self.found(cost, gap, iterations));
                }
                return Err(Error::NotConverged {
                    policy: NAME,
                    what: "the interior point",
                    iterations,
                    residual: gap / size,
                    tolerance: options.tolerance,
                });
            };
            iterations += 1;
            std::mem::swap(&mut self.point, &mut self.trial);
            // A short step means that the point is off the central path: the next step centres.
            centring_wanted = if step < 0.1 { 0.8 } else { 0.0 };
        }
    }

    /// Raises each action with a negative slope a little beyond the point where its slope, to first order, vanishes.
    ///
    /// An action that is tiny within its range has a slope of no weight in the residual; yet if it is to rise, the gap must
    /// reckon with all of the range. Once its slope is positive, only what it has risen counts.
    fn settle(&mut self) {
        const BEYOND: f64 = 2.0;
        let (d, m) = (self.problem.lower().len(), self.problem.dimensions().budgets);
        self.trial.clone_from(&self.point);
        let mut hessian = vec![0.0; d * d];
        let Self { point, trial, .. } = self;
        point.each_dual_residual(self.region, |at, _, residual| {
            let (step, i) = (at / d, at % d);
            let (x, price) = (&point.x[step * d..][..d], &point.price[step * m..][..m]);
            let context = self.episode.context(step);
            self.problem.lagrangian_hessian(x, context, price, &mut hessian);
            let rise = BEYOND * -residual / hessian[i * d + i];
            if residual < 0.0 && rise < point.rise[at].min(self.region.width[at] - point.rise[at]) {
                trial.rise[at] += rise;
            }
        });
        trial.evaluate(self.problem, self.episode, self.limits, self.region);
        if trial.slack.iter().all(|slack| *slack > 0.0) {
            std::mem::swap(&mut self.point, &mut self.trial);
        }
    }

    /// Prices the budgets that were dropped, and what was dropped of them.
    fn found(mut self, cost: f64, mut gap: f64, iterations: usize) -> Found {
        for (resource, dropped) in self.region.dropped.iter().enumerate() {
            if let Some(room) = dropped {
                gap += room * self.point.price_held(self.problem, self.region, resource);
            }
        }
        Found {
            point: self.point,
            cost,
            gap,
            iterations,
        }
    }

    /// The longest step, at most 1, that goes no further than `fraction` of the way to any bound; usage to first order.
    fn longest_step(&self, fraction: f64) -> f64 {
        let (point, direction) = (&self.point, &self.newton.direction);
        let mut longest = 1.0_f64;
        let mut keep = |value: f64, change: f64| {
            if change < 0.0 {
                longest = longest.min(-fraction * value / change);
            }
        };
        for i in 0..point.rise.len() {
            keep(point.rise[i], direction.rise[i]);
            keep(self.region.width[i] - point.rise[i], -direction.rise[i]);
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
            point, trial, newton, ..
        } = self;
        let direction = &newton.direction;
        let along = |to: &mut [f64], from: &[f64], change: &[f64]| {
            for ((to, from), change) in to.iter_mut().zip(from).zip(change) {
                *to = from + step * change;
            }
        };
        along(&mut trial.rise, &point.rise, &direction.rise);
        along(&mut trial.dual, &point.dual, &direction.dual);
        along(&mut trial.at_lower, &point.at_lower, &direction.at_lower);
        along(&mut trial.at_upper, &point.at_upper, &direction.at_upper);
        // A rounded sum may land on a bound; the point must stay in the interior.
        for (rise, width) in trial.rise.iter_mut().zip(&self.region.width) {
            if *width > 0.0 {
                *rise = rise.clamp(f64::MIN_POSITIVE, width.next_down());
            }
        }
        trial.evaluate(self.problem, self.episode, self.limits, self.region);
    }

    /// The norm of the perturbed KKT conditions, every one in units of cost. A dual residual counts with the distance that
    /// its action has to the nearer end of its range now: what it can cost before the range's other end matters.
    fn residual(&self, point: &Point, barrier: f64) -> f64 {
        let mut sum = 0.0;
        point.each_dual_residual(self.region, |at, _, residual| {
            let (below, width) = (self.point.rise[at], self.region.width[at]);
            sum += (residual * 2.0 * below * ((width - below) / width)).powi(2);
        });
        point.each_product(self.region, self.weight, |product, weight| {
            sum += (product - weight * barrier).powi(2);
        });
        sum.sqrt()
    }
}
