//! The gradient of a whole episode against differences of its cost.

use laau_core::{Differentiate, Episode, episode_gradient};

use super::numeric::Point;
use super::{Gradcheck, GradcheckOptions};
use laau_kkt::Error;

/// A derivative of an episode's cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EpisodePlace {
    /// In the price of a budget at a step.
    Multiplier {
        /// The step, from 0.
        step: usize,
        /// The budget.
        budget: usize,
    },
    /// In a budget at the start.
    Budget {
        /// The budget.
        budget: usize,
    },
}

/// Compares [`episode_gradient`] in every price of every step, and in every budget, with differences of the cost.
///
/// # Errors
/// [`Error::Core`] when sizes do not fit or a step is not solved.
pub(crate) fn check_episode(
    layer: &mut dyn Differentiate,
    episode: &Episode<'_>,
    multipliers: &[f64],
    options: &GradcheckOptions,
) -> Result<Gradcheck<EpisodePlace>, Error> {
    let gradient = episode_gradient(layer, episode, multipliers)?;
    let m = layer.problem().dimensions().budgets;
    let mut report = Gradcheck::new();
    report.gradients = gradient.counts;
    let mut prices = multipliers.to_vec();
    for index in 0..prices.len() {
        let place = EpisodePlace::Multiplier {
            step: index / m,
            budget: index % m,
        };
        let mut function = |value: f64| {
            prices[index] = value;
            let result = episode_gradient(layer, episode, &prices).ok();
            result.map(|result| result.cost)
        };
        let derivative = gradient.multipliers[index];
        let point = Point {
            from: 0.0,
            ..Point::of(multipliers, index)
        };
        report.compare(place, derivative, point, options, &mut function);
        prices[index] = multipliers[index];
    }
    let mut budgets = episode.budgets().to_vec();
    for budget in 0..m {
        let mut function = |value: f64| {
            budgets[budget] = value;
            let moved = Episode::new(episode.contexts(), episode.context_len(), &budgets).ok()?;
            let result = episode_gradient(layer, &moved, multipliers).ok();
            result.map(|result| result.cost)
        };
        let place = EpisodePlace::Budget { budget };
        let point = Point {
            from: 0.0,
            ..Point::of(episode.budgets(), budget)
        };
        report.compare(place, gradient.budgets[budget], point, options, &mut function);
        budgets[budget] = point.at;
    }
    Ok(report)
}
