//! The gradients of a model's weights against differences over whole episodes.

use laau_core::{Episodes, Rollout, Slope, Task, Unrolled, central_differences, rollout_all};
use laau_net::{EngineKind, Model};
use rayon::prelude::*;

use super::tally::Tally;
use crate::failure::Failure;

/// The step, relative to a weight or [`SMALLEST`].
const STEP: f64 = 1e-5;

/// Weights smaller than this are stepped as if they were this large.
const SMALLEST: f64 = 0.1;

/// How much the slope may change within a step, beyond curvature and relative to the largest derivative, before there is
/// a kink.
const KINK: f64 = 1e-6;

/// Compares the gradient that an engine gives with differences of the loss of exact rollouts, which know nothing of engines.
///
/// Errors are relative to the largest derivative of all weights.
pub(super) fn check(
    name: &'static str,
    kind: EngineKind,
    model: &Model,
    task: &Task,
    episodes: &Episodes,
) -> Result<Tally, Failure> {
    let batch: Vec<usize> = (0..episodes.len()).collect();
    let mut gradient = vec![0.0; model.parameters.len()];
    kind.build(&*task.solver, &model.spec, batch.len())?
        .loss_and_gradient(model, episodes, &batch, &mut gradient)?;
    let differences: Vec<Slope> = (0..gradient.len())
        .into_par_iter()
        .map(|weight| difference(model, weight, |model| loss(model, task, episodes)))
        .collect::<Result<_, Failure>>()?;
    let largest = differences
        .iter()
        .map(|d| d.slope.abs())
        .fold(f64::MIN_POSITIVE, f64::max);
    let mut tally = Tally::new(name);
    for (weight, (&derivative, difference)) in gradient.iter().zip(&differences).enumerate() {
        if difference.change > KINK * largest {
            tally.kinks += 1;
            continue;
        }
        tally.compared += 1;
        let error = (derivative - difference.slope).abs() / largest;
        tally.note(
            || format!("weight[{weight}]"),
            derivative,
            difference.slope,
            error,
        );
    }
    Ok(tally)
}

/// The mean cost per step of exact rollouts.
fn loss(model: &Model, task: &Task, episodes: &Episodes) -> Result<f64, Failure> {
    let policy = Unrolled::new("gradcheck", model.clone(), task.solver.clone())?;
    let rollouts = rollout_all(&*task.problem, &policy, episodes)?;
    Ok(-rollouts.iter().map(Rollout::utility).sum::<f64>() / rollouts.len() as f64)
}

/// The slope of the loss in one weight.
fn difference(
    model: &Model,
    weight: usize,
    loss: impl Fn(&Model) -> Result<f64, Failure>,
) -> Result<Slope, Failure> {
    let at = model.parameters[weight];
    let mut moved = model.clone();
    let slopes = central_differences(at, STEP * at.abs().max(SMALLEST), &mut |x| {
        moved.parameters[weight] = x;
        loss(&moved).map(|loss| vec![loss])
    })?;
    Ok(slopes[0])
}
