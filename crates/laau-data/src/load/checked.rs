//! One pass over a trace that numbers the series, checks times and values, and counts irregularities.

use std::path::Path;

use laau_core::problems::LARGEST;

use crate::error::{Cell, CellFault, Error, invalid};
use crate::load::series::SeriesIndex;
use crate::load::time::TimeUnit;
use crate::load::trace::{Dropped, Irregular, Order, Readings, Run, Step, Trace, ValueColumn};
use crate::windows::options::{Normalisation, OutOfRange};

/// Counts of one pass over a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct TraceCounts {
    /// Readings, without those that were dropped.
    pub readings: u64,
    /// Series.
    pub series: u64,
    /// Places where one or more readings of a series are missing.
    pub gaps: u64,
    /// Distances in time that are not a multiple of the step; they end a window as a gap does.
    pub irregular: u64,
    /// Values that are zero.
    pub zeros: u64,
    /// Values that were clamped to their range.
    pub clamped: u64,
    /// Excluded rows.
    pub dropped: Dropped,
}

/// One reading, checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a> {
    /// The number of its series.
    pub(crate) series: usize,
    /// A hash of the series' name.
    pub(crate) series_hash: u64,
    pub(crate) time: i64,
    /// As they were read: they may be outside the range if they are to be clamped.
    pub(crate) values: &'a [f64],
    /// Whether it comes one step after the one before it in its series.
    pub(crate) follows: bool,
    /// Where it stands.
    pub(crate) run: Run<'a>,
    pub(crate) file: &'a Path,
}

/// A trace whose times and values are checked while it is read.
pub(crate) struct CheckedTrace<'a> {
    trace: &'a dyn Trace,
    pub(crate) index: SeriesIndex,
    pub(crate) counts: TraceCounts,
    pub(crate) columns: Vec<ValueColumn>,
    time_column: String,
    step: Option<i64>,
    /// Whether the step is the first distance.
    is_inferred: bool,
    irregular: Irregular,
    range: (f64, f64),
    out_of_range: OutOfRange,
    last: Vec<Option<i64>>,
    /// A distance that contradicts the inferred step, and how many more readings may tell why.
    contradiction: Option<(Error, u32)>,
}

/// Readings that are looked at behind a distance that contradicts the inferred step. Unsorted rows often break the step before one of
/// them goes back in time, and then that is the error to report.
const LOOK_AHEAD: u32 = 10_000;

impl<'a> CheckedTrace<'a> {
    /// Checks values against the range of a normalisation.
    pub(crate) fn new(
        trace: &'a dyn Trace,
        normalisation: Normalisation,
        out_of_range: OutOfRange,
    ) -> Result<Self, Error> {
        let (step, irregular) = match trace.step() {
            Step::Inferred => (None, Irregular::Error),
            Step::Known { step, .. } if step <= 0 => {
                return Err(invalid(
                    "step",
                    format!("expected a positive distance in time, found {step}"),
                ));
            }
            Step::Known { step, irregular } => (Some(step), irregular),
        };
        Ok(Self {
            trace,
            index: SeriesIndex::default(),
            counts: TraceCounts::default(),
            columns: trace.values(),
            time_column: trace.time_column().to_owned(),
            step,
            is_inferred: trace.step() == Step::Inferred,
            irregular,
            range: normalisation.range(),
            out_of_range,
            last: Vec::new(),
            contradiction: None,
        })
    }

