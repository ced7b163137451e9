//! Points where a bound, a budget and a flat cost meet, and boxes far wider than any budget.

use std::sync::Arc;

use laau_core::problems::{LogUtility, PowerProvisioning, WeightedFairness, Wireless};
use laau_core::{
    Differentiate, Exactness, Gradients, Input, Query, SmoothProblem, Solutions, Status, StepSolver,
};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};

fn solver(problem: impl SmoothProblem + 'static) -> InteriorPoint {
    InteriorPoint::new(Arc::new(problem), Options::default()).unwrap()
}

/// The action of one query, and its derivative in the first budget.
fn answer(layer: &mut dyn Differentiate, query: Query<'_>) -> (Vec<f64>, f64, Exactness) {
    let dimensions = layer.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, 1);
    let mut gradients = Gradients::new(dimensions, 1);
    layer.solve(query, solutions.row_mut(0)).unwrap();
    let row = solutions.row(0);
    assert!(row.status.is_solved(), "{query:?}: {}", row.status);
    let upstream = vec![1.0; dimensions.actions];
    let exactness = layer
        .pullback(query, row, &upstream, gradients.row_mut(0))
        .unwrap();
    (row.action.to_vec(), gradients.remaining[0], exactness)
}

#[test]
fn a_budget_that_is_used_up_at_an_upper_bound_is_a_kink() {
    let layers: [Box<dyn Differentiate>; 2] = [
        Box::new(solver(WeightedFairness::paper())),
        Box::new(FairnessLayer::new(WeightedFairness::paper())),
    ];
    for mut layer in layers {
        for number in 0..300 {
            let (context, price) = (
                0.5 + 0.01 * f64::from(number),
                0.01 / (1.0 + f64::from(number % 7)),
            );
            for relative in [0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6, 1e-3] {
                for (sign, truth) in [(-1.0, 1.0), (1.0, 0.0)] {
                    let remaining = [40.0 * (1.0 + sign * relative)];
                    let query = Query {
                        context: &[context],
                        multiplier: &[price],
                        remaining: &remaining,
                    };
                    let (action, slope, exactness) = answer(&mut *layer, query);
                    let best = remaining[0].min(40.0);
                    assert!(
                        action[0] <= best && best - action[0] <= 1e-14,
                        "{query:?}: {action:?}"
                    );
                    // Within a few hundred roundings of the kink both are honest; farther off the derivative exists.
                    if relative > 1e-11 {
                        assert_eq!(exactness, Exactness::Exact, "{query:?}");
                    }
                    if exactness == Exactness::Exact {
                        assert!((slope - truth).abs() <= 1e-15, "{query:?}: {slope}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_width_of_the_box_does_not_matter() {
    for upper in [10.0, 1e3, 1e6, 1e9, 1e12] {
        let mut layer = solver(LogUtility::new(2, 1, vec![1.0, 1.0], 0.1, upper).unwrap());
        let query = Query {
            context: &[1.0, 1.0],
            multiplier: &[0.0],
            remaining: &[2.0],
        };
        let (action, ..) = answer(&mut layer, query);
        assert!(
            action.iter().all(|x| (x - 1.0).abs() < 1e-9),
            "{upper}: {action:?}"
        );

        let mut layer = solver(WeightedFairness::new(1.0, upper.max(1e3)).unwrap());
        let query = Query {
            context: &[1.0],
            multiplier: &[0.0],
            remaining: &[1.05],
        };
        let (action, slope, exactness) = answer(&mut layer, query);
        assert_eq!((action, slope, exactness), (vec![1.05], 1.0, Exactness::Exact));
    }
}

#[test]
fn a_slack_that_rounding_left_is_solved() {
    let problem = LogUtility::new(3, 2, vec![1.0, 0.5, 0.0, 0.2, 0.7, 1.0], 0.1, 10.0).unwrap();
    let query = Query {
        context: &[
            0.878_428_238_444_492_1,
            0.165_922_200_335_746_12,
            0.639_804_182_057_776_3,
        ],
        multiplier: &[0.0, 0.0],
        remaining: &[0.150_000_001_790_027_34, 0.190_000_000_327_565_78],
    };
    let (action, ..) = answer(&mut solver(problem), query);
    assert!(action.iter().all(|x| (x - 0.1).abs() < 1e-8), "{action:?}");
}

#[test]
fn where_nothing_is_worth_anything_both_layers_take_the_lower_bound() {
    for remaining in [1.0, 1.5, 7.0, 40.0, 1e6] {
        let query = Query {
            context: &[0.0],
            multiplier: &[0.0],
            remaining: &[remaining],
        };
        let general = answer(&mut solver(WeightedFairness::paper()), query).0;
        let formula = answer(&mut FairnessLayer::new(WeightedFairness::paper()), query).0;
        assert_eq!((&general, &formula), (&vec![1.0], &vec![1.0]), "{remaining}");
    }
    // Only the action that is worth nothing stays; what it leaves goes to the other.
    let problem = LogUtility::new(2, 1, vec![1.0, 1.0], 0.1, 10.0).unwrap();
    let query = Query {
        context: &[0.0, 1.0],
        multiplier: &[0.0],
        remaining: &[3.0],
    };
    let (action, ..) = answer(&mut solver(problem), query);
    assert_eq!(action[0], 0.1);
    assert!((action[1] - 2.9).abs() < 1e-12);
}

#[test]
fn a_context_outside_the_domain_is_named_by_its_index() {
    let power = solver(PowerProvisioning::two_loads());
    let wireless = solver(Wireless::three_channels());
    for (mut layer, index, value) in [
        (power.clone(), 1, -1.0),
        (power, 2, 7.0),
        (wireless.clone(), 3, 1e-12),
        (wireless, 0, -0.5),
    ] {
        let dimensions = layer.problem().dimensions();
        let mut context = vec![0.5; dimensions.context];
        context[index] = value;
        let query = Query {
            context: &context,
            multiplier: &vec![0.0; dimensions.budgets],
            remaining: &vec![1e3; dimensions.budgets],
        };
        let mut solutions = Solutions::new(dimensions, 1);
        layer.solve(query, solutions.row_mut(0)).unwrap();
        let expected = Status::Invalid {
            input: Input::Context,
            index,
            value,
        };
        assert_eq!(solutions.row(0).status, expected);
    }
}
