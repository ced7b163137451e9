//! After construction nothing is allocated.

use std::sync::Arc;

use laau_core::problems::{LogUtility, WeightedFairness};
use laau_core::{
    Differentiate, Exactness, Gradients, Problem as _, Queries, SmoothProblem, Solutions, StepSolver as _,
};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::problems::{Curved, instance, quadratic};

/// Counts the allocations of a solve and a pullback with all gradients.
fn allocations(layer: &mut dyn Differentiate, queries: Queries<'_>) -> u64 {
    let dimensions = layer.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, 1);
    let mut gradients = Gradients::with_contexts(dimensions, 1);
    let upstream = vec![1.0; dimensions.actions];
    let info = allocation_counter::measure(|| {
        layer.solve_batch(queries, &mut solutions).unwrap();
        layer
            .pullback_batch(queries, &solutions, &upstream, &mut gradients)
            .unwrap();
    });
    info.count_total
}

fn interior_point(problem: Arc<dyn SmoothProblem>, queries: Queries<'_>) -> u64 {
    let mut solver = InteriorPoint::new(problem, Options::default()).unwrap();
    allocations(&mut solver, queries)
}

#[test]
fn solving_and_differentiating_do_not_allocate() {
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    for _ in 0..50 {
        // Log utility, of any size.
        let instance = instance(&mut rng, 0);
        let queries = Queries {
            contexts: &instance.context,
            multipliers: &instance.multiplier,
            available: &instance.remaining,
        };
        assert_eq!(interior_point(instance.problem.clone(), queries), 0);
    }
    let fairness = Queries {
        contexts: &[0.5],
        multipliers: &[0.03],
        available: &[9.0],
    };
    let mut closed = FairnessLayer::new(WeightedFairness::paper());
    assert_eq!(allocations(&mut closed, fairness), 0);
    // No interior: an action is pinned, and the pseudo-inverse is asked for a gradient.
    let pinned = Queries {
        available: &[1.0],
        ..fairness
    };
    assert_eq!(interior_point(Arc::new(WeightedFairness::paper()), pinned), 0);
}

#[test]
fn a_layer_of_many_actions_takes_memory_in_proportion_to_them() {
    let bytes = |d: usize| {
        let matrix = (0..4 * d).map(|i| 0.5 + 0.4 * (i as f64).sin()).collect();
        let problem = Arc::new(LogUtility::new(d, 4, matrix, 0.1, 10.0).unwrap());
        let contexts: Vec<f64> = (0..d).map(|i| 1.2 + 0.7 * (2.0 * i as f64).cos()).collect();
        let queries = Queries {
            contexts: &contexts,
            multipliers: &[0.1; 4],
            available: &[0.9, 2.5, 1.4, 3.0].map(|share| share * d as f64),
        };
        let mut outcome = None;
        let info = allocation_counter::measure(|| {
            let layer = InteriorPoint::new(problem.clone(), Options::default()).unwrap();
            let mut layer = layer.fork();
            let dimensions = problem.dimensions();
            let mut solutions = Solutions::new(dimensions, 1);
            let mut gradients = Gradients::new(dimensions, 1);
            layer.solve_batch(queries, &mut solutions).unwrap();
            layer
                .pullback_batch(queries, &solutions, &vec![1.0; d], &mut gradients)
                .unwrap();
            outcome = Some((solutions.statuses()[0], gradients.exactness[0]));
        });
        let (status, exactness) = outcome.unwrap();
        assert!(status.is_solved(), "{d} actions: {status}");
        assert_eq!(exactness, Exactness::Exact, "{d} actions");
        info.bytes_total
    };
    let (some, many) = (bytes(128), bytes(1024));
    assert!(many < 9 * some, "{some} bytes for 128 actions, {many} for 1,024");
}

#[test]
fn a_singular_system_of_many_actions_has_a_substitute() {
    let d = 80;
    // One budget twice.
    let problem = Arc::new(LogUtility::new(d, 2, vec![0.5; 2 * d], 0.1, 10.0).unwrap());
    let queries = Queries {
        contexts: &vec![1.0; d],
        multipliers: &[0.1; 2],
        available: &[40.0; 2],
    };
    let mut layer = InteriorPoint::new(problem.clone(), Options::default()).unwrap();
    let mut solutions = Solutions::new(problem.dimensions(), 1);
    let mut gradients = Gradients::with_contexts(problem.dimensions(), 1);
    layer.solve_batch(queries, &mut solutions).unwrap();
    layer
        .pullback_batch(queries, &solutions, &vec![1.0; d], &mut gradients)
        .unwrap();
    assert!(solutions.statuses()[0].is_solved());
    assert!(matches!(gradients.exactness[0], Exactness::Approximate { .. }));
    // More of the budget is shared by all.
    let more: f64 = gradients.available.iter().sum();
    assert!((more - 2.0).abs() < 1e-6, "{more}");
}

#[test]
fn dense_hessians_curved_usage_and_faer_sizes_do_not_allocate_either() {
    let mut rng = ChaCha8Rng::seed_from_u64(14);
    for d in [3, 12, 24, 40] {
        let ones = vec![1.0; d];
        let (multipliers, remaining) = ([0.1, 0.2], [1.5, 2.5]);
        let queries = Queries {
            contexts: &ones,
            multipliers: &multipliers,
            available: &remaining,
        };
        assert_eq!(interior_point(Arc::new(quadratic(&mut rng, d, 2)), queries), 0);
        let curved = Curved {
            d,
            m: 2,
            matrix: vec![0.02; 2 * d],
            rate: 0.3,
            lower: vec![0.05; d],
            upper: vec![4.0; d],
        };
        assert_eq!(interior_point(Arc::new(curved), queries), 0);
    }
}
