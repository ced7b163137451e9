//! The seam between training and the two engines.

use std::sync::Arc;

use laau_core::{Dimensions, Episodes, GradientCounts, Shadow};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::Model;

/// What the network of a minibatch is computed in. Weights, budgets, layer, loss and the optimiser's state are doubles in either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Doubles.
    #[default]
    F64,
    /// Singles: twice as many to a vector.
    F32,
}

impl Precision {
    /// Files say it only where it is not the default.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What one minibatch gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchResult {
    /// Mean cost per step over the batch: the loss.
    pub loss: f64,
    /// How many of the layer's gradients were exact.
    pub counts: GradientCounts,
}

/// Plays a minibatch of episodes forward and differentiates its loss in the weights, through time and budgets.
pub trait Engine: Send {
    /// Writes the gradient of the loss (mean cost per step over the batch) in `model.parameters`, in their order.
    ///
    /// # Errors
    /// When sizes do not fit, or a layer cannot be solved.
    fn loss_and_gradient(
        &mut self,
        model: &Model,
        episodes: &Episodes,
        batch: &[usize],
        gradient: &mut [f64],
    ) -> Result<BatchResult, Error>;

    /// Plays every minibatch behind a guard from now on: its episodes are those that the shadow was made of. The network
    /// sees what it sees without one; the layer keeps the guard's limits.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] unless the engine can.
    fn guard(&mut self, shadow: Arc<Shadow>) -> Result<(), Error> {
        drop(shadow);
        Err(Error::InvalidSetting {
            field: "guard",
            reason: "expected an engine that plays behind a guard".to_owned(),
        })
    }
}

/// Checks that a model with so many parameters, a batch and a gradient are of these sizes.
pub(crate) fn check_sizes(
    dimensions: Dimensions,
    parameters: usize,
    model: &Model,
    episodes: &Episodes,
    batch: &[usize],
    gradient: &[f64],
) -> Result<(), Error> {
    let largest = batch.iter().max().map_or(0, |index| index + 1);
    for (what, expected, found) in [
        ("a context", dimensions.context, episodes.context_len()),
        ("the budgets", dimensions.budgets, episodes.budget_len()),
        ("the parameters", parameters, model.parameters.len()),
        ("the gradient", parameters, gradient.len()),
        ("a batch", batch.len().max(1), batch.len()),
        ("the episodes", largest.max(episodes.len()), episodes.len()),
    ] {
        if expected != found {
            return Err(Error::Core(laau_core::Error::WrongLength {
                what,
                expected,
                found,
            }));
        }
    }
    Ok(())
}
