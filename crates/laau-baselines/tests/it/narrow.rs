//! OPT where there is next to nothing to choose: bounds that meet, one step, no weights; and where there is a lot.

use std::sync::Arc;

use laau_baselines::{HorizonOptimum, HorizonOptions, HorizonSolution};
use laau_core::problems::{LogUtility, Trading, VmAllocation, WeightedFairness, Wireless};
use laau_core::{
    AutoDiff, Dimensions, Episode, Error, Hindsight, Number, Problem, ProblemFunctions, SmoothProblem,
    Structure,
};

/// A problem within narrower bounds.
struct Within<P> {
    inner: P,
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl<P: Problem> Problem for Within<P> {
    fn name(&self) -> &'static str {
        "within"
    }
    fn dimensions(&self) -> Dimensions {
        self.inner.dimensions()
    }
    fn lower(&self) -> &[f64] {
        &self.lower
    }
    fn upper(&self) -> &[f64] {
        &self.upper
    }
    fn cost(&self, x: &[f64], c: &[f64]) -> f64 {
        self.inner.cost(x, c)
    }
    fn usage(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        self.inner.usage(x, c, out);
    }
    fn least_usage(&self, out: &mut [f64]) {
        self.inner.usage(&self.lower, &[1.0; 8], out);
    }
    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        self.inner.check_context(context)
    }
}

impl<P: SmoothProblem> SmoothProblem for Within<P> {
    fn cost_gradient(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        self.inner.cost_gradient(x, c, out);
    }
    fn usage_jacobian(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        self.inner.usage_jacobian(x, c, out);
    }
    fn lagrangian_hessian(&self, x: &[f64], c: &[f64], weights: &[f64], out: &mut [f64]) {
        self.inner.lagrangian_hessian(x, c, weights, out);
    }
    fn cost_context_gradient(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        self.inner.cost_context_gradient(x, c, out);
    }
    fn usage_context_jacobian(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        self.inner.usage_context_jacobian(x, c, out);
    }
    fn lagrangian_mixed(&self, x: &[f64], c: &[f64], weights: &[f64], out: &mut [f64]) {
        self.inner.lagrangian_mixed(x, c, weights, out);
    }
    fn structure(&self) -> Structure {
        self.inner.structure()
    }
}

fn horizon(problem: impl SmoothProblem + 'static) -> HorizonOptimum {
    HorizonOptimum::new(Arc::new(problem), HorizonOptions::default()).unwrap()
}

fn planned(solver: &HorizonOptimum, contexts: &[f64], context: usize, budgets: &[f64], d: usize) -> Vec<f64> {
    let episode = Episode::new(contexts, context, budgets).unwrap();
    let mut plan = vec![0.0; episode.horizon() * d];
    solver.plan(&episode, &mut plan).unwrap();
    plan
}

#[test]
fn an_action_whose_bounds_meet_stays_there() {
    let inner = || LogUtility::new(3, 2, vec![1.0, 1.0, 0.0, 0.0, 1.0, 1.0], 0.5, 10.0).unwrap();
    for budgets in [[6.0, 30.0], [5.0, 30.0], [500.0, 500.0], [5.0, 5.0]] {
        // Four steps; what the second action leaves of the first budget is the first one's, and of the second the third's.
        let solver = horizon(Within {
            inner: inner(),
            lower: vec![0.5, 0.75, 0.5],
            upper: vec![10.0, 0.75, 10.0],
        });
        let plan = planned(&solver, &[0.5; 12], 3, &budgets, 3);
        for action in plan.chunks_exact(3) {
            let wanted = budgets.map(|budget| f64::min(budget / 4.0 - 0.75, 10.0));
            assert_eq!(action[1], 0.75);
            for (found, wanted) in [action[0], action[2]].iter().zip(&wanted) {
                assert!((found - wanted).abs() < 1e-6, "{action:?}, budgets {budgets:?}");
            }
        }
    }
    let point = vec![2.0; 3];
    let solver = horizon(Within {
        inner: inner(),
        lower: point.clone(),
        upper: point,
    });
    for budgets in [[16.0, 16.0], [17.0, 1e9]] {
        assert_eq!(planned(&solver, &[0.3; 12], 3, &budgets, 3), [2.0; 12]);
    }
}

