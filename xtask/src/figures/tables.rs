//! The exported tables that figures and claims are made from.

use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// `policies.csv`: one row per data set, horizon, policy and seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PolicyRow {
    pub(crate) data: String,
    pub(crate) horizon: usize,
    pub(crate) policy: String,
    pub(crate) seed: u64,
    pub(crate) utility: f64,
    pub(crate) fraction_of_opt: f64,
    pub(crate) lower_quartile: f64,
    pub(crate) median: f64,
    pub(crate) remaining_percent: f64,
    pub(crate) violations: usize,
}

/// `distribution.csv`: the utility of one episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EpisodeRow {
    pub(crate) data: String,
    pub(crate) policy: String,
    pub(crate) episode: usize,
    pub(crate) utility: f64,
}

/// `ood.csv`: a policy trained on shifted data and tested on the default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShiftRow {
    pub(crate) data: String,
    pub(crate) target: f64,
    pub(crate) achieved: f64,
    pub(crate) sliced: f64,
    pub(crate) policy: String,
    pub(crate) seed: u64,
    pub(crate) utility: f64,
    pub(crate) fraction_of_opt: f64,
}

/// `tsne.csv`: one embedded episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PointRow {
    pub(crate) data: String,
    pub(crate) target: f64,
    pub(crate) set: String,
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// `online_learning.csv`: the average utility up to a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundRow {
    pub(crate) data: String,
    pub(crate) method: String,
    pub(crate) learning_rate: f64,
    pub(crate) seed: u64,
    pub(crate) round: usize,
    pub(crate) utility: f64,
}

/// `generalisation.csv`: utility on the training and on the test episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GapRow {
    pub(crate) data: String,
    pub(crate) model: String,
    pub(crate) horizon: usize,
    pub(crate) episodes: usize,
    pub(crate) seed: u64,
    pub(crate) train: f64,
    pub(crate) test: f64,
}

/// `bound.csv`: one term of the generalisation bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TermRow {
    pub(crate) data: String,
    pub(crate) model: String,
    pub(crate) horizon: usize,
    pub(crate) episodes: usize,
    pub(crate) seed: u64,
    pub(crate) term: String,
    pub(crate) value: f64,
}

/// `gradients.csv`: how good and how dear a gradient is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GradientRow {
    pub(crate) method: String,
    pub(crate) solves: usize,
    pub(crate) relative_error: f64,
}

/// Reads a table; one that is not there has no rows, since an experiment may not have been run.
pub(crate) fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> anyhow::Result<Vec<T>> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut reader =
        csv::Reader::from_path(&path).with_context(|| format!("cannot read {}", path.display()))?;
    reader
        .deserialize()
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} is not the table it should be", path.display()))
}

/// The different values of a key, in order of first appearance.
pub(crate) fn distinct<T, K: PartialEq>(rows: &[T], key: impl Fn(&T) -> K) -> Vec<K> {
    let mut found = Vec::new();
    for row in rows {
        let key = key(row);
        if !found.contains(&key) {
            found.push(key);
        }
    }
    found
}

/// Mean, least and greatest of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of no values there is none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        (!values.is_empty()).then(|| Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}
