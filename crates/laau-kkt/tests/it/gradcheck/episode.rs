//! The gradient of a whole episode against differences of its cost.

use laau_core::{
    CappedLayer, Differentiate, Episode, EpisodeGradient, ShadowEpisode, episode_gradient,
    guarded_episode_gradient,
};

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
    let mut play = |episode: &Episode<'_>, prices: &[f64]| episode_gradient(layer, episode, prices);
    check(&mut play, episode, multipliers, options)
}

/// The same of [`guarded_episode_gradient`].
///
/// # Errors
/// As [`check_episode`].
pub(crate) fn check_guarded_episode(
    layer: &mut CappedLayer,
    episode: &Episode<'_>,
    shadow: ShadowEpisode<'_>,
    multipliers: &[f64],
    options: &GradcheckOptions,
) -> Result<Gradcheck<EpisodePlace>, Error> {
    let mut play =
        |episode: &Episode<'_>, prices: &[f64]| guarded_episode_gradient(layer, episode, shadow, prices);
    check(&mut play, episode, multipliers, options)
}

type Play<'a> = dyn FnMut(&Episode<'_>, &[f64]) -> Result<EpisodeGradient, laau_core::Error> + 'a;

fn check(
    play: &mut Play<'_>,
    episode: &Episode<'_>,
    multipliers: &[f64],
    options: &GradcheckOptions,
) -> Result<Gradcheck<EpisodePlace>, Error> {
    let gradient = play(episode, multipliers)?;
    let m = episode.budgets().len();
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
            let result = play(episode, &prices).ok();
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
            let result = play(&moved, multipliers).ok();
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
