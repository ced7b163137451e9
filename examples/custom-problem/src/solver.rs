//! The step solver: Newton's method, each step a quadratic program of clarabel.

use std::sync::Arc;

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus};
use laau_core::{
    Dimensions, Error, Projection, Query, SmoothProblem, SolutionMut, Status, StepSolver, check_query,
    infeasible, invalid_input,
};

use crate::kkt::{self, Active};

/// Newton steps before a query counts as not converged.
const MOST_STEPS: u32 = 50;
/// The largest relative KKT residual of a solved query.
const TOLERANCE: f64 = 1e-8;
/// From a Newton step below this on, relative to the box, the active set is tried for the last digits.
const NEAR: f64 = 1e-2;
/// The relative KKT residual at which those digits are right.
const POLISHED: f64 = 1e-11;
/// A Newton step below this, relative to the box, is the last.
const LAST_STEP: f64 = 1e-8;
/// Room given to a budget that has none, relative to what the upper corner uses; the answer is pulled in afterwards.
const LEAST_ROOM: f64 = 1e-10;

/// Solves the steps of any problem with affine usage.
///
/// A layer is a stateless value: clarabel allocates at every call, so there is no workspace to own.
#[derive(Clone)]
pub struct ClarabelLayer {
    pub(crate) problem: Arc<dyn SmoothProblem>,
}

/// A point on the way: the action and all duals, those of inactive constraints zero.
#[derive(Debug, Clone)]
struct Point {
    action: Vec<f64>,
    duals: Vec<f64>,
    lower_duals: Vec<f64>,
    upper_duals: Vec<f64>,
}

impl ClarabelLayer {
    /// A layer for a problem.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`] unless the problem claims affine usage.
    pub fn new(problem: Arc<dyn SmoothProblem>) -> Result<Self, Error> {
        if problem.structure().affine_usage {
            Ok(Self { problem })
        } else {
            Err(Error::InvalidProblem {
                problem: problem.name().to_owned(),
                reason: "expected affine usage: its budgets become linear constraints".to_owned(),
            })
        }
    }

    /// The solution and the Newton steps taken; none if clarabel gives up.
    fn newton(&self, query: Query<'_>) -> Option<(Point, u32)> {
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let mut x = lower.to_vec();
        for steps in 1..=MOST_STEPS {
            let model = self.quadratic_program(query, &x)?;
            let relative = |i: usize| (model.action[i] - x[i]).abs() / (upper[i] - lower[i]);
            let length = (0..x.len()).map(relative).fold(0.0, f64::max);
            if length <= NEAR {
                if let Some(point) = self.polished(query, &model) {
                    return Some((point, steps));
                }
                if length <= LAST_STEP {
                    return Some((model, steps));
                }
            }
            // A full step, or the first half of it that does not cost more.
            let before = self.objective(query, &x);
            let mut share = 1.0;
            let mut trial = model.action.clone();
            while self.objective(query, &trial) > before && share > 1e-6 {
                share *= 0.5;
                for i in 0..x.len() {
                    trial[i] = x[i] + share * (model.action[i] - x[i]);
                }
            }
            x = trial;
        }
        None
    }

    /// `l + λᵀg`.
    fn objective(&self, query: Query<'_>, x: &[f64]) -> f64 {
        let mut usage = vec![0.0; query.multiplier.len()];
        self.problem.usage(x, query.context, &mut usage);
        let priced: f64 = usage.iter().zip(query.multiplier).map(|(g, l)| g * l).sum();
        self.problem.cost(x, query.context) + priced
    }

