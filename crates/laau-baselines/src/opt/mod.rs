//! OPT, the offline optimum: what nobody can beat, because it alone sees the whole episode.

mod chain;
mod cholesky;
mod horizon;
mod interior;
mod newton;
mod payable;
mod point;
mod region;
mod sum;
mod water_filling;

use std::sync::Arc;

use laau_core::problems::WeightedFairness;
use laau_core::{Error, Hindsight, SmoothProblem};

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
