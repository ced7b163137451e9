//! Plays policies on episodes.

use std::sync::Arc;

use rayon::prelude::*;

use crate::episode::{Episode, Episodes};
use crate::error::Error;
use crate::hindsight::{Hindsight, replay};
use crate::ledger::Ledger;
use crate::policy::{Agent, Observation, Policy};
use crate::problem::{Dimensions, Problem};

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
    reserve: Vec<f64>,
    available: Vec<f64>,
    usage: Vec<f64>,
}

impl<'a> Progress<'a> {
    /// Opens an episode.
    ///
    /// # Errors
    /// [`Error::WrongLength`] or [`Error::BudgetTooSmall`] when the problem cannot be played with these budgets.
    pub fn new(problem: &'a dyn Problem, horizon: usize, budgets: &[f64]) -> Result<Self, Error> {
        let Dimensions {
            budgets: m, context, ..
        } = problem.dimensions();
        crate::error::expect_length("the budgets", budgets, m)?;
        if horizon == 0 {
            return Err(Error::WrongLength {
                what: "a horizon",
                expected: 1,
                found: 0,
            });
        }
        let ledger = Ledger::new(budgets)?;
        let mut reserve = vec![0.0; m];
        problem.reserve(horizon, &mut reserve);
        if let Some(resource) = budgets
            .iter()
            .zip(&reserve)
            .position(|(budget, least)| budget < least)
        {
            return Err(Error::BudgetTooSmall {
                episode: 0,
                resource,
                budget: budgets[resource],
                least: reserve[resource],
                horizon,
            });
        }
        Ok(Self {
            problem,
            ledger,
            budgets: budgets.to_vec(),
            contexts: Vec::with_capacity(horizon * context),
            horizon,
            step: 0,
            reserve,
            available: vec![0.0; m],
            usage: vec![0.0; m],
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
    /// The agent's, or [`Error::WrongLength`] / [`Error::NotFinite`] for the context; the step is then still open, and
    /// as if the context had not been shown.
    pub fn decide(
        &mut self,
        context: &[f64],
        agent: &mut dyn Agent,
        action: &mut [f64],
    ) -> Result<(), Error> {
        let context_len = self.problem.dimensions().context;
        crate::error::expect_length("context", context, context_len)?;
        crate::error::expect_finite("context", context)?;
        self.problem.check_context(context)?;
        if self.is_over() {
            return Err(Error::WrongLength {
                what: "the episode's steps",
                expected: self.horizon,
                found: self.step + 1,
            });
        }
        self.contexts.truncate(self.step * context_len);
        self.contexts.extend_from_slice(context);
        self.problem
            .reserve(self.horizon - self.step - 1, &mut self.reserve);
        self.ledger.available(&self.reserve, &mut self.available);
        let observation = Observation {
            step: self.step,
            horizon: self.horizon,
            contexts: &self.contexts,
            context_len,
            budgets: &self.budgets,
            remaining: self.ledger.remaining(),
            available: &self.available,
        };
        agent.decide(&observation, action)
    }

    /// Pays an action for the context last shown, all or nothing, and goes on to the next step.
    ///
    /// # Errors
    /// [`Error::Overspend`] when the action uses more than is available (the reserve is not available), or
    /// [`Error::NotFinite`] / [`Error::OutsideBox`] for its values; nothing is paid, the step is still open.
    pub fn pay(&mut self, action: &[f64]) -> Result<(), Error> {
        let context_len = self.problem.dimensions().context;
        crate::error::expect_finite("action", action)?;
        for (index, ((x, lower), upper)) in action
            .iter()
            .zip(self.problem.lower())
            .zip(self.problem.upper())
            .enumerate()
        {
            if x < lower || x > upper {
                return Err(Error::OutsideBox {
                    index,
                    value: *x,
                    lower: *lower,
                    upper: *upper,
                });
            }
        }
        self.problem
            .usage(action, &self.contexts[self.step * context_len..], &mut self.usage);
        for (resource, (&asked, &available)) in self.usage.iter().zip(&self.available).enumerate() {
            if asked > available {
                return Err(Error::Overspend {
                    resource,
                    asked,
                    remaining: available,
                });
            }
        }
        self.ledger.spend(&self.usage)?;
        self.step += 1;
        Ok(())
    }
}

/// Plays one episode.
///
/// # Errors
/// When the problem cannot be played on the episode; never because of what the policy does.
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
        if let Err(error) = progress.decide(context, &mut *agent, &mut action) {
            result.failures += 1;
            result.first_failure.get_or_insert(error);
            action.copy_from_slice(problem.lower());
        }
        if progress.pay(&action).is_err() {
            result.violations += 1;
            action.copy_from_slice(problem.lower());
            progress.pay(&action)?;
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
        .map(|index| rollout(problem, policy, &episodes.get(index)))
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
            hindsight.plan(&episode, &mut plan)?;
            rollout(
                &**problem,
                &replay(hindsight.name(), plan, Arc::clone(problem)),
                &episode,
            )
        })
        .collect()
}
