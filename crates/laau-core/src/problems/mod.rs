//! The problems that come with the crate.
//!
//! | problem | actions `d` | budgets `M` | usage | Hessian |
//! |---|---|---|---|---|
//! | [`WeightedFairness`] | 1 | 1 | linear | diagonal |
//! | [`LogUtility`] | any | any | linear | diagonal |
//! | [`VmAllocation`] | any (4) | the same | linear | dense |
//! | [`Wireless`] | any (3) | 2 | strictly convex and linear | diagonal |
//! | [`Trading`] | 1 | 1 | linear | diagonal |
//! | [`PowerProvisioning`] | any (2) | 2 | linear, varying with the context | diagonal |

mod log_utility;
mod logarithm;
mod power;
mod trading;
mod vm_allocation;
mod weighted_fairness;
mod wireless;

pub use log_utility::LogUtility;
pub use power::PowerProvisioning;
pub use trading::Trading;
pub use vm_allocation::VmAllocation;
pub use weighted_fairness::WeightedFairness;
pub use wireless::Wireless;

use crate::error::Error;
use crate::problem::Problem;

/// Refuses a parameter with a reason.
fn expect(problem: &dyn Problem, holds: bool, reason: impl FnOnce() -> String) -> Result<(), Error> {
    if holds {
        Ok(())
    } else {
        Err(Error::InvalidProblem {
            problem: problem.name().to_owned(),
            reason: reason(),
        })
    }
}

/// Refuses a context with a negative entry.
fn expect_non_negative(context: &[f64]) -> Result<(), Error> {
    match context.iter().position(|c| *c < 0.0) {
        Some(index) => Err(Error::Negative {
            what: "context",
            index,
            value: context[index],
        }),
        None => Ok(()),
    }
}
