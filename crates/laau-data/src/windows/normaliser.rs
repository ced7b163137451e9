//! Readings to contexts.

use laau_core::{Affine, Constants, ScaledColumn, Scaling};

use super::options::{Normalisation, OutOfRange};
use crate::load::series::SeriesIndex;
use crate::load::trace::ValueColumn;

/// Maps readings to contexts, given the least and greatest value of every series.
#[derive(Debug)]
pub(crate) struct Normaliser {
    normalisation: Normalisation,
    floor: f64,
    columns: Vec<ValueColumn>,
    ranges: Vec<(f64, f64)>,
    /// Contexts that were raised to the floor.
    pub(crate) floored: u64,
    /// Of each column the least context of the training that was raised, and the greatest that was lowered, as they were.
    moved: Vec<[Option<f64>; 2]>,
}

/// The range of a series without a reading.
const UNKNOWN: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

impl Normaliser {
    pub(crate) fn new(columns: &[ValueColumn], normalisation: Normalisation, floor: f64) -> Self {
        Self {
            normalisation,
            floor,
            columns: columns.to_vec(),
            ranges: Vec::new(),
            floored: 0,
            moved: vec![[None; 2]; columns.len()],
        }
    }

    /// Whether the normalisation needs a pass over all readings first.
    pub(crate) fn learns(&self) -> bool {
        self.normalisation.is_per_series()
    }

    /// Updates the range of a series, if the normalisation uses it.
    pub(crate) fn learn(&mut self, series: usize, values: &[f64]) {
        if !self.learns() {
            return;
        }
        let width = self.columns.len();
        if self.ranges.len() < (series + 1) * width {
            self.ranges.resize((series + 1) * width, UNKNOWN);
        }
        let (least, greatest) = self.normalisation.range();
        for (range, value) in self.ranges[series * width..][..width].iter_mut().zip(values) {
            let value = value.clamp(least, greatest);
            *range = (range.0.min(value), range.1.max(value));
        }
    }

    /// Takes note of a reading that comes after the training. A series that did not vary in it has no scale for another value: it
    /// is forgotten.
    pub(crate) fn expect(&mut self, series: usize, values: &[f64]) {
        if !self.learns() || !self.knows(series) {
            return;
        }
        let width = self.columns.len();
        let (least, greatest) = self.normalisation.range();
        let has_scale = |(column, value): (usize, &f64)| {
            let constants = self.constants(series, column);
            constants.scale != 0.0 || value.clamp(least, greatest) == constants.offset
        };
        if !values.iter().enumerate().all(has_scale) {
            self.ranges[series * width] = UNKNOWN;
        }
    }

    /// Whether readings of a series can become contexts.
    pub(crate) fn knows(&self, series: usize) -> bool {
        let range = self.ranges.get(series * self.columns.len());
        !self.learns() || range.is_some_and(|range| range.0.is_finite())
    }

    /// Appends the context of a reading of a set, raised or lowered into its bounds.
    pub(crate) fn append(&mut self, set: usize, series: usize, values: &[f64], out: &mut Vec<f64>) {
        let (least, greatest) = self.normalisation.range();
        for (column, &value) in values.iter().enumerate() {
            let constants = self.constants(series, column);
            if self.columns[column].fixed {
                out.push(constants.apply(value));
                continue;
            }
            let inside = constants.apply(value.clamp(least, greatest));
            let context = inside.max(self.floor);
            self.floored += u64::from(inside < self.floor);
            out.push(context);
            // Files have no infinite numbers.
            let free = constants.apply(value).clamp(f64::MIN, f64::MAX);
            let [raised, lowered] = &mut self.moved[column];
            // What comes after the training must not be known to it.
            if set != 0 || free == context {
            } else if free < context {
                *raised = Some(raised.map_or(free, |raised| raised.min(free)));
            } else {
                *lowered = Some(lowered.map_or(free, |lowered| lowered.max(free)));
            }
        }
    }

    /// Forgets what was appended.
    pub(crate) fn restart(&mut self) {
        self.floored = 0;
        self.moved.fill([None; 2]);
    }

    fn constants(&self, series: usize, column: usize) -> Affine {
        if self.columns[column].fixed {
            return Affine::IDENTITY;
        }
        let range = self.ranges.get(series * self.columns.len() + column);
        self.normalisation.constants(range.copied().unwrap_or_default())
    }

    /// What was done to the readings, for whoever does it again.
    pub(crate) fn scaling(&self, index: &SeriesIndex, out_of_range: OutOfRange) -> Scaling {
        let (least, greatest) = self.normalisation.range();
        let clamps = out_of_range == OutOfRange::Clamp;
        let bound = |column: &ValueColumn, end: f64| Some(end).filter(|v| !column.fixed && v.is_finite());
        let column = |(place, column): (usize, &ValueColumn)| ScaledColumn {
            accepted: [least, greatest].map(|end| bound(column, end).filter(|_| !clamps)),
            least: bound(column, least).filter(|_| clamps),
            greatest: bound(column, greatest).filter(|_| clamps),
            floor: (!column.fixed).then_some(self.floor),
            moved: self.moved[place],
            ..ScaledColumn::new(&column.name)
        };
        let constants = |series| {
            let columns = 0..self.columns.len();
            columns.map(|column| self.constants(series, column)).collect()
        };
        Scaling {
            kind: self.normalisation.name().to_owned(),
            columns: self.columns.iter().enumerate().map(column).collect(),
            constants: if self.learns() {
                let names = index
                    .names()
                    .enumerate()
                    .filter(|(series, _)| self.knows(*series));
                Constants::PerSeries(
                    names
                        .map(|(series, name)| (name.to_owned(), constants(series)))
                        .collect(),
                )
            } else {
                Constants::Shared(constants(0))
            },
        }
    }
}