#[test]
fn bent_usage_with_bounds_that_meet_is_solved_too() {
    let solver = horizon(Within {
        inner: Wireless::three_channels(),
        lower: vec![0.0, 0.0, 0.0],
        upper: vec![4.0, 0.0, 4.0],
    });
    let contexts = [1.0, 0.5, 0.7, 0.5].repeat(4);
    for budgets in [[10.0, 8.0], [0.0, 8.0], [10.0, 0.0], [1e-12, 1e3]] {
        let plan = planned(&solver, &contexts, 4, &budgets, 3);
        for action in plan.chunks_exact(3) {
            assert_eq!(action[1], 0.0);
            assert!((action[0] - action[2]).abs() < 1e-6, "{action:?}");
            assert_eq!(
                action[0] > 0.0,
                budgets[0] > 0.0 && budgets[1] > 0.0,
                "{action:?}"
            );
        }
    }
}

#[test]
fn one_step_spends_what_it_can() {
    let solver = horizon(WeightedFairness::new(1.0, 1e9).unwrap());
    for budget in [1.0, 1.0 + 1e-12, 1.5, 40.0, 1e6, 1e9, 1e12] {
        let plan = planned(&solver, &[0.3], 1, &[budget], 1);
        let wanted = f64::min(budget, 1e9);
        assert!((plan[0] - wanted).abs() <= 1e-8 * wanted, "{plan:?} of {budget}");
        assert!(plan[0] <= budget);
    }
}

#[test]
fn no_weights_are_solved_at_once() {
    fn solved(problem: impl SmoothProblem + 'static, context: &[f64], budgets: &[f64]) -> HorizonSolution {
        horizon(problem).solve(&context.repeat(7), budgets).unwrap()
    }
    for (scale, found) in [1.0, 1e9].into_iter().flat_map(|scale| {
        [
            solved(WeightedFairness::paper(), &[0.0], &[7.0 * scale]),
            solved(VmAllocation::server(), &[0.0; 5], &[7.0 * scale; 4]),
            solved(Wireless::three_channels(), &[0.0, 1.0, 1.0, 1.0], &[scale, scale]),
            solved(Trading::inventory(), &[0.0], &[scale]),
            solved(Trading::inventory(), &[0.0], &[0.0]),
        ]
        .map(|found| (scale, found))
    }) {
        assert_eq!(
            (found.cost, found.gap, found.iterations),
            (0.0, 0.0, 0),
            "{scale}"
        );
    }
}

#[test]
fn a_step_without_weight_costs_the_others_nothing() {
    let solver = horizon(WeightedFairness::new(1e-9, 1e12).unwrap());
    let plan = planned(&solver, &[0.5, 0.0, 0.5, 0.0], 1, &[10.0], 1);
    assert_eq!((plan[1], plan[3]), (1e-9, 1e-9));
    assert!(
        (plan[0] - 5.0).abs() < 1e-6 && (plan[2] - 5.0).abs() < 1e-6,
        "{plan:?}"
    );
}

#[test]
fn a_hundred_thousand_steps_take_hardly_more_iterations_than_a_hundred() {
    let iterations = |steps: usize| {
        let contexts: Vec<f64> = (0..steps).map(|t| (t as f64 * 0.7).sin().abs().powi(3)).collect();
        let solver = horizon(WeightedFairness::new(1.0, 1e9).unwrap());
        let found = solver.solve(&contexts, &[9.0 * steps as f64]).unwrap();
        assert!(found.gap <= 1e-9 * found.cost.abs());
        found.iterations
    };
    let (few, many) = (iterations(100), iterations(100_000));
    assert!(many <= 3 * few, "{many} iterations, {few} for a hundred steps");
}

/// Cost `Σ exp(−c x / upper)`, usage `Σ x²`.
#[derive(Clone)]
struct Squares {
    lower: [f64; 2],
    upper: [f64; 2],
}

impl ProblemFunctions for Squares {
    fn name(&self) -> &'static str {
        "squares"
    }
    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 2,
            budgets: 1,
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
        (-(c[0] * x[0]) / self.upper[0]).exp() + (-(c[1] * x[1]) / self.upper[1]).exp()
    }
    fn usage<T: Number>(&self, x: &[T], _: &[T], out: &mut [T]) {
        out[0] = x[0] * x[0] + x[1] * x[1];
    }
    fn least_usage(&self, out: &mut [f64]) {
        out[0] = self.lower[1] * self.lower[1];
    }
}

