//! The instances that `benches/peers/instances.py` draws.

use std::error::Error;
use std::path::Path;

use laau_core::Episodes;
use laau_core::problems::LogUtility;
use serde::Deserialize;

/// Everything that is measured.
#[derive(Deserialize)]
pub(crate) struct Instances {
    #[serde(rename = "layer-scalar")]
    pub(crate) scalar: LayerInstances,
    #[serde(rename = "layer-8x3")]
    pub(crate) several: LayerInstances,
    pub(crate) strict: StrictInstances,
    train: TrainingSizes,
    #[serde(skip)]
    training: Vec<f64>,
}

/// A batch of the layer, with solutions and gradients.
#[derive(Deserialize)]
pub(crate) struct LayerInstances {
    usage: Vec<Vec<f64>>,
    lower: f64,
    upper: f64,
    pub(crate) contexts: Vec<Vec<f64>>,
    pub(crate) multipliers: Vec<Vec<f64>>,
    pub(crate) remaining: Vec<Vec<f64>>,
    pub(crate) upstream: Vec<Vec<f64>>,
    pub(crate) x: Vec<Vec<f64>>,
    pub(crate) by_multiplier: Vec<Vec<f64>>,
    pub(crate) by_remaining: Vec<Vec<f64>>,
    pub(crate) by_context: Vec<Vec<f64>>,
}

/// Episodes with strict budgets and a constant price.
#[derive(Deserialize)]
pub(crate) struct StrictInstances {
    usage: Vec<Vec<f64>>,
    lower: f64,
    upper: f64,
    pub(crate) steps: usize,
    pub(crate) multiplier: Vec<f64>,
    pub(crate) budgets: Vec<Vec<f64>>,
    pub(crate) contexts: Vec<Vec<Vec<f64>>>,
}

#[derive(Deserialize)]
struct TrainingSizes {
    episodes: usize,
    steps: usize,
    batch: usize,
}

impl Instances {
    /// Reads a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let mut instances: Self = serde_json::from_slice(&std::fs::read(folder.join("instances.json"))?)?;
        instances.training = std::fs::read(folder.join("training.f64"))?
            .as_chunks::<8>()
            .0
            .iter()
            .map(|bytes| f64::from_le_bytes(*bytes))
            .collect();
        Ok(instances)
    }

    /// The training set, and the size of a minibatch.
    pub(crate) fn training(&self) -> Result<(Episodes, usize), Box<dyn Error>> {
        let TrainingSizes {
            episodes,
            steps,
            batch,
        } = self.train;
        let (contexts, budgets) = self
            .training
            .split_at_checked(episodes * steps)
            .ok_or("too few numbers")?;
        let set = Episodes::new(steps, 1, 1, contexts.to_vec(), budgets.to_vec())?;
        Ok((set, batch))
    }
}

impl LayerInstances {
    /// The problem behind the batch.
    pub(crate) fn problem(&self) -> Result<LogUtility, laau_core::Error> {
        log_utility(&self.usage, self.lower, self.upper)
    }
}

impl StrictInstances {
    /// The problem behind the episodes.
    pub(crate) fn problem(&self) -> Result<LogUtility, laau_core::Error> {
        log_utility(&self.usage, self.lower, self.upper)
    }
}

fn log_utility(usage: &[Vec<f64>], lower: f64, upper: f64) -> Result<LogUtility, laau_core::Error> {
    let actions = usage.first().map_or(0, Vec::len);
    LogUtility::new(actions, usage.len(), usage.concat(), lower, upper)
}
