//! The section `[workload]`.

use clap::Args;
use laau::data::Construction;
use laau::data::synthetic::{GenerateOptions, Part};
use laau::registry::{ProblemSpec, ProblemWorkload};
use serde::{Deserialize, Serialize};

use super::values::{rows, sizes, word};
use super::{Section, Sizes};
use crate::failure::Failure;

/// The synthetic workload.
#[derive(Debug, Clone, PartialEq, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "workload")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct WorkloadSection {
    /// steps of an episode
    #[arg(long, value_name = "N")]
    horizon: Option<usize>,
    /// number of episodes
    #[arg(long, value_name = "N")]
    pub(crate) episodes: Option<usize>,
    /// episodes for training, validation and test instead; the output is then a folder
    #[arg(long, value_name = "N,N,N", value_parser = sizes, conflicts_with_all = ["episodes", "part"])]
    pub(crate) split: Option<Sizes>,
    /// the least and the greatest budget of a step, times the horizon, or one such pair per budget; the problem's own if not given
    #[arg(long, value_name = "LEAST,MOST", value_parser = rows::<Ranges>)]
    budget: Option<Ranges>,
    /// the seed of machines, readings and budgets
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// consecutive: steps of one machine (user, market, site); interleaved: each step another
    #[arg(long, value_name = "NAME", value_parser = word::<Construction>)]
    construction: Option<Construction>,
    /// train, validation or test: parts share no machine
    #[arg(long, value_name = "NAME", value_parser = word::<Part>)]
    pub(crate) part: Option<Part>,
    /// episodes' worth of steps from each machine, user, market or site
    #[arg(long, value_name = "N")]
    episodes_per_vm: Option<usize>,
    /// factor on every reading of weighted-fairness, log-utility and vm-allocation; 2.8 if not given
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
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

impl Section for WorkloadSection {
    const NAME: &'static str = "workload";
    const HELP: &'static str = "The synthetic workload of a problem, for `laau generate`.";

    fn defaults() -> Self {
        let stock = GenerateOptions::default();
        Self {
            horizon: Some(stock.horizon),
            episodes: Some(stock.episodes),
            seed: Some(stock.seed),
            construction: Some(stock.construction),
            part: Some(stock.part),
            episodes_per_vm: Some(stock.episodes_per_vm),
            ..Self::default()
        }
    }

    fn examples() -> Self {
        Self {
            split: Some(laau::data::Split::default().into()),
            budget: Some(Ranges::One((10.0, 15.0))),
            scale: Some(2.8),
            ..Self::default()
        }
    }
}

impl WorkloadSection {
    /// The workload of a problem.
    pub(crate) fn workload(&self, problem: &ProblemSpec) -> Result<ProblemWorkload, Failure> {
        let ranges = self.budget.clone().map(|budget| match budget {
            Ranges::One(range) => vec![range],
            Ranges::Each(ranges) => ranges,
        });
        Ok(problem.workload(ranges, self.scale)?)
    }

    pub(crate) fn options(&self) -> GenerateOptions {
        let stock = GenerateOptions::default();
        GenerateOptions {
            horizon: self.horizon.unwrap_or(stock.horizon),
            episodes: self.episodes.unwrap_or(stock.episodes),
            seed: self.seed.unwrap_or(stock.seed),
            construction: self.construction.unwrap_or(stock.construction),
            part: self.part.unwrap_or(stock.part),
            episodes_per_vm: self.episodes_per_vm.unwrap_or(stock.episodes_per_vm),
            ..stock
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laau::data::synthetic::Workload;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        for section in [WorkloadSection::default(), WorkloadSection::defaults()] {
            assert_eq!(section.options(), GenerateOptions::default());
            assert_eq!(section.split, None);
            let few = GenerateOptions {
                episodes: 3,
                ..GenerateOptions::default()
            };
            let workload = section.workload(&ProblemSpec::default()).unwrap();
            let expected = Workload::default().generate(&few).unwrap();
            assert_eq!(workload.generate(&few).unwrap(), expected);
        }
    }
}
