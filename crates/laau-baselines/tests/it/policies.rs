//! Every policy, on every problem: never above OPT, never a violation, whatever the episode.

use std::sync::Arc;

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescent, DualDescentOptions,
    DualDescentParameters, EqualOptions, HorizonOptimum, HorizonOptions, Memory, Mirror, Phase, Prediction,
    Ratio, RlOptions, WaterFilling,
};
use laau_core::problems::{PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless};
use laau_core::{
    Episode, Episodes, Fitted, Hindsight, Problem, Rollout, Task, conformance, rollout_all, rollout_hindsight,
};
use proptest::prelude::*;
use rand::RngExt;

use crate::inventories::proportional;
use crate::workload::{fairness, fit, general, generator, independent, log_utility, policy};

/// Every policy that applies to a task, fitted on the same episodes. New policies are added here.
fn all_policies(task: &Task, train: &Episodes, validation: &Episodes) -> Vec<Fitted> {
    let mirrors = [Mirror::Euclidean, Mirror::Entropic];
    let mut fitted = vec![
        fit(&EqualOptions::default(), task, train, validation),
        fit(&AvgLtOptions::default(), task, train, validation),
    ];
    for mirror in mirrors {
        // A coarse grid: enough to be sound, and quick.
        let options = DualDescentOptions {
            smallest_step_size: 0.5,
            largest_step_size: 2.0,
            smallest_start: 0.5,
            largest_start: 2.0,
            refinements: 0,
            ..DualDescentOptions::new(mirror)
        };
        let cold = DualDescentOptions {
            cold_start: true,
            ..options
        };
        fitted.push(fit(&options, task, train, validation));
        fitted.push(fit(&cold, task, train, validation));
        let untuned = DualDescent::new(task, mirror, DualDescentParameters::default());
        fitted.push(untuned.map(Fitted::new));
    }
    for ratio in [Ratio::Calibrated, Ratio::WorstCase, Ratio::Fixed(1.0)] {
        // Half a percent is enough to be sound, and quicker than the default.
        let options = CrPursuitOptions {
            ratio,
            tolerance: 5e-3,
        };
        fitted.push(fit(&options, task, train, validation));
    }
    for prediction in [
        Prediction::Prior,
        Prediction::ShrunkMean,
        Prediction::Regression,
        Prediction::Best,
    ] {
        let options = CeOptions {
            prediction,
            ridges: vec![1e-3],
        };
        fitted.push(fit(&options, task, train, validation));
    }
    for memory in [
        Memory::Independent,
        Memory::Markov,
        Memory::RunningMean,
        Memory::Best,
    ] {
        let options = DpOptions {
            memory,
            atoms: 8,
            states: 4,
            points: 24,
        };
        fitted.push(fit(&options, task, train, validation));
    }
    for options in [RlOptions::default(), RlOptions::model_free()] {
        let schedule = vec![Phase {
            epochs: 3,
            learning_rate: 5e-3,
        }];
        fitted.push(fit(&RlOptions { schedule, ..options }, task, train, validation));
    }
    fitted
        .into_iter()
        .filter(|policy| !matches!(policy, Err(laau_core::Error::NotApplicable { .. })))
        .collect::<Result<_, _>>()
        .unwrap()
}

/// A task that the policies are tried on, and every algorithm that finds its optimum.
struct Case {
    task: Task,
    optima: Vec<Box<dyn Hindsight>>,
}

fn all_cases() -> Vec<Case> {
    let exact = Box::new(WaterFilling::new(WeightedFairness::paper()));
    let mut fair = Case::new(fairness());
    fair.optima.push(exact);
    vec![
        fair,
        Case::new(general(log_utility())),
        Case::new(general(VmAllocation::server())),
        Case::new(general(proportional())),
        Case::new(general(Wireless::three_channels())),
        Case::new(general(Trading::inventory())),
        Case::new(general(PowerProvisioning::two_loads())),
    ]
}

impl Case {
    fn new(task: Task) -> Self {
        let horizon = HorizonOptimum::new(Arc::clone(&task.problem), HorizonOptions::default()).unwrap();
        Self {
            optima: vec![Box::new(horizon)],
            task,
        }
    }
}

/// The policies of a task, fitted once on a small workload of a horizon.
fn fitted(task: &Task, horizon: usize) -> Vec<Fitted> {
    let mut rng = generator(7);
    let train = independent(&*task.problem, &mut rng, (24, horizon), (0.1, 0.6));
    let validation = independent(&*task.problem, &mut rng, (12, horizon), (0.1, 0.6));
    all_policies(task, &train, &validation)
}

