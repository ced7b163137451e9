//! Pullbacks, Jacobians and problem derivatives against differences.

use crate::gradcheck::{GradcheckOptions, check_layer, check_problem};
use laau_core::{Differentiate, Exactness, Gradients, Solutions, StepSolver};
use laau_kkt::{InteriorPoint, Options};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::problems::instance;

#[test]
fn pullbacks_equal_differences_to_1e_6_and_jacobians_agree() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut checked, mut kinks, mut exact) = (0, 0, 0);
    for number in 0..2000 {
        let instance = instance(&mut rng, number % 5);
        let problem = instance.problem.clone();
        let mut solver = InteriorPoint::new(problem.clone(), Options::default()).unwrap();
        let dimensions = problem.dimensions();
        let upstream: Vec<f64> = (0..dimensions.actions)
            .map(|_| rng.random_range(-1.0..1.0))
            .collect();
        let report = check_layer(
            &mut solver,
            instance.query(),
            &upstream,
            &GradcheckOptions::default(),
        )
        .unwrap();
        assert!(
            report.worst_error() < 1e-6,
            "{number} {} {dimensions:?}: {:?}",
            problem.name(),
            report.worst
        );
        checked += report.checked;
        kinks += report.kinks.len();

        let mut solutions = Solutions::new(dimensions, 1);
        let mut gradients = Gradients::with_contexts(dimensions, 1);
        solver.solve(instance.query(), solutions.row_mut(0)).unwrap();
        let exactness = solver
            .pullback(
                instance.query(),
                solutions.row(0),
                &upstream,
                gradients.row_mut(0),
            )
            .unwrap();
        exact += usize::from(exactness == Exactness::Exact);
        let jacobians = solver.jacobians(instance.query(), solutions.row(0)).unwrap();
        assert_eq!(jacobians.exactness, exactness);
        let agree = |jacobian: &[f64], pullback: &[f64]| {
            let width = pullback.len();
            for k in 0..width {
                let terms = || (0..upstream.len()).map(|i| upstream[i] * jacobian[i * width + k]);
                let (product, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
                assert!(
                    (product - pullback[k]).abs() <= 1e-9 * (1.0 + size),
                    "{number} {}: {product} {}",
                    problem.name(),
                    pullback[k]
                );
            }
        };
        agree(&jacobians.multiplier, &gradients.multipliers);
        agree(&jacobians.available, &gradients.available);
        agree(&jacobians.context, &gradients.contexts);
    }
    assert!(
        checked > 15_000 && kinks * 50 < checked && exact >= 1980,
        "{checked} {kinks} {exact}"
    );
}

#[test]
fn the_derivatives_of_every_test_problem_are_right() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for number in 0..60 {
        let instance = instance(&mut rng, number % 5);
        let problem = &*instance.problem;
        let action: Vec<f64> = problem
            .lower()
            .iter()
            .zip(problem.upper())
            .map(|(lower, upper)| lower + rng.random_range(0.2..0.8) * (upper - lower))
            .collect();
        let report = check_problem(
            problem,
            &action,
            &instance.context,
            &instance.multiplier,
            &GradcheckOptions::default(),
        )
        .unwrap();
        assert!(
            report.worst_error() < 1e-7 && report.kinks.is_empty(),
            "{}: {report:?}",
            problem.name()
        );
    }
}
