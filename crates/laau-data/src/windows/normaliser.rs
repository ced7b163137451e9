//! Readings to contexts.

use super::options::Normalisation;
use crate::load::trace::ValueColumn;

/// Maps readings to contexts, given the least and greatest value of every series.
#[derive(Debug)]
pub(crate) struct Normaliser {
    normalisation: Normalisation,
    floor: f64,
    fixed: Vec<bool>,
    ranges: Vec<(f64, f64)>,
    /// Contexts that were raised to the floor.
    pub(crate) floored: u64,
}

impl Normaliser {
    pub(crate) fn new(columns: &[ValueColumn], normalisation: Normalisation, floor: f64) -> Self {
        Self {
            normalisation,
            floor,
            fixed: columns.iter().map(|column| column.fixed).collect(),
            ranges: Vec::new(),
            floored: 0,
        }
    }

    /// Whether the normalisation needs a pass over all readings first.
    pub(crate) fn learns(&self) -> bool {
        matches!(
            self.normalisation,
            Normalisation::SeriesMax | Normalisation::MinMax
        )
    }

    /// Updates the range of a series, if the normalisation uses it.
    pub(crate) fn learn(&mut self, series: usize, values: &[f64]) {
        if !self.learns() {
            return;
        }
        let width = self.fixed.len();
        if self.ranges.len() < (series + 1) * width {
            self.ranges
                .resize((series + 1) * width, (f64::INFINITY, f64::NEG_INFINITY));
        }
        for (range, value) in self.ranges[series * width..][..width].iter_mut().zip(values) {
            *range = (range.0.min(*value), range.1.max(*value));
        }
    }

    /// Appends the context of a reading.
    pub(crate) fn append(&mut self, series: usize, values: &[f64], out: &mut Vec<f64>) {
        let width = self.fixed.len();
        for (column, &value) in values.iter().enumerate() {
            let range = self
                .ranges
                .get(series * width + column)
                .copied()
                .unwrap_or_default();
            let context = if self.fixed[column] {
                value
            } else {
                self.normalisation.apply(value, range)
            };
            if context < self.floor && !self.fixed[column] {
                self.floored += 1;
                out.push(self.floor);
            } else {
                out.push(context);
            }
        }
    }
}
