//! What a gradient says of itself, and what is zero in it for certain.

use laau_core::problems::LlmTokens;
use laau_core::{Differentiate, Exactness, Gradients, Query, Solutions, StepSolver};
use laau_kkt::{InteriorPoint, Options};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::problems::{instance, solver};

/// A budget that binds holds its usage where it is, at any price: not almost, since what is left of a sum that cancels may be large
/// beside everything else in a gradient.
#[test]
fn the_price_of_a_budget_that_binds_moves_nothing() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut binding = 0;
    for number in 0..500 {
        let instance = instance(&mut rng, number % 5);
        let mut layer = InteriorPoint::new(instance.problem.clone(), Options::default()).unwrap();
        binding += check(&mut layer, instance.query());
    }
    assert!(binding > 100, "{binding}");

    let mut layer = solver(LlmTokens::new(2, 1.75, 1.0, 3.0, 0.04).unwrap());
    let query = Query {
        context: &[753_958_467_945.464_8, 894_090_376_653.423_1, 0.25, 0.6],
        multiplier: &[0.2, 0.0],
        available: &[0.03, 0.4],
    };
    assert_eq!(check(&mut layer, query), 1);
}

/// Solves a query, looks at its budgets that bind, and counts them.
fn check(layer: &mut InteriorPoint, query: Query<'_>) -> usize {
    let dimensions = layer.problem().dimensions();
    let (mut solutions, mut gradients) = (Solutions::new(dimensions, 1), Gradients::new(dimensions, 1));
    layer.solve(query, solutions.row_mut(0)).unwrap();
    let row = solutions.row(0);
    let upstream: Vec<f64> = (0..dimensions.actions).map(|i| 1.0 / (1.0 + i as f64)).collect();
    let exactness = layer
        .pullback(query, row, &upstream, gradients.row_mut(0))
        .unwrap();
    if exactness != Exactness::Exact {
        return 0;
    }
    let jacobians = layer.jacobians(query, row).unwrap();
    let binding: Vec<usize> = (0..dimensions.budgets).filter(|m| row.duals[*m] > 0.0).collect();
    for &m in &binding {
        assert_eq!(gradients.multipliers[m], 0.0, "{query:?}");
        for entries in jacobians.multiplier.chunks_exact(dimensions.budgets) {
            assert_eq!(entries[m], 0.0, "{query:?}");
        }
    }
    binding.len()
}
