//! Policies that use the history of an episode read every context once.

use laau_baselines::{
    CeOptions, CertaintyEquivalent, DpOptions, DualDescentOptions, EqualOptions, Memory, Phase, Prediction,
    Predictor, Resolve, RlOptions,
};
use laau_core::{
    Constant, Fit, Fitted, Multiplier, Observation, Policy, Query, Solutions, StepSolver, Task, Unrolled,
    mean_utility, rollout, rollout_all,
};
use rayon::ThreadPoolBuilder;

use crate::strong::cloud;
use crate::workload::{fairness, fit, general, generator, independent, log_utility, policy};

/// The actions of a policy on the contexts, with half of the budget left at every step. If `spoiled`, the contexts
/// of the steps before are not numbers any more: who reads them again cannot go on as before.
fn play(task: &Task, policy: &dyn Policy, contexts: &[f64], spoiled: bool) -> Vec<f64> {
    let dimensions = task.problem.dimensions();
    let (len, horizon) = (dimensions.context, contexts.len() / dimensions.context);
    let half = vec![6.0 * horizon as f64; dimensions.budgets];
    let mut agent = policy.begin();
    let (mut actions, mut action) = (Vec::new(), vec![0.0; dimensions.actions]);
    for step in 0..horizon {
        let mut seen = contexts[..(step + 1) * len].to_vec();
        if spoiled {
            seen[..step * len].fill(f64::NAN);
        }
        let observation = Observation {
            step,
            horizon,
            contexts: &seen,
            context_len: len,
            budgets: &half,
            remaining: &half,
            available: &half,
        };
        agent.decide(&observation, &mut action).unwrap();
        actions.extend_from_slice(&action);
    }
    actions
}

fn assert_read_once(task: &Task, fitted: &Fitted, contexts: &[f64]) {
    let [whole, spoiled] = [false, true].map(|spoiled| play(task, policy(fitted), contexts, spoiled));
    assert_eq!(
        whole,
        spoiled,
        "{}: {:?}",
        policy(fitted).name(),
        fitted.parameters
    );
}

#[test]
fn the_resolve_and_the_dynamic_program_do_not_read_a_context_twice() {
    let task = fairness();
    let train = cloud(&mut generator(41), 60, 12, true);
    for prediction in [Prediction::Prior, Prediction::ShrunkMean, Prediction::Regression] {
        let options = CeOptions {
            prediction,
            ..CeOptions::default()
        };
        let fitted = fit(&options, &task, &train, &train).unwrap();
        assert_read_once(&task, &fitted, train.get(0).contexts());
    }
    for memory in [Memory::Independent, Memory::Markov, Memory::RunningMean] {
        let options = DpOptions {
            memory,
            ..DpOptions::default()
        };
        let fitted = fit(&options, &task, &train, &train).unwrap();
        assert_read_once(&task, &fitted, train.get(0).contexts());
    }
    let task = general(log_utility());
    let train = independent(&*task.problem, &mut generator(42), (10, 8), (0.1, 0.5));
    let fitted = fit(&CeOptions::default(), &task, &train, &train).unwrap();
    assert_read_once(&task, &fitted, train.get(0).contexts());
}

#[test]
fn the_running_statistics_give_the_price_of_the_whole_history_to_the_bit() {
    let task = fairness();
    let train = cloud(&mut generator(43), 60, 12, true);
    for predictor in [
        Predictor::shrunk_mean(&train),
        Predictor::regression(&train, true, 1e-4),
        Predictor::regression(&train, false, 1e-4),
    ] {
        let price = CertaintyEquivalent::new(&task, predictor.clone()).unwrap();
        let policy = Resolve::new(&task, predictor).unwrap();
        let contexts = train.get(1).contexts();
        let played = play(&task, &policy, contexts, false);
        let mut solution = Solutions::new(task.problem.dimensions(), 1);
        let half = [6.0 * contexts.len() as f64];
        for step in 0..contexts.len() - 1 {
            let observation = Observation {
                step,
                horizon: contexts.len(),
                contexts: &contexts[..=step],
                context_len: 1,
                budgets: &half,
                remaining: &half,
                available: &half,
            };
            let mut multiplier = [0.0];
            price.begin().price(&observation, &mut multiplier).unwrap();
            let query = Query {
                context: observation.context(),
                multiplier: &multiplier,
                available: &half,
            };
            task.solver.clone().solve(query, solution.row_mut(0)).unwrap();
            assert_eq!(played[step], solution.row(0).action[0], "step {step}");
        }
    }
}

#[test]
fn validation_allocates_neither_in_a_step_nor_in_an_episode() {
    const EPISODES: usize = 512;
    let task = fairness();
    let set = cloud(&mut generator(43), EPISODES, 20, true);
    let few = cloud(&mut generator(44), 20, 20, true);
    let quick = RlOptions {
        schedule: vec![Phase {
            epochs: 1,
            learning_rate: 5e-3,
        }],
        ..RlOptions::default()
    };
    let constant = Unrolled::new("constant", Constant(vec![0.1]), task.solver.clone()).unwrap();
    let fits: [Box<dyn Fit>; 6] = [
        Box::new(EqualOptions::default()),
        Box::new(DualDescentOptions::dgd()),
        Box::new(DualDescentOptions::mw()),
        Box::new(CeOptions::default()),
        Box::new(DpOptions::default()),
        Box::new(quick),
    ];
    let fitted = fits.map(|options| fit(&options, &task, &few, &few).unwrap());
    // The counter is that of a thread: all episodes are played by this one.
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for policy in fitted.iter().map(policy).chain([&constant as &dyn Policy]) {
        let play = || task.mean_utility(policy, &set).unwrap();
        let (count, utility) = pool.install(|| {
            let mut utility = 0.0;
            let info = allocation_counter::measure(|| utility = play());
            (info.count_total, utility)
        });
        assert!(
            count < EPISODES as u64 / 4,
            "{}: {count} allocations in {EPISODES} episodes",
            policy.name()
        );
        // The same bits as from whole records, on any number of threads.
        let rollouts = rollout_all(&*task.problem, policy, &set).unwrap();
        assert_eq!(utility.to_bits(), mean_utility(&rollouts).to_bits());
        assert_eq!(utility.to_bits(), play().to_bits());
    }
}

#[test]
fn a_record_of_an_episode_allocates_its_columns_and_no_more_for_more_steps() {
    let task = fairness();
    let policy = Unrolled::new("constant", Constant(vec![0.1]), task.solver.clone()).unwrap();
    let counts = [10, 400].map(|horizon| {
        let set = cloud(&mut generator(45), 1, horizon, true);
        let episode = set.get(0);
        let info = allocation_counter::measure(|| {
            rollout(&*task.problem, &policy, &episode).unwrap();
        });
        info.count_total
    });
    assert_eq!(counts[0], counts[1]);
}
