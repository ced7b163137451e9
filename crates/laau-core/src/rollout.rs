//! Plays policies on episodes.

use std::sync::Arc;

use rayon::prelude::*;

use crate::episode::{Episode, Episodes};
use crate::error::{Error, expect_finite, expect_length};
use crate::hindsight::{Hindsight, replay};
use crate::ledger::Ledger;
use crate::policy::{Agent, Observation, Policy};
use crate::problem::{Dimensions, Problem, least_budgets};

/// How one episode went.
#[derive(Debug, Clone, PartialEq)]
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
    /// Steps in which the policy asked for what cannot be paid, or left the box. The ledger refused; the lower corner
    /// was taken instead.
    pub violations: usize,
    /// Steps in which the policy gave an error. The lower corner was taken instead.
    pub failures: usize,
    /// The first such error.
    pub first_failure: Option<Error>,
    /// How often the named projection acted.
    pub projections: usize,
    /// Steps whose action was feasible but short of the layer's tolerance.
    pub unconverged: usize,
}

impl Rollout {
    /// The utility per step: the negative of the mean cost.
    #[must_use]
    pub fn utility(&self) -> f64 {
        -self.costs.iter().sum::<f64>() / self.costs.len() as f64
    }
}

/// An episode in progress: the ledger, the contexts so far, the step. The driver of every rollout, and of a policy in
/// service.
#[derive(Clone)]
pub struct Progress<'a> {
    problem: &'a dyn Problem,
    ledger: Ledger,
    budgets: Vec<f64>,
    contexts: Vec<f64>,
    horizon: usize,
    step: usize,
    /// Whether the last of the contexts is that of the current step.
    revealed: bool,
    least: Vec<f64>,
    available: Vec<f64>,
    /// What the last action that was paid used, and what the one in hand asks for.
    usage: Vec<f64>,
    asked: Vec<f64>,
}

impl<'a> Progress<'a> {
    /// Opens an episode.
    ///
    /// # Errors
    /// [`Error::WrongLength`] or [`Error::BudgetTooSmall`] when the problem cannot be played with these budgets.
    pub fn new(problem: &'a dyn Problem, horizon: usize, budgets: &[f64]) -> Result<Self, Error> {
        // Memory for longer episodes is taken as their contexts come: a horizon may be a mere upper bound.
        const MOST_CONTEXTS_AT_ONCE: usize = 1 << 16;
        let Dimensions {
            budgets: m, context, ..
        } = problem.dimensions();
        expect_length("the budgets", budgets, m)?;
        if horizon == 0 {
            return Err(Error::WrongLength {
                what: "a horizon",
                expected: 1,
                found: 0,
            });
        }
        let ledger = Ledger::new(budgets)?;
        let smallest = least_budgets(problem, horizon);
        if let Some(resource) = budgets
            .iter()
            .zip(&smallest)
            .position(|(budget, smallest)| budget < smallest)
        {
            return Err(Error::BudgetTooSmall {
                episode: 0,
                resource,
                budget: budgets[resource],
                least: smallest[resource],
                horizon,
            });
        }
        let mut least = vec![0.0; m];
        problem.least_usage(&mut least);
        Ok(Self {
            problem,
            ledger,
            budgets: budgets.to_vec(),
            contexts: Vec::with_capacity(horizon.saturating_mul(context).min(MOST_CONTEXTS_AT_ONCE)),
            horizon,
            step: 0,
            revealed: false,
            least,
            available: vec![0.0; m],
            usage: vec![0.0; m],
            asked: vec![0.0; m],
        })
    }

    /// The current step, from 0; the horizon when the episode is over.
    #[must_use]
    pub fn step(&self) -> usize {
        self.step
    }

