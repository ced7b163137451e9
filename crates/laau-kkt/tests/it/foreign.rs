//! `Kkt` on a solver that knows nothing of this crate, and is rough.

use std::sync::Arc;

use crate::gradcheck::{GradcheckOptions, check_layer};
use laau_core::{
    Differentiate, Error, Exactness, Gradients, Inexact, Projection, Query, SmoothProblem, SolutionMut,
    Solutions, Status, StepSolver, check_query, conformance, infeasible, invalid_input,
};
use laau_kkt::{InteriorPoint, Kink, Kkt, Options};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::problems::{Curved, draw, instance, quadratic};

/// An augmented Lagrangian, minimised by projected gradient steps: three digits, and no duals of the box.
#[derive(Clone)]
struct Rough {
    problem: Arc<dyn SmoothProblem>,
    rounds: u32,
    with_duals: bool,
}

impl Rough {
    fn new(problem: Arc<dyn SmoothProblem>) -> Self {
        Self {
            problem,
            rounds: 12,
            with_duals: true,
        }
    }

    /// `l + λᵀg + Σ max(0, μ + ρ (g − b))² / 2ρ`, and the weights `λ + max(0, …)` of the usage in its gradient.
    fn augmented(&self, query: Query<'_>, x: &[f64], duals: &[f64], penalty: f64) -> (f64, Vec<f64>) {
        let mut usage = vec![0.0; duals.len()];
        self.problem.usage(x, query.context, &mut usage);
        let mut value = self.problem.cost(x, query.context);
        let weights = (0..duals.len())
            .map(|m| {
                let pressed = (duals[m] + penalty * (usage[m] - query.available[m])).max(0.0);
                value += query.multiplier[m] * usage[m] + pressed * pressed / (2.0 * penalty);
                query.multiplier[m] + pressed
            })
            .collect();
        (value, weights)
    }

    /// A projected gradient step, scaled by curvature and shortened until it descends.
    fn descend(&self, query: Query<'_>, x: &mut [f64], duals: &[f64], penalty: f64) {
        let problem = &*self.problem;
        let d = x.len();
        let (value, weights) = self.augmented(query, x, duals, penalty);
        let (mut gradient, mut jacobian) = (vec![0.0; d], vec![0.0; d * duals.len()]);
        let mut hessian = vec![0.0; d * d];
        problem.cost_gradient(x, query.context, &mut gradient);
        problem.usage_jacobian(x, query.context, &mut jacobian);
        problem.lagrangian_hessian(x, query.context, &weights, &mut hessian);
        let mut curvature: Vec<f64> = (0..d).map(|i| hessian[i * d + i].abs() + 1e-6).collect();
        for (m, row) in jacobian.chunks_exact(d).enumerate() {
            for i in 0..d {
                gradient[i] += weights[m] * row[i];
                if weights[m] > query.multiplier[m] {
                    curvature[i] += penalty * row[i] * row[i];
                }
            }
        }
        let mut share = 1.0;
        while share > 1e-9 {
            let trial: Vec<f64> = (0..d)
                .map(|i| {
                    let moved = x[i] - share * gradient[i] / curvature[i];
                    moved.clamp(problem.lower()[i], problem.upper()[i])
                })
                .collect();
            if self.augmented(query, &trial, duals, penalty).0 < value {
                x.copy_from_slice(&trial);
                return;
            }
            share *= 0.5;
        }
    }
}

impl StepSolver for Rough {
    fn problem(&self) -> &dyn SmoothProblem {
        &*self.problem
    }

    fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), Error> {
        let problem = &*self.problem;
        check_query(query, &solution, problem.dimensions())?;
        let (lower, upper) = (problem.lower(), problem.upper());
        let mut usage = vec![0.0; query.available.len()];
        solution.action.copy_from_slice(lower);
        solution.duals.fill(0.0);
        solution.lower_duals.fill(0.0);
        solution.upper_duals.fill(0.0);
        if let Some(status) = invalid_input(query).or_else(|| infeasible(problem, query, &mut usage)) {
            *solution.status = status;
            return Ok(());
        }
        let x = solution.action;
        for i in 0..x.len() {
            x[i] = 0.9 * lower[i] + 0.1 * upper[i];
        }
        let (mut duals, mut penalty) = (vec![0.0; usage.len()], 1.0);
        for _ in 0..self.rounds {
            for _ in 0..8 {
                self.descend(query, x, &duals, penalty);
            }
            let (_, weights) = self.augmented(query, x, &duals, penalty);
            for m in 0..duals.len() {
                duals[m] = weights[m] - query.multiplier[m];
            }
            penalty = (2.0 * penalty).min(1e2);
        }
        if self.with_duals {
            solution.duals.copy_from_slice(&duals);
        }
        Projection::new(problem).apply(problem, query.context, query.available, x);
        *solution.status = Status::NotConverged {
            iterations: self.rounds,
            residual: 1e-3,
        };
        Ok(())
    }
}

