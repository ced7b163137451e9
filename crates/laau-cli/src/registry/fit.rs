//! Policies by name, fitted on data.

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescentOptions, EqualOptions, OptOptions,
    RlOptions,
};
use laau_core::{Episodes, Fit, FitSets, Fitted, Task};
use laau_net::{Laau, Training};

use crate::failure::Failure;
use crate::suggest;

/// Every policy that can be fitted, in the order of reports.
pub(crate) const POLICIES: &[&str] = &[
    "opt",
    "equal",
    "avg-lt",
    "dgd",
    "mw",
    "cr-pursuit",
    "rl",
    "ce",
    "dp",
    "laau",
    "laau-history",
    "laau-residual",
];

/// Refuses a name that no policy has.
pub(crate) fn check_policy(name: &str) -> Result<(), Failure> {
    if POLICIES.contains(&name) {
        return Ok(());
    }
    Err(Failure::new(
        format_args!("unknown policy `{name}`"),
        suggest::hint(name, POLICIES.iter().copied()),
    ))
}

/// What fits a policy, by its name; `training` is for those that are trained.
pub(crate) fn fitter(name: &str, training: &Training) -> Result<Box<dyn Fit>, Failure> {
    Ok(match name {
        "opt" => Box::new(OptOptions::default()),
        "equal" => Box::new(EqualOptions::default()),
        "avg-lt" => Box::new(AvgLtOptions::default()),
        "dgd" => Box::new(DualDescentOptions::dgd()),
        "mw" => Box::new(DualDescentOptions::mw()),
        "cr-pursuit" => Box::new(CrPursuitOptions::default()),
        "rl" => Box::new(rl(training)),
        "ce" => Box::new(CeOptions::default()),
        "dp" => Box::new(DpOptions::default()),
        other => {
            check_policy(other)?;
            Box::new(learned(other, training).expect("every other policy is learned"))
        }
    })
}

/// Fits a policy by name.
pub(crate) fn fit(
    name: &str,
    task: &Task,
    train: &Episodes,
    validation: &Episodes,
    training: &Training,
) -> Result<Fitted, Failure> {
    let sets = FitSets { train, validation };
    Ok(fitter(name, training)?.fit(task, sets, training.seed, &mut ())?)
}

/// The learned policy of a name: the paper's, the two that see the history, and the linear one.
pub(crate) fn learned(name: &str, training: &Training) -> Option<Laau> {
    let laau = match name {
        "laau" => Laau::paper(),
        "laau-history" => Laau::history(),
        "laau-residual" => Laau::residual(),
        "linear" => Laau::linear(),
        _ => return None,
    };
    Some(laau.trained_by(training.clone()))
}

fn rl(training: &Training) -> RlOptions {
    let schedule = training
        .phases
        .iter()
        .map(|phase| laau_baselines::Phase {
            epochs: phase.epochs,
            learning_rate: phase.learning_rate,
        })
        .collect();
    RlOptions {
        schedule,
        batch: training.batch,
        ..RlOptions::default()
    }
}
