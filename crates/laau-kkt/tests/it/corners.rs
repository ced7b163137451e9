//! Points where a bound, a budget and a flat cost meet, and boxes far wider than any budget.

use laau_core::problems::{LogUtility, PowerProvisioning, WeightedFairness, Wireless};
use laau_core::{
    AutoDiff, Differentiate, Dimensions, Exactness, Gradients, Input, Number, ProblemFunctions, Query,
    Solutions, Status, StepSolver, Structure,
};
use laau_kkt::FairnessLayer;

use crate::problems::solver;

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
    (row.action.to_vec(), gradients.available[0], exactness)
}

/// The general layer and the closed form.
fn one_budget_layers() -> [Box<dyn Differentiate>; 2] {
    [
        Box::new(solver(WeightedFairness::paper())),
        Box::new(FairnessLayer::new(WeightedFairness::paper())),
    ]
}

#[test]
fn a_budget_that_is_used_up_at_an_upper_bound_is_a_kink() {
    for mut layer in one_budget_layers() {
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
                        available: &remaining,
                    };
                    let (action, slope, exactness) = answer(&mut *layer, query);
                    let best = remaining[0].min(40.0);
                    assert!(
                        action[0] <= best && best - action[0] <= 1e-14,
                        "{query:?}: {action:?}"
                    );
                    // Within a few hundred roundings of the kink both are honest; farther off the derivative exists.
                    if relative >= 1e-11 {
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
fn an_action_that_alone_has_the_last_of_a_budget_is_no_kink_at_its_lower_bound() {
    // Below the lower corner is no feasible point; two actions that share what is left have a bound to reach beside it.
    for (row, exact) in [([1.0, 0.0], true), ([1.0, 1.0], false)] {
        let matrix = [row, [0.0, 1.0]].concat();
        let problem = LogUtility::new(2, 2, matrix, 0.02, 10.0).unwrap();
        let mut layer = solver(problem);
        let least = 0.02 * (row[0] + row[1]);
        for relative in [3e-14, 1e-13, 1e-12] {
            let query = Query {
                context: &[1.0, 1.0],
                multiplier: &[0.2, 0.0],
                available: &[least * (1.0 + relative), 40.0],
            };
            let (action, slope, exactness) = answer(&mut layer, query);
            assert_eq!(exactness == Exactness::Exact, exact, "{query:?}: {action:?}");
            assert!(!exact || (slope - 1.0).abs() <= 1e-9, "{query:?}: {slope}");
        }
    }
    for mut layer in one_budget_layers() {
        for relative in [3e-14, 1e-13, 1e-12] {
            let query = Query {
                context: &[1.0],
                multiplier: &[0.01],
                available: &[1.0 + relative],
            };
            let (action, slope, exactness) = answer(&mut *layer, query);
            assert_eq!(exactness, Exactness::Exact, "{query:?}: {action:?}");
            assert!((slope - 1.0).abs() <= 1e-9, "{query:?}: {slope}");
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
            available: &[2.0],
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
            available: &[1.05],
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
        available: &[0.150_000_001_790_027_34, 0.190_000_000_327_565_78],
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
            available: &[remaining],
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
        available: &[3.0],
    };
    let (action, ..) = answer(&mut solver(problem), query);
    assert_eq!(action[0], 0.1);
    assert!((action[1] - 2.9).abs() < 1e-12);
    // Not a price either, and a usage that starts flat.
    let boxes: [&[f64]; 3] = [&[0.0], &[20.0], &[1.0]];
    assert_eq!(Falling::new(true, boxes).solved(&[0.0], &[6.0]), [0.0]);
}

#[test]
fn a_context_outside_the_domain_is_named_by_its_index() {
    let power = solver(PowerProvisioning::two_loads());
    let wireless = solver(Wireless::three_channels());
    for (layer, index, value) in [
        (&power, 1, -1.0),
        (&power, 2, 7.0),
        (&wireless, 3, 1e-12),
        (&wireless, 0, -0.5),
    ] {
        let mut layer = layer.clone();
        let dimensions = layer.problem().dimensions();
        let mut context = vec![0.5; dimensions.context];
        context[index] = value;
        let query = Query {
            context: &context,
            multiplier: &vec![0.0; dimensions.budgets],
            available: &vec![1e3; dimensions.budgets],
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

/// Costs that fall, `Σ exp(−c x / upper)` or a softplus of `c − x` a tenth of the box wide, and usage `½ A x²` or `A x`.
#[derive(Debug, Clone)]
struct Falling {
    squared: bool,
    lower: Vec<f64>,
    upper: Vec<f64>,
    matrix: Vec<f64>,
    weights: Vec<f64>,
    /// What all usage is multiplied with.
    factor: f64,
}

impl ProblemFunctions for Falling {
    fn name(&self) -> &'static str {
        "falling"
    }
    fn dimensions(&self) -> Dimensions {
        let d = self.lower.len();
        Dimensions {
            actions: d,
            budgets: self.matrix.len() / d,
            context: d,
        }
    }
    fn lower(&self) -> &[f64] {
        &self.lower
    }
    fn upper(&self) -> &[f64] {
        &self.upper
    }
    fn cost<T: Number>(&self, action: &[T], context: &[T]) -> T {
        let mut sum = T::from(0.0);
        for (i, (&x, &c)) in action.iter().zip(context).enumerate() {
            let (w, upper) = (self.weights[i], self.upper[i]);
            sum += if self.squared {
                let unit = if upper > 0.0 { upper } else { 1.0 };
                (-(c * x) / unit).exp() * w
            } else {
                let s = 0.1 * (upper - self.lower[i]).max(1e-3 * upper);
                let t = (c - x) / s;
                let soft = if t.re() > 0.0 {
                    t + (-t).exp().ln_1p()
                } else {
                    t.exp().ln_1p()
                };
                soft * (w * s) + x * x * (0.5e-4 * w / s)
            };
        }
        sum
    }
    fn usage<T: Number>(&self, action: &[T], _: &[T], out: &mut [T]) {
        for (row, out) in self.matrix.chunks_exact(action.len()).zip(out) {
            *out = T::from(0.0);
            for (&x, &a) in action.iter().zip(row) {
                *out += if self.squared { x * x * (0.5 * a) } else { x * a };
            }
            *out *= T::from(self.factor);
        }
    }
    fn least_usage(&self, out: &mut [f64]) {
        self.usage(&self.lower, &self.lower, out);
    }
    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: !self.squared,
        }
    }
}

impl Falling {
    fn new(squared: bool, [lower, upper, matrix]: [&[f64]; 3]) -> Self {
        Self {
            squared,
            lower: lower.to_vec(),
            upper: upper.to_vec(),
            matrix: matrix.to_vec(),
            weights: vec![1.0; lower.len()],
            factor: 1.0,
        }
    }

    /// The action, which is solved and payable.
    fn solved(&self, context: &[f64], remaining: &[f64]) -> Vec<f64> {
        let mut layer = solver(AutoDiff::new(self.clone()).unwrap());
        let query = Query {
            context,
            multiplier: &vec![0.0; remaining.len()],
            available: remaining,
        };
        let action = answer(&mut layer, query).0;
        let mut usage = vec![0.0; remaining.len()];
        layer.problem().usage(&action, context, &mut usage);
        assert!(
            usage.iter().zip(remaining).all(|(used, b)| used <= b),
            "{usage:?}"
        );
        action
    }
}

#[test]
fn what_is_lost_in_rounding_is_used_all_the_same() {
    // Beside 4.5e20 nobody sees what an action of at most 1 uses; the action without width has a worth but no say.
    let boxes: [&[f64]; 3] = [&[0.0, 1.0, 3e10], &[1.0, 1.0, 9e11], &[1.0; 3]];
    let action = Falling::new(true, boxes).solved(&[10.0, 1.0, 0.0], &[4.5e20]);
    assert_eq!(action, [0.0, 1.0, 3e10]);
    // A slack of two roundings, of which one action uses nothing worth mentioning.
    let boxes: [&[f64]; 3] = [&[0.0, 1.0, 3e9], &[1.0, 200.0, 4e10], &[1.0; 3]];
    let action = Falling::new(true, boxes).solved(&[1.0, 10.0, 0.0], &[4.500_000_000_000_001e18]);
    assert_eq!(action[2], 3e9);
}

#[test]
fn a_slack_of_a_few_roundings_is_used_where_usage_starts_flat() {
    for share in [4e-15, 1e-14, 4e-14, 1e-12, 1e-9] {
        let remaining = 0.5 * (1.0 + share);
        let best = f64::sqrt(2.0 * (remaining - 0.5));
        let boxes: [&[f64]; 3] = [&[0.0, 1.0], &[1.0, 1.0], &[1.0, 1.0]];
        let action = Falling::new(true, boxes).solved(&[7.0, 0.0], &[remaining]);
        // Usage is known to a rounding of 1.
        let off = (action[0] / best).powi(2) - 1.0;
        assert!(
            off.abs() <= 1e-9 + 8.0 * f64::EPSILON / share,
            "{share}: {action:?}, {best}"
        );
    }
}

#[test]
fn the_rounding_of_a_large_usage_does_not_throw_a_small_one_about() {
    let lower = 0.5 * 0.12 * 8.7 * 8.7;
    for digits in 1..40 {
        let remaining = lower * (1.0 + 1e-14 * f64::from(digits));
        let boxes: [&[f64]; 3] = [&[8.7, 0.0], &[200.0, 1.0], &[0.12, 1.0]];
        let action = Falling::new(true, boxes).solved(&[0.0, 1.0], &[remaining]);
        assert!(action[0] - 8.7 <= 1e-12, "{digits}: {action:?}");
    }
    // Linear usage: 0.008 beside 4e8.
    let boxes: [&[f64]; 3] = [
        &[0.0, 3e6, 3e6, 4e6],
        &[1.0, 1e7, 3e7, 4e6],
        &[
            1.0,
            38.578_804_472_200_53,
            59.007_977_085_238_95,
            27.041_760_495_257_712,
        ],
    ];
    let action = Falling::new(false, boxes).solved(&[0.0; 4], &[400_927_386.661_156_36]);
    assert_eq!(action[1..], [3e6, 3e6, 4e6]);
}

#[test]
fn a_vertex_where_too_many_constraints_meet_is_solved() {
    let boxes: [&[f64]; 3] = [&[1.0, 0.0], &[9e7, 1.0], &[1.0, 0.0, 1.0, 8.0]];
    let action = Falling::new(false, boxes).solved(&[0.0, 0.0], &[2.0, 2.0]);
    assert!((action[0] - 2.0).abs() <= 1e-12, "{action:?}");
    assert_eq!(action[1], 0.0);
    // Two curved budgets that leave the same to the last digits of one of them.
    let boxes: [&[f64]; 3] = [&[0.0, 1.0], &[1.0, 1.0], &[1.8, 1.8, 36.0, 1.8]];
    let action = Falling::new(true, boxes).solved(&[1.0, 0.0], &[0.900_000_000_05, 0.900_000_001]);
    assert!((action[0] - 7.453_56e-6).abs() < 1e-10, "{action:?}");
}

#[test]
fn a_sharp_bend_in_one_action_does_not_outlast_the_slack_of_the_budget() {
    let problem = Falling {
        factor: 1.0,
        squared: false,
        lower: vec![0.0, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        upper: vec![
            610.883_423_806_725_2,
            1.0,
            0.938_701_374_631_080_6,
            40.0,
            0.99,
            5e-7,
            3.2,
            2.245_896_455_019_624_3,
            5.593_521_385_357_322,
        ],
        matrix: vec![
            5.092_539_843_588_497,
            14.743_825_658_783_647,
            2.586_373_033_806_297,
            7.684_504_110_498_879,
            10.0,
            0.0,
            13.139_472_763_841_637,
            1.0,
            11.170_719_939_909_356,
        ],
        weights: vec![
            9.402_717_303_781_39,
            8.822_553_173_797_845,
            1.847_022_858_149_947_3,
            13.0,
            2.062_768_598_982_039,
            3.953_632_747_242_863,
            12.084_039_016_865_832,
            3.361_258_791_799_041,
            9.338_045_206_425_116,
        ],
    };
    let context = [
        602.201_118_976_876_3,
        1.667_452_724_097_833,
        1.131_803_467_412_587_2,
        30.474_002_578_114_078,
        0.429_848_064_536_333_5,
        4.791_242_676_157_274e-8,
        0.0,
        0.0,
        0.0,
    ];
    let action = problem.solved(&context, &[1_382.662_750_125_286_3]);
    // The action without usage is where its own derivative vanishes, far inside its box.
    assert!(action[5] > 1e-7 && action[5] < 5e-7, "{action:?}");
}

#[test]
fn a_residual_is_measured_by_the_curvature_of_its_own_duals() {
    // A dual of 1e-26 beside a usage of 1e22: a wrong one is not hidden by the curvature of one before it.
    let boxes: [&[f64]; 3] = [&[0.0; 3], &[0.0, 1.0, 2e11], &[0.0, 0.4, 1.0, 0.0, 0.1, 0.0]];
    let mut problem = Falling::new(true, boxes);
    problem.factor = 1.2;
    let mut layer = solver(AutoDiff::new(problem).unwrap());
    let mut solutions = Solutions::new(layer.problem().dimensions(), 1);
    let query = Query {
        context: &[1.0, 0.0, 10.0],
        multiplier: &[0.0, 0.0],
        available: &[2.399_999_992_8e22, 0.06],
    };
    layer.solve(query, solutions.row_mut(0)).unwrap();
    let row = solutions.row(0);
    assert!(row.status.is_solved(), "{}", row.status);
    let x = row.action[2];
    let dual = 10.0 / 2e11 * (-10.0 * x / 2e11).exp() / (1.2 * x);
    assert!(
        (row.duals[0] / dual - 1.0).abs() < 1e-6,
        "{:?}, {dual}",
        row.duals
    );
}

#[test]
fn an_action_that_weighs_nothing_beside_another_has_its_own_optimum() {
    let boxes: [&[f64]; 3] = [&[0.0, 4e6], &[2e8, 1e8], &[1.0, 1.0]];
    let mut problem = Falling::new(true, boxes);
    problem.factor = 1.5;
    let query = Query {
        context: &[1.0, 1.0],
        multiplier: &[1.0],
        available: &[3.75e16],
    };
    let (action, _, exactness) = answer(&mut solver(AutoDiff::new(problem).unwrap()), query);
    assert!((action[0] * 1.5 * 2e8 - 1.0).abs() < 1e-6, "{action:?}");
    assert_eq!((action[1], exactness), (4e6, Exactness::Exact));
}

/// The budget is what the free optimum uses, to the last bit: without a price, a rounding of it is all that the dual can be.
#[test]
fn a_budget_that_the_free_optimum_uses_up_is_a_kink_without_a_price_too() {
    let problem = AutoDiff::new(Valley {
        lower: [-30.0, 0.0],
        upper: [1.0, 800.0],
        weights: [4e4, 3e4],
        rows: vec![[1e10, 5e10]],
    })
    .unwrap();
    let mut layer = solver(problem);
    let query = Query {
        context: &[0.0, 1.8e7],
        multiplier: &[0.0],
        available: &[6_484_284_900_000_000.0],
    };
    let (action, _, exactness) = answer(&mut layer, query);
    assert_ne!(exactness, Exactness::Exact, "{action:?}");
}

/// Were the first budget larger by a rounding, the second alone would hold the first action: beside it, the first dual need not give back
/// all that it is worth.
#[test]
fn a_budget_that_another_all_but_replaces_is_a_kink() {
    let problem = AutoDiff::new(Valley {
        lower: [-0.6, 0.0],
        upper: [0.2, 0.03],
        weights: [1.0, 1.0],
        rows: vec![[1.0, 0.0], [1e-5, 7e-5]],
    })
    .unwrap();
    let mut layer = solver(problem);
    // What the second budget alone leaves the first to use.
    let alone = 0.129_599_961_567_508_22;
    for (offset, is_exact) in [(-6e-14, false), (1e-9, true), (-1e-9, true)] {
        let query = Query {
            context: &[0.0, 0.003],
            multiplier: &[0.0, 0.0],
            available: &[alone * (1.0 + offset), 1.298_519_610_444_000_2e-6],
        };
        let (action, _, exactness) = answer(&mut layer, query);
        assert_eq!(exactness == Exactness::Exact, is_exact, "{offset}: {action:?}");
    }
}

/// Cost `Σ ½ w x² − c x`, usage `Σ a (x − bottom)²`, the bottom three tenths of the way up the box.
struct Valley {
    lower: [f64; 2],
    upper: [f64; 2],
    weights: [f64; 2],
    rows: Vec<[f64; 2]>,
}

impl ProblemFunctions for Valley {
    fn name(&self) -> &'static str {
        "valley"
    }
    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 2,
            budgets: self.rows.len(),
            context: 2,
        }
    }
    fn lower(&self) -> &[f64] {
        &self.lower
    }
    fn upper(&self) -> &[f64] {
        &self.upper
    }
    fn cost<T: Number>(&self, x: &[T], c: &[T]) -> T {
        let part = |i: usize| (x[i] * (0.5 * self.weights[i]) - c[i]) * x[i];
        part(0) + part(1)
    }
    fn usage<T: Number>(&self, x: &[T], _: &[T], out: &mut [T]) {
        let above = |i: usize| x[i] - (self.lower[i] + 0.3 * (self.upper[i] - self.lower[i]));
        for (out, row) in out.iter_mut().zip(&self.rows) {
            *out = above(0) * above(0) * row[0] + above(1) * above(1) * row[1];
        }
    }
    fn least_usage(&self, out: &mut [f64]) {
        out.fill(0.0);
    }
    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: false,
        }
    }
}