#[test]
fn a_few_roundings_of_room_go_to_the_action_that_uses_least_of_them() {
    // The first action uses the square of its rise, the second twice its lower bound times it.
    for (lower, upper, share) in [(1.0, 8.0, 2e-13), (0.3, 1.0, 2e-14), (1e3, 2e3, 3e-13)] {
        let problem = Squares {
            lower: [0.0, lower],
            upper: [1.0, upper],
        };
        let budget = lower * lower * (1.0 + share);
        let room = budget - lower * lower;
        let solver = horizon(AutoDiff::new(problem).unwrap());
        let found = solver.solve(&[1.0, 1.0], &[budget]).unwrap();
        // Budgets are resolved to 1e-14 of themselves, and that has its price.
        let resolved = 1e-14 * budget * found.multipliers[0];
        assert!(found.gap <= resolved.max(1e-8 * found.cost), "{found:?}");
        // The cost falls by about as much as the action rises, and is right to the tolerance.
        let short = (found.actions[0] - room.sqrt()).abs();
        assert!(
            short < 1e-3 * room.sqrt() + 1e-10 * found.cost,
            "{room:e}: {found:?}"
        );
        // What is played may be short by the staircase of the second action's usage, and no more.
        let plan = planned(&solver, &[1.0, 1.0], 2, &[budget], 2);
        assert!(plan[0] > 0.0 && plan[1] == lower, "{plan:?}");
    }
}

#[test]
fn what_a_rounding_of_a_narrow_room_is_worth_is_not_given_away() {
    // The second action is fixed, and its usage is rounded to steps that are a good part of the room of the first.
    for room in [1e-13, 1e-12, 3e-12, 1e-11, 7e-11, 3e-10, 6e-10, 5e-9, 1e-7] {
        for scale in [1.0, 7.0, 1.3e3] {
            let problem = Squares {
                lower: [0.0, scale],
                upper: [2.0 * scale * f64::sqrt(room), scale],
            };
            let budget = scale * scale * (1.0 + room);
            let paid = |x: f64| x * x + scale * scale <= budget;
            let (mut low, mut high) = (0, problem.upper[0].to_bits());
            while high - low > 1 {
                let middle = u64::midpoint(low, high);
                if paid(f64::from_bits(middle)) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            let cost = |x: f64| (-x / problem.upper[0]).exp() + (-1.0_f64).exp();
            let best = cost(f64::from_bits(low));
            let solver = horizon(AutoDiff::new(problem.clone()).unwrap());
            let plan = planned(&solver, &[1.0, 1.0], 2, &[budget], 2);
            assert!(paid(plan[0]), "{plan:?} of {budget}");
            let above = cost(plan[0]) - best;
            assert!(above <= 1e-9, "room {room:e}, scale {scale}: {above:e} above");
        }
    }
}

#[test]
fn the_gap_reaches_the_tolerance_where_a_rounding_of_the_budget_is_dear() {
    let mut faults = Vec::new();
    for room in [1e-11, 7e-11, 3.5e-10, 1e-9, 6e-9, 4e-8, 3e-7] {
        for (lower, upper, weight) in [(2.0, 9.0, 0.3), (1.0, 1.5, 2.0), (40.0, 1e3, 1.0)] {
            let problem = Squares {
                lower: [0.0, lower],
                upper: [1.2 * lower * f64::sqrt(room), upper],
            };
            let budget = 3.0 * lower * lower * (1.0 + room);
            let contexts = [1.0, weight, 2.5, weight, 4.0, 0.0];
            let found = horizon(AutoDiff::new(problem).unwrap())
                .solve(&contexts, &[budget])
                .unwrap();
            if found.gap > 1e-9 * found.cost {
                faults.push((room, lower, found.gap, found.iterations));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:?}");
}

/// Cost `Σ ½ x²`, usage `Σ (x − b)²` with the bottoms `b` at .3 of the box: it falls before it rises.
struct Valley {
    lower: [f64; 2],
    upper: [f64; 2],
}

impl Valley {
    fn bottom(&self, i: usize) -> f64 {
        self.lower[i] + 0.3 * (self.upper[i] - self.lower[i])
    }
}

impl ProblemFunctions for Valley {
    fn name(&self) -> &'static str {
        "valley"
    }
    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 2,
            budgets: 1,
            context: 1,
        }
    }
    fn lower(&self) -> &[f64] {
        &self.lower
    }
    fn upper(&self) -> &[f64] {
        &self.upper
    }
    fn cost<T: Number>(&self, x: &[T], _: &[T]) -> T {
        (x[0] * x[0] + x[1] * x[1]) * 0.5
    }
    fn usage<T: Number>(&self, x: &[T], _: &[T], out: &mut [T]) {
        let away = |i: usize| (x[i] - self.bottom(i)) * (x[i] - self.bottom(i));
        out[0] = away(0) + away(1);
    }
    fn least_usage(&self, out: &mut [f64]) {
        let lower = self.lower;
        self.usage(&lower, &[0.0], out);
    }
}

