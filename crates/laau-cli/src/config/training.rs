//! The sections `[training]` and `[learning]`.

use laau_net::{EngineKind, OnlineTraining, Optimiser, Phase, Training};
use serde::{Deserialize, Serialize};

/// Offline training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TrainingConfig {
    phases: Vec<(usize, f64)>,
    batch: usize,
    pub(crate) seed: u64,
    optimiser: Rule,
    first_decay: f64,
    second_decay: f64,
    epsilon: f64,
    engine: EngineKind,
    validate_every: usize,
    patience: Option<usize>,
    gradient_clip: Option<f64>,
    divergence_factor: f64,
    checkpoint_every: usize,
}

/// The step rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Rule {
    Adam,
    Sgd,
}

impl TrainingConfig {
    /// The settings, not checked yet.
    pub(crate) fn settings(&self) -> Training {
        Training {
            phases: self
                .phases
                .iter()
                .map(|&(epochs, learning_rate)| Phase {
                    epochs,
                    learning_rate,
                })
                .collect(),
            batch: self.batch,
            seed: self.seed,
            optimiser: match self.optimiser {
                Rule::Sgd => Optimiser::Sgd,
                Rule::Adam => Optimiser::Adam {
                    first_decay: self.first_decay,
                    second_decay: self.second_decay,
                    epsilon: self.epsilon,
                },
            },
            engine: self.engine,
            validate_every: self.validate_every,
            patience: self.patience,
            gradient_clip: self.gradient_clip,
            divergence_factor: self.divergence_factor,
            checkpoint_every: self.checkpoint_every,
        }
    }
}

/// Online training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LearningConfig {
    optimiser: Rule,
    learning_rate: f64,
    engine: EngineKind,
    gradient_clip: f64,
    /// The seed of a cold model's weights.
    pub(crate) seed: u64,
    /// Episodes of the stream that normalise a cold model.
    pub(crate) first_look: usize,
}

impl LearningConfig {
    /// The settings, not checked yet.
    pub(crate) fn settings(&self) -> OnlineTraining {
        OnlineTraining {
            optimiser: match self.optimiser {
                Rule::Sgd => Optimiser::Sgd,
                Rule::Adam => Optimiser::adam(),
            },
            learning_rate: self.learning_rate,
            engine: self.engine,
            gradient_clip: Some(self.gradient_clip),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let config = Config::load(None, &[]).unwrap();
        assert_eq!(config.training.settings(), Training::default());
        assert_eq!(config.learning.settings(), OnlineTraining::default());
    }
}
