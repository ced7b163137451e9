//! The short way: a guess from a model of the utility, then Newton's method on its active set, without an interior point.
//!
//! A marginal utility falls as a power of its action to good approximation: `−l′(x) ≈ r (x / x₀)^−p` with `r` and `p` from the
//! gradient and the curvature at `x₀`. At prices `π` each action of that model is known, `x₀ (r / π)^(1/p)`, and what the budgets
//! add to the prices follows from a few Newton steps in as many unknowns as there are budgets. For logarithms the model is
//! exact. A guess that the caller has, the answer to almost the same query, takes its place.
//!
//! What is found counts only if it passes the test that every solution passes; where it does not, the interior point starts as if
//! nothing had been tried.

#![expect(
    clippy::needless_bitwise_bool,
    reason = "loops without branches become vectors"
)]

use laau_core::{Query, SmoothProblem, SolutionMut, Status};

use crate::dense::{Dense, Kind};
use crate::evaluations::Evaluations;
use crate::passes::{place_logarithms, used_and_paid};
use crate::rows::{add_rows, fill_gram, multiply};
use crate::settle::Candidate;
use crate::workspace::Workspace;

/// Memory for the model.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    /// `x₀`, `r` and `1/p` of each action; an action without a model keeps its place.
    at: Vec<f64>,
    gain: Vec<f64>,
    exponent: Vec<f64>,
    /// The price of each action without the duals, and how fast the action falls in it (if coupled, its factor).
    price: Vec<f64>,
    slope: Vec<f64>,
    /// How far each action is from its place, as a logarithm; then how far it is from where the model was made.
    rise: Vec<f64>,
    /// What each action gains above its price where the model was made.
    surplus: Vec<f64>,
    /// The price of each action with the duals, and what a unit of each active budget costs those who use it.
    total: Vec<f64>,
    unit: Vec<f64>,
    /// How the actions fall in each active dual.
    falls: Vec<f64>,
    /// What each budget lacks, and the rows that are active.
    excess: Vec<f64>,
    active: Vec<usize>,
    right: Vec<f64>,
    schur: Dense,
    /// `x_i H_ij x_j`, factorised, where actions change each other's gain: the model of a product of powers is exact, too.
    coupling: Dense,
    coupled: bool,
    /// Whether every utility is a logarithm: `p = 1`, and actions are quotients.
    logarithmic: bool,
}

impl Model {
    pub(crate) fn new(d: usize, m: usize, diagonal: bool) -> Self {
        Self {
            coupling: Dense::new(if diagonal { 0 } else { d }),
            coupled: false,
            logarithmic: false,
            rise: vec![0.0; d],
            surplus: vec![0.0; d],
            total: vec![0.0; d],
            unit: vec![0.0; m],
            falls: vec![0.0; d * m],
            at: vec![0.0; d],
            gain: vec![0.0; d],
            exponent: vec![0.0; d],
            price: vec![0.0; d],
            slope: vec![0.0; d],
            excess: vec![0.0; m],
            active: Vec::with_capacity(m),
            right: vec![0.0; m],
            schur: Dense::new(m),
        }
    }
}

