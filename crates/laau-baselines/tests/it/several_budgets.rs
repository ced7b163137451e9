//! Several budgets: what cannot be paid is decided by the layer or the nearest action, never by the line to the lower corner.

use laau_baselines::{
    AvgLt, AvgLtOptions, DualDescent, DualDescentParameters, EndToEnd, Mirror, PriceScale, RlOptions,
    RlParameters, Start,
};
use laau_core::problems::LogUtility;
use laau_core::{
    Differentiate, Observation, Policy, Query, Rollout, Solutions, StepSolver, Task, rollout, rollout_all,
};
use rand::RngExt;

use crate::workload::{fit, general, generator, independent, log_utility};

/// The layer's own answer.
fn layer(task: &Task, context: &[f64], multiplier: &[f64], available: &[f64]) -> Vec<f64> {
    let mut solution = Solutions::new(task.problem.dimensions(), 1);
    let query = Query {
        context,
        multiplier,
        available,
    };
    task.solver.clone().solve(query, solution.row_mut(0)).unwrap();
    assert!(solution.row(0).status.is_solved());
    solution.row(0).action.to_vec()
}

/// Two actions with separate budgets.
fn apart() -> Task {
    general(LogUtility::new(2, 2, vec![1.0, 0.0, 0.0, 1.0], 0.1, 10.0).unwrap())
}

/// A step in the middle of an episode, with little of the first budget and plenty of the second.
fn pressed<'a>(contexts: &'a [f64], available: &'a [f64; 2]) -> Observation<'a> {
    Observation {
        step: 0,
        horizon: 4,
        contexts,
        context_len: contexts.len(),
        budgets: &[20.0, 20.0],
        remaining: &[20.0, 20.0],
        available,
    }
}

#[test]
fn avg_lt_plays_the_layer_at_its_price() {
    let task = general(log_utility());
    let mut rng = generator(31);
    let episodes = independent(&*task.problem, &mut rng, (20, 10), (0.05, 0.3));
    let price = AvgLtOptions::default()
        .average_multiplier(&task, &episodes)
        .unwrap();
    let policy = AvgLt::new(&task, price.clone()).unwrap();
    let (mut agent, mut action) = (policy.begin(), [0.0; 3]);
    for step in 0..20 {
        let contexts = episodes.get(step).context(0).to_vec();
        let available = [0.3 + 0.1 * step as f64, 2.5 - 0.1 * step as f64];
        let observation = pressed(&contexts, &available);
        agent.decide(&observation, &mut action).unwrap();
        assert_eq!(action[..], layer(&task, &contexts, &price, &available));
    }
    // The price holds to the last step, and nothing is projected.
    for rollout in rollout_all(&*task.problem, &policy, &episodes).unwrap() {
        assert_eq!(rollout.projections, 0);
        assert!(rollout.multipliers.chunks_exact(2).all(|found| found == price));
    }
}

#[test]
fn an_exhausted_budget_does_not_cost_avg_lt_the_others() {
    let task = apart();
    let policy = AvgLt::new(&task, vec![0.2, 0.2]).unwrap();
    let mut action = [0.0; 2];
    let observation = pressed(&[1.0, 1.0], &[0.1, 20.0]);
    policy.begin().decide(&observation, &mut action).unwrap();
    assert!(
        (action[0] - 0.1).abs() < 1e-12 && (action[1] - 5.0).abs() < 1e-9,
        "{action:?}"
    );
}

