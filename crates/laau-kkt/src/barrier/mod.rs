//! The primal-dual interior-point iteration (Mehrotra's predictor-corrector), strictly inside the box.
//!
//! For `min l(x) + λᵀg(x)` with `g(x) + s = b`, `s ≥ 0` and `lower ≤ x ≤ upper`, write `u = x − lower`, `v = upper − x`
//! and `z, y, μ` for the duals of `u, v, s`. A barrier `τ` asks for
//!
//! ```text
//!     ∇l + ∇gᵀ(λ + μ) − z + y = 0,     g(x) + s = b,     u z = τ,  v y = τ,  s μ = τ
//! ```
//!
//! and a Newton step solves, with `D = H + z/u + y/v` and `J = ∇g`,
//!
//! ```text
//!     (s/μ + J D⁻¹ Jᵀ) dμ = e_s/μ + r_p + J D⁻¹ r,   dx = D⁻¹ (r − Jᵀ dμ),   r = −r_d + e_z/u − e_y/v
//! ```
//!
//! where `r_d` and `r_p` are the residuals of the first two conditions and `e_z, e_y, e_s` those of the products. With a
//! diagonal Hessian only the `M × M` matrix is factorised; otherwise `D` is, too. The start has `r_p = 0`, and for affine
//! usage it stays so; the slacks of curved budgets are not tied to `b − g(x)`, which would force tiny steps. `u`, `v` and `s` are
//! updated themselves, not recomputed as differences, so that they keep their digits as they vanish.

mod direction;
mod kept;
mod start;

use laau_core::{Query, SmoothProblem};

use crate::dense::{Dense, dot};
use crate::evaluations::Evaluations;
use crate::options::Options;

/// The iterate, and memory for its steps.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    options: Options,
    pub(crate) x: Vec<f64>,
    /// `x − lower`, `upper − x`, and the slacks of the budgets.
    pub(crate) u: Vec<f64>,
    pub(crate) v: Vec<f64>,
    pub(crate) s: Vec<f64>,
    /// Their duals `z`, `y`, `μ`.
    pub(crate) z: Vec<f64>,
    pub(crate) y: Vec<f64>,
    pub(crate) dual: Vec<f64>,
    /// 1 for an action that may move, 0 for one that a budget pins to its lower bound.
    pub(crate) free: Vec<f64>,
    /// Whether a budget takes part; one that only pins actions does not.
    pub(crate) live: Vec<bool>,
    /// Mean of the products, its value at the start, and the largest relative residual of the first condition.
    pub(crate) product: f64,
    pub(crate) start: f64,
    pub(crate) residual: f64,
    pub(crate) iterations: u32,
    products: f64,
    /// Steps in which the barrier stayed where it was.
    held: u32,
    kept: kept::Kept,
    /// How far each action is raised before anything else, where the lower corner has no interior but usage falls.
    pub(crate) raise: Vec<f64>,
    /// How far each action can rise from its lower bound: to its upper bound, or until a budget is used up.
    pub(crate) reach: Vec<f64>,
    /// The same, but for budgets that some action frees: no payable action is higher.
    pub(crate) most: Vec<f64>,
    /// `r_p = g(x) + s − b`, and the slacks at the start.
    excess: Vec<f64>,
    pub(crate) room: Vec<f64>,
    /// What rounding alone leaves of `r_p` where usage is computed.
    pub(crate) noise: Vec<f64>,
    inverse_u: Vec<f64>,
    inverse_v: Vec<f64>,
    /// `D⁻¹` if diagonal.
    inverse: Vec<f64>,
    dx: Vec<f64>,
    dz: Vec<f64>,
    dy: Vec<f64>,
    ds: Vec<f64>,
    d_dual: Vec<f64>,
    /// `r_d`, `r`, and `D⁻¹ r`.
    stationarity: Vec<f64>,
    right: Vec<f64>,
    trial: Vec<f64>,
    /// `e_s / μ`, and `D⁻¹ Jᵀ` with a row per budget.
    slack_right: Vec<f64>,
    solved: Vec<f64>,
    schur: Dense,
    hessian: Dense,
}

impl Barrier {
    pub(crate) fn new(d: usize, m: usize, diagonal: bool, options: &Options) -> Self {
        let (of_d, of_m) = (|| vec![0.0; d], || vec![0.0; m]);
        Self {
            options: *options,
            x: of_d(),
            u: of_d(),
            v: of_d(),
            s: of_m(),
            z: of_d(),
            y: of_d(),
            dual: of_m(),
            free: of_d(),
            live: vec![true; m],
            product: 0.0,
            start: 0.0,
            residual: 0.0,
            iterations: 0,
            products: 0.0,
            held: 0,
            kept: kept::Kept::new(d, m),
            raise: of_d(),
            reach: of_d(),
            most: of_d(),
            excess: of_m(),
            room: of_m(),
            noise: of_m(),
            inverse_u: of_d(),
            inverse_v: of_d(),
            inverse: of_d(),
            dx: of_d(),
            dz: of_d(),
            dy: of_d(),
            ds: of_m(),
            d_dual: of_m(),
            stationarity: of_d(),
            right: of_d(),
            trial: of_d(),
            slack_right: of_m(),
            solved: vec![0.0; d * m],
            schur: Dense::new(m),
            hessian: Dense::new(if diagonal { 0 } else { d }),
        }
    }