impl Workspace {
    /// Tries to solve a query from `near`, or from the model's guess. Nothing is lost when it fails, but what the evaluations
    /// hold.
    pub(crate) fn direct(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        near: Option<&[f64]>,
        solution: &mut SolutionMut<'_>,
    ) -> Option<Status> {
        // Where usage falls from the lower corner, which has no room, to find a way in is the interior point's business.
        if self.barrier.raise.iter().any(|raise| *raise > 0.0) {
            return None;
        }
        let (lower, upper) = (problem.lower(), problem.upper());
        self.barrier.limit_reach(problem, &self.evaluations, &self.slack);
        let d = self.evaluations.d;
        let (lower, upper) = (&lower[..d], &upper[..d]);
        let (x, free) = (&mut self.polish.x[..d], &self.barrier.free[..d]);
        if let Some(near) = near {
            x.copy_from_slice(near);
        } else {
            let reach = &self.barrier.reach[..d];
            for i in 0..d {
                x[i] = lower[i] + self.options.start_share * reach[i];
            }
        }
        for i in 0..d {
            let above = (x[i] > lower[i]) & (free[i] != 0.0);
            let within = if x[i] < upper[i] { x[i] } else { upper[i] };
            x[i] = if above { within } else { lower[i] };
        }
        self.polish.dual.fill(0.0);
        self.barrier.room.copy_from_slice(&self.slack);
        self.barrier.update_noise(query);
        self.solve_model(problem, query, near.is_some());
        let Self {
            options,
            evaluations,
            system,
            polish,
            barrier,
            ..
        } = self;
        polish.read_set(problem, evaluations, query, barrier, options);
        let steps = options.max_direct_steps;
        if !polish.newton_steps(problem, evaluations, system, query, (barrier, options, steps)) {
            return None;
        }
        if !polish.is_regular(evaluations, query, (problem, barrier), options) {
            return None;
        }
        let iterations = polish.steps;
        let residual = self.settle(problem, query, Candidate::Polished, solution);
        (residual <= self.options.tolerance).then_some(Status::Solved { iterations, residual })
    }

    /// Replaces the point and its duals by the solution of the model around it.
    ///
    /// Near the answer the duals start from nothing, and so they do where all actions are inside the box without them; elsewhere
    /// from what makes the point the answer, or they would be thrown far by actions that only leave their bounds at higher prices.
    fn solve_model(&mut self, problem: &dyn SmoothProblem, query: Query<'_>, near: bool) {
        let Self {
            options,
            evaluations,
            barrier,
            polish,
            model,
            ..
        } = self;
        evaluations.evaluate(problem, query, &polish.x);
        evaluations.evaluate_usage(problem, query, &polish.x);
        evaluations.evaluate_hessian(problem, query, &polish.x, &polish.dual);
        model.fit(evaluations, &polish.x, &barrier.free);
        model.couple(evaluations, options.rank_tolerance);
        let jacobian = &evaluations.jacobian;
        let limits = (&evaluations.usage[..], query.available, options.model_tolerance);
        for step in 0..=options.model_steps {
            model.place(problem, jacobian, &polish.dual, &mut polish.x);
            let far = model.measure(jacobian, limits, &barrier.live, &polish.dual, &polish.x);
            if !far || step == options.model_steps {
                break;
            }
            let first = step == 0 && !near && model.is_capped(problem.upper(), &polish.x);
            if first {
                model.return_to_start(&mut polish.x);
            }
            if !model.step(jacobian, first, options.rank_tolerance) {
                break;
            }
            let next = |k: usize, row: usize, dual: &[f64]| {
                let (step, unit) = (model.right[k], model.unit[row]);
                let curved = !first && unit > 0.0;
                dual[row]
                    + if curved {
                        unit * (step / unit).min(options.model_growth.ln()).exp_m1()
                    } else {
                        step
                    }
            };
            let any = (model.active.iter().enumerate()).any(|(k, &row)| next(k, row, &polish.dual) > 0.0);
            for (k, &row) in model.active.iter().enumerate() {
                let (next, growth) = (next(k, row, &polish.dual), options.model_growth);
                let dual = &mut polish.dual[row];
                // A dual that should be negative is that of an inactive budget, unless all should be: then the first ones were too
                // high.
                let least = if any { 0.0 } else { *dual / growth };
                let most = if *dual > 0.0 {
                    *dual * growth
                } else {
                    f64::INFINITY
                };
                *dual = next.clamp(least, most);
            }
        }
    }
}