#[test]
fn a_rough_solver_conforms() {
    let mut rng = ChaCha8Rng::seed_from_u64(20);
    let mut layer = Kkt::new(Rough::new(Arc::new(quadratic(&mut rng, 4, 2)))).unwrap();
    conformance::step_solver(&mut layer, draw(0.5, 3.0));
    let curved = Curved {
        d: 3,
        m: 2,
        matrix: vec![0.5, 0.2, 0.9, 0.3, 0.7, 0.1],
        rate: 0.5,
        lower: vec![0.1; 3],
        upper: vec![4.0; 3],
    };
    let mut layer = Kkt::new(Rough::new(Arc::new(curved))).unwrap();
    conformance::step_solver(&mut layer, draw(0.3, 2.0));
}

/// One answer and its pullback of ones.
fn solved(layer: &mut dyn Differentiate, query: Query<'_>) -> (Solutions, Gradients) {
    let dimensions = layer.problem().dimensions();
    let (mut solutions, mut gradients) = (
        Solutions::new(dimensions, 1),
        Gradients::with_contexts(dimensions, 1),
    );
    layer.solve(query, solutions.row_mut(0)).unwrap();
    let upstream = vec![1.0; dimensions.actions];
    gradients.exactness[0] = layer
        .pullback(query, solutions.row(0), &upstream, gradients.row_mut(0))
        .unwrap();
    (solutions, gradients)
}

#[test]
fn its_gradients_are_those_of_the_interior_point_and_of_differences() {
    let mut rng = ChaCha8Rng::seed_from_u64(21);
    let (mut refined, mut checked, total) = (0, 0, 100);
    for number in 0..total {
        let instance = instance(&mut rng, number % 5);
        let mut rough = Rough::new(instance.problem.clone());
        rough.with_duals = number % 2 == 0;
        let mut layer = Kkt::new(rough).unwrap();
        let (found, gradients) = solved(&mut layer, instance.query());
        if !found.row(0).status.is_solved() {
            assert_ne!(gradients.exactness[0], Exactness::Exact);
            continue;
        }
        refined += 1;
        let mut ours = InteriorPoint::new(instance.problem.clone(), Options::default()).unwrap();
        let (expected, of_ours) = solved(&mut ours, instance.query());
        let near = |a: &[f64], b: &[f64], tolerance: f64| {
            let largest = b.iter().fold(1e-3_f64, |most, value| most.max(value.abs()));
            let error = a
                .iter()
                .zip(b)
                .fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
            assert!(error <= tolerance * largest, "{number}: {a:?} and {b:?}");
        };
        near(found.actions(), expected.actions(), 1e-9);
        if gradients.exactness[0] != Exactness::Exact || of_ours.exactness[0] != Exactness::Exact {
            continue;
        }
        near(&gradients.multipliers, &of_ours.multipliers, 1e-7);
        near(&gradients.available, &of_ours.available, 1e-7);
        near(&gradients.contexts, &of_ours.contexts, 1e-7);
        if number % 3 == 0 {
            let upstream = vec![1.0; instance.problem.dimensions().actions];
            let report = check_layer(
                &mut layer,
                instance.query(),
                &upstream,
                &GradcheckOptions::default(),
            )
            .unwrap();
            assert!(report.worst_error() < 1e-6, "{number}: {:?}", report.worst);
            checked += report.checked;
        }
    }
    assert!(
        refined * 100 >= 95 * total && checked > 100,
        "{refined} {checked}"
    );
}

#[test]
fn an_answer_too_rough_to_refine_is_kept_and_not_called_exact() {
    let mut rng = ChaCha8Rng::seed_from_u64(22);
    let mut kept = 0;
    for number in 0..60 {
        let instance = instance(&mut rng, number % 5);
        let mut rough = Rough::new(instance.problem.clone());
        rough.rounds = 0;
        let (found, gradients) = solved(&mut Kkt::new(rough).unwrap(), instance.query());
        let row = found.row(0);
        let mut usage = vec![0.0; row.duals.len()];
        instance.problem.usage(row.action, &instance.context, &mut usage);
        assert!(usage.iter().zip(&instance.remaining).all(|(used, b)| used <= b));
        let reason = Inexact::NotSolved;
        if !row.status.is_solved() && gradients.exactness[0] == (Exactness::Approximate { reason }) {
            kept += 1;
        }
    }
    assert!(kept > 0, "all were refined");
}

#[test]
fn a_kink_is_smoothed_as_the_interior_point_smooths_it() {
    let mut rng = ChaCha8Rng::seed_from_u64(23);
    let problem = Arc::new(quadratic(&mut rng, 3, 1));
    let options = Options {
        kink: Kink::Smoothed { barrier: 1e-3 },
        ..Options::default()
    };
    // The budget is what the unconstrained optimum uses: active, with a dual of zero.
    let mut ours = InteriorPoint::new(problem.clone(), options).unwrap();
    let query = |available| Query {
        context: &[1.0, 2.0, 1.5],
        multiplier: &[0.1],
        available,
    };
    let free = solved(&mut ours, query(&[1e3])).0;
    let mut usage = [0.0];
    ours.problem().usage(free.actions(), &[1.0, 2.0, 1.5], &mut usage);
    let (_, expected) = solved(&mut ours, query(&usage));
    let mut layer = Kkt::with_options(Rough::new(problem), options).unwrap();
    let (_, found) = solved(&mut layer, query(&usage));
    let reason = Inexact::Smoothed;
    assert_eq!(expected.exactness[0], Exactness::Approximate { reason });
    assert_eq!(found.exactness, expected.exactness);
    assert!((found.available[0] - expected.available[0]).abs() < 1e-6);
}
