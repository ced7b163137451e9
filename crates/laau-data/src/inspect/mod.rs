//! Statistics of a trace, of an episodes table, and of any table of figures.

mod figures;
mod statistics;

pub use figures::{ColumnFigures, TableFigures, inspect_table, table_columns};
pub use statistics::{QUANTILES, ValueStatistics};

use laau_core::Episodes;
use serde::Serialize;

use self::statistics::Collector;
use crate::error::Error;
use crate::load::checked::{CheckedTrace, TraceCounts};
use crate::load::series::mix;
use crate::load::trace::{Order, Trace};
use crate::windows::normaliser::Normaliser;
use crate::windows::options::{Normalisation, OutOfRange};

/// Statistics of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TraceStatistics {
    /// Readings, series, gaps, zeros, and dropped rows by reason.
    pub counts: TraceCounts,
    /// Share of the rows that were dropped.
    pub dropped_share: f64,
    /// The distance in time between readings; none if no series has two.
    pub step: Option<i64>,
    /// The first and the last time.
    pub times: Option<(i64, i64)>,
    /// Every value.
    pub values: Vec<ValueStatistics>,
}

/// Statistics of a set of episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EpisodesStatistics {
    /// Number of episodes.
    pub episodes: usize,
    /// Steps of each.
    pub horizon: usize,
    /// Every value of the contexts; an episode counts as a series.
    pub contexts: Vec<ValueStatistics>,
    /// The budgets of every resource, each divided by the horizon.
    pub budgets_per_step: Vec<ValueStatistics>,
}

/// Reads a trace and describes it, normalised or as it is, in memory that grows with the number of series alone.
///
/// # Errors
/// Bad input, with file, row and column.
pub fn inspect_trace(
    trace: &dyn Trace,
    normalisation: Normalisation,
    out_of_range: OutOfRange,
) -> Result<TraceStatistics, Error> {
    let columns = trace.values();
    let mut scale = Normaliser::new(&columns, normalisation, f64::NEG_INFINITY);
    if scale.learns() {
        CheckedTrace::new(trace, normalisation, out_of_range)?.read(Order::Series, |reading| {
            scale.learn(reading.series, reading.values);
            Ok(())
        })?;
    }
    let mut checked = CheckedTrace::new(trace, normalisation, out_of_range)?;
    let mut collectors: Vec<Collector> = columns.iter().map(|_| Collector::default()).collect();
    let mut times: Option<(i64, i64)> = None;
    let mut contexts = Vec::with_capacity(columns.len());
    checked.read(Order::Series, |reading| {
        let (first, last) = times.unwrap_or((reading.time, reading.time));
        times = Some((first.min(reading.time), last.max(reading.time)));
        contexts.clear();
        scale.append(0, reading.series, reading.values, &mut contexts);
        let key = mix(&[reading.series_hash, reading.time.cast_unsigned()]);
        for (collector, value) in collectors.iter_mut().zip(&contexts) {
            collector.push(reading.series, key, *value, reading.follows);
        }
        Ok(())
    })?;
    let dropped = checked.counts.dropped.filtered + checked.counts.dropped.unlisted;
    Ok(TraceStatistics {
        dropped_share: dropped as f64 / (checked.counts.readings + dropped).max(1) as f64,
        step: checked.step(),
        times,
        values: collectors
            .into_iter()
            .zip(columns)
            .map(|(collector, column)| collector.finish(column.name))
            .collect(),
        counts: checked.counts,
    })
}

/// Describes a set of episodes.
#[must_use]
pub fn inspect_episodes(episodes: &Episodes) -> EpisodesStatistics {
    let describe = |name: &str, count: usize, collect: &dyn Fn(usize, &mut Collector)| {
        (0..count)
            .map(|number| {
                let mut collector = Collector::default();
                collect(number, &mut collector);
                collector.finish(if count == 1 {
                    name.to_owned()
                } else {
                    format!("{name}_{number}")
                })
            })
            .collect()
    };
    EpisodesStatistics {
        episodes: episodes.len(),
        horizon: episodes.horizon(),
        contexts: describe("context", episodes.context_len(), &|column, collector| {
            for (number, episode) in episodes.iter().enumerate() {
                for step in 0..episode.horizon() {
                    let key = mix(&[number as u64, step as u64]);
                    collector.push(number, key, episode.context(step)[column], step > 0);
                }
            }
        }),
        budgets_per_step: describe("budget", episodes.budget_len(), &|resource, collector| {
            for (number, episode) in episodes.iter().enumerate() {
                let share = episode.budgets()[resource] / episodes.horizon() as f64;
                collector.push(0, mix(&[number as u64]), share, false);
            }
        }),
    }
}
