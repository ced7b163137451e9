use super::assert_dimensions;
use crate::episode::Episodes;
use crate::episode_run::EpisodeRun;
use crate::error::Error;
use crate::policy::Policy;
use crate::problem::{Dimensions, Problem};
use crate::rollout::{Rollout, rollout, rollout_all, rollouts_in_turn};

/// Checks a policy on the given episodes and on hard ones made from them: never a violation or a failure, agents that
/// do not disturb each other and restart as new ones, the same answers at every call, the same prices with and without a decision.
pub fn policy(problem: &dyn Problem, policy: &dyn Policy, episodes: &Episodes) {
    assert_dimensions(problem);
    for (kind, set) in [("given", episodes.clone())]
        .into_iter()
        .chain(hard_episodes(problem, episodes))
    {
        let rollouts = match rollout_all(problem, policy, &set) {
            Ok(rollouts) => rollouts,
            Err(error) => panic!("{}: {kind} episodes cannot be played: {error}", policy.name()),
        };
        for (index, result) in rollouts.iter().enumerate() {
            let name = policy.name();
            let Rollout {
                violations, failures, ..
            } = result;
            assert!(
                *violations == 0,
                "{name}: {violations} violations in {kind} episode {index}"
            );
            assert!(
                *failures == 0,
                "{name}: {kind} episode {index}: {:?}",
                result.first_failure
            );
            assert!(
                result.costs.iter().all(|c| c.is_finite()),
                "{name}: {kind} episode {index}: a cost is not finite"
            );
        }
        let again = rollout(problem, policy, &set.get(0)).expect("it was played before");
        assert!(
            again == rollouts[0],
            "{}: the same {kind} episode gave two different rollouts",
            policy.name()
        );
    }
    an_agent_that_restarts_plays_as_a_new_one(problem, policy, episodes);
    agents_do_not_disturb_each_other(problem, policy, episodes);
    a_step_that_is_only_priced_has_the_prices_of_its_decision(problem, policy, episodes);
}

/// Episodes at the edges: least and boundless budgets; contexts that are constant, spiked, rising, falling.
fn hard_episodes(problem: &dyn Problem, episodes: &Episodes) -> Vec<(&'static str, Episodes)> {
    let Dimensions { budgets: m, .. } = problem.dimensions();
    let (horizon, q) = (episodes.horizon(), episodes.context_len());
    let first = episodes.get(0);
    let mut least = vec![0.0; m];
    problem.reserve(horizon, &mut least);
    let mut most = vec![0.0; m];
    for step in 0..horizon {
        let mut usage = vec![0.0; m];
        problem.usage(problem.upper(), first.context(step), &mut usage);
        for i in 0..m {
            most[i] += 2.0 * usage[i];
        }
    }
    let make = |contexts: Vec<f64>, budgets: Vec<f64>| {
        Episodes::new(horizon, q, m, contexts, budgets).expect("made of valid contexts and budgets")
    };
    // Steps ordered by the size of their contexts: rising, falling, one spike among the least.
    let mut order: Vec<usize> = (0..horizon).collect();
    let size = |step: &usize| first.context(*step).iter().map(|c| c.abs()).sum::<f64>();
    order.sort_by(|a, b| size(a).total_cmp(&size(b)));
    let arrange = |steps: &[usize]| {
        steps
            .iter()
            .flat_map(|s| first.context(*s).to_vec())
            .collect::<Vec<_>>()
    };
    let reversed: Vec<usize> = order.iter().rev().copied().collect();
    let mut spike = vec![order[0]; horizon];
    spike[horizon / 2] = order[horizon - 1];
    let own = first.budgets().to_vec();
    vec![
        ("least-budget", make(first.contexts().to_vec(), least)),
        ("boundless-budget", make(first.contexts().to_vec(), most)),
        (
            "constant",
            make(arrange(&vec![order[horizon / 2]; horizon]), own.clone()),
        ),
        ("rising", make(arrange(&order), own.clone())),
        ("falling", make(arrange(&reversed), own.clone())),
        ("spiked", make(arrange(&spike), own)),
    ]
}

/// One agent on all episodes, the hard ones too, forwards and backwards, against a new one on each.
fn an_agent_that_restarts_plays_as_a_new_one(
    problem: &dyn Problem,
    policy: &dyn Policy,
    episodes: &Episodes,
) {
    if policy.is_sequential() {
        return;
    }
    let hard = hard_episodes(problem, episodes);
    let sets = hard.iter().map(|(_, set)| set).chain([episodes]);
    let mut all: Vec<_> = sets.flat_map(Episodes::iter).collect();
    all.extend(all.clone().into_iter().rev());
    let in_turn = rollouts_in_turn(problem, policy, &all).expect("they were played before");
    for (episode, found) in all.iter().zip(&in_turn) {
        let alone = rollout(problem, policy, episode).expect("it was played before");
        assert!(
            *found == alone,
            "{}: an agent that restarts plays otherwise than a new one",
            policy.name()
        );
    }
}

fn agents_do_not_disturb_each_other(problem: &dyn Problem, policy: &dyn Policy, episodes: &Episodes) {
    let d = problem.dimensions().actions;
    let pair = [episodes.get(0), episodes.get(episodes.len() - 1)];
    let alone = pair.map(|episode| {
        rollout(problem, policy, &episode)
            .expect("it was played before")
            .actions
    });
    let mut agents = pair.map(|_| policy.begin());
    let mut runs =
        pair.map(|e| EpisodeRun::new(problem, e.horizon(), e.budgets()).expect("it was played before"));
    for step in 0..episodes.horizon() {
        for k in 0..2 {
            let mut action = problem.lower().to_vec();
            let mut decide = || {
                let step = runs[k].reveal(pair[k].context(step))?;
                agents[k].decide(&step.observation(), &mut action)?;
                step.pay(&action)?;
                Ok(())
            };
            decide().unwrap_or_else(|error: Error| panic!("{}: step {step}: {error}", policy.name()));
            assert!(
                action == alone[k][step * d..][..d],
                "{}: two episodes at once give other actions than one after the other",
                policy.name()
            );
        }
    }
}

fn a_step_that_is_only_priced_has_the_prices_of_its_decision(
    problem: &dyn Problem,
    policy: &dyn Policy,
    episodes: &Episodes,
) {
    let episode = episodes.get(0);
    let (mut deciding, mut pricing) = (policy.begin(), policy.begin());
    let mut run =
        EpisodeRun::new(problem, episode.horizon(), episode.budgets()).expect("it was played before");
    let mut action = problem.lower().to_vec();
    for index in 0..episode.horizon() {
        let step = run.reveal(episode.context(index)).expect("it was played before");
        let Some(priced) = pricing.price(&step.observation()) else {
            assert!(index == 0, "{}: step {index} is not priced", policy.name());
            return;
        };
        let decided = deciding.decide(&step.observation(), &mut action);
        assert!(
            priced.is_ok() && decided.is_ok() && pricing.multiplier() == deciding.multiplier(),
            "{}: step {index}: priced alone {:?}, decided {:?}",
            policy.name(),
            pricing.multiplier(),
            deciding.multiplier()
        );
        step.pay(&action).expect("it was played before");
    }
}