#[test]
fn descent_plays_the_layer_where_its_action_cannot_be_paid_and_learns_from_what_it_wanted() {
    let task = general(log_utility());
    let (price, share) = ([0.1, 0.2], 5.0);
    let parameters = DualDescentParameters {
        step_size: 1.0,
        start: Start::At(price.to_vec()),
        scale: PriceScale::Given(vec![1.0, 1.0]),
    };
    let contexts = [0.5, 0.9, 0.3, 0.5, 0.9, 0.3];
    let now = &contexts[..3];
    let wanted = layer(&task, now, &price, &[1e4, 1e4]);
    let mut used = [0.0; 2];
    task.problem.usage(&wanted, now, &mut used);
    for mirror in [Mirror::Euclidean, Mirror::Entropic] {
        let policy = DualDescent::new(&task, mirror, parameters.clone()).unwrap();
        for (available, cut) in [([20.0, 20.0], 0), ([20.0, 1.0], 1), ([0.9, 1.7], 1)] {
            let (mut agent, mut action) = (policy.begin(), [0.0; 3]);
            agent.decide(&pressed(now, &available), &mut action).unwrap();
            let expected = layer(&task, now, &price, &available);
            for (found, expected) in action.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-9, "{action:?}, not {expected:?}");
            }
            assert_eq!((agent.projections(), agent.multiplier()), (cut, Some(&price[..])));

            let later = Observation {
                step: 1,
                contexts: &contexts,
                context_len: 3,
                ..pressed(now, &[20.0, 20.0])
            };
            agent.decide(&later, &mut action).unwrap();
            for m in 0..2 {
                // η = 1/√4.
                let saving = 0.5 * (1.0 - used[m] / share);
                let expected = match mirror {
                    Mirror::Euclidean => (price[m] - saving).max(0.0),
                    Mirror::Entropic => price[m] * (-saving).exp(),
                };
                let found = agent.multiplier().unwrap()[m];
                assert!(
                    (found - expected).abs() < 1e-6 * expected,
                    "{found}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn descent_spends_a_budget_although_the_other_is_exhausted() {
    // The first budget is gone after a few steps at a price that is far too low; the second is priced right.
    let task = apart();
    let contexts = [1.0; 20];
    let episode = laau_core::Episode::new(&contexts, 2, &[4.0, 20.0]).unwrap();
    for mirror in [Mirror::Euclidean, Mirror::Entropic] {
        let parameters = DualDescentParameters {
            step_size: 1e-3,
            start: Start::At(vec![0.2, 0.5]),
            scale: PriceScale::Given(vec![1.0, 1.0]),
        };
        let policy = DualDescent::new(&task, mirror, parameters).unwrap();
        let played: Rollout = rollout(&*task.problem, &policy, &episode).unwrap();
        assert!(played.projections > 5, "{}", played.projections);
        for action in played.actions.chunks_exact(2) {
            assert!((action[1] - 2.0).abs() < 0.05, "{:?}", played.actions);
        }
    }
}

/// A network that wants the same action whatever it sees.
fn wants(task: &Task, wanted: &[f64]) -> Result<EndToEnd, laau_core::Error> {
    /// `softplus` is 1 here.
    const ONE: f64 = 0.541_324_854_612_918_2;
    let dimensions = task.problem.dimensions();
    let (inputs, outputs) = (dimensions.budgets + dimensions.context + 1, wanted.len());
    let mut weights = vec![0.0; (inputs + 1) + 2 + 2 * outputs];
    let biases = weights.len() - outputs;
    weights[biases..].fill(ONE);
    let model = RlParameters {
        hidden: 1,
        weights,
        budget_scale: vec![1.0; dimensions.budgets],
        action_scale: wanted.to_vec(),
    };
    EndToEnd::new(task, model)
}

#[test]
fn a_network_loses_only_what_the_exhausted_budget_takes() {
    let policy = wants(&apart(), &[5.0, 5.0]).unwrap();
    for (available, expected, moved) in [
        ([20.0, 20.0], [5.0, 5.0], 0),
        ([0.1, 20.0], [0.1, 5.0], 1),
        ([2.0, 3.0], [2.0, 3.0], 1),
        ([0.1, 0.1], [0.1, 0.1], 1),
    ] {
        let (mut agent, mut action) = (policy.begin(), [0.0; 2]);
        agent
            .decide(&pressed(&[1.0, 1.0], &available), &mut action)
            .unwrap();
        for (found, expected) in action.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{action:?} of {available:?}");
        }
        assert_eq!(agent.projections(), moved, "{available:?}");
    }
}

#[test]
fn no_payable_action_is_nearer_to_what_a_network_wants() {
    let task = general(log_utility());
    let mut rng = generator(32);
    let distance = |x: &[f64], wanted: &[f64]| -> f64 {
        let squares = x.iter().zip(wanted).map(|(x, a)| (x - a) * (x - a));
        squares.sum::<f64>().sqrt()
    };
    for _ in 0..20 {
        let wanted: [f64; 3] = std::array::from_fn(|_| rng.random_range(0.2..14.0));
        let available = [rng.random_range(0.2..8.0), rng.random_range(0.2..8.0)];
        let (policy, mut action) = (wants(&task, &wanted).unwrap(), [0.0; 3]);
        policy
            .begin()
            .decide(&pressed(&[1.0; 3], &available), &mut action)
            .unwrap();
        let found = distance(&action, &wanted);
        let mut usage = [0.0; 2];
        for _ in 0..2000 {
            // Around the action found, and anywhere in the box.
            let reach = if rng.random_bool(0.5) { 0.3 } else { 10.0 };
            let other = action.map(|x| (x + rng.random_range(-reach..reach)).clamp(0.1, 10.0));
            task.problem.usage(&other, &[1.0; 3], &mut usage);
            if usage[0] <= available[0] && usage[1] <= available[1] {
                let other_distance = distance(&other, &wanted);
                assert!(
                    other_distance >= found - 1e-9,
                    "{other:?} is nearer to {wanted:?} than {action:?}"
                );
            }
        }
    }
}

#[test]
fn a_network_of_several_actions_asks_for_a_projector_that_fits() {
    let complete = general(log_utility());
    let without = Task::new(complete.problem.clone(), complete.solver.clone());
    let expected = "expected a projector for 3 actions (`Task::with_projector`), found none";
    assert_eq!(wants(&without, &[1.0; 3]).err().unwrap().to_string(), expected);
    let episodes = independent(&*complete.problem, &mut generator(33), (2, 3), (0.1, 0.3));
    let unfitted = fit(&RlOptions::default(), &without, &episodes, &episodes);
    assert_eq!(unfitted.err().unwrap().to_string(), expected);

    // The layer itself is no projector: its context has no target.
    let layer: Box<dyn Differentiate> = complete.solver.clone();
    let error = without.with_projector(layer).err().unwrap();
    assert_eq!(
        error.to_string(),
        "expected 6 values for the projector's context, found 3"
    );
}
