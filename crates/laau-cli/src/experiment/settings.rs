//! The files of `experiments/`.

use std::path::Path;

use laau::data::{Construction, Split};
use laau::net::{Phase, Training};
use laau::registry::{PolicyKind, ProblemSpec};
use serde::Deserialize;
use toml::{Table, Value};

use crate::config::{key_in, line_of, place_of};
use crate::failure::Failure;
use crate::output;

/// What an experiment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// All policies by horizon.
    Policies,
    /// Trained on shifted data, tested on the default.
    Ood,
    /// A guard put before a trained policy, and one that it was trained behind.
    Guard,
    /// Training against testing episodes, embedded in the plane.
    Tsne,
    /// Algorithm 2 from a cold start.
    OnlineLearning,
    /// The gap between training and test utility.
    Generalisation,
    /// KKT differentiation against zero-order estimates.
    Gradients,
    /// All policies on the workload of another problem.
    Problem,
}

/// One experiment.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Experiment {
    pub(super) kind: Kind,
    /// Of an experiment on another problem than the paper's.
    pub(super) problem: Option<ProblemSpec>,
    /// Real data that the episodes of another problem are made of, instead of its workload.
    #[serde(default)]
    pub(super) data: Vec<String>,
    /// Steps of an episode.
    #[serde(default)]
    pub(super) horizons: Vec<usize>,
    /// Both readings of the paper's data section.
    #[serde(default)]
    pub(super) constructions: Vec<Construction>,
    /// What the steps of an episode of another problem are.
    #[serde(default)]
    pub(super) construction: Construction,
    #[serde(default)]
    pub(super) policies: Vec<PolicyKind>,
    /// Least and greatest budget per step.
    #[serde(default = "paper_budget")]
    pub(super) budget: (f64, f64),
    pub(super) train: usize,
    pub(super) validation: usize,
    pub(super) test: usize,
    /// Epochs and learning rate of each phase.
    #[serde(default)]
    pub(super) phases: Vec<(usize, f64)>,
    /// Wasserstein distances of shifted training data.
    #[serde(default)]
    pub(super) targets: Vec<f64>,
    /// Policies that guard the trained ones, beside them.
    #[serde(default)]
    pub(super) incumbents: Vec<PolicyKind>,
    /// Whether CR-Pursuit is also played with the ratio that comes with a guarantee.
    #[serde(default)]
    pub(super) guaranteed: bool,
    /// Shares of an incumbent's gain that are promised.
    #[serde(default)]
    pub(super) guard_levels: Vec<f64>,
    /// The share of the incumbent's gain that a guard promises; of several levels, the one that headlines show.
    #[serde(default = "headline_level")]
    pub(super) level: f64,
    /// Numbers of training episodes.
    #[serde(default)]
    pub(super) sizes: Vec<usize>,
    /// Training episodes of the model that stands for the best one.
    #[serde(default)]
    pub(super) reference: usize,
    /// Numbers of directions of zero-order estimates.
    #[serde(default)]
    pub(super) directions: Vec<usize>,
    /// Learning rates to choose from.
    #[serde(default)]
    pub(super) learning_rates: Vec<f64>,
}

impl Experiment {
    /// Reads a file; its `[quick]` section replaces keys when asked for.
    pub(super) fn load(path: &Path, quick: bool) -> Result<Self, Failure> {
        let text = output::read_text(path, "the experiments of the paper are in experiments/")?;
        let refuse = |place: String, error: &toml::de::Error| {
            let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            Failure::new(
                format_args!("{place}: {message}"),
                "compare with the files in experiments/",
            )
        };
        let mut table: Table = text
            .parse()
            .map_err(|error| refuse(place_of(path, &text, &error), &error))?;
        let small = table.remove("quick");
        if let (true, Some(Value::Table(small))) = (quick, small) {
            table.extend(small);
        }
        Value::Table(table).try_into().map_err(|error: toml::de::Error| {
            // The key is behind the message, and an unknown one is what the message begins with.
            let whole = error.to_string();
            let named = [key_in(&whole), whole.split('`').nth(1).unwrap_or_default()];
            let sections = if quick { ["quick", ""] } else { ["", ""] };
            let mut places = named
                .iter()
                .flat_map(|key| sections.map(|section| (section, *key)))
                .filter(|(_, key)| !key.is_empty());
            let line = places.find_map(|(section, key)| line_of(&text, section, key));
            let place = line.map_or_else(
                || path.display().to_string(),
                |line| format!("{}, line {line}", path.display()),
            );
            refuse(place, &error)
        })
    }

    /// Other guards than the file's, and another level; what is not given stays.
    pub(super) fn guarded_by(&mut self, incumbents: &[PolicyKind], level: Option<f64>) {
        if !incumbents.is_empty() {
            self.incumbents = incumbents.to_vec();
        }
        if let Some(level) = level {
            self.level = level;
            if !self.guard_levels.is_empty() && !self.guard_levels.contains(&level) {
                self.guard_levels.push(level);
            }
        }
    }

    /// How many episodes there are.
    pub(super) fn split(&self) -> Split {
        Split {
            train: self.train,
            validation: self.validation,
            test: self.test,
        }
    }

    /// The paper's training with this experiment's phases.
    pub(super) fn training(&self, seed: u64) -> Training {
        let paper = Training::paper();
        let phases: Vec<Phase> = self
            .phases
            .iter()
            .map(|&(epochs, learning_rate)| Phase {
                epochs,
                learning_rate,
            })
            .collect();
        Training {
            phases: if phases.is_empty() {
                paper.phases.clone()
            } else {
                phases
            },
            seed,
            ..paper
        }
    }
}

/// Fixed before any figure was looked at.
fn headline_level() -> f64 {
    0.95
}

fn paper_budget() -> (f64, f64) {
    (10.0, 15.0)
}