/// Asserts that no policy violates, fails, or earns more than the optimum on any of the episodes.
fn assert_sound(case: &Case, policies: &[Fitted], episodes: &Episodes, what: &str) {
    let problem = case.task.problem.clone();
    let optima = case.optima.iter().map(|optimum| {
        let best = rollout_hindsight(&*problem, &**optimum, episodes).unwrap();
        for rollout in &best {
            let faults = (rollout.violations, rollout.failures, rollout.projections);
            assert_eq!(faults, (0, 0, 0), "opt on {what}");
        }
        best
    });
    let optima: Vec<Vec<Rollout>> = optima.collect();
    let mut faults: Vec<String> = Vec::new();
    for fitted in policies {
        let name = policy(fitted).name();
        let rollouts = rollout_all(&*problem, policy(fitted), episodes).unwrap();
        for (index, one) in rollouts.iter().enumerate() {
            if (one.violations, one.failures) != (0, 0) {
                faults.push(format!(
                    "{name}, episode {index}: {} violations, {} failures, first {:?}",
                    one.violations, one.failures, one.first_failure
                ));
            }
            for best in &optima {
                let (earned, most) = (sum(&one.costs, |c| -c), sum(&best[index].costs, |c| -c));
                let tolerance = 1e-9 * (sum(&one.costs, f64::abs) + sum(&best[index].costs, f64::abs))
                    + 1e-11 * reach(&*problem, &episodes.get(index));
                if earned > most + tolerance {
                    faults.push(format!("{name}, episode {index}: {earned} is more than {most}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}

fn sum(values: &[f64], of: impl Fn(f64) -> f64) -> f64 {
    values.iter().map(|value| of(*value)).sum()
}

/// What the box can move the cost of an episode by: the size against which its rounding is measured.
fn reach(problem: &dyn Problem, episode: &Episode<'_>) -> f64 {
    (0..episode.horizon())
        .map(|step| {
            let context = episode.context(step);
            (problem.cost(problem.upper(), context) - problem.cost(problem.lower(), context)).abs()
        })
        .sum()
}

/// One episode per combination of a hard shape of contexts and a hard budget.
fn adversarial(problem: &dyn Problem, horizon: usize) -> Episodes {
    let q = problem.dimensions().context;
    let m = problem.dimensions().budgets;
    let last = (horizon - 1).max(1) as f64;
    let shapes: [&dyn Fn(usize) -> f64; 7] = [
        &|_| 0.5,
        &|_| 0.0,
        &|t| f64::from(u8::from(t == horizon / 2)),
        &|t| f64::from(u8::from(t == 0)),
        &|t| f64::from(u8::from(t + 1 == horizon)),
        &|t| 0.01 + 0.99 * t as f64 / last,
        &|t| 1.0 - 0.99 * t as f64 / last,
    ];
    let (mut least, mut most) = (vec![0.0; m], vec![0.0; m]);
    problem.reserve(horizon, &mut least);
    problem.usage(problem.upper(), &vec![0.5; q], &mut most);
    let (mut contexts, mut budgets) = (Vec::new(), Vec::new());
    for shape in shapes {
        for share in [0.0, 1e-9, 0.3, 1.0, 3.0] {
            for t in 0..horizon {
                let mut context = vec![shape(t); q];
                if problem.check_context(&context).is_err() {
                    // Zero is no channel gain.
                    context.fill(shape(t).max(1e-3));
                }
                contexts.extend(context);
            }
            for k in 0..m {
                budgets.push(least[k] + share * (most[k] * horizon as f64 - least[k]).max(0.0));
            }
        }
    }
    Episodes::new(horizon, q, m, contexts, budgets).unwrap()
}

#[test]
fn no_policy_violates_or_beats_opt_on_adversarial_episodes() {
    for case in all_cases() {
        let task = &case.task;
        for horizon in [1, 2, 9] {
            let policies = fitted(task, horizon);
            let episodes = adversarial(&*task.problem, horizon);
            let what = format!("{} adversarial, horizon {horizon}", task.problem.name());
            assert_sound(&case, &policies, &episodes, &what);
        }
    }
}

#[test]
fn every_policy_passes_the_conformance_suite() {
    for Case { task, .. } in all_cases() {
        let episodes = independent(&*task.problem, &mut generator(8), (4, 10), (0.05, 0.8));
        for fitted in fitted(&task, 10) {
            conformance::policy(&*task.problem, policy(&fitted), &episodes);
        }
    }
}

#[test]
fn fitting_twice_finds_the_same_to_the_bit() {
    for Case { task, .. } in all_cases() {
        let (first, second) = (fitted(&task, 6), fitted(&task, 6));
        for (a, b) in first.iter().zip(&second) {
            assert_eq!(policy(a).name(), policy(b).name());
            assert_eq!(a.parameters, b.parameters, "{}", policy(a).name());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_policy_beats_opt_on_any_episode(
        which in 0_usize..7,
        seed in any::<u64>(),
        horizon in 1_usize..=16,
        tight in any::<bool>(),
    ) {
        let mut rng = generator(seed);
        let case = all_cases().swap_remove(which);
        let task = &case.task;
        let shares = if tight { (0.0, 0.1) } else { (0.1, 1.2) };
        let train = independent(&*task.problem, &mut rng, (6, horizon), shares);
        let validation = independent(&*task.problem, &mut rng, (4, horizon), shares);
        let policies = all_policies(task, &train, &validation);
        let spread = rng.random_range(0.0..1.2);
        let test = independent(&*task.problem, &mut rng, (12, horizon), (0.0, 1e-3 + spread));
        let what = format!("{}, seed {seed}, horizon {horizon}", task.problem.name());
        assert_sound(&case, &policies, &test, &what);
    }
}