    /// Iterates until barrier and residual are below `until` relative to their scales, or steps run out.
    ///
    /// The evaluations hold gradients at the current point before and after. With `centre`, the barrier is not lowered below
    /// the given value, and the iterate is centred at it.
    pub(crate) fn advance(
        &mut self,
        problem: &dyn SmoothProblem,
        evaluations: &mut Evaluations,
        query: Query<'_>,
        until: f64,
        max_iterations: u32,
        centre: Option<f64>,
    ) {
        while self.iterations < max_iterations {
            self.update_residual(evaluations);
            let done = match centre {
                None => {
                    self.product <= until * self.start
                        && self.residual <= until.max(self.options.rounding_residual)
                }
                Some(target) => self.off_centre(target) <= until && self.residual <= until,
            };
            if done || !(self.residual.is_finite() && self.product > 0.0) {
                break;
            }
            if centre.is_none() {
                self.keep_the_best();
            }
            evaluations.evaluate_hessian(problem, query, &self.x, &self.dual);
            if !self.factorise(evaluations) {
                break;
            }
            self.iterations += 1;
            let reach = self.predict(evaluations);
            let (target, reached) = match centre {
                // The predictor aims at no barrier at all: its second-order terms would lead away from a centre.
                Some(target) => (target, 0.0),
                None => (self.target(reach, until), (1.0 / reach).min(1.0)),
            };
            let reach = self.correct(evaluations, target, reached);
            let length = (self.options.boundary_fraction / reach).min(1.0);
            if !self.step(problem, evaluations, query, length) {
                break;
            }
        }
    }

    /// The barrier that a step aims at.
    #[inline]
    fn target(&mut self, reach: f64, until: f64) -> f64 {
        if self.held < self.options.max_held && self.ahead(until) {
            self.held += 1;
            return self.product;
        }
        self.centring(reach) * self.product
    }

    /// Whether the barrier is far below where a stage ends and some slack has vanished while stationarity is not reached
    /// yet. Where a cost bends sharply, its residual falls slowly, and slacks would have no digits left by then.
    fn ahead(&self, until: f64) -> bool {
        let gone = |row: usize| self.live[row] && self.s[row] <= self.options.vanished_slack * self.room[row];
        self.product <= self.options.hold_at * until * self.start
            && self.residual > until.max(self.options.hold_residual)
            && (0..self.s.len()).any(gone)
    }

    /// How much the slack of a budget changes with its dual: `J D⁻¹ Jᵀ` from the last factorisation.
    #[inline]
    pub(crate) fn softness(&self, evaluations: &Evaluations, row: usize) -> f64 {
        let d = evaluations.d;
        dot(
            &evaluations.jacobian[row * d..][..d],
            &self.solved[row * d..][..d],
        )
    }

    /// Whether nothing is worth anything, so that there is no barrier to follow.
    pub(crate) fn worthless(&self) -> bool {
        self.start <= f64::MIN_POSITIVE.sqrt()
    }

    /// The largest relative distance of a product from the target.
    fn off_centre(&self, target: f64) -> f64 {
        let boxes = (0..self.x.len()).filter(|i| self.free[*i] != 0.0).map(|i| {
            (self.u[i] * self.z[i] - target)
                .abs()
                .max((self.v[i] * self.y[i] - target).abs())
        });
        let budgets = (0..self.s.len())
            .filter(|row| self.live[*row])
            .map(|row| (self.s[row] * self.dual[row] - target).abs());
        boxes.chain(budgets).fold(0.0, f64::max) / target
    }

    /// `r_d` and its largest relative entry.
    #[inline]
    fn update_residual(&mut self, evaluations: &Evaluations) {
        let d = evaluations.d;
        let r = &mut self.stationarity[..d];
        r.copy_from_slice(&evaluations.priced[..d]);
        for (row, dual) in evaluations.jacobian.chunks_exact(d).zip(&self.dual) {
            for i in 0..d {
                r[i] += dual * row[i];
            }
        }
        let (z, y, free) = (&self.z[..d], &self.y[..d], &self.free[..d]);
        let (priced, gradient) = (&evaluations.priced[..d], &evaluations.gradient[..d]);
        let (mut largest, mut scale) = (0.0_f64, f64::MIN_POSITIVE);
        for i in 0..d {
            // Not `|priced|`, which vanishes at an optimum inside all constraints.
            let terms = gradient[i].abs() + (priced[i] - gradient[i]).abs();
            scale = larger(scale, terms + z[i] + y[i]);
            r[i] = free[i] * (r[i] - z[i] + y[i]);
            largest = larger(largest, r[i].abs());
        }
        self.residual = largest / scale;
        if !evaluations.structure.affine_usage {
            for row in 0..evaluations.m {
                self.residual = larger(self.residual, self.excess[row].abs() / self.room[row]);
            }
        }
    }

