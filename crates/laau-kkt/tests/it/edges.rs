//! Kinks, scales, no interior, bad input.

use std::sync::Arc;

use laau_core::problems::{LogUtility, WeightedFairness};
use laau_core::{
    Differentiate, Exactness, Gradients, Inexact, Input, Problem, Queries, Query, Solutions, Status,
    StepSolver,
};
use laau_kkt::{Error, FairnessLayer, InteriorPoint, Kink, Options};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::problems::{Curved, instance, solver};

/// Solves and differentiates one query of the paper's problem: action, (λ, b, c) derivatives, exactness.
fn fairness(
    layer: &mut dyn Differentiate,
    context: f64,
    multiplier: f64,
    remaining: f64,
) -> (f64, [f64; 3], Exactness) {
    let (context, multiplier, remaining) = ([context], [multiplier], [remaining]);
    let query = Query {
        context: &context,
        multiplier: &multiplier,
        available: &remaining,
    };
    let dimensions = layer.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, 1);
    let mut gradients = Gradients::with_contexts(dimensions, 1);
    layer.solve(query, solutions.row_mut(0)).unwrap();
    assert!(solutions.row(0).status.is_solved(), "{}", solutions.row(0).status);
    let exactness = layer
        .pullback(query, solutions.row(0), &[1.0], gradients.row_mut(0))
        .unwrap();
    (
        solutions.actions()[0],
        [
            gradients.multipliers[0],
            gradients.available[0],
            gradients.contexts[0],
        ],
        exactness,
    )
}

#[test]
fn a_hair_below_the_kink_the_budget_binds_and_a_hair_above_it_does_not() {
    let mut general = solver(WeightedFairness::paper());
    for off in [1e-1, 1e-3, 1e-6, 1e-9] {
        let (action, [price, budget, context], exactness) = fairness(&mut general, 2.0, 0.25, 8.0 - off);
        assert_eq!(exactness, Exactness::Exact);
        assert_eq!(action, 8.0 - off);
        assert_eq!((price, context), (0.0, 0.0));
        assert!((budget - 1.0).abs() < 1e-12);

        let (action, [price, budget, context], exactness) = fairness(&mut general, 2.0, 0.25, 8.0 + off);
        assert_eq!(exactness, Exactness::Exact);
        assert!((action - 8.0).abs() < 1e-12);
        assert!((price + 32.0).abs() < 1e-9 && (context - 4.0).abs() < 1e-9);
        assert_eq!(budget, 0.0);
    }
}

#[test]
fn at_the_kink_the_gradient_is_one_sided_or_smoothed_and_says_so() {
    let mut one_sided = solver(WeightedFairness::paper());
    let (_, [price, budget, _], exactness) = fairness(&mut one_sided, 2.0, 0.25, 8.0);
    assert_eq!(
        exactness,
        Exactness::Approximate {
            reason: Inexact::WeaklyActive
        }
    );
    assert!((price + 32.0).abs() < 1e-9 && budget == 0.0);

    let options = Options {
        kink: Kink::Smoothed { barrier: 1e-6 },
        ..Options::default()
    };
    let mut smoothed = InteriorPoint::new(Arc::new(WeightedFairness::paper()), options).unwrap();
    let (_, [price, budget, context], exactness) = fairness(&mut smoothed, 2.0, 0.25, 8.0);
    assert_eq!(
        exactness,
        Exactness::Approximate {
            reason: Inexact::Smoothed
        }
    );
    // On the central path at a kink slack and dual share equally: half of either side's derivative.
    assert!((price + 16.0).abs() < 0.1, "{price}");
    assert!((budget - 0.5).abs() < 0.01, "{budget}");
    assert!((context - 2.0).abs() < 0.02, "{context}");
    // Away from the kink nothing is smoothed.
    assert_eq!(fairness(&mut smoothed, 2.0, 0.25, 7.9).2, Exactness::Exact);
}

