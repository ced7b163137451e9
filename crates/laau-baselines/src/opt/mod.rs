//! OPT, the offline optimum: an upper bound for every online policy.

mod chain;
mod fine;
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
use laau_core::{Error, Fit, FitObserver, FitSets, Fitted, Task};

use crate::shared::FairnessBounds;

pub use horizon::{HorizonOptimum, HorizonOptions, HorizonSolution};
pub use water_filling::WaterFilling;

/// Pivots below this share of their diagonal entry are rounding, not information.
const SMALLEST_PIVOT: f64 = 1e-15;

/// The offline optimum: [`WaterFilling`] for weighted fairness, [`HorizonOptimum`] for any other problem.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptOptions {
    /// The interior point.
    pub horizon: HorizonOptions,
}

impl Fit for OptOptions {
    fn fit(&self, task: &Task, _: FitSets<'_>, _: u64, _: &mut dyn FitObserver) -> Result<Fitted, Error> {
        let problem = &task.problem;
        Ok(Fitted::hindsight(match FairnessBounds::of(&**problem) {
            Some(FairnessBounds { lower, upper }) => {
                Box::new(WaterFilling::new(WeightedFairness::new(lower, upper)?))
            }
            None => Box::new(HorizonOptimum::new(Arc::clone(problem), self.horizon)?),
        }))
    }

    fn is_hindsight(&self) -> bool {
        true
    }
}
