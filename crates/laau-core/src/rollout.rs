//! Plays policies on episodes.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::advised::Fallback;
use crate::episode::{Episode, Episodes};
use crate::episode_run::EpisodeRun;
use crate::error::Error;
use crate::guard::Certificate;
use crate::hindsight::{Hindsight, Replay};
use crate::policy::{Agent, Policy};
use crate::problem::{Dimensions, Problem};

/// The record of one episode. All but the words of the first error are serialised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// The actions taken, `N × d`.
    pub actions: Vec<f64>,
    /// The price of each budget at each step, `N × M`; empty for a policy without prices.
    pub multipliers: Vec<f64>,
    /// The usage paid, `N × M`.
    pub usages: Vec<f64>,
    /// The cost of each step.
    pub costs: Vec<f64>,
    /// What remained of each budget at the end, rounded down.
    pub remaining: Vec<f64>,
    /// Steps in which the policy chose an action that cannot be paid or is outside the box. It was refused, and the lower
    /// corner taken instead.
    pub violations: usize,
    /// Steps in which the policy returned an error. The lower corner was taken instead.
    pub failures: usize,
    /// The first such error.
    #[serde(skip)]
    pub first_failure: Option<Error>,
    /// How often the named projection acted.
    pub projections: usize,
    /// Steps whose action was feasible but short of the layer's tolerance.
    pub unconverged: usize,
    /// What a guard kept of its promise, for a policy behind one.
    pub certificate: Option<Certificate>,
}

impl Rollout {
    /// The utility per step: the negative of the mean cost.
    #[must_use]
    pub fn utility(&self) -> f64 {
        utility(&self.costs)
    }
}

fn utility(costs: &[f64]) -> f64 {
    -costs.iter().sum::<f64>() / costs.len() as f64
}

/// The mean utility per step of several rollouts; 0 of none.
#[must_use]
pub fn mean_utility(rollouts: &[Rollout]) -> f64 {
    rollouts.iter().map(Rollout::utility).sum::<f64>() / rollouts.len().max(1) as f64
}

/// Plays one episode.
///
/// # Errors
/// When the problem cannot be played on the episode, for example [`Error::AtStep`] for a context that it refuses; never
/// because of what the policy does.
pub fn rollout(problem: &dyn Problem, policy: &dyn Policy, episode: &Episode<'_>) -> Result<Rollout, Error> {
    Stage::new(problem, policy).rollout(episode)
}

/// Plays one episode after the other, with one agent if it restarts.
#[cfg(feature = "conformance")]
pub(crate) fn rollouts_in_turn(
    problem: &dyn Problem,
    policy: &dyn Policy,
    episodes: &[Episode<'_>],
) -> Result<Vec<Rollout>, Error> {
    let mut stage = Stage::new(problem, policy);
    episodes.iter().map(|episode| stage.rollout(episode)).collect()
}

/// A policy on a problem, with the memory that one episode leaves to the next.
struct Stage<'a> {
    problem: &'a dyn Problem,
    policy: &'a dyn Policy,
    run: Option<EpisodeRun<'a>>,
    agent: Option<Box<dyn Agent + 'a>>,
    action: Vec<f64>,
    costs: Vec<f64>,
}

impl<'a> Stage<'a> {
    fn new(problem: &'a dyn Problem, policy: &'a dyn Policy) -> Self {
        Self {
            problem,
            policy,
            run: None,
            agent: None,
            action: vec![0.0; problem.dimensions().actions],
            costs: Vec::new(),
        }
    }

    /// Plays an episode and shows every step that was paid: the agent, the action, its usage, and why it is not the agent's own.
    /// Leaves the costs of the steps behind.
    fn play(
        &mut self,
        episode: &Episode<'_>,
        mut each: impl FnMut(&dyn Agent, &[f64], &[f64], Option<Fallback>),
    ) -> Result<(&EpisodeRun<'a>, &dyn Agent), Error> {
        let (problem, policy, horizon) = (self.problem, self.policy, episode.horizon());
        let run = match self.run.take() {
            Some(mut run) => {
                run.reopen(horizon, episode.budgets())?;
                run
            }
            None => EpisodeRun::new(problem, horizon, episode.budgets())?,
        };
        let run = self.run.insert(run);
        let kept = self.agent.take_if(|agent| agent.restart());
        // An agent that cannot play again is gone before the next one begins.
        self.agent = None;
        let agent = self.agent.insert(kept.unwrap_or_else(|| policy.begin()));
        self.costs.clear();
        self.costs.reserve(horizon);
        for step in 0..horizon {
            let context = episode.context(step);
            let revealed = run.reveal(context).map_err(|error| error.at_step(step))?;
            let decided = revealed.pay_by(&mut **agent, &mut self.action);
            let (usage, fallback) = decided.map_err(|error| error.at_step(step))?;
            self.costs.push(problem.cost(&self.action, context));
            each(&**agent, &self.action, usage, fallback);
        }
        Ok((run, &**agent))
    }

