//! The gradient of whole episodes, through every step and through the budget.

use crate::gradcheck::{GradcheckOptions, check_episode};
use crate::problems::{solver, uniform};
use laau_core::problems::{LogUtility, WeightedFairness};
use laau_core::{Differentiate, Episode, Problem, Query, Solutions, StepSolver, episode_gradient};
use laau_kkt::FairnessLayer;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Checks an episode and returns how many derivatives were compared and how many budgets were active in the end.
fn check(layer: &mut dyn Differentiate, contexts: &[f64], budgets: &[f64], prices: &[f64]) -> usize {
    let width = layer.problem().dimensions().context;
    let episode = Episode::new(contexts, width, budgets).unwrap();
    let report = check_episode(layer, &episode, prices, &GradcheckOptions::default()).unwrap();
    assert!(report.worst_error() < 1e-6, "{report:?}");
    assert!(report.unsolved.is_empty(), "{report:?}");
    report.checked
}

#[test]
fn the_gradient_of_twenty_fairness_steps_equals_differences() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut closed = FairnessLayer::new(WeightedFairness::paper());
    let mut general = solver(WeightedFairness::paper());
    for layer in [&mut closed as &mut dyn Differentiate, &mut general] {
        let (mut checked, mut used_up) = (0, 0);
        for _ in 0..10 {
            let contexts = uniform(&mut rng, 20, 0.1, 1.0);
            // Low prices run out of budget before the end, high ones do not.
            for (low, high) in [(0.01, 0.04), (0.05, 0.2)] {
                let prices = uniform(&mut rng, 20, low, high);
                checked += check(layer, &contexts, &[200.0], &prices);
                let episode = Episode::new(&contexts, 1, &[200.0]).unwrap();
                let gradient = episode_gradient(layer, &episode, &prices).unwrap();
                used_up += usize::from(gradient.budgets[0] < 0.0);
            }
        }
        assert!(checked > 300, "{checked}");
        assert!((5..=15).contains(&used_up), "both regimes occur: {used_up}");
    }
}

#[test]
fn the_gradient_of_six_log_utility_steps_equals_differences() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let (mut checked, mut active, mut inactive) = (0, 0, 0);
    for _ in 0..10 {
        let matrix = uniform(&mut rng, 6, 0.1, 1.0);
        let problem = LogUtility::new(3, 2, matrix, 0.1, 10.0).unwrap();
        let mut layer = solver(problem);
        let contexts = uniform(&mut rng, 18, 0.3, 2.0);
        let prices = uniform(&mut rng, 12, 0.1, 0.6);
        for budget in [8.0, 15.0, 100.0] {
            let budgets = [budget, 1.2 * budget];
            checked += check(&mut layer, &contexts, &budgets, &prices);
            let episode = Episode::new(&contexts, 3, &budgets).unwrap();
            let gradient = episode_gradient(&mut layer, &episode, &prices).unwrap();
            if gradient.budgets.iter().any(|g| *g < 0.0) {
                active += 1;
            } else {
                inactive += 1;
            }
        }
    }
    assert!(
        checked > 350 && active > 5 && inactive > 5,
        "{checked} {active} {inactive}"
    );
}

/// The episode's gradient in the prices with the paper's Eqn. (gradbudget) as printed:
/// `∇b_t = ∇b_{t−1} + ∇g ∇_λ x_{t−1} ∇λ_{t−1}`, with the wrong sign and without the path from `b_{t−1}` to `x_{t−1}`.
fn as_printed(layer: &mut FairnessLayer, contexts: &[f64], budget: f64, prices: &[f64]) -> Vec<f64> {
    let steps = contexts.len();
    let dimensions = layer.problem().dimensions();
    let mut solution = Solutions::new(dimensions, 1);
    let mut total = vec![0.0; steps];
    // d b_t / d λ_s for every s.
    let mut budget_gradient = vec![0.0; steps];
    let mut remaining = budget;
    for t in 0..steps {
        let available = [(remaining - (steps - 1 - t) as f64).max(1.0)];
        let query = Query {
            context: &contexts[t..=t],
            multiplier: &prices[t..=t],
            available: &available,
        };
        layer.solve(query, solution.row_mut(0)).unwrap();
        let mut gradient = laau_core::Gradients::new(dimensions, 1);
        layer
            .pullback(query, solution.row(0), &[1.0], gradient.row_mut(0))
            .unwrap();
        let x = solution.actions()[0];
        let (in_price, in_budget) = (gradient.multipliers[0], gradient.available[0]);
        for s in 0..=t {
            let through_price = if s == t { in_price } else { 0.0 };
            total[s] += -contexts[t] / x * (through_price + in_budget * budget_gradient[s]);
        }
        budget_gradient[t] += in_price;
        remaining -= x;
    }
    total
}

#[test]
fn the_budget_gradient_as_the_paper_prints_it_is_wrong() {
    let contexts = [0.9, 0.4, 0.7, 0.5, 0.8];
    let prices = [0.05, 0.04, 0.06, 0.03, 0.02];
    let mut layer = FairnessLayer::new(WeightedFairness::paper());
    // Plenty of budget: no path through it, and the printed equation is right.
    let episode = Episode::new(&contexts, 1, &[150.0]).unwrap();
    let truth = episode_gradient(&mut layer, &episode, &prices).unwrap();
    let printed = as_printed(&mut layer, &contexts, 150.0, &prices);
    for (truth, printed) in truth.multipliers.iter().zip(&printed) {
        assert!((truth - printed).abs() < 1e-9 * truth.abs().max(1.0));
    }
    // A budget that runs out at the last step: the truth is what differences say, the printed equation is not.
    let budget = [60.0];
    let episode = Episode::new(&contexts, 1, &budget).unwrap();
    check(&mut layer, &contexts, &budget, &prices);
    let truth = episode_gradient(&mut layer, &episode, &prices).unwrap();
    let printed = as_printed(&mut layer, &contexts, budget[0], &prices);
    let wrong_sign = truth
        .multipliers
        .iter()
        .zip(&printed)
        .filter(|(truth, printed)| (*truth - *printed).abs() > 0.5 * truth.abs())
        .count();
    assert!(wrong_sign >= 3, "{:?} against {printed:?}", truth.multipliers);
    assert_eq!(layer.problem().name(), WeightedFairness::paper().name());
}