    /// Whether all steps have been taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.step == self.horizon
    }

    /// What remains of each budget, rounded down.
    #[must_use]
    pub fn remaining(&self) -> &[f64] {
        self.ledger.remaining()
    }

    /// The usage of the last action that was paid.
    #[must_use]
    pub fn last_usage(&self) -> &[f64] {
        &self.usage
    }

    /// Reveals the context of the current step and lets an agent decide on it. Nothing is paid yet.
    ///
    /// # Errors
    /// The agent's: the context is then revealed, and any action can be paid for it. Or, for a context that is refused,
    /// [`Error::WrongLength`], [`Error::NotFinite`] or the problem's own, and [`Error::EpisodeOver`]: it is then as
    /// if the context had not been shown.
    pub fn decide(
        &mut self,
        context: &[f64],
        agent: &mut dyn Agent,
        action: &mut [f64],
    ) -> Result<(), Error> {
        self.reveal(context)?;
        agent.decide(&self.observation(), action)
    }

    /// Takes the context of the current step, or leaves everything as it was.
    fn reveal(&mut self, context: &[f64]) -> Result<(), Error> {
        let context_len = self.problem.dimensions().context;
        expect_length("context", context, context_len)?;
        expect_finite("context", context)?;
        self.problem.check_context(context)?;
        if self.is_over() {
            return Err(Error::EpisodeOver {
                horizon: self.horizon,
            });
        }
        self.contexts.truncate(self.step * context_len);
        self.contexts.extend_from_slice(context);
        let steps_left = self.horizon - self.step - 1;
        self.ledger
            .available(&self.least, steps_left, &mut self.available);
        self.revealed = true;
        Ok(())
    }

    /// What an agent may know of the step whose context was revealed.
    fn observation(&self) -> Observation<'_> {
        Observation {
            step: self.step,
            horizon: self.horizon,
            contexts: &self.contexts,
            context_len: self.problem.dimensions().context,
            budgets: &self.budgets,
            remaining: self.ledger.remaining(),
            available: &self.available,
        }
    }

    /// Pays an action for the context of the current step, all or nothing, and goes on to the next step.
    ///
    /// # Errors
    /// [`Error::NoContext`] before the step's context was revealed, and [`Error::EpisodeOver`] after the last step;
    /// [`Error::Overspend`] when the action uses more than is available (the reserve is not available);
    /// [`Error::WrongLength`], [`Error::NotFinite`] or [`Error::OutsideBox`] for its values. Nothing is paid, the step is
    /// still open.
    pub fn pay(&mut self, action: &[f64]) -> Result<(), Error> {
        if self.is_over() {
            return Err(Error::EpisodeOver {
                horizon: self.horizon,
            });
        }
        if !self.revealed {
            return Err(Error::NoContext { step: self.step });
        }
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        expect_length("action", action, lower.len())?;
        expect_finite("action", action)?;
        for (index, ((x, lower), upper)) in action.iter().zip(lower).zip(upper).enumerate() {
            if x < lower || x > upper {
                return Err(Error::OutsideBox {
                    index,
                    value: *x,
                    lower: *lower,
                    upper: *upper,
                });
            }
        }
        let context_len = self.problem.dimensions().context;
        self.problem
            .usage(action, &self.contexts[self.step * context_len..], &mut self.asked);
        for (resource, (&asked, &available)) in self.asked.iter().zip(&self.available).enumerate() {
            if asked > available {
                return Err(Error::Overspend {
                    resource,
                    asked,
                    remaining: available,
                });
            }
        }
        self.ledger.spend(&self.asked)?;
        std::mem::swap(&mut self.usage, &mut self.asked);
        self.revealed = false;
        self.step += 1;
        Ok(())
    }
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
    let mut progress = Progress::new(problem, horizon, episode.budgets())?;
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
    };
    let mut action = vec![0.0; d];
    for step in 0..horizon {
        let context = episode.context(step);
        action.copy_from_slice(problem.lower());
        progress.reveal(context).map_err(|error| error.at_step(step))?;
        if let Err(error) = agent.decide(&progress.observation(), &mut action) {
            result.failures += 1;
            result.first_failure.get_or_insert(error);
            action.copy_from_slice(problem.lower());
        }
        if progress.pay(&action).is_err() {
            result.violations += 1;
            action.copy_from_slice(problem.lower());
            progress.pay(&action).map_err(|error| error.at_step(step))?;
        }
        result.actions.extend_from_slice(&action);
        result.usages.extend_from_slice(progress.last_usage());
        result.costs.push(problem.cost(&action, context));
        if let Some(prices) = agent.multiplier() {
            result.multipliers.extend_from_slice(prices);
        }
    }
    result.projections = agent.projections();
    result.unconverged = agent.unconverged();
    result.remaining = progress.remaining().to_vec();
    Ok(result)
}

/// Plays all episodes, in parallel; the result does not depend on the number of threads.
///
/// # Errors
/// When the problem cannot be played on the episodes.
pub fn rollout_all(
    problem: &dyn Problem,
    policy: &dyn Policy,
    episodes: &Episodes,
) -> Result<Vec<Rollout>, Error> {
    episodes.check(problem)?;
    (0..episodes.len())
        .into_par_iter()
        .map(|index| rollout(problem, policy, &episodes.get(index)).map_err(|error| error.in_episode(index)))
        .collect()
}

/// Plans and plays all episodes in hindsight, in parallel.
///
/// # Errors
/// When the problem cannot be played on the episodes, or a plan fails.
pub fn rollout_hindsight(
    problem: &Arc<dyn Problem>,
    hindsight: &dyn Hindsight,
    episodes: &Episodes,
) -> Result<Vec<Rollout>, Error> {
    episodes.check(&**problem)?;
    let width = episodes.horizon() * problem.dimensions().actions;
    (0..episodes.len())
        .into_par_iter()
        .map(|index| {
            let episode = episodes.get(index);
            let mut plan = vec![0.0; width];
            hindsight
                .plan(&episode, &mut plan)
                .and_then(|()| {
                    let plan = replay(hindsight.name(), plan, Arc::clone(problem));
                    rollout(&**problem, &plan, &episode)
                })
                .map_err(|error| error.in_episode(index))
        })
        .collect()
}