    fn rollout(&mut self, episode: &Episode<'_>) -> Result<Rollout, Error> {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let horizon = episode.horizon();
        let mut result = Rollout {
            actions: Vec::with_capacity(horizon * d),
            multipliers: Vec::new(),
            usages: Vec::with_capacity(horizon * m),
            costs: Vec::new(),
            remaining: Vec::new(),
            violations: 0,
            failures: 0,
            first_failure: None,
            projections: 0,
            unconverged: 0,
            certificate: None,
        };
        let (run, agent) = self.play(episode, |agent, action, usage, fallback| {
            match fallback {
                None => {}
                Some(Fallback::Refused(_)) => result.violations += 1,
                Some(Fallback::Failed(error)) => {
                    result.failures += 1;
                    result.first_failure.get_or_insert(error);
                }
            }
            result.actions.extend_from_slice(action);
            result.usages.extend_from_slice(usage);
            if let Some(prices) = agent.multiplier() {
                if result.multipliers.capacity() == 0 {
                    result.multipliers.reserve_exact(horizon * m);
                }
                result.multipliers.extend_from_slice(prices);
            }
        })?;
        result.projections = agent.projections();
        result.unconverged = agent.unconverged();
        result.certificate = agent.certificate();
        result.remaining = run.remaining().to_vec();
        result.costs.clone_from(&self.costs);
        Ok(result)
    }

    fn utility(&mut self, episode: &Episode<'_>) -> Result<f64, Error> {
        self.play(episode, |_, _, _, _| {})?;
        Ok(utility(&self.costs))
    }
}

/// Plays all episodes, in parallel unless the policy is sequential; the result does not depend on the number of threads.
///
/// # Errors
/// When the problem cannot be played on the episodes.
pub fn rollout_all(
    problem: &dyn Problem,
    policy: &dyn Policy,
    episodes: &Episodes,
) -> Result<Vec<Rollout>, Error> {
    episodes.check(problem)?;
    rollout_range(problem, policy, episodes, 0..episodes.len())
}

/// Plays all episodes as [`rollout_all`] does, and keeps the utility per step of each, [`Rollout::utility`], to the same bits. A policy
/// whose agents restart ([`Agent::restart`]) allocates nothing in an episode.
///
/// # Errors
/// As [`rollout_all`].
pub fn utilities(problem: &dyn Problem, policy: &dyn Policy, episodes: &Episodes) -> Result<Vec<f64>, Error> {
    utilities_of(problem, policy, episodes, 0..episodes.len())
}

/// The same for some of the episodes.
///
/// # Errors
/// As [`rollout_all`].
///
/// # Panics
/// When the range is not within the set.
pub fn utilities_of(
    problem: &dyn Problem,
    policy: &dyn Policy,
    episodes: &Episodes,
    range: Range<usize>,
) -> Result<Vec<f64>, Error> {
    let played = play_range(problem, policy, episodes, range, Stage::utility);
    // Every step is checked as it is played; of several faults the set's own check names the same one in any order of play.
    played.map_err(|error| episodes.check(problem).err().unwrap_or(error))
}

/// Plays some of the episodes, which have been checked.
pub(crate) fn rollout_range(
    problem: &dyn Problem,
    policy: &dyn Policy,
    episodes: &Episodes,
    range: Range<usize>,
) -> Result<Vec<Rollout>, Error> {
    play_range(problem, policy, episodes, range, Stage::rollout)
}

fn play_range<'a, T: Send>(
    problem: &'a dyn Problem,
    policy: &'a dyn Policy,
    episodes: &Episodes,
    range: Range<usize>,
    play: impl Fn(&mut Stage<'a>, &Episode<'_>) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    /// Fewer are not worth the memory that they share.
    const LEAST_EPISODES: usize = 16;
    let stage = || Stage::new(problem, policy);
    let play = |stage: &mut Stage<'a>, index: usize| {
        play(stage, &episodes.get(index)).map_err(|error| error.in_episode(index))
    };
    if policy.is_sequential() {
        return range.map(|index| play(&mut stage(), index)).collect();
    }
    range
        .into_par_iter()
        .with_min_len(LEAST_EPISODES)
        .map_init(stage, play)
        .collect()
}

/// Plans and plays all episodes in hindsight, in parallel.
///
/// # Errors
/// When the problem cannot be played on the episodes, or a plan fails.
pub fn rollout_hindsight(
    problem: &dyn Problem,
    hindsight: &dyn Hindsight,
    episodes: &Episodes,
) -> Result<Vec<Rollout>, Error> {
    episodes.check(problem)?;
    hindsight_range(problem, hindsight, episodes, 0..episodes.len())
}

/// Plans and plays some of the episodes, which have been checked.
pub(crate) fn hindsight_range(
    problem: &dyn Problem,
    hindsight: &dyn Hindsight,
    episodes: &Episodes,
    range: Range<usize>,
) -> Result<Vec<Rollout>, Error> {
    let width = episodes.horizon() * problem.dimensions().actions;
    range
        .into_par_iter()
        .map(|index| {
            let episode = episodes.get(index);
            let mut plan = vec![0.0; width];
            hindsight
                .plan(&episode, &mut plan)
                .and_then(|()| {
                    let plan = Replay::new(hindsight.name(), plan, problem);
                    rollout(problem, &plan, &episode)
                })
                .map_err(|error| error.in_episode(index))
        })
        .collect()
}
