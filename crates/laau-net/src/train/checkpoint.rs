//! Checkpoints: a training run between two epochs, as a file.

use std::path::Path;

use laau_core::{Episodes, Shadow};

use super::observer::EpochRecord;
use super::settings::Training;
use crate::archive::{Archive, Fault, read, write_atomically};
use crate::error::Error;
use crate::file::{fault, put_spec, put_statistics, take_spec, take_statistics};
use crate::model::Model;
use crate::optimiser::OptimiserState;
use crate::spec::Network;

const FORMAT: &str = "laau-checkpoint";
const VERSION: u32 = 2;

/// A training run between two epochs: everything that is needed to go on as if it had not been interrupted.
///
/// Shuffles need no generator state: epoch `e` draws from stream `e` of the seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    pub(super) settings: Training,
    /// What the run was trained and validated on.
    pub(super) data: DataMark,
    /// The weights after the last whole epoch.
    pub(super) model: Model,
    pub(super) optimiser: OptimiserState,
    pub(super) best: Option<Best>,
    /// Validations since the best one.
    pub(super) stale: usize,
    /// One record per whole epoch.
    pub(super) history: Vec<EpochRecord>,
}

/// The best weights so far, by the validation set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Best {
    pub(super) epoch: usize,
    pub(super) utility: f64,
    pub(super) parameters: Vec<f64>,
}

impl Checkpoint {
    /// Whole epochs done.
    #[must_use]
    pub fn epochs_done(&self) -> usize {
        self.history.len()
    }

    /// One record per whole epoch.
    #[must_use]
    pub fn history(&self) -> &[EpochRecord] {
        &self.history
    }

    /// The settings of the run.
    #[must_use]
    pub fn settings(&self) -> &Training {
        &self.settings
    }

    /// The best model so far; without a validation set that of the last whole epoch.
    #[must_use]
    pub fn best_model(&self) -> Model {
        let mut model = self.model.clone();
        if let Some(best) = &self.best {
            model.parameters.clone_from(&best.parameters);
        }
        model
    }

