//! What is kept of many rollouts: figures per episode, not steps.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::guard::Certificate;
use crate::rollout::Rollout;

/// How a policy fared on episodes, in a few numbers per episode; see [`Rollout`] for what they mean.
///
/// All but the words of the first error are serialised.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Results {
    /// The utility per step of each episode.
    pub utilities: Vec<f64>,
    /// What remained of each budget at the end of each episode, `episodes × M`.
    pub remaining: Vec<f64>,
    /// Steps of each episode whose action could not be paid.
    pub violations: Vec<u32>,
    /// Steps of each episode in which the policy returned an error.
    pub failures: Vec<u32>,
    /// How often the projection acted in each episode.
    pub projections: Vec<u32>,
    /// Steps of all episodes whose action was short of the layer's tolerance.
    pub unconverged: usize,
    /// The first error of the policy.
    #[serde(skip)]
    pub first_failure: Option<Error>,
    /// What a guard kept of its promise in each episode; empty for a policy without one.
    pub certificates: Vec<Certificate>,
}

impl Results {
    /// Adds an episode.
    pub fn push(&mut self, rollout: &Rollout) {
        let count = |steps: usize| u32::try_from(steps).unwrap_or(u32::MAX);
        self.utilities.push(rollout.utility());
        self.remaining.extend_from_slice(&rollout.remaining);
        self.violations.push(count(rollout.violations));
        self.failures.push(count(rollout.failures));
        self.projections.push(count(rollout.projections));
        self.unconverged += rollout.unconverged;
        self.certificates.extend(rollout.certificate);
        if self.first_failure.is_none() {
            self.first_failure.clone_from(&rollout.first_failure);
        }
    }

    /// Number of episodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.utilities.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.utilities.is_empty()
    }

    /// The mean utility per step over episodes; 0 of none.
    #[must_use]
    pub fn mean_utility(&self) -> f64 {
        self.utilities.iter().sum::<f64>() / self.len().max(1) as f64
    }

    /// What remained of each budget at the end of an episode.
    #[must_use]
    pub fn remaining_of(&self, episode: usize) -> &[f64] {
        let budgets = self.remaining.len() / self.len().max(1);
        &self.remaining[episode * budgets..][..budgets]
    }
}

impl<'a> FromIterator<&'a Rollout> for Results {
    fn from_iter<I: IntoIterator<Item = &'a Rollout>>(rollouts: I) -> Self {
        let mut results = Self::default();
        for rollout in rollouts {
            results.push(rollout);
        }
        results
    }
}
