//! The settings of offline training.

pub use laau_core::Phase;
use serde::{Deserialize, Serialize};

use super::EngineKind;
use super::offline::Trainer;
use crate::engine::Precision;
use crate::error::Error;
use crate::optimiser::Optimiser;

/// The settings of offline training; [`Training::check`] makes them a [`Trainer`].
///
/// | setting | default | purpose | range |
/// |---|---|---|---|
/// | `phases` | 50 epochs at 5e-3, 30 at 2.5e-3 | learning rates, one phase after the other (the paper's) | 1 to 10⁹ epochs in all; rates `> 0` |
/// | `batch` | 10 | episodes per gradient step | 1 to 10⁹ |
/// | `seed` | 0 | shuffles; each epoch draws from a stream of its own | any |
/// | `optimiser` | Adam | the step rule | see [`Optimiser`] |
/// | `engine` | fused | who computes gradients | |
/// | `precision` | f64 | what the fused engine computes the network in, see [`Precision`] | f64 for the candle engine |
/// | `validate_every` | 1 | epochs from one exact rollout of the validation set to the next; the last epoch always has one | 1 to 10⁹ |
/// | `patience` | none | stops after so many validations without a better utility | 1 to 10⁹ |
/// | `gradient_clip` | none | the largest norm of a gradient; a longer one is shortened | `> 0` |
/// | `divergence_factor` | 100 | a batch whose loss exceeds both that of the first and its own before the run's first step by more than this, times `1 + \|loss\|`, has diverged | `> 0` |
/// | `checkpoint_every` | 10 | epochs from one checkpoint to the next; one is always left at the end, on a stop and on divergence | 1 to 10⁹ |
/// | `shortest_horizon` | none | the fewest steps that the models of [`crate::Laau`] are for; see [`Trainer::run`] | `≥ 1`, at most those of the episodes |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Training {
    /// Learning rates, one phase after the other.
    pub phases: Vec<Phase>,
    /// Episodes per gradient step.
    pub batch: usize,
    /// The seed of the shuffles.
    pub seed: u64,
    /// The step rule.
    pub optimiser: Optimiser,
    /// Who computes gradients.
    pub engine: EngineKind,
    /// What the network is computed in while gradients are.
    #[serde(skip_serializing_if = "Precision::is_default")]
    pub precision: Precision,
    /// Epochs from one validation to the next.
    pub validate_every: usize,
    /// Stops after so many validations without a better utility.
    pub patience: Option<usize>,
    /// The largest norm of a gradient.
    pub gradient_clip: Option<f64>,
    /// How far a loss may rise above the first one.
    pub divergence_factor: f64,
    /// Epochs from one checkpoint to the next.
    pub checkpoint_every: usize,
    /// The fewest steps that the models of [`crate::Laau`] are for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortest_horizon: Option<usize>,
}

impl Default for Training {
    fn default() -> Self {
        Self::paper()
    }
}

impl Training {
    /// The paper's: Adam, batches of 10, 50 epochs at 5e-3, then 30 at 2.5e-3.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            phases: vec![
                Phase {
                    epochs: 50,
                    learning_rate: 5e-3,
                },
                Phase {
                    epochs: 30,
                    learning_rate: 2.5e-3,
                },
            ],
            batch: 10,
            seed: 0,
            optimiser: Optimiser::adam(),
            engine: EngineKind::Fused,
            precision: Precision::F64,
            validate_every: 1,
            patience: None,
            gradient_clip: None,
            divergence_factor: 100.0,
            checkpoint_every: 10,
            shortest_horizon: None,
        }
    }

    /// The number of epochs of all phases.
    #[must_use]
    pub fn epochs(&self) -> usize {
        self.phases.iter().map(|phase| phase.epochs).sum()
    }

    /// The learning rate of an epoch, from 0; that of the last phase beyond the end.
    #[must_use]
    pub fn learning_rate(&self, epoch: usize) -> f64 {
        let mut end = 0;
        self.phases
            .iter()
            .find(|phase| {
                end += phase.epochs;
                epoch < end
            })
            .or(self.phases.last())
            .map_or(0.0, |phase| phase.learning_rate)
    }

    /// Checks all settings; only checked ones run.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] that names the setting.
    pub fn check(self) -> Result<Trainer, Error> {
        let invalid = |field, reason| Err(Error::InvalidSetting { field, reason });
        let epochs = self.phases.iter().map(|phase| phase.epochs);
        match epochs.fold(0, usize::saturating_add) {
            0 => return invalid("phases", "expected at least one epoch".to_owned()),
            1..=MOST => {}
            epochs => {
                return invalid(
                    "phases",
                    format!("expected at most {MOST} epochs, found {epochs}"),
                );
            }
        }
        if let Some(phase) = self.phases.iter().find(|p| !is_positive(p.learning_rate)) {
            return invalid(
                "phases.learning_rate",
                format!("expected a positive number, found {}", phase.learning_rate),
            );
        }
        for (field, count) in [
            ("batch", self.batch),
            ("validate_every", self.validate_every),
            ("checkpoint_every", self.checkpoint_every),
            ("patience", self.patience.unwrap_or(1)),
        ] {
            if count == 0 {
                return invalid(field, "expected at least 1, found 0".to_owned());
            }
            if count > MOST {
                return invalid(field, format!("expected at most {MOST}, found {count}"));
            }
        }
        for (field, value) in [
            ("gradient_clip", self.gradient_clip.unwrap_or(1.0)),
            ("divergence_factor", self.divergence_factor),
        ] {
            if !is_positive(value) {
                return invalid(field, format!("expected a positive number, found {value}"));
            }
        }
        self.engine.check(self.precision)?;
        self.optimiser.check()?;
        Ok(Trainer::from_checked(self))
    }
}

/// The most of anything that is counted: products of two counts stay far from where integers end.
const MOST: usize = 1_000_000_000;

pub(super) fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_phases_follow_each_other() {
        let training = Training::paper();
        assert_eq!(training.epochs(), 80);
        for (epoch, rate) in [(0, 5e-3), (49, 5e-3), (50, 2.5e-3), (79, 2.5e-3), (80, 2.5e-3)] {
            assert_eq!(training.learning_rate(epoch), rate, "epoch {epoch}");
        }
    }

    #[test]
    fn settings_outside_their_range_are_refused_by_name() {
        let check = |change: fn(&mut Training), expected: &str| {
            let mut training = Training::paper();
            change(&mut training);
            let message = training.check().err().unwrap().to_string();
            assert_eq!(message, expected);
        };
        check(
            |t| t.phases.clear(),
            "invalid `phases`: expected at least one epoch",
        );
        check(
            |t| {
                for phase in &mut t.phases {
                    phase.epochs = usize::MAX;
                }
            },
            "invalid `phases`: expected at most 1000000000 epochs, found 18446744073709551615",
        );
        check(
            |t| t.phases[1].learning_rate = f64::NAN,
            "invalid `phases.learning_rate`: expected a positive number, found NaN",
        );
        check(|t| t.batch = 0, "invalid `batch`: expected at least 1, found 0");
        check(
            |t| t.patience = Some(0),
            "invalid `patience`: expected at least 1, found 0",
        );
        check(
            |t| t.gradient_clip = Some(-1.0),
            "invalid `gradient_clip`: expected a positive number, found -1",
        );
        check(
            |t| (t.engine, t.precision) = (EngineKind::Candle, Precision::F32),
            "invalid `precision`: expected f64 for the candle engine, found f32",
        );
        check(
            |t| t.divergence_factor = f64::INFINITY,
            "invalid `divergence_factor`: expected a positive number, found inf",
        );
    }
}
