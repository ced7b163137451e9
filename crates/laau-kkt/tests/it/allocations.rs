//! After construction nothing is allocated.

use std::sync::Arc;

use laau_core::problems::WeightedFairness;
use laau_core::{Differentiate, Gradients, Queries, SmoothProblem, Solutions};
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