/// The root of an increasing function.
fn bisect(mut low: f64, mut high: f64, increasing: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if increasing(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The action of two log utilities with usage `x₀ + 2 x₁` on the central path, by two nested bisections: the inputs are
/// `λ, b, c₀, c₁`.
fn on_the_central_path([price, remaining, c0, c1]: [f64; 4], barrier: f64) -> [f64; 2] {
    let (lower, upper) = (1.0, 40.0);
    let actions = |dual: f64| {
        [(c0, 1.0), (c1, 2.0)].map(|(c, uses)| {
            bisect(lower, upper, |x| {
                uses * (price + dual) - c / x - barrier / (x - lower) + barrier / (upper - x)
            })
        })
    };
    // The dual rises with what its budget lacks, and its product with the slack is the barrier.
    let dual = bisect(0.0, 10.0, |dual| {
        let [x0, x1] = actions(dual);
        dual * (remaining - x0 - 2.0 * x1) - barrier
    });
    actions(dual)
}

#[test]
fn smoothed_jacobians_are_those_of_the_central_path() {
    let barrier = 1e-2;
    let options = Options {
        kink: Kink::Smoothed { barrier },
        ..Options::default()
    };
    let problem = LogUtility::new(2, 1, vec![1.0, 2.0], 1.0, 40.0).unwrap();
    let mut layer = InteriorPoint::new(Arc::new(problem), options).unwrap();
    let dimensions = layer.problem().dimensions();
    // Without its budget the step would use c₀/λ + c₁/λ: just what is left.
    let inputs = [0.5, 12.0, 2.0, 4.0];
    let query = Query {
        context: &inputs[2..],
        multiplier: &inputs[..1],
        available: &inputs[1..2],
    };
    let mut solutions = Solutions::new(dimensions, 1);
    layer.solve(query, solutions.row_mut(0)).unwrap();
    let jacobians = layer.jacobians(query, solutions.row(0)).unwrap();
    assert_eq!(
        jacobians.exactness,
        Exactness::Approximate {
            reason: Inexact::Smoothed
        }
    );
    let mut worst: f64 = 0.0;
    for action in 0..2 {
        let mut upstream = [0.0; 2];
        upstream[action] = 1.0;
        let mut gradients = Gradients::with_contexts(dimensions, 1);
        layer
            .pullback(query, solutions.row(0), &upstream, gradients.row_mut(0))
            .unwrap();
        let pulled = [
            gradients.multipliers[0],
            gradients.available[0],
            gradients.contexts[0],
            gradients.contexts[1],
        ];
        let rows = [
            jacobians.multiplier[action],
            jacobians.available[action],
            jacobians.context[2 * action],
            jacobians.context[2 * action + 1],
        ];
        for input in 0..4 {
            let step = 1e-4 * inputs[input];
            let moved = |by: f64| {
                let mut inputs = inputs;
                inputs[input] += by;
                on_the_central_path(inputs, barrier)[action]
            };
            let difference = (moved(step) - moved(-step)) / (2.0 * step);
            for found in [rows[input], pulled[input]] {
                worst = worst.max((found - difference).abs() / difference.abs());
            }
        }
    }
    assert!(worst < 1e-6, "{worst}");
    // They are neither side's: a one-sided derivative is zero in the price or in the budget.
    assert!(jacobians.available.iter().all(|slope| *slope > 0.05));
    assert!(jacobians.multiplier.iter().all(|slope| *slope < -0.05));
}

#[test]
fn the_closed_form_equals_the_interior_point_to_1e_9() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let mut general = solver(WeightedFairness::paper());
    let mut closed = FairnessLayer::new(WeightedFairness::paper());
    for number in 0..500 {
        let context = if number % 10 == 0 {
            0.0
        } else {
            10f64.powf(rng.random_range(-4.0..1.0))
        };
        let multiplier = if number % 7 == 0 && context > 0.0 {
            0.0
        } else {
            10f64.powf(rng.random_range(-4.0..3.0))
        };
        let remaining = rng.random_range(1.0..80.0);
        let (x, gradient, exactness) = fairness(&mut general, context, multiplier, remaining);
        let (expected, expected_gradient, expected_exactness) =
            fairness(&mut closed, context, multiplier, remaining);
        assert!(
            (x - expected).abs() <= 1e-9 * expected,
            "{number}: {x} {expected}"
        );
        assert_eq!(exactness, expected_exactness);
        for (found, expected) in gradient.iter().zip(expected_gradient) {
            assert!(
                (found - expected).abs() <= 1e-9 * (1.0 + expected.abs()),
                "{number}: {found} {expected}"
            );
        }
    }
}

#[test]
fn prices_up_to_a_million_and_budgets_over_fifteen_decades_are_solved() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for number in 0..600 {
        let (d, m) = (rng.random_range(1..=8), rng.random_range(1..=4));
        let matrix: Vec<f64> = (0..d * m).map(|_| rng.random_range(0.0..1.0)).collect();
        let scale = 10f64.powf(rng.random_range(-6.0..9.0));
        let problem = LogUtility::new(d, m, matrix, 1e-3 * scale, 10.0 * scale).unwrap();
        let mut least = vec![0.0; m];
        problem.usage(problem.lower(), &[], &mut least);
        let context: Vec<f64> = (0..d).map(|_| 10f64.powf(rng.random_range(-3.0..3.0))).collect();
        let multiplier: Vec<f64> = (0..m)
            .map(|_| {
                if rng.random_bool(0.3) {
                    0.0
                } else {
                    10f64.powf(rng.random_range(-6.0..6.0))
                }
            })
            .collect();
        let remaining: Vec<f64> = (0..m)
            .map(|row| least[row] * (1.0 + 10f64.powf(rng.random_range(-9.0..5.0))))
            .collect();
        let mut solver = solver(problem.clone());
        let mut solutions = Solutions::new(solver.problem().dimensions(), 1);
        let query = Query {
            context: &context,
            multiplier: &multiplier,
            available: &remaining,
        };
        solver.solve(query, solutions.row_mut(0)).unwrap();
        let row = solutions.row(0);
        assert!(
            row.status.is_solved(),
            "{number} d {d} M {m} scale {scale:e}: {}",
            row.status
        );
        let mut usage = vec![0.0; m];
        problem.usage(row.action, &context, &mut usage);
        assert!(usage.iter().zip(&remaining).all(|(used, left)| used <= left));
    }
}

