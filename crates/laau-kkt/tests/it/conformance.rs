//! The suites of `laau-core`, on every layer of this crate.

use std::sync::Arc;

use laau_core::problems::{LogUtility, WeightedFairness, Wireless};
use laau_core::{AutoDiff, Nearest, SmoothProblem, conformance};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::problems::{Coupled, Curved, draw, quadratic};

fn interior_point(problem: Arc<dyn SmoothProblem>, low: f64, high: f64) {
    let mut solver = InteriorPoint::new(problem, Options::default()).unwrap();
    conformance::step_solver(&mut solver, draw(low, high));
}

#[test]
fn the_closed_form_conforms() {
    conformance::step_solver(
        &mut FairnessLayer::new(WeightedFairness::paper()),
        draw(0.05, 1.0),
    );
}

#[test]
fn the_interior_point_conforms_on_weighted_fairness() {
    interior_point(Arc::new(WeightedFairness::paper()), 0.05, 1.0);
}

#[test]
fn the_interior_point_conforms_on_log_utility() {
    let matrix = vec![0.3, 0.8, 0.0, 0.5, 0.9, 0.1, 0.4, 0.7];
    interior_point(
        Arc::new(LogUtility::new(4, 2, matrix, 0.1, 10.0).unwrap()),
        0.3,
        2.0,
    );
}

#[test]
fn the_interior_point_conforms_on_the_nearest_payable_action() {
    let matrix = vec![0.3, 0.8, 0.0, 0.5, 0.9, 0.1, 0.4, 0.7];
    let affine = Arc::new(LogUtility::new(4, 2, matrix, 0.1, 10.0).unwrap());
    interior_point(Arc::new(Nearest::new(affine)), 0.3, 9.0);
    let curved = Arc::new(Wireless::three_channels());
    interior_point(Arc::new(Nearest::new(curved)), 0.3, 2.0);
}

#[test]
fn the_interior_point_conforms_on_a_dense_quadratic() {
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    interior_point(Arc::new(quadratic(&mut rng, 5, 2)), 0.5, 3.0);
}

#[test]
fn the_interior_point_conforms_on_curved_usage() {
    let problem = Curved {
        d: 3,
        m: 2,
        matrix: vec![0.5, 0.2, 0.9, 0.3, 0.7, 0.1],
        rate: 0.5,
        lower: vec![0.1; 3],
        upper: vec![4.0; 3],
    };
    interior_point(Arc::new(problem), 0.3, 2.0);
}

#[test]
fn the_interior_point_conforms_on_derivatives_by_dual_numbers() {
    let problem = Coupled {
        d: 3,
        m: 2,
        matrix: vec![0.5, 0.2, 0.9, 0.3, 0.7, 0.1],
        lower: vec![0.0; 3],
        upper: vec![3.0; 3],
    };
    interior_point(Arc::new(AutoDiff::new(problem).unwrap()), 0.5, 3.0);
}
