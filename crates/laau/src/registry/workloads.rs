//! Synthetic workloads of the named problems.

use laau_core::problems::LogUtility;
use laau_core::{Dimensions, Episodes, Problem, Sets};
use laau_data::synthetic::{
    ContextProcess, Fading, GenerateOptions, Prices, Requests, Site, VmJobs, Workload, generate_sets,
};
use laau_data::{Construction, Split};

use super::{Error, ProblemSpec};

/// Where the episodes of a problem come from.
pub struct ProblemWorkload {
    problem: &'static str,
    law: Kind,
    /// Per budget the least and the greatest of a step, instead of the law's own.
    ranges: Option<Vec<(f64, f64)>>,
}

enum Kind {
    /// The cloud workload, for one weight and one budget.
    Cloud(Workload),
    /// The same for several.
    Weights(Workload, LogUtility),
    /// A law of its own.
    ContextProcess(Box<dyn ContextProcess>),
}

impl ProblemSpec {
    /// The synthetic workload of the problem. `ranges` overrides, per budget, the least and the greatest budget of a step;
    /// `scale` is a factor on readings.
    ///
    /// # Errors
    /// [`Error::Unknown`] or [`Error::Parameter`].
    pub fn workload(
        &self,
        ranges: Option<Vec<(f64, f64)>>,
        scale: Option<f64>,
    ) -> Result<ProblemWorkload, Error> {
        self.task()?;
        let name = self.name();
        let cloud = Workload {
            scale: scale.unwrap_or(Workload::default().scale),
            ..Workload::default()
        };
        let law = match self {
            Self::WeightedFairness(_) => Kind::Cloud(cloud),
            Self::LogUtility(spec) => Kind::Weights(cloud, spec.problem()?),
            Self::VmAllocation(spec) => Kind::ContextProcess(Box::new(VmJobs {
                resources: spec.actions,
                load: cloud,
                ..VmJobs::default()
            })),
            _ if scale.is_some() => {
                return Err(Error::parameter(
                    format_args!("the workload of problem `{name}` has no readings to scale"),
                    "leave --scale out",
                ));
            }
            Self::Wireless(spec) => Kind::ContextProcess(Box::new(Fading {
                channels: spec.actions,
                ..Fading::default()
            })),
            Self::Trading(_) => Kind::ContextProcess(Box::new(Prices::default())),
            Self::Power(spec) => Kind::ContextProcess(Box::new(Site {
                loads: spec.energy.len(),
                most_load: spec.most_load,
                most_intensity: spec.most_intensity,
                ..Site::default()
            })),
            Self::LlmTokens(spec) if spec.actions == 2 => Kind::ContextProcess(Box::new(Requests::default())),
            Self::LlmTokens(spec) => {
                return Err(Error::parameter(
                    format_args!(
                        "the workload of problem `{name}` has 2 classes of requests, not {}",
                        spec.actions
                    ),
                    "leave --actions out, or import a trace",
                ));
            }
        };
        let expected = match &law {
            Kind::Cloud(_) | Kind::Weights(..) => 1,
            Kind::ContextProcess(law) => law.budgets().len(),
        };
        if let Some(found) = ranges.as_ref().map(Vec::len).filter(|found| *found != expected) {
            return Err(Error::parameter(
                format_args!("expected {expected} ranges of budgets for problem `{name}`, found {found}"),
                "give one range per budget: --budget 10,15 for one, --budget 3:7,3:5 for two",
            ));
        }
        Ok(ProblemWorkload {
            problem: name,
            law,
            ranges,
        })
    }
}