impl Model {
    /// Makes the model at a point, of whose derivatives the evaluations are.
    fn fit(&mut self, evaluations: &Evaluations, x: &[f64], free: &[f64]) {
        /// Roundings that gradient and curvature of a logarithm may be apart.
        const ROUNDING: f64 = 4.0 * f64::EPSILON;
        let d = x.len();
        let (gradient, priced) = (&evaluations.gradient[..d], &evaluations.priced[..d]);
        let (curvatures, free) = (&evaluations.curvatures()[..d], &free[..d]);
        let (gains, exponents) = (&mut self.gain[..d], &mut self.exponent[..d]);
        let (prices, surplus) = (&mut self.price[..d], &mut self.surplus[..d]);
        self.at.copy_from_slice(x);
        let mut logarithmic = true;
        for i in 0..d {
            let gain = -gradient[i];
            let exponent = gain / (x[i] * curvatures[i]);
            let falls = (gain > 0.0) & (exponent > 0.0) & (exponent < f64::INFINITY) & (free[i] != 0.0);
            logarithmic &= !falls | ((exponent - 1.0).abs() <= ROUNDING);
            gains[i] = if falls { gain } else { 0.0 };
            exponents[i] = exponent;
            prices[i] = priced[i] - gradient[i];
            surplus[i] = gains[i] - prices[i];
        }
        self.logarithmic = logarithmic;
    }

    /// Factorises how the actions change each other's gain, if they do.
    fn couple(&mut self, evaluations: &Evaluations, rank_tolerance: f64) {
        let d = evaluations.d;
        self.coupled = false;
        if evaluations.structure.diagonal_hessian || self.gain.contains(&0.0) {
            return;
        }
        let matrix = self.coupling.matrix(d);
        for i in 0..d {
            for j in 0..d {
                matrix[i * d + j] = self.at[i] * evaluations.hessian[i * d + j] * self.at[j];
            }
        }
        self.coupled = (self.coupling.factorise(Kind::PositiveDefinite, rank_tolerance)).is_ok();
    }

    /// The actions at the prices and duals, and their slopes.
    fn place(&mut self, problem: &dyn SmoothProblem, jacobian: &[f64], dual: &[f64], x: &mut [f64]) {
        let d = x.len();
        let (lower, upper) = (problem.lower(), problem.upper());
        self.slope.copy_from_slice(&self.price);
        add_rows(&mut self.slope, jacobian, dual);
        self.total.copy_from_slice(&self.slope);
        if self.logarithmic && !self.coupled {
            let model = (&self.at[..], &self.gain[..]);
            return place_logarithms(x, &mut self.slope, model, (lower, upper));
        }
        for i in 0..d {
            let falls = self.gain[i] > 0.0 && self.slope[i] > 0.0;
            let ratio = if falls {
                (self.gain[i] / self.slope[i]).ln()
            } else {
                0.0
            };
            self.rise[i] = ratio
                * if self.coupled {
                    self.gain[i] * self.at[i]
                } else {
                    self.exponent[i]
                };
        }
        if self.coupled {
            self.coupling.solve(&mut self.rise);
        }
        for i in 0..d {
            let price = self.slope[i];
            let next = if self.gain[i] == 0.0 {
                self.at[i]
            } else if price > 0.0 {
                self.at[i] * self.rise[i].exp()
            } else {
                upper[i]
            };
            let inside = next > lower[i] && next < upper[i] && self.gain[i] > 0.0;
            self.slope[i] = match (inside, self.coupled) {
                // Between the derivative of the action and that of its price, so that the system is symmetric.
                (true, true) => (next * self.gain[i] * self.at[i] / price).sqrt(),
                (true, false) => next * self.exponent[i] / price,
                (false, _) => 0.0,
            };
            x[i] = if next > lower[i] {
                next.min(upper[i])
            } else {
                lower[i]
            };
        }
    }

