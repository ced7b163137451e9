//! CR-Pursuit's guarantee: where its ratio is feasible, it earns the optimum over the ratio, whatever comes.

use std::sync::Arc;

use laau_baselines::{CrPursuit, CrPursuitOptions, HorizonOptimum, HorizonOptions, Ratio};
use laau_core::problems::WeightedFairness;
use laau_core::{Episodes, Rollout, Task, rollout_all, rollout_hindsight};
use laau_kkt::FairnessLayer;
use proptest::prelude::*;

use crate::workload::{fairness, fit, generator, independent, number};

/// The utility above that of the lower corner.
fn gain(task: &Task, rollout: &Rollout, contexts: &[f64]) -> f64 {
    let problem = &*task.problem;
    let len = problem.dimensions().context;
    let corner: f64 = contexts
        .chunks_exact(len)
        .map(|c| problem.cost(problem.lower(), c))
        .sum();
    corner - rollout.costs.iter().sum::<f64>()
}

/// Plays CR-Pursuit and OPT; returns how many episodes were not cut. On those the guarantee is asserted.
pub(crate) fn check(task: &Task, ratio: f64, episodes: &Episodes) -> usize {
    let policy = CrPursuit::new(task, ratio).unwrap();
    let best = HorizonOptimum::new(Arc::clone(&task.problem), HorizonOptions::default()).unwrap();
    let best = rollout_hindsight(&*task.problem, &best, episodes).unwrap();
    let played = rollout_all(&*task.problem, &policy, episodes).unwrap();
    let mut uncut = 0;
    for ((episode, played), best) in episodes.iter().zip(&played).zip(&best) {
        assert_eq!((played.violations, played.failures), (0, 0));
        if played.projections == 0 {
            uncut += 1;
            let earned = gain(task, played, episode.contexts());
            let most = gain(task, best, episode.contexts());
            assert!(
                earned >= most / ratio - 1e-7 * most.max(1.0),
                "{earned} of {most} with ratio {ratio}"
            );
        }
    }
    uncut
}

#[test]
fn a_feasible_ratio_is_kept_on_every_test_episode() {
    let task = fairness();
    let mut rng = generator(31);
    let train = independent(&*task.problem, &mut rng, (200, 20), (0.2, 0.4));
    let test = independent(&*task.problem, &mut rng, (200, 20), (0.2, 0.4));
    let fitted = fit(&CrPursuitOptions::default(), &task, &train, &train).unwrap();
    let ratio = number(&fitted, "ratio");
    assert!(ratio > 1.0 && ratio < 3.0, "{ratio}");
    assert_eq!(
        check(&task, ratio, &train),
        train.len(),
        "calibrated with {ratio}"
    );
    assert!(check(&task, ratio, &test) > 180);
    // It is the smallest: a little less is cut somewhere.
    assert!(check(&task, 1.0 + (ratio - 1.0) * 0.99, &train) < train.len());
}

#[test]
fn the_worst_case_ratio_is_feasible_on_contexts_in_any_order() {
    let task = fairness();
    // Increasing, decreasing and alternating weights over the whole range, budgets from tight to wide.
    let horizon = 40;
    let (mut contexts, mut budgets) = (Vec::new(), Vec::new());
    for shape in 0..4 {
        for excess in [0.1, 5.0, 60.0, 400.0, 1500.0] {
            for t in 0..horizon {
                let up = f64::from(t) / f64::from(horizon - 1);
                let place = match shape {
                    0 => up,
                    1 => 1.0 - up,
                    2 => f64::from(t % 2),
                    _ => up * up * up,
                };
                contexts.push(0.01_f64.powf(1.0 - place));
            }
            budgets.push(f64::from(horizon) + excess);
        }
    }
    let episodes = Episodes::new(40, 1, 1, contexts, budgets).unwrap();
    let options = CrPursuitOptions {
        ratio: Ratio::WorstCase,
        ..CrPursuitOptions::default()
    };
    let fitted = fit(&options, &task, &episodes, &episodes).unwrap();
    let ratio = number(&fitted, "ratio");
    assert!((ratio - ((40.0_f64 * 100.0).ln() + 1.0)).abs() < 1e-9, "{ratio}");
    assert_eq!(check(&task, ratio, &episodes), episodes.len());
    // The ratio of 1 is OPT itself, and no online policy has it.
    assert!(check(&task, 1.0, &episodes) < episodes.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_guarantee_holds_on_any_episode(
        seed in any::<u64>(),
        horizon in 1_usize..=30,
        ratio in 1.0..6.0_f64,
        lower in 0.1..3.0_f64,
        width in 1.0..60.0_f64,
    ) {
        let problem = WeightedFairness::new(lower, lower + width).unwrap();
        let task = Task::new(Arc::new(problem.clone()), Box::new(FairnessLayer::new(problem)));
        let episodes = independent(&*task.problem, &mut generator(seed), (6, horizon), (0.01, 0.9));
        check(&task, ratio, &episodes);
    }
}
