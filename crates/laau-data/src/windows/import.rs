//! The import of a trace.

use std::sync::Arc;

use laau_core::{Episodes, Sets};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::consecutive::{Made, consecutive};
use super::interleaved::interleaved;
use super::options::{Construction, EpisodeOptions, Split};
use crate::error::{Error, invalid};
use crate::load::checked::TraceCounts;
use crate::load::trace::Trace;

/// The episodes of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The episodes; no series, or no time, is in two of the sets, as the split says.
    pub sets: Sets,
    /// Counts of readings and series read, used and dropped.
    pub report: ImportReport,
}

/// Counts of readings and series that an import read, used and dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ImportReport {
    /// Counts of the trace.
    pub trace: TraceCounts,
    /// Episodes that the trace holds.
    pub available: u64,
    /// Readings in none of them: runs shorter than a window, skipped by the stride, or of a series without constants.
    pub unused: u64,
    /// Series without a reading in any of them.
    pub unused_series: u64,
    /// Contexts of the chosen episodes that were raised to the floor.
    pub floored: u64,
    /// Series of train, validation and test.
    pub series: [u64; 3],
    /// In a split by time, the period of train, validation and test: from the first to before the second time.
    pub periods: Option<[(i64, i64); 3]>,
    /// Distance in time of two readings of a series.
    pub step: Option<i64>,
    /// Number of passes over the trace.
    pub passes: u32,
}

/// Makes the episodes of a split from a trace: the sets are apart as [`crate::SplitBy`] says, and the order is seeded.
///
/// Memory grows with the number of series (their names, and for each one unfinished window) and the number of episodes
/// in the split, not with the length of the trace. The same seed gives the same episodes, independent of the number of
/// threads and the order of the paths.
///
/// # Errors
/// Bad options, bad input with file, row and column, or [`Error::TooShort`].
pub fn import(trace: &dyn Trace, options: &EpisodeOptions) -> Result<Imported, Error> {
    options.validate()?;
    let width = trace.values().len();
    if width == 0 {
        return Err(invalid("values", "expected at least one value column"));
    }
    let Made {
        contexts,
        names,
        counts,
        available,
        unused,
        unused_series,
        floored,
        scaling,
        series,
        periods,
        step,
        passes,
    } = match options.construction {
        Construction::Consecutive => consecutive(trace, options)?,
        Construction::Interleaved => interleaved(trace, options)?,
    };
    let scaling = Arc::new(scaling);
    let wanted = options.split.sizes();
    let mut sets = Vec::with_capacity(3);
    for (set, (contexts, names)) in contexts.into_iter().zip(names).enumerate() {
        let episodes = contexts.len() / (options.horizon * width);
        if episodes != wanted[set] {
            return Err(Error::TooShort {
                set: Split::NAMES[set],
                wanted: wanted[set],
                available: episodes,
                series: usize::try_from(series[set]).unwrap_or(usize::MAX),
                all_available: usize::try_from(available).unwrap_or(usize::MAX),
                all_series: usize::try_from(counts.series).unwrap_or(usize::MAX),
            });
        }
        let budgets = draw_budgets(
            &options.budgets,
            options.horizon,
            episodes,
            options.seed,
            set as u64,
        );
        let episodes = Episodes::new(options.horizon, width, options.budgets.len(), contexts, budgets)?;
        sets.push(episodes.with_scaling(Arc::clone(&scaling))?.with_series(names)?);
    }
    let [train, validation, test] = <[Episodes; 3]>::try_from(sets).unwrap_or_else(|_| unreachable!());
    Ok(Imported {
        sets: Sets {
            train,
            validation,
            test,
        },
        report: ImportReport {
            trace: counts,
            available,
            unused,
            unused_series,
            floored,
            series,
            periods: periods.0,
            step,
            passes,
        },
    })
}

/// Budgets for a number of episodes, uniform in [lo·N, hi·N] for each budget; every set has its own random stream.
pub(crate) fn draw_budgets(
    ranges: &[(f64, f64)],
    horizon: usize,
    episodes: usize,
    seed: u64,
    stream: u64,
) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    let mut budgets = Vec::with_capacity(episodes * ranges.len());
    for _ in 0..episodes {
        for &(low, high) in ranges {
            let share: f64 = rng.random();
            budgets.push((low + share * (high - low)) * horizon as f64);
        }
    }
    budgets
}
