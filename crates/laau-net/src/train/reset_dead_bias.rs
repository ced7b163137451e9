//! Prices from which nothing can be learned.

use laau_core::Episodes;

use crate::engine::Engine;
use crate::model::Model;
use crate::spec::Network;

/// Episodes that are looked at.
const EPISODES: usize = 100;
/// The farthest bias that is tried; an exponential output is then `e^8` times its scale, or the inverse of that.
const FARTHEST: i32 = 8;

/// When nothing could be learned any more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dead {
    /// With the weights that were drawn: any others will do.
    AtStart,
    /// After steps were taken: others must be better, since what was learned is lost.
    Since,
}

/// Gives the outputs of a network whose prices decide nothing another bias, and says which.
///
/// A price above every bid sells nothing, and one below every need leaves each step to its budget: neither has a gradient, and
/// training would never leave it. The outputs' biases are then 0, or the number next to it on either side, with which some
/// episode has one. A model that has a gradient is left as it is, to the bit, and so is one that cannot be helped.
pub(super) fn reset_dead_bias(
    model: &mut Model,
    engine: &mut dyn Engine,
    episodes: &Episodes,
    dead: Dead,
) -> Option<f64> {
    let batch: Vec<usize> = (0..episodes.len().min(EPISODES)).collect();
    let mut gradient = vec![0.0; model.parameters.len()];
    // The loss, and whether it has no slope.
    let mut look = |model: &Model| {
        let result = engine
            .loss_and_gradient(model, episodes, &batch, &mut gradient)
            .ok()?;
        Some((result.loss, gradient.iter().all(|slope| *slope == 0.0)))
    };
    // Which parameters of a custom network are the biases of its outputs is not known.
    if matches!(model.spec.network, Network::Custom(_)) {
        return None;
    }
    let Some((loss, true)) = look(model) else {
        return None;
    };
    let drawn = model.parameters.clone();
    // The last parameters are the biases of the outputs.
    let biases = drawn.len() - model.spec.dimensions.budgets;
    let levels = (1..=FARTHEST).flat_map(|level| [-f64::from(level), f64::from(level)]);
    for level in std::iter::once(0.0).chain(levels) {
        model.parameters.copy_from_slice(&drawn);
        model.parameters[biases..].fill(level);
        model.project();
        let helps = match (look(model), dead) {
            (Some((_, flat)), Dead::AtStart) => !flat,
            (Some((other, flat)), Dead::Since) => !flat && other < loss,
            // Training will say what is wrong with such prices.
            (None, dead) => dead == Dead::AtStart,
        };
        if helps {
            return Some(level);
        }
    }
    model.parameters.copy_from_slice(&drawn);
    None
}
