//! Noise that moves a set of episodes to a given distance.

use laau_core::Episodes;
use rayon::prelude::*;

use super::wasserstein::{Slices, between_sorted, sliced_wasserstein, sorted};
use crate::error::{Error, expect, finite, non_negative, positive};
use crate::random::{Purpose, normal_pair, stream};

/// Options of [`shift`].
///
/// | option | default | purpose | range |
/// |---|---|---|---|
/// | `mean` | 1 | mean of the noise, per unit of scale | finite |
/// | `deviation` | 0.5 | standard deviation of the noise, per unit of scale | ≥ 0, not both zero |
/// | `tolerance` | 0.0005 | how near the distance must come to the target | > 0 |
/// | `largest_scale` | 1000 | where the search gives up | > 0 |
/// | `seed` | 0 | of the draws | any |
/// | `slices` | 200 directions | how the sliced distance beside it is measured | |
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Shift {
    /// Mean of the noise, per unit of scale.
    pub mean: f64,
    /// Standard deviation of the noise, per unit of scale.
    pub deviation: f64,
    /// How near the distance must come to the target.
    pub tolerance: f64,
    /// Where the search gives up.
    pub largest_scale: f64,
    /// Seed of the draws.
    pub seed: u64,
    /// How the sliced distance is measured.
    pub slices: Slices,
}

impl Default for Shift {
    fn default() -> Self {
        Self {
            mean: 1.0,
            deviation: 0.5,
            tolerance: 0.0005,
            largest_scale: 1000.0,
            seed: 0,
            slices: Slices::default(),
        }
    }
}

/// Episodes whose contexts were shifted, and by how much.
#[derive(Debug, Clone, PartialEq)]
pub struct Shifted {
    /// The episodes: contexts with noise, budgets as they were.
    pub episodes: Episodes,
    /// Mean of the noise before truncation.
    pub mean: f64,
    /// Standard deviation of the noise before truncation.
    pub deviation: f64,
    /// The share of context values that were truncated at zero.
    pub truncated: f64,
    /// The pooled Wasserstein-1 distance to the reference that was reached.
    pub distance: f64,
    /// The sliced Wasserstein-1 distance to the reference, between whole episodes.
    pub sliced: f64,
}

/// Adds noise to the contexts of `episodes`, so that their pooled Wasserstein-1 distance to the contexts of `reference` is
/// `target`.
///
/// # Errors
/// [`Error::Invalid`] for an option outside its range, empty sets or different shapes; [`Error::ShiftOutOfReach`] when
/// the sets are further apart than the target without any noise, or when no scale up to the largest reaches it.
pub fn shift(
    episodes: &Episodes,
    reference: &Episodes,
    target: f64,
    options: &Shift,
) -> Result<Shifted, Error> {
    check(target, options)?;
    let reference_sorted = sorted(reference.contexts())?;
    let without = between_sorted(&sorted(episodes.contexts())?, &reference_sorted);
    let draws = draws(episodes.contexts().len(), options.seed);
    let noisy = |scale: f64| {
        with_noise(
            episodes.contexts(),
            scale * options.mean,
            scale * options.deviation,
            &draws,
        )
    };
    let distance = |scale: f64| {
        let mut values = noisy(scale);
        values.par_sort_unstable_by(f64::total_cmp);
        between_sorted(&values, &reference_sorted)
    };

    let scale = if target == 0.0 {
        0.0
    } else if without > target + options.tolerance {
        return Err(Error::ShiftOutOfReach {
            target,
            reason: format!("the sets are {without} apart without any noise, expected less"),
        });
    } else {
        solve(distance, without, target, options)?
    };
    let contexts = noisy(scale);
    let truncated = if scale == 0.0 {
        0.0
    } else {
        contexts.iter().filter(|c| **c == 0.0).count() as f64 / contexts.len() as f64
    };
    let distance = if scale == 0.0 { without } else { distance(scale) };
    let episodes = with_contexts(episodes, contexts)?;
    Ok(Shifted {
        mean: scale * options.mean,
        deviation: scale * options.deviation,
        truncated,
        distance,
        sliced: sliced_wasserstein(&episodes, reference, &options.slices)?,
        episodes,
    })
}

/// Adds the noise that [`shift`] found to other episodes, for example a validation set that should follow the training
/// set. The seed should be another one.
///
/// # Errors
/// [`Error::Invalid`] unless the mean is finite and the deviation finite and not negative.
pub fn add_noise(episodes: &Episodes, mean: f64, deviation: f64, seed: u64) -> Result<Episodes, Error> {
    finite("mean of the noise", mean)?;
    non_negative("deviation of the noise", deviation)?;
    let draws = draws(episodes.contexts().len(), seed);
    with_contexts(episodes, with_noise(episodes.contexts(), mean, deviation, &draws))
}

