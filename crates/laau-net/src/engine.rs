//! The seam between training and the two engines.

use laau_core::{Episodes, GradientCounts};

use crate::error::Error;
use crate::model::Model;

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
}