    /// What each budget lacks, by the linear model of its usage, and which are active; whether one is far from its limit.
    fn measure(
        &mut self,
        jacobian: &[f64],
        (usage, available, tolerance): (&[f64], &[f64], f64),
        live: &[bool],
        dual: &[f64],
        x: &[f64],
    ) -> bool {
        for ((way, x), at) in self.rise.iter_mut().zip(x).zip(&self.at) {
            *way = x - at;
        }
        multiply(jacobian, &self.rise, &mut self.excess);
        let mut far = false;
        self.active.clear();
        for row in 0..usage.len() {
            let mut excess = (usage[row] - available[row]) + self.excess[row];
            if live[row] && (excess > 0.0 || dual[row] > 0.0) {
                self.active.push(row);
                far |= excess.abs() > tolerance * available[row].abs();
                let d = x.len();
                (excess, self.unit[row]) = self.in_logarithms(&jacobian[row * d..][..d], x, excess);
            }
            self.excess[row] = excess;
        }
        far
    }

    /// Whether an action would rise on if the box let it: how it falls in its price does not show there.
    fn is_capped(&self, upper: &[f64], x: &[f64]) -> bool {
        (0..x.len()).any(|i| x[i] >= upper[i] && self.gain[i] > 0.0)
    }

    /// An excess for Newton's method on logarithms, and the price per unit of what is used inside the bounds: a step of the dual
    /// is to be taken in the logarithm of that price. In the model the logarithm of an action is a straight line in those of
    /// the prices, so that one step meets the limits if every action uses one budget; Newton's method on the usages themselves
    /// overshoots from below, and creeps from above.
    fn in_logarithms(&self, jacobian: &[f64], x: &[f64], excess: f64) -> (f64, f64) {
        let (used, paid) = used_and_paid(jacobian, x, &self.total, &self.slope);
        let left = used - excess;
        if used > 0.0 && left > 0.0 {
            (used * (used / left).ln(), paid / used)
        } else {
            (excess, 0.0)
        }
    }

    /// The point that the model was made at, and how its actions fall in their prices there.
    fn return_to_start(&mut self, x: &mut [f64]) {
        x.copy_from_slice(&self.at);
        let d = x.len();
        let (at, gain, exponent) = (&self.at[..d], &self.gain[..d], &self.exponent[..d]);
        let slope = &mut self.slope[..d];
        for i in 0..d {
            let fall = if self.coupled {
                at[i]
            } else {
                at[i] * exponent[i] / gain[i]
            };
            slope[i] = if gain[i] > 0.0 { fall } else { 0.0 };
        }
    }

    /// The Newton step of the duals of the active budgets, in `right`; whether there is one. With `first`, the duals that
    /// explain best why the actions are where they are.
    fn step(&mut self, jacobian: &[f64], first: bool, rank_tolerance: f64) -> bool {
        let d = self.at.len();
        let count = self.active.len();
        // How the actions fall in each dual: `Σ_j D_ij J_mj`, with `D` diagonal or, if coupled, `w A⁻¹ w`.
        for (a, &row) in self.active.iter().enumerate() {
            let falls = &mut self.falls[a * d..][..d];
            let row = &jacobian[row * d..][..d];
            for ((falls, j), slope) in falls.iter_mut().zip(row).zip(&self.slope) {
                *falls = j * slope;
            }
            if self.coupled {
                self.coupling.solve(falls);
                for i in 0..d {
                    falls[i] *= self.slope[i];
                }
            }
        }
        let matrix = self.schur.matrix(count);
        let (active, falls) = (&self.active, &self.falls[..count * d]);
        let of_active = |a: usize| &jacobian[active[a] * d..][..d];
        fill_gram(matrix, count, |a| &falls[a * d..][..d], of_active);
        if first {
            multiply(falls, &self.surplus, &mut self.right[..count]);
        } else {
            for (right, &row) in self.right.iter_mut().zip(active) {
                *right = self.excess[row];
            }
        }
        if self
            .schur
            .factorise(Kind::PositiveDefinite, rank_tolerance)
            .is_err()
        {
            return false;
        }
        self.schur.solve(&mut self.right[..count]);
        true
    }
}