#[test]
fn a_budget_that_only_pays_the_lower_corner_pins_its_actions() {
    // Budget 0 is used by action 0 alone and is used up; action 1 is free under budget 1.
    let problem = LogUtility::new(2, 2, vec![1.0, 0.0, 0.0, 1.0], 0.1, 10.0).unwrap();
    let mut solver = solver(problem);
    let dimensions = solver.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, 1);
    let query = Query {
        context: &[1.0, 2.0],
        multiplier: &[0.3, 0.5],
        available: &[0.1, 8.0],
    };
    solver.solve(query, solutions.row_mut(0)).unwrap();
    let row = solutions.row(0);
    assert!(row.status.is_solved(), "{}", row.status);
    assert_eq!(row.action[0], 0.1);
    assert!((row.action[1] - 4.0).abs() < 1e-12);
    // −c/x + λ + μ − ν = 0 with no negative dual.
    let stationarity = -1.0 / 0.1 + 0.3 + row.duals[0] - row.lower_duals[0];
    assert!(stationarity.abs() < 1e-12 && row.duals[0] > 0.0);
    let mut gradients = Gradients::with_contexts(dimensions, 1);
    let exactness = solver
        .pullback(query, solutions.row(0), &[1.0, 1.0], gradients.row_mut(0))
        .unwrap();
    assert_ne!(exactness, Exactness::Exact);
    assert!(gradients.multipliers.iter().all(|g| g.is_finite()));
    assert!(
        (gradients.multipliers[1] + 8.0).abs() < 1e-9,
        "action 1 is not disturbed"
    );
}

#[test]
fn curved_usage_that_starts_flat_is_pinned_too() {
    let problem = Curved {
        d: 2,
        m: 1,
        matrix: vec![1.0, 0.0],
        rate: 0.5,
        lower: vec![0.5, 0.5],
        upper: vec![4.0, 4.0],
    };
    let mut used = [0.0];
    problem.usage(&[0.5, 0.5], &[1.0, 1.0], &mut used);
    let mut solver = solver(problem);
    let mut solutions = Solutions::new(solver.problem().dimensions(), 1);
    for extra in [0.0, 1e-16, 1e-13, 1e-10, 1e-6] {
        let remaining = [used[0] + extra];
        let query = Query {
            context: &[1.0, 1.0],
            multiplier: &[0.1],
            available: &remaining,
        };
        solver.solve(query, solutions.row_mut(0)).unwrap();
        let row = solutions.row(0);
        assert!(row.status.is_solved(), "{extra}: {}", row.status);
        assert!((row.action[0] - 0.5).abs() <= 1e-9 + extra);
        assert_eq!(row.action[1], 4.0);
    }
}

#[test]
fn bad_queries_are_named_and_the_action_is_the_lower_corner() {
    let mut solver = solver(LogUtility::new(2, 1, vec![1.0, 2.0], 0.1, 10.0).unwrap());
    let mut solutions = Solutions::new(solver.problem().dimensions(), 1);
    let mut check = |context: [f64; 2], multiplier: f64, remaining: f64, expected: &str| {
        let query = Query {
            context: &context,
            multiplier: &[multiplier],
            available: &[remaining],
        };
        solver.solve(query, solutions.row_mut(0)).unwrap();
        assert_eq!(solutions.row(0).status.to_string(), expected);
        assert_eq!(solutions.row(0).action, [0.1, 0.1]);
        let mut gradients = Gradients::with_contexts(solver.problem().dimensions(), 1);
        let exactness = solver
            .pullback(query, solutions.row(0), &[1.0, 1.0], gradients.row_mut(0))
            .unwrap();
        assert_eq!(
            exactness,
            Exactness::Approximate {
                reason: Inexact::NotSolved
            }
        );
        assert_eq!(gradients.contexts, [0.0, 0.0]);
    };
    check([1.0, f64::NAN], 0.1, 4.0, "invalid context[1]: NaN");
    check([1.0, -2.0], 0.1, 4.0, "invalid context[1]: -2");
    check([1.0, 1.0], -0.1, 4.0, "invalid multiplier[0]: -0.1");
    check([1.0, 1.0], f64::INFINITY, 4.0, "invalid multiplier[0]: inf");
    check([1.0, 1.0], 0.1, f64::NAN, "invalid available[0]: NaN");
    check(
        [1.0, 1.0],
        0.1,
        0.25,
        "infeasible: budget 0 falls short by 0.050000000000000044",
    );
}

