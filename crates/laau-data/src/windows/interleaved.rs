//! Episodes in which each step reads a different series: jobs that arrive at one server.

use std::sync::Arc;

use super::consecutive::Made;
use super::normaliser::Normaliser;
use super::options::{EpisodeOptions, Split};
use super::periods::Periods;
use super::select::{Assignment, CANDIDATES, Pool, TIMES, assign};
use crate::error::{Cell, Error, invalid};
use crate::load::checked::CheckedTrace;
use crate::load::series::{SeriesIndex, mix};
use crate::load::trace::{Order, Trace};

/// Lines up the readings of each set's series, time after time, and cuts the line into episodes, see [`Line::flush`].
///
/// Two passes: the first counts readings and deals the series to the sets, the second lines up.
pub(crate) fn interleaved(trace: &dyn Trace, options: &EpisodeOptions) -> Result<Made, Error> {
    let size = options.window(trace.values().len())?;
    let periods = Periods::find(trace, options)?;
    let mut first = CheckedTrace::new(trace, options.normalisation, options.out_of_range)?;
    let mut scale = Normaliser::new(&first.columns, options.normalisation, options.floor);
    let mut counts = Vec::new();
    first.read(Order::Series, |reading| {
        if reading.series == counts.len() {
            counts.push([0; 3]);
        }
        let period = periods.of(reading.time);
        // What comes after the training must not be known to it.
        match period {
            Some(0) => scale.learn(reading.series, reading.values),
            Some(_) => scale.expect(reading.series, reading.values),
            None => {}
        }
        if let Some(period) = period {
            counts[reading.series][period] += 1;
        }
        Ok(())
    })?;
    for (series, counts) in counts.iter_mut().enumerate() {
        if !scale.knows(series) {
            *counts = [0; 3];
        }
    }
    let sets = deal(&first.index, &counts, periods, options)?;

    // series are known by number; the second pass may meet them in another order
    let mut number_of = std::collections::HashMap::new();
    let mut lines: Vec<Line> = (0..3).map(|set| Line::new(set, options, trace, size)).collect();
    let mut second = CheckedTrace::new(trace, options.normalisation, options.out_of_range)?;
    let mut first_index = first.index;
    let mut now = i64::MIN;
    let time_column = trace.time_column().to_owned();
    second.read(Order::Time, |reading| {
        if reading.time < now {
            return Err(Error::UnsortedTime {
                cell: Cell::new(reading.file, reading.run.row, time_column.as_str()),
                series: reading.run.series.to_owned(),
                time: trace.show_time(reading.time).into(),
                previous: trace.show_time(now).into(),
            });
        }
        if reading.time > now {
            for line in &mut lines {
                line.flush(now)?;
            }
            now = reading.time;
        }
        let series = *number_of
            .entry(reading.series)
            .or_insert_with(|| first_index.number(reading.run.series));
        if let Some(set) = sets.set(series, reading.time) {
            let line = &mut lines[set];
            let start = line.values.len();
            line.values.extend_from_slice(reading.values);
            line.waiting.push((
                mix(&[
                    options.seed,
                    TIMES,
                    reading.time.cast_unsigned(),
                    reading.series_hash,
                ]),
                series,
                start,
            ));
        }
        Ok(())
    })?;
    for line in &mut lines {
        line.flush(now)?;
    }

    let (mut available, mut used) = (0, 0);
    let mut contexts: [Vec<f64>; 3] = Default::default();
    let mut names: [Vec<Arc<str>>; 3] = Default::default();
    for (set, line) in lines.into_iter().enumerate() {
        let (contexts, names) = (&mut contexts[set], &mut names[set]);
        available += line.cut.cast_unsigned();
        used += line.cut.cast_unsigned() * options.horizon as u64;
        let (candidates, values) = line.episodes.into_sorted();
        let (twins, series) = line.owners.into_sorted();
        for (candidate, twin) in candidates.iter().zip(&twins) {
            let steps = values.of(candidate).chunks_exact(line.width);
            for (values, &series) in steps.zip(series.of(twin)) {
                scale.append(set, series, values, contexts);
            }
            // All steps are of about one time, which is what such episodes share.
            names.push(trace.show_time(candidate.position).into());
        }
    }
    Ok(Made {
        contexts,
        names,
        counts: second.counts,
        available,
        unused: second.counts.readings - used,
        unused_series: sets.series_in_none(&counts),
        floored: scale.floored,
        scaling: scale.scaling(&first_index, options.out_of_range),
        series: sets.series_per_set(&counts),
        passes: 2 + u32::from(periods.0.is_some()),
        periods,
        step: second.step(),
    })
}