    /// Writes the checkpoint as a whole or not at all.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let mut archive = Archive::new(FORMAT, VERSION);
        put_spec(&mut archive, &self.model.spec)?;
        put_statistics(&mut archive, &self.model.statistics);
        archive.put_json("settings", &self.settings)?;
        archive.put_json("data", &self.data)?;
        archive.put_json("optimiser_steps", &self.optimiser.steps())?;
        archive.put_json("best", &self.best.as_ref().map(|best| (best.epoch, best.utility)))?;
        archive.put_json("stale", &self.stale)?;
        archive.put_json("history", &self.history)?;
        let (first, second) = self.optimiser.moments();
        let best = self.best.as_ref().map_or(&[][..], |best| &best.parameters);
        for (field, values) in [
            ("parameters", &self.model.parameters[..]),
            ("best_parameters", best),
            ("first_moment", first),
            ("second_moment", second),
        ] {
            archive.put_tensor(field, &[values.len()], values);
        }
        write_atomically(path, &archive.to_bytes())
    }

    /// Reads a checkpoint; everything in the file is checked.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::InvalidFile`] that names the part of the file that is wrong.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::from_bytes(&read(path)?, None).map_err(|fault| fault.at(path))
    }

    /// Reads a checkpoint like [`Checkpoint::load`]; a custom network takes over the constructor of the given one. Its
    /// variables must be those of the file, by name and shape.
    ///
    /// # Errors
    /// As [`Checkpoint::load`].
    pub fn load_with(path: &Path, network: &Network) -> Result<Self, Error> {
        Self::from_bytes(&read(path)?, Some(network)).map_err(|fault| fault.at(path))
    }

    fn from_bytes(bytes: &[u8], network: Option<&Network>) -> Result<Self, Fault> {
        let mut archive = Archive::from_bytes(bytes, FORMAT, VERSION)?;
        let spec = take_spec(&archive, network)?;
        let statistics = take_statistics(&mut archive, &spec)?;
        let count = spec.parameter_len();
        let parameters = archive.take_finite("parameters", &[count])?;
        let settings: Training = archive.json("settings")?;
        let history: Vec<EpochRecord> = archive.json("history")?;
        settings
            .clone()
            .check()
            .map_err(|error| Fault::new("settings", error.to_string()))?;
        if history.len() > settings.epochs()
            || history
                .iter()
                .enumerate()
                .any(|(epoch, record)| record.epoch != epoch)
        {
            let reason = format!(
                "expected epochs 0, 1, … of {}, found {} records",
                settings.epochs(),
                history.len()
            );
            return Err(Fault::new("history", reason));
        }
        let best = match archive.json::<Option<(usize, f64)>>("best")? {
            None => {
                archive.take_finite("best_parameters", &[0])?;
                None
            }
            Some((epoch, utility)) => Some(Best {
                epoch,
                utility,
                parameters: archive.take_finite("best_parameters", &[count])?,
            }),
        };
        let moments = OptimiserState::new(settings.optimiser, count).moments().0.len();
        let optimiser = OptimiserState::restore(
            settings.optimiser,
            archive.json("optimiser_steps")?,
            archive.take_finite("first_moment", &[moments])?,
            archive.take_finite("second_moment", &[moments])?,
        )
        .map_err(fault)?;
        archive.finish()?;
        Ok(Self {
            data: archive.json("data")?,
            stale: archive.json("stale")?,
            model: Model::from_parts(spec, statistics, parameters).map_err(fault)?,
            settings,
            optimiser,
            best,
            history,
        })
    }

    /// Checks that a run with these settings and data is the one that was interrupted.
    pub(super) fn expect(&self, settings: &Training, data: &DataMark) -> Result<(), Error> {
        let invalid = |field, reason: &str| {
            Err(Error::InvalidSetting {
                field,
                reason: reason.to_owned(),
            })
        };
        let mine = &self.settings;
        for (field, same) in [
            ("phases", mine.phases == settings.phases),
            ("batch", mine.batch == settings.batch),
            ("seed", mine.seed == settings.seed),
            ("optimiser", mine.optimiser == settings.optimiser),
            ("engine", mine.engine == settings.engine),
            ("precision", mine.precision == settings.precision),
            ("validate_every", mine.validate_every == settings.validate_every),
            ("patience", mine.patience == settings.patience),
            ("gradient_clip", mine.gradient_clip == settings.gradient_clip),
        ] {
            if !same {
                return invalid(field, "expected the value with which the checkpointed run began");
            }
        }
        if self.data.training != data.training {
            return invalid("training", "expected the episodes of the checkpointed run");
        }
        if self.data.validation != data.validation {
            return invalid("validation", "expected the episodes of the checkpointed run");
        }
        if self.data.guard != data.guard {
            return invalid(
                "guard",
                "expected that of the checkpointed run, or none if it had none",
            );
        }
        Ok(())
    }
}

/// Tells sets of episodes apart.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct DataMark {
    training: String,
    validation: Option<String>,
    /// Of what its incumbent does on the training set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    guard: Option<String>,
}

impl DataMark {
    pub(super) fn new(training: &Episodes, validation: Option<&Episodes>, guard: Option<&Shadow>) -> Self {
        Self {
            training: mark(training),
            validation: validation.map(mark),
            guard: guard.map(|shadow| format!("{:016x}", hash(shadow.values()))),
        }
    }
}

/// A 64-bit FNV-1a hash over the bits of all values.
fn hash(values: impl Iterator<Item = f64>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for value in values {
        for byte in value.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}

/// Sizes and a hash of a set of episodes.
fn mark(episodes: &Episodes) -> String {
    let hash = hash(episodes.contexts().iter().chain(episodes.budgets()).copied());
    format!(
        "{}x{}x{}x{}-{hash:016x}",
        episodes.len(),
        episodes.horizon(),
        episodes.context_len(),
        episodes.budget_len()
    )
}
