//! The step solver: Newton's method, each step a quadratic program of clarabel.

use std::sync::Arc;

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettingsBuilder, DefaultSolver, IPSolver, NonnegativeConeT};
use laau_core::{
    Error, Projection, Query, SmoothProblem, SolutionMut, Status, StepSolver, check_query, infeasible,
    invalid_input,
};

/// Newton steps before a query counts as not converged, and the step, relative to the box, that is small enough.
const MOST_STEPS: u32 = 50;
const LAST_STEP: f64 = 1e-6;

/// Solves the steps of any problem with affine usage. Clarabel allocates at every call, so there is no workspace to own.
#[derive(Clone)]
pub struct ClarabelLayer(Arc<dyn SmoothProblem>);

impl ClarabelLayer {
    /// A layer for a problem.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`] unless the problem claims affine usage.
    pub fn new(problem: Arc<dyn SmoothProblem>) -> Result<Self, Error> {
        if problem.structure().affine_usage {
            return Ok(Self(problem));
        }
        Err(Error::InvalidProblem {
            problem: problem.name().to_owned(),
            reason: "expected affine usage: its budgets become linear constraints".to_owned(),
        })
    }

    /// `l + λᵀg`.
    fn objective(&self, query: Query<'_>, x: &[f64]) -> f64 {
        let mut usage = vec![0.0; query.multiplier.len()];
        self.0.usage(x, query.context, &mut usage);
        let priced: f64 = usage.iter().zip(query.multiplier).map(|(g, l)| g * l).sum();
        self.0.cost(x, query.context) + priced
    }

    /// Minimises the quadratic model of `l + λᵀg` at `x`: the action, and the duals of budgets, upper and lower bounds.
    fn quadratic_program(&self, query: Query<'_>, x: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
        let (problem, c, d, m) = (&*self.0, query.context, x.len(), query.available.len());
        let (mut hessian, mut jacobian) = (vec![0.0; d * d], vec![0.0; m * d]);
        let (mut linear, mut used) = (vec![0.0; d], vec![0.0; m]);
        problem.lagrangian_hessian(x, c, query.multiplier, &mut hessian);
        problem.usage_jacobian(x, c, &mut jacobian);
        problem.cost_gradient(x, c, &mut linear);
        problem.usage(x, c, &mut used);
        // Clarabel wants ½xᵀPx + qᵀx with the upper triangle of P, and rows A x ≤ b.
        let times = |row: &[f64]| -> f64 { row.iter().zip(x).map(|(a, x)| a * x).sum() };
        let mut rows: Vec<Vec<f64>> = jacobian.chunks_exact(d).map(<[f64]>::to_vec).collect();
        let room = |k: usize| query.available[k] - used[k];
        let mut right: Vec<f64> = (0..m).map(|k| room(k) + times(&rows[k])).collect();
        for i in 0..d {
            let priced: f64 = (0..m).map(|k| query.multiplier[k] * rows[k][i]).sum();
            linear[i] += priced - times(&hessian[i * d..][..d]);
            hessian[i * d..][..i].fill(0.0);
        }
        for (sign, bounds) in [(1.0, problem.upper()), (-1.0, problem.lower())] {
            rows.extend((0..d).map(|i| (0..d).map(|j| if i == j { sign } else { 0.0 }).collect()));
            right.extend(bounds.iter().map(|bound| sign * bound));
        }
        let mut solver = DefaultSolver::new(
            &CscMatrix::from(hessian.chunks_exact(d)),
            &linear,
            &CscMatrix::from(&rows),
            &right,
            &[NonnegativeConeT(rows.len())],
            DefaultSettingsBuilder::default().verbose(false).build().ok()?,
        )
        .ok()?;
        solver.solve();
        Some((solver.solution.x, solver.solution.z))
    }
}

impl StepSolver for ClarabelLayer {
    fn problem(&self) -> &dyn SmoothProblem {
        &*self.0
    }

    fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), Error> {
        let problem = &*self.0;
        check_query(query, &solution, problem.dimensions())?;
        let (x, d, m) = (solution.action, problem.lower().len(), query.available.len());
        x.copy_from_slice(problem.lower());
        solution.duals.fill(0.0);
        solution.lower_duals.fill(0.0);
        solution.upper_duals.fill(0.0);
        if let Some(status) = invalid_input(query).or_else(|| infeasible(problem, query, &mut vec![0.0; m])) {
            *solution.status = status;
            return Ok(());
        }
        let (mut iterations, mut residual) = (0, f64::INFINITY);
        while residual > LAST_STEP && iterations < MOST_STEPS {
            let Some((target, duals)) = self.quadratic_program(query, x) else {
                break;
            };
            iterations += 1;
            let width = |i: usize| problem.upper()[i] - problem.lower()[i];
            residual = (0..d).map(|i| (target[i] - x[i]).abs() / width(i)).sum(); // NaN ends it, too
            // A full step, or the first half of it that does not cost more.
            let (before, mut share) = (self.objective(query, x), 1.0);
            let step = |share: f64| {
                (0..d)
                    .map(|i| x[i] + share * (target[i] - x[i]))
                    .collect::<Vec<_>>()
            };
            while self.objective(query, &step(share)) > before && share > 1e-6 {
                share *= 0.5;
            }
            x.copy_from_slice(&step(share));
            solution.duals.copy_from_slice(&duals[..m]);
            solution.upper_duals.copy_from_slice(&duals[m..m + d]);
            solution.lower_duals.copy_from_slice(&duals[m + d..]);
        }
        // Clarabel may overspend by 1e-9: the action is pulled in until the budgets pay for it, to the last bit.
        Projection::new(problem).apply(problem, query.context, query.available, x);
        *solution.status = if residual <= LAST_STEP {
            Status::Solved { iterations, residual }
        } else {
            Status::NotConverged { iterations, residual }
        };
        Ok(())
    }
}