#[test]
fn an_optimum_of_no_cost_at_the_end_of_a_budget_is_solved() {
    for scale in [1.0, 1e-6, 1e6] {
        for (low, high) in [(-0.4, 0.008), (-0.4, 0.2), (-3.0, 0.1), (-0.1, 1e-5)] {
            let problem = Valley {
                lower: [low * scale, 0.0],
                upper: [high * scale, scale],
            };
            let mut budget = [0.0];
            ProblemFunctions::usage(&problem, &[0.0, 0.0], &[0.0], &mut budget);
            let found = horizon(AutoDiff::new(problem).unwrap()).solve(&[0.0], &budget);
            let cost = found.as_ref().map(|found| found.cost);
            assert!(
                cost.as_ref().is_ok_and(|cost| *cost <= 1e-13 * scale * scale),
                "{low} to {high}, scale {scale:e}: {found:?}"
            );
        }
    }
}

/// [`Squares`] of which a step uses half, or all where the last entry of its context is 1.
struct Shaded(Squares);

impl ProblemFunctions for Shaded {
    fn name(&self) -> &'static str {
        "shaded"
    }
    fn dimensions(&self) -> Dimensions {
        self.0.dimensions()
    }
    fn lower(&self) -> &[f64] {
        &self.0.lower
    }
    fn upper(&self) -> &[f64] {
        &self.0.upper
    }
    fn cost<T: Number>(&self, x: &[T], c: &[T]) -> T {
        self.0.cost(x, c)
    }
    fn usage<T: Number>(&self, x: &[T], c: &[T], out: &mut [T]) {
        self.0.usage(x, c, out);
        out[0] = out[0] * (c[1] + 1.0) * 0.5;
    }
    fn least_usage(&self, out: &mut [f64]) {
        self.0.least_usage(out);
    }
}

#[test]
fn a_box_far_wider_than_what_a_flat_usage_leaves_does_not_matter() {
    // The reserve leaves the first step next to nothing, and the second half of what it reserved.
    for upper in [1.0, 1e3, 4e8, 1e12] {
        for room in [4e-12, 1e-9, 1e-3] {
            let solver = horizon(
                AutoDiff::new(Shaded(Squares {
                    lower: [0.0, 1.0],
                    upper: [upper, 1.0],
                }))
                .unwrap(),
            );
            let plan = planned(&solver, &[1.0, 1.0, 1.0, 0.0], 2, &[2.0 + room], 2);
            // A cost of about 3 is right to 1e-10 of it, and its slope is the inverse of the width.
            let wanted = f64::sqrt(room) - 1e-9 * upper;
            assert!(
                plan[0] >= 0.99 * wanted && plan[0] * plan[0] <= 1.01 * room,
                "upper {upper:e}, room {room:e}: {plan:?}"
            );
        }
    }
}

#[test]
fn upper_bounds_that_cost_nothing_are_reached_to_a_billionth() {
    // The terms of the cost are zero at the optimum, and weigh 20 beside it.
    for weight in [0.04, 3.0, 20.0] {
        let solver = horizon(LogUtility::new(1, 1, vec![1.0], 0.02, 1.0).unwrap());
        for budget in [2.0, 2.000_000_014, 2.1, 30.0] {
            let found = solver.solve(&[0.04, weight], &[budget]).unwrap();
            assert!(found.cost <= 1e-9, "weight {weight}, budget {budget}: {found:?}");
        }
    }
}