#[test]
fn wrong_sizes_are_errors() {
    let mut solver = solver(LogUtility::new(2, 1, vec![1.0, 2.0], 0.1, 10.0).unwrap());
    let mut solutions = Solutions::new(solver.problem().dimensions(), 1);
    let query = Query {
        context: &[1.0],
        multiplier: &[0.1],
        available: &[4.0],
    };
    assert_eq!(
        solver.solve(query, solutions.row_mut(0)).unwrap_err().to_string(),
        "expected 2 values for context, found 1"
    );
    let query = Query {
        context: &[1.0, 1.0],
        ..query
    };
    solver.solve(query, solutions.row_mut(0)).unwrap();
    let mut gradients = Gradients::new(solver.problem().dimensions(), 1);
    let error = solver
        .pullback(query, solutions.row(0), &[1.0], gradients.row_mut(0))
        .unwrap_err();
    assert_eq!(error.to_string(), "expected 2 values for upstream, found 1");
}

#[test]
fn bad_options_are_refused() {
    let options = Options {
        tolerance: f64::NAN,
        ..Options::default()
    };
    assert!(matches!(
        InteriorPoint::new(Arc::new(WeightedFairness::paper()), options),
        Err(Error::InvalidOption {
            option: "tolerance",
            ..
        })
    ));
}

#[test]
fn one_bad_row_leaves_the_others_bit_identical() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let base = instance(&mut rng, 0);
    let dimensions = base.problem.dimensions();
    let rows = 5;
    let vary = |values: &[f64]| -> Vec<f64> {
        (0..rows)
            .flat_map(|row| values.iter().map(move |v| v * (1.0 + 0.1 * row as f64)))
            .collect()
    };
    let (contexts, multipliers, remaining) =
        (vary(&base.context), vary(&base.multiplier), vary(&base.remaining));
    let mut solver = InteriorPoint::new(base.problem.clone(), Options::default()).unwrap();
    let solve = |solver: &mut InteriorPoint, contexts: &[f64], remaining: &[f64]| {
        let queries = Queries {
            contexts,
            multipliers: &multipliers,
            available: remaining,
        };
        let mut solutions = Solutions::new(dimensions, rows);
        let mut gradients = Gradients::with_contexts(dimensions, rows);
        solver.solve_batch(queries, &mut solutions).unwrap();
        let upstream = vec![1.0; rows * dimensions.actions];
        solver
            .pullback_batch(queries, &solutions, &upstream, &mut gradients)
            .unwrap();
        (solutions, gradients)
    };
    let (good, good_gradients) = solve(&mut solver, &contexts, &remaining);
    assert!(good.statuses().iter().all(Status::is_solved));
    let bad = 2;
    let mut nan = contexts.clone();
    nan[bad * dimensions.context] = f64::NAN;
    let mut short = remaining.clone();
    short[bad * dimensions.budgets] = -1.0;
    for (contexts, remaining) in [(&nan, &remaining), (&contexts, &short)] {
        let (spoilt, spoilt_gradients) = solve(&mut solver, contexts, remaining);
        assert!(!spoilt.statuses()[bad].is_solved());
        for row in (0..rows).filter(|row| *row != bad) {
            assert_eq!(spoilt.row(row).action, good.row(row).action);
            assert_eq!(spoilt.row(row).duals, good.row(row).duals);
            assert_eq!(spoilt.row(row).status, good.row(row).status);
            let range = row * dimensions.budgets..(row + 1) * dimensions.budgets;
            assert_eq!(
                spoilt_gradients.multipliers[range.clone()],
                good_gradients.multipliers[range.clone()]
            );
            assert_eq!(
                spoilt_gradients.available[range.clone()],
                good_gradients.available[range]
            );
        }
    }
    assert!(matches!(
        solve(&mut solver, &nan, &remaining).0.statuses()[bad],
        Status::Invalid {
            input: Input::Context,
            ..
        }
    ));
}