    /// Lifts duals whose product fell far behind the others: with a slack that is small for its dual, the next step would
    /// cross the box.
    #[inline]
    fn recentre(&mut self) {
        let d = self.x.len();
        let least = self.options.min_product * self.product;
        let (u, v, z, y) = (&self.u[..d], &self.v[..d], &mut self.z[..d], &mut self.y[..d]);
        let mut behind = false;
        for i in 0..d {
            behind |= u[i] * z[i] < least || v[i] * y[i] < least;
        }
        if behind {
            for i in 0..d {
                z[i] = self.free[i] * larger(z[i], least / u[i]);
                y[i] = self.free[i] * larger(y[i], least / v[i]);
            }
        }
        for row in 0..self.s.len() {
            if self.live[row] && self.s[row] * self.dual[row] < least {
                if self.s[row] < self.options.vanished_slack * self.room[row] {
                    // The budget is active: its dual has found its place in the first condition, its slack gives way.
                    let slack = least / self.dual[row];
                    self.excess[row] += slack - self.s[row];
                    self.s[row] = slack;
                } else {
                    self.dual[row] = least / self.s[row];
                }
            }
        }
    }

    /// Moves by `length`, less if a curved budget bends too much, and evaluates the gradients there.
    #[inline]
    fn step(
        &mut self,
        problem: &dyn SmoothProblem,
        evaluations: &mut Evaluations,
        query: Query<'_>,
        mut length: f64,
    ) -> bool {
        let d = evaluations.d;
        let (lower, upper) = (&problem.lower()[..d], &problem.upper()[..d]);
        loop {
            let (u, v, dx, free) = (&self.u[..d], &self.v[..d], &self.dx[..d], &self.free[..d]);
            let trial = &mut self.trial[..d];
            for i in 0..d {
                let (below, above) = (u[i] + length * dx[i], v[i] - length * dx[i]);
                // From the nearer bound, so that a tiny distance keeps its digits.
                let x = if below < above {
                    lower[i] + below
                } else {
                    upper[i] - above
                };
                trial[i] = if free[i] == 0.0 { lower[i] } else { x };
            }
            if evaluations.structure.affine_usage {
                break;
            }
            evaluations.evaluate_usage(problem, query, &self.trial);
            // The linear model of a curved budget holds only so far.
            let fits = |row: usize| {
                let slack = self.s[row] + length * self.ds[row];
                let excess = evaluations.usage[row] + slack - query.available[row];
                !self.live[row] || excess.abs() <= self.excess[row].abs().max(self.room[row])
            };
            if (0..evaluations.m).all(fits) {
                break;
            }
            length *= 0.5;
            if length < self.options.min_step {
                return false;
            }
        }
        std::mem::swap(&mut self.x, &mut self.trial);
        let mut total = 0.0;
        let (u, v, z, y) = (
            &mut self.u[..d],
            &mut self.v[..d],
            &mut self.z[..d],
            &mut self.y[..d],
        );
        let (dx, dz, dy) = (&self.dx[..d], &self.dz[..d], &self.dy[..d]);
        for i in 0..d {
            u[i] += length * dx[i];
            v[i] -= length * dx[i];
            z[i] += length * dz[i];
            y[i] += length * dy[i];
            total += u[i] * z[i] + v[i] * y[i];
        }
        for row in 0..evaluations.m {
            if self.live[row] {
                self.s[row] += length * self.ds[row];
                if evaluations.structure.affine_usage {
                    self.excess[row] *= 1.0 - length;
                } else {
                    let excess = evaluations.usage[row] + self.s[row] - query.available[row];
                    self.excess[row] = beyond_rounding(excess, self.noise[row]);
                }
                self.dual[row] += length * self.d_dual[row];
                total += self.s[row] * self.dual[row];
            }
        }
        self.product = total / self.products.max(1.0);
        self.recentre();
        evaluations.evaluate(problem, query, &self.x);
        true
    }
}

/// What of an excess is not rounding: nothing from `−2 noise` to 0, else the way to the middle of that. A Newton step that
/// follows the rounding of a large usage throws an action about that uses next to nothing.
#[inline]
pub(crate) fn beyond_rounding(excess: f64, noise: f64) -> f64 {
    if excess <= 0.0 && excess >= -2.0 * noise {
        0.0
    } else {
        excess + noise
    }
}

/// The larger of two numbers by one comparison, so that loops vectorise (`f64::max` has a rule for NaN).
#[inline]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}
