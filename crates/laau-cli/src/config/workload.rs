//! The section `[workload]`.

use laau_data::synthetic::{Generate, Part, Workload};
use laau_data::{Construction, Split};
use serde::{Deserialize, Serialize};

/// The synthetic workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct WorkloadConfig {
    horizon: usize,
    episodes: usize,
    split: Option<[usize; 3]>,
    budget: (f64, f64),
    seed: u64,
    construction: Construction,
    part: Part,
    episodes_per_vm: usize,
    scale: f64,
}

impl WorkloadConfig {
    pub(crate) fn workload(&self) -> Workload {
        Workload {
            scale: self.scale,
            ..Workload::default()
        }
    }

    pub(crate) fn options(&self) -> Generate {
        Generate {
            horizon: self.horizon,
            episodes: self.episodes,
            budget: self.budget,
            seed: self.seed,
            construction: self.construction,
            part: self.part,
            episodes_per_vm: self.episodes_per_vm,
        }
    }

    /// The sizes of three sets, if these are wanted.
    pub(crate) fn split(&self) -> Option<Split> {
        self.split.map(|[train, validation, test]| Split {
            train,
            validation,
            test,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let workload = Config::load(None, &[]).unwrap().workload;
        assert_eq!(workload.workload(), Workload::default());
        assert_eq!(workload.options(), Generate::default());
        assert_eq!(workload.split(), None);
    }
}
