//! Synthetic workloads by the problem's name.

use laau_core::problems::{LogUtility, PowerProvisioning};
use laau_core::{Episodes, Sets};
use laau_data::synthetic::{
    ContextProcess, Fading, GenerateOptions, Prices, Site, VmJobs, Workload, generate_sets,
};
use laau_data::{Error, Split};

use super::problems::{log_utility, task};
use crate::config::ProblemConfig;
use crate::failure::Failure;

/// Where the episodes of a problem come from.
pub(crate) struct ProblemWorkload {
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

/// The workload of a problem, with ranges of budgets and a scale of readings that may be given.
pub(crate) fn workload(
    problem: &ProblemConfig,
    ranges: Option<Vec<(f64, f64)>>,
    scale: Option<f64>,
) -> Result<ProblemWorkload, Failure> {
    let dimensions = task(problem)?.problem.dimensions();
    let name = problem.name.as_str();
    let cloud = Workload {
        scale: scale.unwrap_or(Workload::default().scale),
        ..Workload::default()
    };
    let law = match name {
        "weighted-fairness" => Kind::Cloud(cloud),
        "log-utility" => Kind::Weights(cloud, log_utility(problem)?),
        "vm-allocation" => Kind::ContextProcess(Box::new(VmJobs {
            resources: dimensions.actions,
            load: cloud,
            ..VmJobs::default()
        })),
        _ if scale.is_some() => {
            return Err(Failure::new(
                format_args!("the workload of problem `{name}` has no readings to scale"),
                "leave --scale out",
            ));
        }
        "wireless" => Kind::ContextProcess(Box::new(Fading {
            channels: dimensions.actions,
            ..Fading::default()
        })),
        "trading" => Kind::ContextProcess(Box::new(Prices::default())),
        "power" => {
            let stock = PowerProvisioning::two_loads();
            Kind::ContextProcess(Box::new(Site {
                loads: dimensions.actions,
                most_load: problem.most_load.unwrap_or(stock.most_load()),
                most_intensity: problem.most_intensity.unwrap_or(stock.most_intensity()),
                ..Site::default()
            }))
        }
        _ => {
            return Err(Failure::new(
                format_args!("problem `{name}` has no synthetic workload"),
                "make episodes of a trace with `laau import`",
            ));
        }
    };
    let expected = match &law {
        Kind::Cloud(_) | Kind::Weights(..) => 1,
        Kind::ContextProcess(law) => law.budgets().len(),
    };
    if let Some(found) = ranges.as_ref().map(Vec::len).filter(|found| *found != expected) {
        return Err(Failure::new(
            format_args!("expected {expected} ranges of budgets for problem `{name}`, found {found}"),
            "for example --budget 10,15, or --budget '[[3, 7], [3, 5]]' for two budgets",
        ));
    }
    Ok(ProblemWorkload { law, ranges })
}

impl ProblemWorkload {
    /// Generates one set.
    pub(crate) fn generate(&self, options: &GenerateOptions) -> Result<Episodes, Error> {
        let with_budget = || GenerateOptions {
            budget: self.ranges.as_ref().map_or(options.budget, |ranges| ranges[0]),
            ..*options
        };
        match &self.law {
            Kind::Cloud(workload) => workload.generate(&with_budget()),
            Kind::Weights(workload, problem) => workload.generate_weights(problem, &with_budget()),
            Kind::ContextProcess(law) => match &self.ranges {
                None => law.generate(options),
                Some(ranges) => Rationed { law: &**law, ranges }.generate(options),
            },
        }
    }

    /// Generates three sets that share no series.
    pub(crate) fn generate_split(&self, split: Split, options: &GenerateOptions) -> Result<Sets, Error> {
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

    fn validate(&self) -> Result<(), Error> {
        self.law.validate()
    }

    fn series(&self, seed: u64, series: u64, len: usize) -> Vec<f64> {
        self.law.series(seed, series, len)
    }
}
