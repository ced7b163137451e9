//! Problems by name, each with its layer.

use std::sync::Arc;

use laau_core::Task;
use laau_core::problems::{LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless};
use laau_core::{Nearest, Problem, SmoothProblem};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};

use crate::config::ProblemConfig;
use crate::failure::Failure;
use crate::suggest;

/// Names, and the keys that each problem has besides.
const PROBLEMS: &[(&str, &[&str])] = &[
    ("weighted-fairness", &["lower", "upper"]),
    ("log-utility", &["lower", "upper", "actions", "usage"]),
    ("vm-allocation", &["lower", "upper", "actions", "alpha"]),
    ("wireless", &["upper", "actions", "bandwidth"]),
    ("trading", &["upper", "impact"]),
    (
        "power",
        &["lower", "upper", "energy", "most-load", "most-intensity"],
    ),
];

/// The problem that the configuration names, a layer that solves it, and a projector if it has several actions.
pub(crate) fn task(config: &ProblemConfig) -> Result<Task, Failure> {
    check_keys(config)?;
    let upper_or = |stock: &dyn Problem| config.upper.unwrap_or(stock.upper()[0]);
    let lower_or = |stock: &dyn Problem| config.lower.unwrap_or(stock.lower()[0]);
    let problem: Arc<dyn SmoothProblem> = match config.name.as_str() {
        "weighted-fairness" => {
            let stock = WeightedFairness::paper();
            let problem = Arc::new(WeightedFairness::new(lower_or(&stock), upper_or(&stock))?);
            let layer = Box::new(FairnessLayer::new(Arc::clone(&problem)));
            return Ok(Task::new(problem, layer));
        }
        "log-utility" => Arc::new(log_utility(config)?),
        "vm-allocation" => {
            let stock = VmAllocation::server();
            let actions = config.actions.unwrap_or(stock.dimensions().actions);
            Arc::new(VmAllocation::new(
                config.alpha.unwrap_or(stock.alpha()),
                vec![lower_or(&stock); actions],
                vec![upper_or(&stock); actions],
            )?)
        }
        "wireless" => {
            let stock = Wireless::three_channels();
            let channels = config.actions.unwrap_or(stock.dimensions().actions);
            Arc::new(Wireless::new(
                channels,
                config.bandwidth.unwrap_or(1.0),
                upper_or(&stock),
            )?)
        }
        "trading" => {
            let stock = Trading::inventory();
            Arc::new(Trading::new(config.impact.unwrap_or(0.05), upper_or(&stock))?)
        }
        "power" => {
            let stock = PowerProvisioning::two_loads();
            Arc::new(PowerProvisioning::new(
                config.energy.clone().unwrap_or_else(|| vec![1.0, 0.8]),
                config.most_load.unwrap_or(stock.most_load()),
                config.most_intensity.unwrap_or(stock.most_intensity()),
                lower_or(&stock),
                upper_or(&stock),
            )?)
        }
        unknown => return Err(unknown_problem(unknown)),
    };
    let layer = Box::new(InteriorPoint::new(Arc::clone(&problem), Options::default())?);
    let task = Task::new(Arc::clone(&problem), layer);
    if problem.dimensions().actions == 1 {
        return Ok(task);
    }
    let nearest = Arc::new(Nearest::new(problem));
    let projector = InteriorPoint::new(nearest, Options::default())?;
    Ok(task.with_projector(Box::new(projector))?)
}

/// Weights of actions that share one budget, unless a usage matrix says otherwise.
pub(super) fn log_utility(config: &ProblemConfig) -> Result<LogUtility, Failure> {
    let actions = config
        .actions
        .or_else(|| config.usage.as_ref()?.first().map(Vec::len))
        .unwrap_or(2);
    let usage = config.usage.clone().unwrap_or_else(|| vec![vec![1.0; actions]]);
    Ok(LogUtility::new(
        actions,
        usage.len(),
        usage.concat(),
        config.lower.unwrap_or(1.0),
        config.upper.unwrap_or(40.0),
    )?)
}

fn check_keys(config: &ProblemConfig) -> Result<(), Failure> {
    let Some((name, known)) = PROBLEMS.iter().find(|(name, _)| *name == config.name) else {
        return Err(unknown_problem(&config.name));
    };
    let given = [
        ("lower", config.lower.is_some()),
        ("upper", config.upper.is_some()),
        ("actions", config.actions.is_some()),
        ("usage", config.usage.is_some()),
        ("alpha", config.alpha.is_some()),
        ("impact", config.impact.is_some()),
        ("bandwidth", config.bandwidth.is_some()),
        ("energy", config.energy.is_some()),
        ("most-load", config.most_load.is_some()),
        ("most-intensity", config.most_intensity.is_some()),
    ];
    match given.iter().find(|(key, given)| *given && !known.contains(key)) {
        Some((key, _)) => Err(Failure::new(
            format_args!("problem `{name}` has no key `{key}`"),
            format_args!("its keys are {}", suggest::list(known)),
        )),
        None => Ok(()),
    }
}

fn unknown_problem(unknown: &str) -> Failure {
    Failure::new(
        format_args!("unknown problem `{unknown}`"),
        suggest::hint(unknown, PROBLEMS.iter().map(|(name, _)| *name)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_the_problem_of_that_name_with_a_layer_for_it() {
        for (name, _) in PROBLEMS {
            let config = ProblemConfig {
                name: (*name).to_owned(),
                ..ProblemConfig::default()
            };
            let task = task(&config).map_err(|failure| failure.to_string()).unwrap();
            assert_eq!(task.problem.name(), *name);
            assert_eq!(task.solver.problem().name(), *name);
        }
    }
}