/// Deals the series by their readings.
fn deal(
    index: &SeriesIndex,
    counts: &[[usize; 3]],
    periods: Periods,
    options: &EpisodeOptions,
) -> Result<Assignment, Error> {
    let horizon = options.horizon;
    let readings = Split {
        train: options.split.train.saturating_mul(horizon),
        validation: options.split.validation.saturating_mul(horizon),
        test: options.split.test.saturating_mul(horizon),
    };
    let by_readings = EpisodeOptions {
        split: readings,
        ..options.clone()
    };
    let sets = assign(index, counts, periods, &by_readings).map_err(|error| match error {
        Error::TooShort {
            set,
            wanted,
            available,
            series,
            all_available,
            all_series,
        } => Error::TooShort {
            set,
            wanted: wanted / horizon,
            available: available / horizon,
            series,
            all_available: all_available / horizon,
            all_series,
        },
        other => other,
    })?;
    let series = sets.series_per_set(counts);
    match (0..3).find(|&set| options.split.sizes()[set] > 0 && series[set] < 2) {
        Some(set) if horizon > 1 => Err(invalid(
            "construction",
            format!(
                "interleaved episodes need at least 2 series in each set, found {} for {}",
                series[set],
                Split::NAMES[set]
            ),
        )),
        _ => Ok(sets),
    }
}

/// The readings of one set, lined up.
#[derive(Debug)]
struct Line {
    set: u64,
    seed: u64,
    width: usize,
    size: usize,
    /// The readings of the current time: order, series, where its values start.
    waiting: Vec<(u64, usize, usize)>,
    values: Vec<f64>,
    episode: Vec<f64>,
    /// The series of each of its steps.
    owners_of_episode: Vec<usize>,
    last: Option<usize>,
    /// Episodes cut so far.
    cut: i64,
    episodes: Pool<f64>,
    /// The series of the steps of these episodes.
    owners: Pool<usize>,
}

impl Line {
    fn new(set: usize, options: &EpisodeOptions, trace: &dyn Trace, size: usize) -> Self {
        Self {
            set: set as u64,
            seed: options.seed,
            width: trace.values().len(),
            size,
            waiting: Vec::new(),
            values: Vec::new(),
            episode: Vec::new(),
            owners_of_episode: Vec::new(),
            last: None,
            cut: 0,
            episodes: Pool::new(options.split.sizes()[set], size),
            owners: Pool::new(options.split.sizes()[set], options.horizon),
        }
    }

    /// Lines up the readings of one time, in a seeded order.
    ///
    /// If they fill an episode, all its steps are of this time, and the remaining readings are dropped. Otherwise the episode
    /// continues at the next time, and never with the same series twice in a row if there is another.
    ///
    /// # Errors
    /// More episodes than there is memory for.
    fn flush(&mut self, now: i64) -> Result<(), Error> {
        self.waiting.sort_unstable();
        let whole = self.waiting.len() * self.width >= self.size;
        if whole {
            self.restart();
            self.last = None;
        }
        if self.waiting.len() > 1 && Some(self.waiting[0].1) == self.last {
            self.waiting.swap(0, 1);
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        for (_, series, start) in waiting.drain(..) {
            self.last = Some(series);
            self.episode
                .extend_from_slice(&self.values[start..][..self.width]);
            self.owners_of_episode.push(series);
            if self.episode.len() == self.size {
                let priority = mix(&[self.seed, CANDIDATES, self.set, self.cut.cast_unsigned()]);
                self.episodes.offer(priority, 0, now, &self.episode)?;
                self.owners.offer(priority, 0, now, &self.owners_of_episode)?;
                self.cut += 1;
                self.restart();
            }
        }
        if whole {
            self.restart();
        }
        self.waiting = waiting;
        self.values.clear();
        Ok(())
    }

    /// Begins an episode anew.
    fn restart(&mut self) {
        self.episode.clear();
        self.owners_of_episode.clear();
    }
}
