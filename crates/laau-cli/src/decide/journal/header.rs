//! The first line of a journal.

use std::collections::BTreeMap;

use laau::registry::{Deployed, ProblemSpec};
use serde::{Deserialize, Serialize};

use super::BLOCKS;
use crate::guard::GuardIdentity;

pub(super) const VERSION: u32 = 1;

/// The first line: which episode this is. Two episodes are the same if these are equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::decide) struct Header {
    pub(super) journal: u32,
    problem: ProblemSpec,
    pub(super) horizon: usize,
    pub(super) budgets: Vec<f64>,
    policy: Identity,
    /// Whether lines are readings, and contexts are made of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    raw: bool,
}

/// What decides: a model or a policy with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::decide) struct Identity {
    pub(in crate::decide) name: String,
    /// The SHA-256 of the model's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::decide) model: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(in crate::decide) parameters: BTreeMap<String, Vec<f64>>,
    /// The guard; its shadow ledger comes back with the decisions that are replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::decide) guard: Option<GuardIdentity>,
}

impl Identity {
    /// A policy from a file with this digest.
    pub(in crate::decide) fn of_file(deployed: &Deployed, digest: String) -> Self {
        Self {
            name: deployed.name.clone(),
            model: Some(digest),
            parameters: BTreeMap::new(),
            guard: None,
        }
    }
}

impl Header {
    pub(in crate::decide) fn new(
        problem: ProblemSpec,
        horizon: usize,
        budgets: Vec<f64>,
        policy: Identity,
        raw: bool,
    ) -> Self {
        Self {
            journal: VERSION,
            problem,
            horizon,
            budgets,
            policy,
            raw,
        }
    }

    /// The most bytes that the journal of the episode can have, with so many values in a line.
    pub(super) fn longest(&self, values: usize) -> u64 {
        /// Of a number, told twice at most: what a line says of a refused action may show it, too.
        const NUMBER: u64 = 50;
        /// Of all else in a line.
        const WORDS: u64 = 4096;
        let line = (values as u64).saturating_mul(NUMBER).saturating_add(WORDS);
        let lines = (self.horizon as u64).saturating_add(1).saturating_mul(line);
        let header = serde_json::to_string(self).map_or(0, |header| header.len());
        lines.saturating_add(header as u64).saturating_add(BLOCKS as u64)
    }

    /// The first field in which another header differs: its name, and both values.
    pub(super) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        fn show(value: &impl Serialize) -> String {
            serde_json::to_string(value).unwrap_or_default()
        }
        [
            ("problem", show(&self.problem), show(&other.problem)),
            ("horizon", show(&self.horizon), show(&other.horizon)),
            ("budgets", show(&self.budgets), show(&other.budgets)),
            ("policy", show(&self.policy), show(&other.policy)),
            ("--raw", show(&self.raw), show(&other.raw)),
        ]
        .into_iter()
        .find(|(_, ours, theirs)| ours != theirs)
    }
}
