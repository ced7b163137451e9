//! The certainty-equivalent price and the pursuit, for problems without a closed form.

use laau_baselines::{
    CeOptions, CertaintyEquivalent, CrPursuit, CrPursuitOptions, Prediction, Predictor, Ratio,
};
use laau_core::problems::LogUtility;
use laau_core::{Multiplier, Observation, Query, Solutions, StepSolver, Task, conformance, rollout_all};
use rand::RngExt;

use crate::workload::{fairness, fit, general, generator, independent, log_utility, number, policy};

/// Weighted fairness under a name that has no closed form here.
fn disguised() -> Task {
    general(LogUtility::new(1, 1, vec![1.0], 1.0, 40.0).unwrap())
}

#[test]
fn the_general_price_and_pursuit_equal_their_closed_forms() {
    let (closed, open) = (fairness(), disguised());
    let mut rng = generator(77);
    let train = independent(&*closed.problem, &mut rng, (20, 12), (0.05, 0.6));
    let test = independent(&*closed.problem, &mut rng, (12, 12), (0.02, 0.9));
    for prediction in [Prediction::Prior, Prediction::ShrunkMean] {
        let options = CeOptions {
            prediction,
            ..CeOptions::default()
        };
        let [a, b] = [&closed, &open].map(|task| {
            let fitted = fit(&options, task, &train, &train).unwrap();
            rollout_all(&*task.problem, policy(&fitted), &test).unwrap()
        });
        assert_same(&a, &b, 1e-6);
    }
    let [a, b] = [&closed, &open].map(|task| {
        let policy = CrPursuit::new(task, 1.3).unwrap();
        rollout_all(&*task.problem, &policy, &test).unwrap()
    });
    assert_same(&a, &b, 1e-5);
    let [a, b] = [&closed, &open].map(|task| {
        number(
            &fit(&CrPursuitOptions::default(), task, &train, &train).unwrap(),
            "ratio",
        )
    });
    assert!((a - b).abs() < 1e-4, "calibrated ratios {a} and {b}");
}

fn assert_same(a: &[laau_core::Rollout], b: &[laau_core::Rollout], tolerance: f64) {
    for (index, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!((b.failures, b.violations), (0, 0), "{:?}", b.first_failure);
        for (step, (x, y)) in a.actions.iter().zip(&b.actions).enumerate() {
            assert!(
                (x - y).abs() <= tolerance * (1.0 + x.abs()),
                "episode {index}, step {step}: {x} against {y}"
            );
        }
    }
}

#[test]
fn the_price_of_several_budgets_clears_the_predicted_rest() {
    let task = general(log_utility());
    let mut rng = generator(5);
    let train = independent(&*task.problem, &mut rng, (10, 8), (0.1, 0.5));
    let predictor = Predictor::shrunk_mean(&train);
    let price = CertaintyEquivalent::new(&task, predictor.clone()).unwrap();
    let dimensions = task.problem.dimensions();
    let mut layer = task.solver.clone();
    for case in 0..40 {
        let horizon = 8;
        let step = rng.random_range(0..horizon - 1);
        let contexts: Vec<f64> = (0..(step + 1) * 3).map(|_| rng.random_range(0.02..1.0)).collect();
        let (mut reserve, mut available) = (vec![0.0; 2], vec![0.0; 2]);
        let left = (horizon - 1 - step) as f64;
        task.problem.reserve(horizon - 1 - step, &mut reserve);
        let remaining: Vec<f64> = reserve
            .iter()
            .map(|r| r * rng.random_range(2.0..40.0) + 1.0)
            .collect();
        for k in 0..2 {
            available[k] = remaining[k] - reserve[k];
        }
        let observation = Observation {
            step,
            horizon,
            contexts: &contexts,
            context_len: 3,
            budgets: &[100.0; 2],
            remaining: &remaining,
            available: &available,
        };
        let mut prices = vec![0.0; 2];
        price.begin().price(&observation, &mut prices).unwrap();
        let mut later = vec![0.0; 3];
        predictor.predict(&observation, &mut later).unwrap();
        let mut used = [0.0; 2];
        for (context, copies) in [(observation.context(), 1.0), (&later[..], left)] {
            let mut solution = Solutions::new(dimensions, 1);
            let query = Query {
                context,
                multiplier: &prices,
                available: &available,
            };
            layer.solve(query, solution.row_mut(0)).unwrap();
            let mut usage = vec![0.0; 2];
            task.problem.usage(solution.row(0).action, context, &mut usage);
            for k in 0..2 {
                used[k] += copies * usage[k];
            }
        }
        for k in 0..2 {
            assert!(
                used[k] <= remaining[k] * (1.0 + 1e-6),
                "case {case}: {used:?} of {remaining:?}"
            );
            let slack = 1.0 - used[k] / remaining[k];
            assert!(
                prices[k] == 0.0 || slack < 1e-6,
                "case {case}: slack {slack} at {prices:?}"
            );
        }
    }
    conformance::multiplier(&*task.problem, &price, &train);
}

#[test]
fn the_pursuit_of_one_budget_keeps_its_guarantee_with_several_actions() {
    let task = general(LogUtility::new(3, 1, vec![1.0, 0.5, 2.0], 0.2, 6.0).unwrap());
    let mut rng = generator(9);
    let train = independent(&*task.problem, &mut rng, (12, 8), (0.05, 0.5));
    let test = independent(&*task.problem, &mut rng, (12, 8), (0.05, 0.5));
    let fitted = fit(&CrPursuitOptions::default(), &task, &train, &train).unwrap();
    let ratio = number(&fitted, "ratio");
    assert_eq!(crate::guarantee::check(&task, ratio, &train), train.len());
    assert!(crate::guarantee::check(&task, ratio, &test) > 0);
    let worst = CrPursuitOptions {
        ratio: Ratio::WorstCase,
        ..CrPursuitOptions::default()
    };
    let worst = number(&fit(&worst, &task, &train, &train).unwrap(), "ratio");
    assert!(worst > ratio);
    assert_eq!(crate::guarantee::check(&task, worst, &train), train.len());
}
