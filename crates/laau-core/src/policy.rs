//! Policies and their observations.

use std::sync::Arc;

use crate::error::Error;
use crate::guard::Certificate;
use crate::solver::Exactness;

/// What an online policy may observe when it decides: the past and the current step, never the future.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The current step, from 0.
    pub step: usize,
    /// The number of steps of the episode: fewer than at an earlier step if some have passed unused since.
    pub horizon: usize,
    /// The contexts of the steps up to and including this one, one after the other.
    pub contexts: &'a [f64],
    /// Length of one context.
    pub context_len: usize,
    /// The budgets at the start of the episode.
    pub budgets: &'a [f64],
    /// What remains of them, rounded down: more than at an earlier step if holds were settled or released since.
    pub remaining: &'a [f64],
    /// What this step may use: the remaining budgets less the reserve of the steps to come, rounded down.
    pub available: &'a [f64],
}

impl<'a> Observation<'a> {
    /// The context of this step.
    #[must_use]
    pub fn context(&self) -> &'a [f64] {
        &self.contexts[self.step * self.context_len..]
    }

    /// The number of steps after this one.
    #[must_use]
    pub fn steps_left(&self) -> usize {
        self.horizon - 1 - self.step
    }

    /// Whether this is the last step.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.step + 1 == self.horizon
    }
}

/// An online policy: immutable, shared between threads; the state of an episode lives in the [`Agent`] it opens.
pub trait Policy: Send + Sync {
    /// The name in tables and on the command line.
    fn name(&self) -> &str;

    /// Opens an agent for one episode.
    fn begin(&self) -> Box<dyn Agent + '_>;

    /// Whether episodes have to be played one after the other and in order, as by a program that serves one at a time.
    fn is_sequential(&self) -> bool {
        false
    }
}

/// A policy at work on one episode.
pub trait Agent: Send {
    /// Decides one step: writes an action that is in the box and uses at most what is available.
    ///
    /// Steps come in order, each once.
    ///
    /// # Errors
    /// Whatever keeps the policy from deciding; the driver then takes the lower corner and counts a failure.
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error>;

    /// Becomes what [`Policy::begin`] would give, for another episode; `false`, and nothing done, for an agent that cannot. An agent
    /// that can saves its memory's allocation in every episode but the first.
    fn restart(&mut self) -> bool {
        false
    }

    /// Prices one step without deciding it, for a driver that has the layer decide within limits of its own: called instead
    /// of [`Agent::decide`], after which [`Agent::multiplier`] has the prices.
    ///
    /// Only for an agent whose decision is the layer's answer at its prices, and nothing else; `None`, and no step taken,
    /// for any other.
    ///
    /// # Errors
    /// Whatever keeps the policy from pricing the step.
    fn price(&mut self, _observation: &Observation<'_>) -> Option<Result<(), Error>> {
        None
    }

    /// The price of each budget behind the last decision, if the policy has one.
    fn multiplier(&self) -> Option<&[f64]> {
        None
    }

    /// How often this policy wanted an action that could not be paid and was projected.
    fn projections(&self) -> usize {
        0
    }

    /// How many of the actions taken were short of the layer's tolerance.
    fn unconverged(&self) -> usize {
        0
    }

    /// What a guard kept of its promise so far, for a policy behind one.
    fn certificate(&self) -> Option<Certificate> {
        None
    }

    /// Whether a guard changed the last decision.
    fn guarded(&self) -> bool {
        false
    }
}

macro_rules! policy_behind {
    ($pointer:ident) => {
        impl<P: Policy + ?Sized> Policy for $pointer<P> {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn begin(&self) -> Box<dyn Agent + '_> {
                (**self).begin()
            }

            fn is_sequential(&self) -> bool {
                (**self).is_sequential()
            }
        }
    };
}

policy_behind!(Box);
policy_behind!(Arc);

/// Counts of exact and approximate gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct GradientCounts {
    /// Exact ones.
    pub exact: u64,
    /// Substitutes, at kinks and for singular systems.
    pub approximate: u64,
}

impl GradientCounts {
    /// Counts one more.
    pub fn add(&mut self, exactness: Exactness) {
        match exactness {
            Exactness::Exact => self.exact += 1,
            Exactness::Approximate { .. } => self.approximate += 1,
        }
    }
}