impl ProblemWorkload {
    /// Checks that every budget that can be drawn pays for all steps of an episode.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the least budget of a step.
    pub fn check_budgets(&self, problem: &dyn Problem, options: &GenerateOptions) -> Result<(), Error> {
        let mut least = vec![0.0; problem.dimensions().budgets];
        problem.least_usage(&mut least);
        let given: Vec<(f64, f64)> = match (&self.law, &self.ranges) {
            (Kind::ContextProcess(law), None) => law.budgets(),
            (_, None) => vec![options.budget],
            (_, Some(ranges)) => ranges.clone(),
        };
        // The ranges of log-utility are those of an average action: its budgets are as many times that as a unit of every
        // action uses.
        let scale = |budget: usize| match &self.law {
            Kind::Weights(_, problem) => {
                let actions = problem.dimensions().actions;
                problem.matrix()[budget * actions..][..actions].iter().sum()
            }
            _ => 1.0,
        };
        for (budget, &least) in least.iter().enumerate() {
            let low = given[budget.min(given.len() - 1)].0;
            let scale: f64 = scale(budget);
            if low * scale < least {
                return Err(Error::parameter(
                    format_args!(
                        "problem `{}` needs a budget {budget} of at least {} per step, the workload draws from {low} on",
                        problem.name(),
                        least / scale
                    ),
                    "raise --budget LEAST,MOST, or lower --lower",
                ));
            }
        }
        Ok(())
    }

    /// Bytes of memory that it takes to generate and write sets of so many episodes each, about.
    #[must_use]
    pub fn memory(&self, problem: &dyn Problem, sizes: &[usize], options: &GenerateOptions) -> u128 {
        let Dimensions { context, budgets, .. } = problem.dimensions();
        let (context, budgets) = (context as u128, budgets as u128);
        let (horizon, per_series) = (options.horizon as u128, options.episodes_per_vm.max(1) as u128);
        let rows: u128 = sizes
            .iter()
            .map(|&episodes| {
                let series = (episodes as u128).div_ceil(per_series);
                match options.construction {
                    Construction::Consecutive => (series * per_series).saturating_mul(horizon),
                    // At each time all series are dealt, as many as an episode has steps or more.
                    Construction::Interleaved => {
                        let series = series.max(horizon);
                        let times = (episodes as u128).div_ceil((series / horizon.max(1)).max(1));
                        series.saturating_mul(times)
                    }
                }
            })
            .fold(0, u128::saturating_add);
        // The series, the contexts made of them, and the columns of the table.
        rows.saturating_mul(8 * (2 * context + budgets + 1))
    }

    /// Generates one set.
    ///
    /// # Errors
    /// For options outside their ranges.
    pub fn generate(&self, options: &GenerateOptions) -> Result<Episodes, laau_data::Error> {
        let with_budget = || GenerateOptions {
            budget: self.ranges.as_ref().map_or(options.budget, |ranges| ranges[0]),
            ..*options
        };
        let episodes = match &self.law {
            Kind::Cloud(workload) => workload.generate(&with_budget()),
            Kind::Weights(workload, problem) => workload.generate_weights(problem, &with_budget()),
            Kind::ContextProcess(law) => match &self.ranges {
                None => law.generate(options),
                Some(ranges) => Rationed { law: &**law, ranges }.generate(options),
            },
        }?;
        Ok(episodes.made_for(self.problem))
    }

    /// Generates three sets that share no series.
    ///
    /// # Errors
    /// As [`ProblemWorkload::generate`].
    pub fn generate_split(&self, split: Split, options: &GenerateOptions) -> Result<Sets, laau_data::Error> {
        generate_sets(split, options, |options| self.generate(options))
    }
}

/// A law with other budgets.
struct Rationed<'a> {
    law: &'a dyn ContextProcess,
    ranges: &'a [(f64, f64)],
}

impl ContextProcess for Rationed<'_> {
    fn context_len(&self) -> usize {
        self.law.context_len()
    }

    fn budgets(&self) -> Vec<(f64, f64)> {
        self.ranges.to_vec()
    }

    fn validate(&self) -> Result<(), laau_data::Error> {
        self.law.validate()
    }

    fn series(&self, seed: u64, series: u64, len: usize) -> Vec<f64> {
        self.law.series(seed, series, len)
    }
}
