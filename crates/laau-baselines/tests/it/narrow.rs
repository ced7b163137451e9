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
        assert!(found.gap <= 1e-8 * found.cost, "{found:?}");
        assert!(
            (found.actions[0] / room.sqrt() - 1.0).abs() < 1e-3,
            "{room:e}: {found:?}"
        );
        // What is played may be short by the staircase of the second action's usage, and no more.
        let plan = planned(&solver, &[1.0, 1.0], 2, &[budget], 2);
        assert!(plan[0] > 0.0 && plan[1] == lower, "{plan:?}");
    }
}
