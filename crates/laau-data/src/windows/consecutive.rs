//! Episodes of consecutive readings of one series.

use std::sync::Arc;

use laau_core::Scaling;

use super::normaliser::Normaliser;
use super::options::EpisodeOptions;
use super::periods::Periods;
use super::select::{Assignment, CANDIDATES, Pool, assign};
use crate::error::{Error, invalid};
use crate::load::checked::{CheckedTrace, Reading, TraceCounts};
use crate::load::series::mix;
use crate::load::trace::{Order, Trace};

/// Candidates kept on the first pass, as a multiple of the episodes of the split. A larger value makes a second pass rarer
/// and changes nothing else.
const OVERSAMPLING: usize = 4;

/// Readings that an unfinished window has room for at first.
const FEWEST: usize = 4;

/// The contexts of the three sets, and counts.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) contexts: [Vec<f64>; 3],
    /// The series of each episode.
    pub(crate) names: [Vec<Arc<str>>; 3],
    pub(crate) counts: TraceCounts,
    /// Episodes that the trace holds.
    pub(crate) available: u64,
    /// Readings that are in none of them.
    pub(crate) unused: u64,
    /// Series that none of them can be made of.
    pub(crate) unused_series: u64,
    pub(crate) floored: u64,
    pub(crate) scaling: Scaling,
    /// Series of each set.
    pub(crate) series: [u64; 3],
    pub(crate) periods: Periods,
    pub(crate) step: Option<i64>,
    /// Number of passes over the trace.
    pub(crate) passes: u32,
}

/// Cuts every series into windows and selects those of the split.
///
/// One pass keeps the windows of least priority, of any series; when the pass is over, the series are dealt to the sets,
/// and each set takes its best. A second pass is needed only if the trace has enough windows for a set but too few of them
/// were kept.
pub(crate) fn consecutive(trace: &dyn Trace, options: &EpisodeOptions) -> Result<Made, Error> {
    let width = trace.values().len();
    let sizes = options.split.sizes();
    let size = options.window(width)?;
    let mut pool = Pool::new(options.split.total().saturating_mul(OVERSAMPLING), size);
    let mut checked = CheckedTrace::new(trace, options.normalisation, options.out_of_range)?;
    let mut scale = Normaliser::new(&checked.columns, options.normalisation, options.floor);
    let periods = Periods::find(trace, options)?;
    let mut cutter = Cutter::new(options, width, size, periods);
    read_windows(&mut checked, &mut cutter, options.seed, |reading, window| {
        // What comes after the training must not be known to it.
        match periods.of(reading.time) {
            Some(0) => scale.learn(reading.series, reading.values),
            Some(_) => scale.expect(reading.series, reading.values),
            None => {}
        }
        if let Some((priority, start, window)) = window {
            pool.offer(priority, reading.series, start, window)?;
        }
        Ok(())
    })?;
    for (series, tally) in cutter.tallies.iter_mut().enumerate() {
        if !scale.knows(series) {
            *tally = Tally::default();
        }
    }
    let covered: u64 = cutter.tallies.iter().map(|tally| tally.covered).sum();
    let counts: Vec<[usize; 3]> = cutter.tallies.iter().map(|tally| tally.windows).collect();
    let sets = assign(&checked.index, &counts, periods, options)?;

    let complete = pool.is_complete();
    let (candidates, kept) = pool.into_sorted();
    let mut contexts: [Vec<f64>; 3] = Default::default();
    let mut owners: [Vec<usize>; 3] = Default::default();
    let mut taken = [0; 3];
    let mut take = |set: usize, series: usize, readings: &[f64], scale: &mut Normaliser| {
        if taken[set] < sizes[set] {
            taken[set] += 1;
            owners[set].push(series);
            for values in readings.chunks_exact(width) {
                scale.append(set, series, values, &mut contexts[set]);
            }
        }
        taken == sizes
    };
    let mut full = false;
    for candidate in &candidates {
        if let Some(set) = sets.set(candidate.series, candidate.position) {
            full = take(set, candidate.series, kept.of(candidate), &mut scale);
        }
    }
    let passes = if full || complete { 1 } else { 2 };
    if passes == 2 {
        drop((candidates, kept));
        (contexts, owners) = second_pass(trace, options, &sets, periods, &mut scale)?;
    }
    let names: Vec<Arc<str>> = checked.index.names().map(Arc::from).collect();
    Ok(Made {
        contexts,
        names: owners.map(|owners| owners.iter().map(|&series| Arc::clone(&names[series])).collect()),
        counts: checked.counts,
        available: counts.iter().flatten().map(|count| *count as u64).sum(),
        unused: checked.counts.readings - covered,
        unused_series: sets.series_in_none(&counts),
        floored: scale.floored,
        scaling: scale.scaling(&checked.index, options.out_of_range),
        series: sets.series_per_set(&counts),
        passes: passes + u32::from(periods.0.is_some()),
        periods,
        step: checked.step(),
    })
}

/// The contexts of each set, and the series of its episodes.
type Taken = ([Vec<f64>; 3], [Vec<usize>; 3]);