/// The same episodes with other contexts, of the same problem and the same series.
fn with_contexts(episodes: &Episodes, contexts: Vec<f64>) -> Result<Episodes, Error> {
    let mut shifted = Episodes::new(
        episodes.horizon(),
        episodes.context_len(),
        episodes.budget_len(),
        contexts,
        episodes.budgets().to_vec(),
    )?;
    if let Some(problem) = episodes.problem() {
        shifted = shifted.made_for(problem);
    }
    if let Some(series) = episodes.series() {
        shifted = shifted.with_series(series.to_vec())?;
    }
    Ok(shifted)
}

/// The scale at which the distance is the target: doubling until it is passed, then bisection.
fn solve(distance: impl Fn(f64) -> f64, without: f64, target: f64, options: &Shift) -> Result<f64, Error> {
    let near = |value: f64| (value - target).abs() <= options.tolerance;
    if near(without) {
        return Ok(0.0);
    }
    let (mut low, mut high) = (0.0, target.min(options.largest_scale));
    let mut reached = distance(high);
    while reached < target {
        if near(reached) {
            return Ok(high);
        }
        if high >= options.largest_scale {
            return Err(Error::ShiftOutOfReach {
                target,
                reason: format!("noise of the largest scale, {high}, reaches {reached}"),
            });
        }
        low = high;
        high = (2.0 * high).min(options.largest_scale);
        reached = distance(high);
    }
    // The distance is continuous, below the target at `low` and not below it at `high`; 100 halvings end at
    // neighbouring floats.
    for _ in 0..100 {
        if near(reached) {
            return Ok(high);
        }
        let middle = low + 0.5 * (high - low);
        let at_middle = distance(middle);
        if at_middle < target {
            if near(at_middle) {
                return Ok(middle);
            }
            low = middle;
        } else {
            (high, reached) = (middle, at_middle);
        }
    }
    Err(Error::ShiftOutOfReach {
        target,
        reason: format!(
            "the nearest is {reached} at scale {high}, expected it within {}",
            options.tolerance
        ),
    })
}

fn with_noise(contexts: &[f64], mean: f64, deviation: f64, draws: &[f64]) -> Vec<f64> {
    if mean == 0.0 && deviation == 0.0 {
        return contexts.to_vec();
    }
    contexts
        .iter()
        .zip(draws)
        .map(|(c, z)| (c + mean + deviation * z).max(0.0))
        .collect()
}

fn draws(count: usize, seed: u64) -> Vec<f64> {
    let mut generator = stream(seed, Purpose::Noise, 0);
    let mut draws = Vec::with_capacity(count + 1);
    while draws.len() < count {
        let (a, b) = normal_pair(&mut generator);
        draws.extend([a, b]);
    }
    draws.truncate(count);
    draws
}

