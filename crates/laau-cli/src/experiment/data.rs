//! Episodes for experiments, from the embedded workload or a trace.

use laau::core::Sets;
use laau::data::synthetic::{GenerateOptions, Workload};
use laau::data::{AzureVm, AzureVmOptions, Construction, EpisodeOptions, import};

use super::settings::Experiment;
use crate::failure::Failure;

/// Where contexts come from.
pub(super) enum Source {
    /// The embedded workload.
    Synthetic,
    /// Azure VM readings.
    Trace(String),
}

impl Source {
    /// The name in tables.
    pub(super) fn name(&self, construction: Construction) -> String {
        let source = match self {
            Self::Synthetic => "synthetic",
            Self::Trace(_) => "trace",
        };
        let construction = match construction {
            Construction::Consecutive => "consecutive",
            Construction::Interleaved => "interleaved",
        };
        format!("{source}-{construction}")
    }

    /// Draws the episodes of one seed.
    pub(super) fn sets(
        &self,
        experiment: &Experiment,
        horizon: usize,
        construction: Construction,
        seed: u64,
    ) -> Result<Sets, Failure> {
        let split = experiment.split();
        match self {
            Self::Synthetic => {
                let options = GenerateOptions {
                    horizon,
                    construction,
                    seed,
                    budget: experiment.budget,
                    ..GenerateOptions::default()
                };
                Ok(Workload::default().generate_split(split, &options)?)
            }
            Self::Trace(path) => {
                let trace = AzureVm::open(AzureVmOptions {
                    paths: vec![path.clone()],
                    ..AzureVmOptions::default()
                })?;
                let budgets = vec![experiment.budget];
                let options = EpisodeOptions {
                    horizon,
                    construction,
                    split,
                    budgets,
                    seed,
                    ..EpisodeOptions::default()
                };
                Ok(import(&trace, &options)?.sets)
            }
        }
    }
}
