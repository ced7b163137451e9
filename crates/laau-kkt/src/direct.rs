//! The short way: a guess from a model of the utility, then Newton's method on its active set, without an interior point.
//!
//! A marginal utility falls as a power of its action to good approximation: `−l′(x) ≈ r (x / x₀)^−p` with `r` and `p` from the
//! gradient and the curvature at `x₀`. At prices `π` each action of that model is known, `x₀ (r / π)^(1/p)`, and what the budgets
//! add to the prices follows from a few Newton steps in as many unknowns as there are budgets. For logarithms the model is
//! exact. A guess that the caller has, the answer to almost the same query, takes its place.
//!
//! What is found counts only if it passes the test that every solution passes; where it does not, the interior point starts as if
//! nothing had been tried.

use laau_core::{Query, SmoothProblem, SolutionMut, Status};

use crate::dense::{Dense, Kind, dot};
use crate::evaluations::Evaluations;
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
    /// How far each action is from its place, as a logarithm.
    rise: Vec<f64>,
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
}

impl Model {
    pub(crate) fn new(d: usize, m: usize, diagonal: bool) -> Self {
        Self {
            coupling: Dense::new(if diagonal { 0 } else { d }),
            coupled: false,
            rise: vec![0.0; d],
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
        for i in 0..self.evaluations.d {
            let x = match near {
                Some(near) => near[i],
                None => lower[i] + self.options.start_share * self.barrier.reach[i],
            };
            self.polish.x[i] = if x > lower[i] && self.barrier.free[i] != 0.0 {
                x.min(upper[i])
            } else {
                lower[i]
            };
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
        let d = evaluations.d;
        evaluations.evaluate(problem, query, &polish.x);
        evaluations.evaluate_usage(problem, query, &polish.x);
        evaluations.evaluate_hessian(problem, query, &polish.x, &polish.dual);
        for i in 0..d {
            let (x, gain) = (polish.x[i], -evaluations.gradient[i]);
            let exponent = gain / (x * evaluations.curvature(i));
            let falls = gain > 0.0 && exponent > 0.0 && exponent < f64::INFINITY && barrier.free[i] != 0.0;
            model.at[i] = x;
            model.gain[i] = if falls { gain } else { 0.0 };
            model.exponent[i] = exponent;
            model.price[i] = evaluations.priced[i] - evaluations.gradient[i];
        }
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
        for (row, dual) in jacobian.chunks_exact(d).zip(dual) {
            if *dual > 0.0 {
                for i in 0..d {
                    self.slope[i] += dual * row[i];
                }
            }
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
            self.total[i] = price;
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
        let d = x.len();
        let mut far = false;
        self.active.clear();
        for (row, jacobian) in jacobian.chunks_exact(d).enumerate() {
            let mut excess = usage[row] - available[row];
            for i in 0..d {
                excess += jacobian[i] * (x[i] - self.at[i]);
            }
            if live[row] && (excess > 0.0 || dual[row] > 0.0) {
                self.active.push(row);
                far |= excess.abs() > tolerance * available[row].abs();
                (excess, self.unit[row]) = self.logarithmic(jacobian, x, excess);
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
    fn logarithmic(&self, jacobian: &[f64], x: &[f64], excess: f64) -> (f64, f64) {
        let (mut used, mut paid) = (0.0, 0.0);
        for i in 0..x.len() {
            if self.slope[i] > 0.0 && jacobian[i] > 0.0 {
                used += jacobian[i] * x[i];
                paid += self.total[i] * x[i];
            }
        }
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
        for i in 0..x.len() {
            let falls = self.gain[i] > 0.0;
            self.slope[i] = match (falls, self.coupled) {
                (true, true) => self.at[i],
                (true, false) => self.at[i] * self.exponent[i] / self.gain[i],
                (false, _) => 0.0,
            };
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
            for i in 0..d {
                falls[i] = jacobian[row * d + i] * self.slope[i];
            }
            if self.coupled {
                self.coupling.solve(falls);
                for i in 0..d {
                    falls[i] *= self.slope[i];
                }
            }
        }
        let matrix = self.schur.matrix(count);
        for (a, &row) in self.active.iter().enumerate() {
            let falls = &self.falls[a * d..][..d];
            for (b, &other) in self.active.iter().enumerate().take(a + 1) {
                let sum = dot(falls, &jacobian[other * d..][..d]);
                matrix[a * count + b] = sum;
                matrix[b * count + a] = sum;
            }
            self.right[a] = if first {
                let excess = |i: usize| falls[i] * (self.gain[i] - self.price[i]);
                (0..d).map(excess).sum()
            } else {
                self.excess[row]
            };
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