    /// Minimises the quadratic model of `l + λᵀg` at `x`, under the budgets and the box.
    fn quadratic_program(&self, query: Query<'_>, x: &[f64]) -> Option<Point> {
        let problem = &*self.problem;
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        let (mut hessian, mut jacobian) = (vec![0.0; d * d], vec![0.0; m * d]);
        let (mut linear, mut used, mut most) = (vec![0.0; d], vec![0.0; m], vec![0.0; m]);
        problem.lagrangian_hessian(x, query.context, query.multiplier, &mut hessian);
        problem.usage_jacobian(x, query.context, &mut jacobian);
        problem.cost_gradient(x, query.context, &mut linear);
        problem.usage(x, query.context, &mut used);
        problem.usage(problem.upper(), query.context, &mut most);

        // Clarabel wants ½xᵀPx + qᵀx with the upper triangle of P, and rows A x ≤ b: budgets, upper, lower bounds.
        for i in 0..d {
            let curved: f64 = (0..d).map(|j| hessian[i * d + j] * x[j]).sum();
            let priced: f64 = (0..m).map(|k| query.multiplier[k] * jacobian[k * d + i]).sum();
            linear[i] += priced - curved;
        }
        let upper_triangle: Vec<Vec<f64>> = (0..d)
            .map(|i| {
                (0..d)
                    .map(|j| if j < i { 0.0 } else { hessian[i * d + j] })
                    .collect()
            })
            .collect();
        let mut rows: Vec<Vec<f64>> = jacobian.chunks_exact(d).map(<[f64]>::to_vec).collect();
        let mut right: Vec<f64> = (0..m)
            .map(|k| {
                let moved: f64 = rows[k].iter().zip(x).map(|(a, x)| a * x).sum();
                query.available[k].max(LEAST_ROOM * most[k]) - used[k] + moved
            })
            .collect();
        for (sign, bounds) in [(1.0, problem.upper()), (-1.0, problem.lower())] {
            for (i, bound) in bounds.iter().enumerate() {
                rows.push((0..d).map(|j| if i == j { sign } else { 0.0 }).collect());
                right.push(sign * bound);
            }
        }
        let settings = DefaultSettings {
            verbose: false,
            tol_gap_abs: 1e-14,
            tol_gap_rel: 1e-14,
            tol_feas: 1e-13,
            ..DefaultSettings::default()
        };
        let mut solver = DefaultSolver::new(
            &CscMatrix::from(&upper_triangle[..]),
            &linear,
            &CscMatrix::from(&rows[..]),
            &right,
            &[NonnegativeConeT(rows.len())],
            settings,
        )
        .ok()?;
        solver.solve();
        let found = &solver.solution;
        // At the limit of double precision it may stop for want of progress; the residual is judged later.
        if matches!(
            found.status,
            SolverStatus::PrimalInfeasible | SolverStatus::DualInfeasible | SolverStatus::NumericalError
        ) {
            return None;
        }
        let dual = |row: usize| {
            if found.z[row] > found.s[row] {
                found.z[row]
            } else {
                0.0
            }
        };
        Some(Point {
            action: (0..d)
                .map(|i| found.x[i].clamp(problem.lower()[i], problem.upper()[i]))
                .collect(),
            duals: (0..m).map(dual).collect(),
            upper_duals: (m..m + d).map(dual).collect(),
            lower_duals: (m + d..m + 2 * d).map(dual).collect(),
        })
    }

    /// Newton steps on clarabel's active set: the last digits, which an interior point leaves open. None if that leads to
    /// no solution.
    fn polished(&self, query: Query<'_>, model: &Point) -> Option<Point> {
        let problem = &*self.problem;
        let (lower, upper) = (problem.lower(), problem.upper());
        let d = lower.len();
        let active = model.active();
        let mut point = model.clone();
        for _ in 0..4 {
            let mut right = vec![0.0; d + query.available.len()];
            self.stationarity(query, &point.action, query.multiplier, &mut right[..d]);
            problem.usage(&point.action, query.context, &mut right[d..]);
            for (i, r) in right[..d].iter_mut().enumerate() {
                *r = match (active.at_lower[i], active.at_upper[i]) {
                    (true, _) => lower[i] - point.action[i],
                    (_, true) => upper[i] - point.action[i],
                    _ => -*r,
                };
            }
            for (k, r) in right[d..].iter_mut().enumerate() {
                *r = if active.budgets[k] {
                    query.available[k] - *r
                } else {
                    0.0
                };
            }
            let weights = total(query.multiplier, &point.duals);
            if !kkt::solve(problem, query, &point.action, &weights, &active, &mut right) {
                return None;
            }
            for i in 0..d {
                point.action[i] += right[i];
            }
            point.duals.copy_from_slice(&right[d..]);
        }
        let mut left = vec![0.0; d];
        let weights = total(query.multiplier, &point.duals);
        self.stationarity(query, &point.action, &weights, &mut left);
        for i in 0..d {
            point.lower_duals[i] = if active.at_lower[i] { left[i] } else { 0.0 };
            point.upper_duals[i] = if active.at_upper[i] { -left[i] } else { 0.0 };
        }
        let in_box = (0..d).all(|i| point.action[i] >= lower[i] && point.action[i] <= upper[i]);
        let mut usage = vec![0.0; point.duals.len()];
        problem.usage(&point.action, query.context, &mut usage);
        let within = |k: usize| usage[k] <= query.available[k] + 1e-12 * (1.0 + usage[k]);
        let feasible = in_box && (0..usage.len()).all(within) && point.all_duals().all(|dual| dual >= 0.0);
        (feasible && self.residual(query, &point) <= POLISHED).then_some(point)
    }