/// The contexts of each set and the series of its episodes, when it is known which series belong to it.
fn second_pass(
    trace: &dyn Trace,
    options: &EpisodeOptions,
    sets: &Assignment,
    periods: Periods,
    scale: &mut Normaliser,
) -> Result<Taken, Error> {
    let width = trace.values().len();
    let size = options.window(width)?;
    let mut pools = options.split.sizes().map(|capacity| Pool::new(capacity, size));
    let mut checked = CheckedTrace::new(trace, options.normalisation, options.out_of_range)?;
    let mut cutter = Cutter::new(options, width, size, periods);
    read_windows(&mut checked, &mut cutter, options.seed, |reading, window| {
        if let Some((priority, start, window)) = window
            && let Some(set) = sets.set(reading.series, start)
        {
            pools[set].offer(priority, reading.series, start, window)?;
        }
        Ok(())
    })?;
    scale.restart();
    let mut contexts: [Vec<f64>; 3] = Default::default();
    let mut owners: [Vec<usize>; 3] = Default::default();
    for (set, pool) in pools.into_iter().enumerate() {
        let (candidates, kept) = pool.into_sorted();
        for candidate in &candidates {
            owners[set].push(candidate.series);
            for values in kept.of(candidate).chunks_exact(width) {
                scale.append(set, candidate.series, values, &mut contexts[set]);
            }
        }
    }
    Ok((contexts, owners))
}

/// Reads a trace and passes on every reading, with the window that it completes: priority, start and values.
fn read_windows(
    checked: &mut CheckedTrace<'_>,
    cutter: &mut Cutter,
    seed: u64,
    mut each: impl FnMut(&Reading<'_>, Option<(u64, i64, &[f64])>) -> Result<(), Error>,
) -> Result<(), Error> {
    checked.read(Order::Series, |reading| {
        let window = cutter.push(&reading)?;
        each(
            &reading,
            window.map(|(start, values)| {
                let priority = mix(&[seed, CANDIDATES, reading.series_hash, start.cast_unsigned()]);
                (priority, start, values)
            }),
        )
    })
}

/// Cuts series into windows, with one unfinished window per series in memory.
#[derive(Debug)]
struct Cutter {
    horizon: usize,
    stride: usize,
    width: usize,
    /// Values of a window.
    size: usize,
    partial: Vec<Partial>,
    window: Vec<f64>,
    periods: Periods,
    tallies: Vec<Tally>,
}

/// What was cut of one series.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Windows, by period.
    windows: [usize; 3],
    /// Readings that are in some window.
    covered: u64,
}

/// The unfinished window of one series.
#[derive(Debug, Default)]
struct Partial {
    values: Vec<f64>,
    /// The time of its first reading.
    start: i64,
    /// Readings to leave out before the next window.
    skip: usize,
    /// Readings at the front that were already in the last window.
    shared: usize,
    /// The period of its readings: no window is in two.
    period: Option<usize>,
}

impl Cutter {
    fn new(options: &EpisodeOptions, width: usize, size: usize, periods: Periods) -> Self {
        Self {
            horizon: options.horizon,
            stride: options.stride(),
            width,
            size,
            partial: Vec::new(),
            window: Vec::new(),
            periods,
            tallies: Vec::new(),
        }
    }

    /// Takes a reading and returns the window that it completes: its start and its values.
    ///
    /// # Errors
    /// A window that is longer than there is memory.
    fn push(&mut self, reading: &Reading<'_>) -> Result<Option<(i64, &[f64])>, Error> {
        if reading.series == self.partial.len() {
            self.partial.push(Partial::default());
            self.tallies.push(Tally::default());
        }
        let partial = &mut self.partial[reading.series];
        let period = self.periods.of(reading.time);
        if !reading.follows || period != partial.period {
            partial.values.clear();
            (partial.skip, partial.shared) = (0, 0);
            partial.period = period;
        }
        let Some(period) = period else {
            return Ok(None);
        };
        if partial.skip > 0 {
            partial.skip -= 1;
            return Ok(None);
        }
        if partial.values.is_empty() {
            partial.start = reading.time;
        }
        if partial.values.capacity() - partial.values.len() < self.width {
            partial.grow(self.width, self.size)?;
        }
        partial.values.extend_from_slice(reading.values);
        if partial.values.len() < self.size {
            return Ok(None);
        }
        self.window.clone_from(&partial.values);
        let start = partial.start;
        let tally = &mut self.tallies[reading.series];
        tally.windows[period] += 1;
        tally.covered += (self.horizon - partial.shared) as u64;
        let moved = self.stride.min(self.horizon);
        partial.values.drain(..moved * self.width);
        if moved < self.horizon {
            // The readings of a window are one step apart, and its first and last can be further apart than an `i64` can say.
            let step = reading.time.abs_diff(start) / (self.horizon - 1) as u64;
            partial.start = start.saturating_add_unsigned(step * moved as u64);
        }
        partial.shared = self.horizon - moved;
        partial.skip = self.stride - moved;
        Ok(Some((start, &self.window)))
    }
}

impl Partial {
    /// Makes room for more readings, twice as many as there are and no more than a window has: of a series that is short, only
    /// what it has is in memory.
    #[cold]
    fn grow(&mut self, width: usize, window: usize) -> Result<(), Error> {
        let wanted = self
            .values
            .len()
            .max(FEWEST * width)
            .min(window - self.values.len());
        self.values.try_reserve_exact(wanted).map_err(|_| {
            let held = self.values.len() / width;
            invalid(
                "horizon",
                format!(
                    "expected a window that fits into memory, found no room for more than {held} readings"
                ),
            )
        })
    }
}
