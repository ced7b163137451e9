//! Building blocks of several policies.

mod fairness_bounds;
mod history;
mod layer;
mod shadow_price;

pub(crate) use fairness_bounds::FairnessBounds;
pub(crate) use history::{History, Running};
pub(crate) use layer::{Layer, share};
pub(crate) use shadow_price::{ShadowPrice, ShadowPriceOptions, Steps};

use laau_core::{Error, Task, expect_finite, expect_length};

/// Checks one finite, non-negative value per budget.
pub(crate) fn check_prices(task: &Task, what: &'static str, prices: &[f64]) -> Result<(), Error> {
    expect_length(what, prices, task.problem.dimensions().budgets)?;
    expect_finite(what, prices)?;
    match prices.iter().position(|&price| price < 0.0) {
        None => Ok(()),
        Some(index) => Err(Error::Negative {
            what,
            index,
            value: prices[index],
        }),
    }
}
