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
use crate::policy::Policy;
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
        -self.costs.iter().sum::<f64>() / self.costs.len() as f64
    }
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
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = problem.dimensions();
    let horizon = episode.horizon();
    let mut run = EpisodeRun::new(problem, horizon, episode.budgets())?;
    let mut agent = policy.begin();
    let mut result = Rollout {
        actions: Vec::with_capacity(horizon * d),
        multipliers: Vec::new(),
        usages: Vec::with_capacity(horizon * m),
        costs: Vec::with_capacity(horizon),
        remaining: Vec::new(),
        violations: 0,
        failures: 0,
        first_failure: None,
        projections: 0,
        unconverged: 0,
        certificate: None,
    };
    let mut action = vec![0.0; d];
    for step in 0..horizon {
        let context = episode.context(step);
        let revealed = run.reveal(context).map_err(|error| error.at_step(step))?;
        let decided = revealed.pay_by(&mut *agent, &mut action);
        let (usage, fallback) = decided.map_err(|error| error.at_step(step))?;
        match fallback {
            None => {}
            Some(Fallback::Refused(_)) => result.violations += 1,
            Some(Fallback::Failed(error)) => {
                result.failures += 1;
                result.first_failure.get_or_insert(error);
            }
        }
        result.actions.extend_from_slice(&action);
        result.usages.extend_from_slice(usage);
        result.costs.push(problem.cost(&action, context));
        if let Some(prices) = agent.multiplier() {
            result.multipliers.extend_from_slice(prices);
        }
    }
    result.projections = agent.projections();
    result.unconverged = agent.unconverged();
    result.certificate = agent.certificate();
    result.remaining = run.remaining().to_vec();
    Ok(result)
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

/// Plays some of the episodes, which have been checked.
pub(crate) fn rollout_range(
    problem: &dyn Problem,
    policy: &dyn Policy,
    episodes: &Episodes,
    range: Range<usize>,
) -> Result<Vec<Rollout>, Error> {
    let play =
        |index| rollout(problem, policy, &episodes.get(index)).map_err(|error| error.in_episode(index));
    if policy.is_sequential() {
        return range.map(play).collect();
    }
    range.into_par_iter().map(play).collect()
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
