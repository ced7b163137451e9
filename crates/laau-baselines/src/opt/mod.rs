//! OPT, the offline optimum: what nobody can beat, because it alone sees the whole episode.

mod chain;
mod cholesky;
mod horizon;
mod interior;
mod point;
mod water_filling;

use std::sync::Arc;

use laau_core::problems::WeightedFairness;
use laau_core::{Episode, Error, Hindsight, Problem, SmoothProblem, replay, rollout};

pub use horizon::{HorizonOptimum, HorizonOptions, HorizonSolution};
pub use water_filling::WaterFilling;

/// Which algorithm finds the offline optimum. The caller knows his problem; nothing is guessed from its name.
pub enum Optimum {
    /// Exact, in `O(N log N)`: weighted fairness only.
    WaterFilling(WeightedFairness),
    /// Any smooth problem, to a tolerance, at a cost linear in the horizon.
    Horizon(Arc<dyn SmoothProblem>, HorizonOptions),
}

/// The offline optimum behind core's [`Hindsight`]; its name is `opt`.
///
/// # Errors
/// When the options are outside their ranges.
pub fn optimum(kind: Optimum) -> Result<Box<dyn Hindsight>, Error> {
    Ok(match kind {
        Optimum::WaterFilling(problem) => Box::new(WaterFilling::new(problem)),
        Optimum::Horizon(problem, options) => Box::new(HorizonOptimum::new(problem, options)?),
    })
}

/// Makes a plan payable in the ledger's exact arithmetic, with the reserve kept at every step.
///
/// An optimal plan spends the budget to rounding, and a relaxed limit by a little more: here, not in the replay, is
/// where that is given back. Replaying the result is never cut.
fn pull_in(problem: &Arc<dyn Problem>, episode: &Episode<'_>, actions: &mut [f64]) -> Result<(), Error> {
    let plan = replay("opt", actions.to_vec(), Arc::clone(problem));
    let paid = rollout(&**problem, &plan, episode)?;
    if let Some(failure) = paid.first_failure {
        return Err(failure);
    }
    actions.copy_from_slice(&paid.actions);
    Ok(())
}