    /// `∇l + ∇gᵀ weights`.
    fn stationarity(&self, query: Query<'_>, x: &[f64], weights: &[f64], out: &mut [f64]) {
        let d = out.len();
        let mut jacobian = vec![0.0; weights.len() * d];
        self.problem.cost_gradient(x, query.context, out);
        self.problem.usage_jacobian(x, query.context, &mut jacobian);
        for (row, weight) in jacobian.chunks_exact(d).zip(weights) {
            for (out, a) in out.iter_mut().zip(row) {
                *out += weight * a;
            }
        }
    }

    /// The largest violation of a KKT condition, relative to the gradient of the cost.
    fn residual(&self, query: Query<'_>, point: &Point) -> f64 {
        let problem = &*self.problem;
        let d = point.action.len();
        let (mut left, mut gradient) = (vec![0.0; d], vec![0.0; d]);
        let weights = total(query.multiplier, &point.duals);
        self.stationarity(query, &point.action, &weights, &mut left);
        problem.cost_gradient(&point.action, query.context, &mut gradient);
        let scale = gradient.iter().fold(1e-9_f64, |most, g| most.max(g.abs()));
        let mut usage = vec![0.0; point.duals.len()];
        problem.usage(&point.action, query.context, &mut usage);
        let mut worst = 0.0_f64;
        for i in 0..d {
            worst = worst.max((left[i] - point.lower_duals[i] + point.upper_duals[i]).abs());
            worst = worst.max(point.lower_duals[i] * (point.action[i] - problem.lower()[i]));
            worst = worst.max(point.upper_duals[i] * (problem.upper()[i] - point.action[i]));
        }
        for k in 0..usage.len() {
            worst = worst.max(point.duals[k] * (query.available[k] - usage[k]).abs());
        }
        worst / scale
    }
}

impl Point {
    fn all_duals(&self) -> impl Iterator<Item = f64> {
        let all = self
            .duals
            .iter()
            .chain(&self.lower_duals)
            .chain(&self.upper_duals);
        all.copied()
    }

    fn active(&self) -> Active {
        let positive = |duals: &[f64]| duals.iter().map(|dual| *dual > 0.0).collect();
        Active {
            budgets: positive(&self.duals),
            at_lower: positive(&self.lower_duals),
            at_upper: positive(&self.upper_duals),
        }
    }
}

/// The price of each budget and its dual together.
pub(crate) fn total(multiplier: &[f64], duals: &[f64]) -> Vec<f64> {
    multiplier.iter().zip(duals).map(|(a, b)| a + b).collect()
}

impl StepSolver for ClarabelLayer {
    fn problem(&self) -> &dyn SmoothProblem {
        &*self.problem
    }

    fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), Error> {
        let problem = &*self.problem;
        check_query(query, &solution, problem.dimensions())?;
        solution.action.copy_from_slice(problem.lower());
        solution.duals.fill(0.0);
        solution.lower_duals.fill(0.0);
        solution.upper_duals.fill(0.0);
        let mut usage = vec![0.0; query.available.len()];
        let bad = invalid_input(query).or_else(|| infeasible(problem, query, &mut usage));
        if let Some(status) = bad {
            *solution.status = status;
            return Ok(());
        }
        let Some((mut point, iterations)) = self.newton(query) else {
            *solution.status = Status::NotConverged {
                iterations: MOST_STEPS,
                residual: f64::INFINITY,
            };
            return Ok(());
        };
        // Clarabel may overspend by 1e-9: the action is pulled in until the budgets pay for it, to the last bit.
        Projection::new(problem).apply(problem, query.context, query.available, &mut point.action);
        let residual = self.residual(query, &point);
        *solution.status = if residual <= TOLERANCE {
            Status::Solved { iterations, residual }
        } else {
            Status::NotConverged { iterations, residual }
        };
        solution.action.copy_from_slice(&point.action);
        solution.duals.copy_from_slice(&point.duals);
        solution.lower_duals.copy_from_slice(&point.lower_duals);
        solution.upper_duals.copy_from_slice(&point.upper_duals);
        Ok(())
    }
}