fn check(target: f64, options: &Shift) -> Result<(), Error> {
    let Shift {
        mean,
        deviation,
        tolerance,
        largest_scale,
        ..
    } = *options;
    non_negative("target distance", target)?;
    finite("mean of the noise", mean)?;
    expect(
        "deviation of the noise",
        deviation,
        deviation.is_finite() && deviation >= 0.0 && (mean != 0.0 || deviation > 0.0),
        "a finite value, at least 0, and not 0 beside a mean of 0",
    )?;
    positive("tolerance", tolerance)?;
    positive("largest scale", largest_scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shift::wasserstein::pooled_wasserstein;
    use crate::synthetic::{GenerateOptions, Workload};
    use crate::windows::options::{Construction, Split};

    fn sets(construction: Construction) -> (Episodes, Episodes) {
        let options = GenerateOptions {
            construction,
            ..GenerateOptions::default()
        };
        let split = Split {
            train: 1000,
            validation: 1,
            test: 600,
        };
        let sets = Workload::default().generate_split(split, &options).unwrap();
        (sets.train, sets.test)
    }

    #[test]
    fn every_target_is_hit_on_the_synthetic_workload() {
        for construction in [Construction::Consecutive, Construction::Interleaved] {
            let (train, test) = sets(construction);
            let mut last = 0.0;
            for target in [0.05, 0.1, 0.15, 0.2, 0.25] {
                let shifted = shift(&train, &test, target, &Shift::default()).unwrap();
                // Measured afresh, on the episodes that come out.
                let measured = pooled_wasserstein(&shifted.episodes, &test).unwrap();
                assert!((measured - target).abs() <= 0.002, "{target}: {measured}");
                assert_eq!(measured, shifted.distance);
                assert!(shifted.episodes.contexts().iter().all(|c| *c >= 0.0));
                assert_eq!(shifted.episodes.budgets(), train.budgets());
                assert!(shifted.mean > last && shifted.deviation == 0.5 * shifted.mean);
                assert!(shifted.truncated < 0.1);
                last = shifted.mean;
            }
        }
    }

    #[test]
    fn shifted_episodes_are_of_the_same_problem_and_the_same_series() {
        let (train, test) = sets(Construction::Consecutive);
        let series = (0..train.len()).map(|vm| vm.to_string().into()).collect();
        let train = train.made_for("trading").with_series(series).unwrap();
        for shifted in [
            shift(&train, &test, 0.1, &Shift::default()).unwrap().episodes,
            add_noise(&train, 0.1, 0.1, 1).unwrap(),
        ] {
            assert_ne!(shifted.contexts(), train.contexts());
            assert_eq!(shifted.problem(), Some("trading"));
            assert_eq!(shifted.series(), train.series());
        }
    }

    #[test]
    fn a_target_of_zero_is_no_noise() {
        let (train, test) = sets(Construction::Consecutive);
        let shifted = shift(&train, &test, 0.0, &Shift::default()).unwrap();
        assert_eq!(shifted.episodes, train);
        assert_eq!(
            (shifted.mean, shifted.deviation, shifted.truncated),
            (0.0, 0.0, 0.0)
        );
        assert_eq!(shifted.distance, pooled_wasserstein(&train, &test).unwrap());
    }

    #[test]
    fn a_mean_alone_moves_by_the_target() {
        let (train, _) = sets(Construction::Consecutive);
        let options = Shift {
            deviation: 0.0,
            tolerance: 1e-9,
            ..Shift::default()
        };
        let shifted = shift(&train, &train, 0.125, &options).unwrap();
        assert!((shifted.mean - 0.125).abs() < 1e-8, "{}", shifted.mean);
        assert_eq!(shifted.truncated, 0.0);
    }

    #[test]
    fn the_truncation_is_counted_and_the_target_still_hit() {
        let (train, _) = sets(Construction::Consecutive);
        let options = Shift {
            mean: 0.0,
            deviation: 1.0,
            ..Shift::default()
        };
        let shifted = shift(&train, &train, 0.1, &options).unwrap();
        assert!((shifted.distance - 0.1).abs() <= 0.0005);
        assert!(shifted.truncated > 0.1, "{}", shifted.truncated);
        let zeros = shifted.episodes.contexts().iter().filter(|c| **c == 0.0).count();
        assert_eq!(shifted.truncated, zeros as f64 / train.contexts().len() as f64);
    }

    #[test]
    fn one_seed_gives_one_answer_and_another_seed_another() {
        let (train, test) = sets(Construction::Interleaved);
        let with = |seed| {
            let options = Shift {
                seed,
                ..Shift::default()
            };
            shift(&train, &test, 0.1, &options).unwrap()
        };
        assert_eq!(with(1), with(1));
        assert_ne!(with(1).episodes, with(2).episodes);
        let again = add_noise(&train, with(1).mean, with(1).deviation, 1).unwrap();
        assert_eq!(again, with(1).episodes);
    }

    #[test]
    fn what_cannot_be_reached_is_refused_with_a_word() {
        let (train, test) = sets(Construction::Consecutive);
        let away = add_noise(&test, 0.3, 0.0, 1).unwrap();
        let error = shift(&test, &away, 0.1, &Shift::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("a distance of 0.1 is out of reach: the sets are 0.3")
                && error.ends_with(" apart without any noise, expected less"),
            "{error}"
        );
        // Noise that only lowers contexts ends at zero: no further than the mean of the reference.
        let lower = Shift {
            mean: -1.0,
            deviation: 0.0,
            ..Shift::default()
        };
        assert!(shift(&train, &train, 0.2, &lower).is_ok());
        let error = shift(&train, &train, 5.0, &lower).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "a distance of 5 is out of reach: noise of the largest scale, 1000, reaches 0.2"
            ),
            "{error}"
        );
    }

    #[test]
    fn bad_options_are_refused_with_a_word() {
        let (train, test) = sets(Construction::Consecutive);
        let check = |target: f64, options: Shift, expected: &str| {
            let error = shift(&train, &test, target, &options).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        let options = Shift::default();
        check(
            -0.1,
            options,
            "invalid target distance: expected a finite value, at least 0, found -0.1",
        );
        check(
            0.1,
            Shift {
                tolerance: 0.0,
                ..options
            },
            "invalid tolerance: expected a positive value, found 0",
        );
        check(
            0.1,
            Shift {
                mean: 0.0,
                deviation: 0.0,
                ..options
            },
            "invalid deviation of the noise: expected a finite value, at least 0, and not 0 beside a mean of 0, found 0",
        );
        assert!(add_noise(&train, f64::NAN, 0.0, 1).is_err());
    }
}
