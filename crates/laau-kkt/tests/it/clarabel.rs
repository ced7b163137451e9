//! Against another solver: quadratic programmes, and log utilities as exponential cones.

use std::sync::Arc;

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettingsBuilder, DefaultSolver, ExponentialConeT, IPSolver, NonnegativeConeT, SolverStatus,
    SupportedConeT,
};
use laau_core::problems::LogUtility;
use laau_core::{Problem, Query, Solutions, StepSolver};
use laau_kkt::{InteriorPoint, Options};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::problems::{log_utility, quadratic, uniform};

/// Rows `a x ≤ b` and cones, in clarabel's form `A x + s = b`.
struct Conic {
    variables: usize,
    rows: Vec<Vec<f64>>,
    right: Vec<f64>,
    cones: Vec<SupportedConeT<f64>>,
}

impl Conic {
    /// The budgets and the box over the first `d` of `variables`.
    fn new(variables: usize, problem: &dyn Problem, matrix: &[f64], remaining: &[f64]) -> Self {
        let d = problem.dimensions().actions;
        let (mut rows, mut right) = (Vec::new(), Vec::new());
        for (row, b) in matrix.chunks_exact(d).zip(remaining) {
            let mut wide = vec![0.0; variables];
            wide[..d].copy_from_slice(row);
            rows.push(wide);
            right.push(*b);
        }
        for i in 0..d {
            for (sign, bound) in [(1.0, problem.upper()[i]), (-1.0, -problem.lower()[i])] {
                let mut wide = vec![0.0; variables];
                wide[i] = sign;
                rows.push(wide);
                right.push(bound);
            }
        }
        let cones = vec![NonnegativeConeT(rows.len())];
        Self {
            variables,
            rows,
            right,
            cones,
        }
    }

    /// The variables, and how far the objective may be from its optimum.
    fn solve(&self, quadratic: &[Vec<f64>], linear: &[f64]) -> (Vec<f64>, f64) {
        let settings = DefaultSettingsBuilder::default()
            .verbose(false)
            .tol_gap_abs(1e-15)
            .tol_gap_rel(1e-15)
            .tol_feas(1e-13)
            .max_iter(100)
            .build()
            .unwrap();
        let mut solver = DefaultSolver::new(
            &CscMatrix::from(quadratic),
            linear,
            &CscMatrix::from(&self.rows[..]),
            &self.right,
            &self.cones,
            settings,
        )
        .unwrap();
        solver.solve();
        // It may stop for want of progress instead, at the limit of double precision.
        let solution = &solver.solution;
        let gap = (solution.obj_val - solution.obj_val_dual).abs();
        assert!(
            !matches!(
                solution.status,
                SolverStatus::PrimalInfeasible | SolverStatus::DualInfeasible
            ) && gap < 1e-9,
            "{:?} {gap}",
            solution.status
        );
        assert_eq!(solver.solution.x.len(), self.variables);
        (solver.solution.x.clone(), gap)
    }
}

fn distance(ours: &[f64], theirs: &[f64]) -> f64 {
    let apart = ours
        .iter()
        .zip(theirs)
        .map(|(ours, theirs)| (ours - theirs).abs());
    apart.fold(0.0, f64::max)
}

/// Our action for a query.
fn ours(problem: Arc<dyn laau_core::SmoothProblem>, query: Query<'_>) -> Vec<f64> {
    let mut solutions = Solutions::new(problem.dimensions(), 1);
    let mut solver = InteriorPoint::new(problem, Options::default()).unwrap();
    solver.solve(query, solutions.row_mut(0)).unwrap();
    assert!(solutions.row(0).status.is_solved());
    solutions.actions().to_vec()
}

#[test]
fn quadratic_programmes_agree_to_1e_6() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for number in 0..200 {
        let (d, m) = (rng.random_range(1..=8), rng.random_range(1..=4));
        let problem = quadratic(&mut rng, d, m);
        let context = uniform(&mut rng, d, -1.0, 3.0);
        let multiplier = uniform(&mut rng, m, 0.0, 0.5);
        let remaining = uniform(&mut rng, m, 0.2, 5.0);
        let conic = Conic::new(d, &problem, &problem.matrix, &remaining);
        let upper: Vec<Vec<f64>> = (0..d)
            .map(|i| {
                (0..d)
                    .map(|j| if j >= i { problem.hessian[i * d + j] } else { 0.0 })
                    .collect()
            })
            .collect();
        let linear: Vec<f64> = (0..d)
            .map(|i| {
                (0..m)
                    .map(|row| multiplier[row] * problem.matrix[row * d + i])
                    .sum::<f64>()
                    - context[i]
            })
            .collect();
        let (theirs, _) = conic.solve(&upper, &linear);
        let query = Query {
            context: &context,
            multiplier: &multiplier,
            available: &remaining,
        };
        let apart = distance(&ours(Arc::new(problem), query), &theirs);
        assert!(apart < 1e-6, "{number}: {apart}");
    }
}

