//! `manifest.json`: what a reproduction was made of.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::figures::style::write;

/// What was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The commit of the sources; `-dirty` if they were changed since.
    pub(super) commit: String,
    /// Whether the small sizes were used.
    pub(super) quick: bool,
    /// The seeds.
    pub(super) seeds: Vec<u64>,
    /// The name of the trace, if one was given.
    pub(super) trace: Option<String>,
    /// Whether real data were given: the name of their folder.
    #[serde(default)]
    pub(super) data: Option<String>,
    /// Experiments on real data that were skipped, since none were given.
    #[serde(default)]
    pub(super) skipped: Vec<String>,
    /// The experiments that are finished.
    pub(super) experiments: Vec<Finished>,
}

/// A finished experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Finished {
    /// Its name: that of its file in `experiments/`.
    pub(super) name: String,
    /// The data it was run on: `synthetic` or `trace`.
    pub(super) data: String,
    /// A checksum of its file, so that a changed experiment is run again.
    pub(super) checksum: String,
    /// What was run: sizes and all other keys of the file.
    pub(super) settings: toml::Table,
    /// How long it took.
    pub(super) seconds: f64,
}

/// Whether an experiment is about the paper's problem, which a trace can stand for: it then says how episodes are made of a trace.
pub(super) fn is_the_papers(settings: &toml::Table) -> bool {
    settings.contains_key("constructions")
}

impl Manifest {
    /// The manifest of a folder, if there is one.
    pub(super) fn load(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join("manifest.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the manifest.
    pub(super) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("the manifest is not JSON")?;
        write(&folder.join("manifest.json"), (text + "\n").as_bytes())
    }

    /// Whether an experiment was finished under the same conditions.
    pub(super) fn has(&self, name: &str, data: &str, checksum: &str) -> bool {
        self.experiments
            .iter()
            .any(|e| e.name == name && e.data == data && e.checksum == checksum)
    }
}