    /// Reads the whole trace.
    ///
    /// # Errors
    /// Bad input, and any error of `each`.
    pub(crate) fn read(
        &mut self,
        order: Order,
        mut each: impl FnMut(Reading<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let outcome = self.trace.read(order, &mut |readings| {
            let dropped = readings.dropped();
            self.counts.dropped.filtered += dropped.filtered;
            self.counts.dropped.unlisted += dropped.unlisted;
            self.counts.readings += readings.len() as u64;
            readings
                .runs()
                .try_for_each(|run| self.run(readings, run, &mut each))
        });
        // It came before any other error.
        match self.contradiction.take() {
            Some((error, _)) if !matches!(outcome, Err(Error::UnsortedTime { .. })) => return Err(error),
            _ => outcome?,
        }
        self.counts.series = self.index.len() as u64;
        Ok(())
    }

    /// The step of the trace, once it is known.
    pub(crate) fn step(&self) -> Option<i64> {
        self.step
    }

    fn run(
        &mut self,
        readings: &Readings,
        run: Run<'_>,
        each: &mut impl FnMut(Reading<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let file = readings.file();
        let width = self.columns.len();
        let series = self.index.number(run.series);
        let series_hash = self.index.hash(series);
        if series == self.last.len() {
            self.last.push(None);
        }
        for (position, &time) in run.times.iter().enumerate() {
            let values = &run.values[position * width..][..width];
            let follows = match self.last[series] {
                None => false,
                Some(previous) => self.follows(file, run, time, previous)?,
            };
            self.last[series] = Some(time);
            if self.contradiction.is_some() {
                self.look_ahead()?;
                continue;
            }
            let (lower, upper) = self.range;
            let inside = |column: &ValueColumn, v: f64| {
                v.abs() <= LARGEST && (column.fixed || (lower <= v && v <= upper))
            };
            if !self.columns.iter().zip(values).all(|(c, v)| inside(c, *v)) {
                self.count_clamped(file, run, values)?;
            }
            self.counts.zeros += values.iter().filter(|v| v.clamp(lower, upper) == 0.0).count() as u64;
            each(Reading {
                series,
                series_hash,
                time,
                values,
                follows,
                run,
                file,
            })?;
        }
        Ok(())
    }

    /// Goes one reading on from a contradiction, and tells it if that was the last one.
    #[cold]
    fn look_ahead(&mut self) -> Result<(), Error> {
        match self.contradiction.take() {
            Some((error, 0)) => Err(error),
            Some((error, left)) => {
                self.contradiction = Some((error, left - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Whether a reading comes one step after the one before it.
    fn follows(&mut self, file: &Path, run: Run<'_>, time: i64, previous: i64) -> Result<bool, Error> {
        let cell = || Cell::new(file, run.row, self.time_column.as_str());
        let series = || run.series.to_owned();
        if time == previous {
            return Err(Error::DuplicateTime {
                cell: cell(),
                series: series(),
                time: self.trace.show_time(time),
            });
        }
        if time < previous {
            return Err(Error::UnsortedTime {
                cell: cell(),
                series: series(),
                time: self.trace.show_time(time).into(),
                previous: self.trace.show_time(previous).into(),
            });
        }
        let Some(distance) = time.checked_sub(previous) else {
            return Err(cell().refuse(
                "a time less than 2^63 after the one before it",
                format!("{time} after {previous}"),
            ));
        };
        let step = *self.step.get_or_insert(distance);
        if distance == step {
            return Ok(true);
        }
        // Whoever gave the step knows what the times count.
        if self.is_inferred {
            let unit = |time| TimeUnit::since_1970(time, time);
            if let (Some(before), Some(now)) = (unit(previous), unit(time))
                && before != now
            {
                return Err(cell().refuse_for(
                    CellFault::MixedTimes,
                    "times since 1970 in one unit",
                    format!("{} after {}: {time} after {previous}", now.name(), before.name()),
                ));
            }
        }
        if distance % step == 0 {
            self.counts.gaps += 1;
        } else if self.irregular == Irregular::Gap {
            self.counts.irregular += 1;
        } else {
            let error = Error::MixedSteps {
                cell: cell(),
                series: series(),
                step,
                is_inferred: self.is_inferred,
                distance,
            };
            if !self.is_inferred {
                return Err(error);
            }
            self.contradiction.get_or_insert((error, LOOK_AHEAD));
        }
        Ok(false)
    }

    /// Counts the values of a reading that its contexts will be clamped for.
    ///
    /// # Errors
    /// A value that is no number, one outside the range where it is not to be clamped, and one that no problem takes.
    #[cold]
    fn count_clamped(&mut self, file: &Path, run: Run<'_>, values: &[f64]) -> Result<(), Error> {
        let (lower, upper) = self.range;
        for (column, &value) in self.columns.iter().zip(values) {
            let cell = || Cell::new(file, run.row, column.name.as_str());
            if value.is_nan() {
                return Err(cell().refuse_for(CellFault::Missing, "a finite number", value.to_string()));
            }
            let inside = if column.fixed {
                value
            } else {
                value.clamp(lower, upper)
            };
            if inside == value && value.abs() <= LARGEST {
                continue;
            }
            if self.out_of_range == OutOfRange::Error || inside.abs() > LARGEST {
                return Err(Error::OutOfRange {
                    cell: cell(),
                    value,
                    lower: lower.max(-LARGEST),
                    upper: upper.min(LARGEST),
                });
            }
            self.counts.clamped += 1;
        }
        Ok(())
    }
}
