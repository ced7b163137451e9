//! The instances that `benches/peers/instances.py` draws.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

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
    /// Layers of many actions, by the name of their work.
    pub(crate) wide: BTreeMap<String, LayerInstances>,
    pub(crate) strict: StrictInstances,
    train: TrainingSizes,
    pub(crate) grid: GridSizes,
    #[serde(skip)]
    folder: PathBuf,
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

/// The sizes at which training is compared: all with all.
#[derive(Deserialize)]
pub(crate) struct GridSizes {
    episodes: usize,
    pub(crate) steps: Vec<usize>,
    pub(crate) batches: Vec<usize>,
    pub(crate) widths: Vec<usize>,
}

impl Instances {
    /// Reads a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let mut instances: Self = serde_json::from_slice(&std::fs::read(folder.join("instances.json"))?)?;
        folder.clone_into(&mut instances.folder);
        Ok(instances)
    }

    /// The training set, and the size of a minibatch.
    pub(crate) fn training(&self) -> Result<(Episodes, usize), Box<dyn Error>> {
        let TrainingSizes {
            episodes,
            steps,
            batch,
        } = self.train;
        Ok((self.episodes("training.f64", episodes, steps)?, batch))
    }

    /// The training set of the grid, of so many steps.
    pub(crate) fn of_grid(&self, steps: usize) -> Result<Episodes, Box<dyn Error>> {
        self.episodes(&format!("grid-{steps}.f64"), self.grid.episodes, steps)
    }

    fn episodes(&self, file: &str, episodes: usize, steps: usize) -> Result<Episodes, Box<dyn Error>> {
        let bytes = std::fs::read(self.folder.join(file))?;
        let (numbers, _) = bytes.as_chunks::<8>();
        let numbers: Vec<f64> = numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let (contexts, budgets) = numbers
            .split_at_checked(episodes * steps)
            .ok_or("too few numbers")?;
        Ok(Episodes::new(steps, 1, 1, contexts.to_vec(), budgets.to_vec())?)
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