/// A log utility under linear budgets: `min λᵀA x − Σ c ln x`, with all that the other solver needs of it.
struct LogProgramme<'a> {
    problem: &'a LogUtility,
    query: Query<'a>,
}

impl LogProgramme<'_> {
    fn actions(&self) -> usize {
        self.problem.dimensions().actions
    }

    /// `Aᵀλ`.
    fn prices(&self) -> Vec<f64> {
        let d = self.actions();
        let rows = self.problem.matrix().chunks_exact(d);
        let mut prices = vec![0.0; d];
        for (row, multiplier) in rows.zip(self.query.multiplier) {
            for (price, a) in prices.iter_mut().zip(row) {
                *price += multiplier * a;
            }
        }
        prices
    }

    /// As exponential cones: the action, and how far the cones leave it uncertain.
    fn conic(&self) -> (Vec<f64>, f64) {
        let d = self.actions();
        let context = self.query.context;
        // Variables (x, t), minimise λᵀA x − cᵀt with t ≤ ln x: (t, 1, x) in the exponential cone.
        let mut conic = Conic::new(2 * d, self.problem, self.problem.matrix(), self.query.available);
        for i in 0..d {
            for (column, value, right) in [(d + i, -1.0, 0.0), (0, 0.0, 1.0), (i, -1.0, 0.0)] {
                let mut wide = vec![0.0; 2 * d];
                wide[column] = value;
                conic.rows.push(wide);
                conic.right.push(right);
            }
            conic.cones.push(ExponentialConeT());
        }
        let mut linear = self.prices();
        linear.extend(context.iter().map(|c| -c));
        let (mut found, gap) = conic.solve(&vec![vec![0.0; 2 * d]; 2 * d], &linear);
        let logarithms = found.split_off(d);
        // An objective that is off by ε leaves an action uncertain by the root of 2ε over the curvature c/x².
        let slip: f64 = (0..d)
            .map(|i| context[i] * (logarithms[i] - found[i].ln()).abs())
            .sum();
        let curvature = (0..d)
            .map(|i| context[i] / (found[i] * found[i]))
            .fold(f64::INFINITY, f64::min);
        let uncertain = (2.0 * (gap + slip) / curvature).sqrt();
        (found, uncertain)
    }

    /// One Newton step from `x`: the quadratic model of the objective there, under the same budgets and box.
    fn newton(&self, x: &[f64]) -> Vec<f64> {
        let (d, context) = (self.actions(), self.query.context);
        let conic = Conic::new(d, self.problem, self.problem.matrix(), self.query.available);
        let mut hessian = vec![vec![0.0; d]; d];
        let mut linear = self.prices();
        for i in 0..d {
            hessian[i][i] = context[i] / (x[i] * x[i]);
            linear[i] -= 2.0 * context[i] / x[i];
        }
        conic.solve(&hessian, &linear).0
    }
}

/// Exponential cones end with gaps, and `t` above `ln x`, of up to 1e-9. An error of ε in the objective is one of `√(2ε)`
/// over the root of its curvature in the action: 1e-5 and more, in one instance in ten. No setting of the other solver
/// (regularisation, equilibration, refinement, step lengths) and no scaling of the variables removes that. Its quadratic
/// programmes do not suffer from it: two Newton steps, each a quadratic programme of the other solver, take its
/// own answer to the optimum. Nothing of ours has a part in them.
#[test]
fn log_utilities_agree_to_1e_9() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    for number in 0..200 {
        let (d, m) = (rng.random_range(1..=8), rng.random_range(1..=4));
        let problem = log_utility(&mut rng, d, m).unwrap();
        let context = uniform(&mut rng, d, 0.5, 2.0);
        let multiplier = uniform(&mut rng, m, 0.05, 0.4);
        let remaining = uniform(&mut rng, m, 2.0, 16.0);
        let query = Query {
            context: &context,
            multiplier: &multiplier,
            available: &remaining,
        };
        let programme = LogProgramme {
            problem: &problem,
            query,
        };
        let (conic, uncertain) = programme.conic();
        let theirs = programme.newton(&programme.newton(&conic));
        // The steps stay within what the cones leave open, and a further one would change nothing.
        let moved = distance(&conic, &theirs);
        assert!(moved < uncertain.max(1e-6), "{number}: moved by {moved}");
        let left = distance(&programme.newton(&theirs), &theirs);
        assert!(left < 1e-8, "{number}: {left} left to go");

        let apart = distance(&ours(Arc::new(problem.clone()), query), &theirs);
        assert!(apart < 1e-9, "{number}: {apart}");
    }
}
