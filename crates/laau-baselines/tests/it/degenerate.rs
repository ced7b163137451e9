//! No policy is above OPT where budgets are degenerate: at their least, a little above it, at what an unconstrained optimum uses.

use std::sync::Arc;

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuit, DpOptions, DualDescent, DualDescentParameters, EqualOptions,
    HorizonOptimum, HorizonOptions, Mirror, Phase, Prediction, RlOptions, WaterFilling,
};
use laau_core::problems::{
    LlmTokens, LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless,
};
use laau_core::{
    Dimensions, Episodes, Error, Fitted, Hindsight, Rollout, SmoothProblem, Task, rollout_all,
    rollout_hindsight,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::workload::{fairness, fit, general, generator, independent, log_utility, policy};

/// How far above OPT rounding may put a policy, relative to OPT or to 1, whichever is more.
const TOLERANCE: f64 = 1e-9;

fn settings() -> Vec<Task> {
    let identity = |d: usize| {
        (0..d * d)
            .map(|at| f64::from(u8::from(at % (d + 1) == 0)))
            .collect()
    };
    vec![
        fairness(),
        general(WeightedFairness::new(0.1, 3.0).unwrap()),
        general(LogUtility::new(2, 2, identity(2), 0.5, 10.0).unwrap()),
        general(log_utility()),
        general(LogUtility::new(1, 3, vec![1.0, 0.3, 2.0], 0.2, 5.0).unwrap()),
        general(
            LogUtility::new(
                4,
                3,
                vec![1.0, 0.0, 0.7, 0.1, 0.0, 1.3, 0.0, 0.4, 0.2, 0.9, 0.0, 0.0],
                1e-3,
                1e3,
            )
            .unwrap(),
        ),
        general(VmAllocation::server()),
        general(VmAllocation::new(1.0, vec![0.3; 3], vec![20.0; 3]).unwrap()),
        general(VmAllocation::new(0.5, vec![1.0; 2], vec![7.0; 2]).unwrap()),
        general(Wireless::three_channels()),
        general(Wireless::new(1, 0.7, 9.0).unwrap()),
        general(Trading::inventory()),
        general(Trading::new(3.0, 1e3).unwrap()),
        general(LlmTokens::two_classes()),
        general(LlmTokens::new(3, 2.0, 4.0, 0.5, 6.0).unwrap()),
        general(PowerProvisioning::two_loads()),
        general(PowerProvisioning::new(vec![0.3, 1.0, 2.0], 1.0, 1.0, 1.2, 9.0).unwrap()),
    ]
}

/// Every policy, those that learn with next to no training.
fn policies(task: &Task, horizon: usize) -> Vec<Fitted> {
    let train = independent(&*task.problem, &mut generator(7), (8, horizon), (0.1, 0.6));
    let mut policies: Vec<Fitted> = Vec::new();
    let mut keep = |fitted: Result<Fitted, Error>| policies.push(fitted.unwrap());
    keep(fit(&EqualOptions::default(), task, &train, &train));
    keep(fit(&AvgLtOptions::default(), task, &train, &train));
    for mirror in [Mirror::Euclidean, Mirror::Entropic] {
        keep(DualDescent::new(task, mirror, DualDescentParameters::default()).map(Fitted::new));
    }
    if horizon <= 5 {
        // It solves the past anew at every step.
        keep(CrPursuit::new(task, 1.0).map(Fitted::new));
    }
    let options = CeOptions {
        prediction: Prediction::Prior,
        ridges: vec![1e-3],
    };
    keep(fit(&options, task, &train, &train));
    let options = RlOptions {
        hidden: 3,
        schedule: vec![Phase {
            epochs: 2,
            learning_rate: 5e-3,
        }],
        batch: 4,
        ..RlOptions::default()
    };
    keep(fit(&options, task, &train, &train));
    let options = DpOptions {
        atoms: 6,
        states: 3,
        points: 12,
        ..DpOptions::default()
    };
    match fit(&options, task, &train, &train) {
        // It is for one action under one budget.
        Err(Error::NotApplicable { .. }) => {
            assert!(task.problem.dimensions().context > 1 || task.problem.dimensions().budgets > 1);
        }
        fitted => keep(fitted),
    }
    policies
}

/// Contexts of one episode: all alike, drawn, rare, one alone, or nothing at all.
fn contexts(rng: &mut ChaCha8Rng, task: &Task, horizon: usize, shape: usize) -> Vec<f64> {
    let problem = &*task.problem;
    let q = problem.dimensions().context;
    let spike = rng.random_range(0..horizon);
    let mut all = Vec::new();
    for step in 0..horizon {
        let mut context: Vec<f64> = (0..q)
            .map(|_| match shape {
                0 => 0.5,
                1 => rng.random_range(0.05..1.0_f64).powi(3),
                2 => f64::from(u8::from(rng.random_range(0..3) == 0)) * rng.random_range(0.1..1.0),
                3 => f64::from(u8::from(step == spike)),
                _ => 0.0,
            })
            .collect();
        if problem.name() == "vm-allocation" && shape < 2 {
            let sum: f64 = context[1..].iter().sum();
            context[1..].iter_mut().for_each(|share| *share /= sum);
        }
        if problem.check_context(&context).is_err() {
            // Zero is no channel gain.
            context[1..].iter_mut().for_each(|gain| *gain = gain.max(1e-3));
        }
        all.extend(context);
    }
    all
}

/// The budget of one resource, between the least and what the unconstrained optimum uses, or at either by a hair.
fn budget(rng: &mut ChaCha8Rng, kind: usize, least: f64, wanted: f64) -> f64 {
    let nudge = 10.0_f64.powf(rng.random_range(-14.0..=-6.0));
    let most = wanted.max(least);
    let budget = match kind {
        0 => least,
        1 => least + nudge * most,
        2 => most * (1.0 - nudge),
        3 => most,
        4 => most * (1.0 + nudge),
        5 => most * 3.0 + 1.0,
        _ => least + (most - least) * rng.random_range(0.0..1.0),
    };
    budget.max(least)
}

/// Episodes of every shape of contexts, with one kind of budget for all resources and with mixtures.
fn episodes(rng: &mut ChaCha8Rng, task: &Task, horizon: usize) -> Episodes {
    const KINDS: usize = 7;
    const MIXTURES: usize = 8;
    let problem = &task.problem;
    let Dimensions {
        budgets: m, context, ..
    } = problem.dimensions();
    let solver = HorizonOptimum::new(Arc::clone(problem), HorizonOptions::default()).unwrap();
    let (mut least, mut usage) = (vec![0.0; m], vec![0.0; m]);
    problem.reserve(horizon, &mut least);
    let (mut all_contexts, mut all_budgets) = (Vec::new(), Vec::new());
    for shape in 0..5 {
        let drawn = contexts(rng, task, horizon, shape);
        let free = solver.solve(&drawn, &vec![1e9; m]).unwrap();
        let mut wanted = vec![0.0; m];
        let steps = free.actions.chunks_exact(problem.dimensions().actions);
        for (x, c) in steps.zip(drawn.chunks_exact(context)) {
            problem.usage(x, c, &mut usage);
            wanted.iter_mut().zip(&usage).for_each(|(sum, used)| *sum += used);
        }
        for choice in 0..KINDS + MIXTURES {
            for k in 0..m {
                let kind = if choice < KINDS {
                    choice
                } else {
                    rng.random_range(0..KINDS)
                };
                all_budgets.push(budget(rng, kind, least[k], wanted[k]));
            }
            all_contexts.extend_from_slice(&drawn);
        }
    }
    Episodes::new(horizon, context, m, all_contexts, all_budgets).unwrap()
}

fn earned(rollout: &Rollout) -> f64 {
    -rollout.costs.iter().sum::<f64>()
}

#[test]
fn no_policy_is_above_opt_where_budgets_are_degenerate() {
    let mut rng = generator(401);
    let mut faults = Vec::new();
    for task in settings() {
        let problem = task.problem.clone();
        let name = problem.name();
        let solver = HorizonOptimum::new(Arc::clone(&task.problem), HorizonOptions::default()).unwrap();
        let mut optima: Vec<&dyn Hindsight> = vec![&solver];
        let exact = (name == WeightedFairness::NAME)
            .then(|| WeightedFairness::new(problem.lower()[0], problem.upper()[0]).unwrap())
            .map(WaterFilling::new);
        optima.extend(exact.iter().map(|exact| exact as &dyn Hindsight));
        for horizon in [1, 2, 5, 10, 29] {
            let episodes = episodes(&mut rng, &task, horizon);
            let reported: Vec<f64> = episodes
                .iter()
                .map(|episode| -solver.solve(episode.contexts(), episode.budgets()).unwrap().cost)
                .collect();
            let replayed: Vec<Vec<Rollout>> = optima
                .iter()
                .map(|optimum| rollout_hindsight(&*problem, *optimum, &episodes).unwrap())
                .collect();
            for rollout in replayed.iter().flatten() {
                let cuts = (rollout.violations, rollout.failures, rollout.projections);
                assert_eq!(cuts, (0, 0, 0), "{name}, horizon {horizon}");
            }
            for fitted in &policies(&task, horizon) {
                let played = rollout_all(&*problem, policy(fitted), &episodes).unwrap();
                for (index, one) in played.iter().enumerate() {
                    let bests = replayed.iter().map(|best| earned(&best[index]));
                    for best in bests.chain([reported[index]]) {
                        if earned(one) > best + TOLERANCE * best.abs().max(1.0) {
                            let episode = episodes.get(index);
                            faults.push(format!(
                                "{name}, {} over {horizon} steps: {} is {:.1e} more than {best}, budgets {:?}, contexts {:?}",
                                policy(fitted).name(),
                                earned(one),
                                earned(one) - best,
                                episode.budgets(),
                                episode.contexts(),
                            ));
                        }
                    }
                }
            }
        }
    }
    let shown: Vec<_> = faults.iter().take(8).map(String::as_str).collect();
    assert!(
        faults.is_empty(),
        "{} cases, for example\n{}",
        faults.len(),
        shown.join("\n")
    );
}

/// Replays OPT on one episode of equal contexts.
fn replayed(problem: impl SmoothProblem + 'static, context: &[f64], horizon: usize, budgets: &[f64]) -> f64 {
    let task = general(problem);
    let solver = HorizonOptimum::new(Arc::clone(&task.problem), HorizonOptions::default()).unwrap();
    let contexts = context.repeat(horizon);
    let episodes = Episodes::new(
        horizon,
        context.len(),
        budgets.len(),
        contexts.clone(),
        budgets.to_vec(),
    )
    .unwrap();
    let utility = earned(&rollout_hindsight(&*task.problem, &solver, &episodes).unwrap()[0]);
    let reported = -solver.solve(&contexts, budgets).unwrap().cost;
    assert!(
        (utility - reported).abs() <= TOLERANCE * utility.abs().max(1.0),
        "{utility} replayed, {reported} reported"
    );
    utility
}

#[test]
fn a_budget_at_its_least_leaves_the_actions_alone_that_do_not_use_it() {
    let identity = vec![1.0, 0.0, 0.0, 1.0];
    for nudge in [0.0, 1e-14, 1e-12, 1e-9] {
        let problem = LogUtility::new(2, 2, identity.clone(), 0.5, 10.0).unwrap();
        let found = replayed(problem, &[0.5; 2], 10, &[5.0 * (1.0 + nudge), 40.0]);
        // Ten steps of half a unit and of four units.
        assert!(
            (found - 5.0 * (0.5_f64.ln() + 4.0_f64.ln())).abs() < 1e-7,
            "{found}"
        );

        let budgets = [5.0 * (1.0 + nudge), 50.0, 50.0, 50.0];
        let found = replayed(
            VmAllocation::server(),
            &[0.5, 0.25, 0.25, 0.25, 0.25],
            5,
            &budgets,
        );
        // Five bundles of one unit and three times ten.
        assert!(
            (found - 2.5 * (1.0 - 10.0_f64.powf(-0.75))).abs() < 1e-7,
            "{found}"
        );
    }
}
