//! The section `[workload]`.

use laau_data::synthetic::{GenerateOptions, Part};
use laau_data::{Construction, Split};
use serde::{Deserialize, Serialize};

use super::ProblemConfig;
use crate::failure::Failure;
use crate::registry::{self, ProblemWorkload};

/// The synthetic workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct WorkloadConfig {
    horizon: usize,
    episodes: usize,
    split: Option<[usize; 3]>,
    budget: Option<Ranges>,
    seed: u64,
    construction: Construction,
    part: Part,
    episodes_per_vm: usize,
    scale: Option<f64>,
}

/// The least and the greatest budget of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected the least and the greatest budget, or one such pair per budget"
)]
enum Ranges {
    One((f64, f64)),
    Each(Vec<(f64, f64)>),
}

impl WorkloadConfig {
    /// The workload of a problem.
    pub(crate) fn workload(&self, problem: &ProblemConfig) -> Result<ProblemWorkload, Failure> {
        let ranges = self.budget.clone().map(|budget| match budget {
            Ranges::One(range) => vec![range],
            Ranges::Each(ranges) => ranges,
        });
        registry::workload(problem, ranges, self.scale)
    }

    pub(crate) fn options(&self) -> GenerateOptions {
        GenerateOptions {
            horizon: self.horizon,
            episodes: self.episodes,
            seed: self.seed,
            construction: self.construction,
            part: self.part,
            episodes_per_vm: self.episodes_per_vm,
            ..GenerateOptions::default()
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
    use laau_data::synthetic::Workload;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let Config {
            workload, problem, ..
        } = Config::load(None, &[]).unwrap();
        assert_eq!(workload.options(), GenerateOptions::default());
        assert_eq!(workload.split(), None);
        let few = GenerateOptions {
            episodes: 3,
            ..GenerateOptions::default()
        };
        let found = workload.workload(&problem).unwrap().generate(&few).unwrap();
        assert_eq!(found, Workload::default().generate(&few).unwrap());
    }
}
