//! Moments, quantiles and autocorrelation in one pass.
//!
//! Not a polars group-by: on the trace of the README it peaks at ten times the memory of a pass over checked readings, and it
//! has no autocorrelation that respects gaps.

use laau_core::quantile;
use serde::Serialize;

/// The reported quantiles.
pub const QUANTILES: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

/// Values kept for the quantiles: all of them up to this many, else a fair sample of this many.
const QUANTILE_SAMPLE: usize = 1 << 20;

/// Statistics of one value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ValueStatistics {
    /// The name of its column.
    pub name: String,
    /// Number of values.
    pub count: u64,
    /// Values that are zero.
    pub zeros: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub std: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The quantiles at [`QUANTILES`].
    pub quantiles: [f64; 7],
    /// Whether the quantiles are of all values and not of a sample.
    pub quantiles_exact: bool,
    /// The correlation of a value with the next one of its series, over all series together.
    pub autocorrelation: f64,
    /// The median over the series of the correlation within each.
    pub autocorrelation_within: f64,
    /// The standard deviation of the means of the series: how much they differ.
    pub std_between: f64,
}

/// Collects one value.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    count: u64,
    zeros: u64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
    sample: Vec<(u64, f64)>,
    offered: u64,
    pooled: Pairs,
    series: Vec<PerSeries>,
}

#[derive(Debug, Clone, Copy, Default)]
struct PerSeries {
    count: f64,
    sum: f64,
    last: f64,
    pairs: Pairs,
}

impl Collector {
    /// Adds a value of a series; `key` is the hash that decides whether it is sampled, `follows` is whether the value is one
    /// step after the last one of its series.
    pub(crate) fn push(&mut self, series: usize, key: u64, value: f64, follows: bool) {
        if self.count == 0 {
            (self.min, self.max) = (value, value);
        }
        self.count += 1;
        self.zeros += u64::from(value == 0.0);
        // Welford's update
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
        self.keep(key, value);
        if self.series.len() <= series {
            self.series.resize(series + 1, PerSeries::default());
        }
        let entry = &mut self.series[series];
        if follows {
            self.pooled.push(entry.last, value);
            entry.pairs.push(entry.last, value);
        }
        entry.count += 1.0;
        entry.sum += value;
        entry.last = value;
    }

    fn keep(&mut self, key: u64, value: f64) {
        self.offered += 1;
        self.sample.push((key, value));
        if self.sample.len() == 2 * QUANTILE_SAMPLE {
            self.shrink();
        }
    }

    /// Leaves the values of least key.
    fn shrink(&mut self) {
        if self.sample.len() > QUANTILE_SAMPLE {
            self.sample
                .select_nth_unstable_by(QUANTILE_SAMPLE, |a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            self.sample.truncate(QUANTILE_SAMPLE);
        }
    }

    pub(crate) fn finish(mut self, name: String) -> ValueStatistics {
        self.shrink();
        let mut values: Vec<f64> = self.sample.iter().map(|(_, value)| *value).collect();
        values.sort_unstable_by(f64::total_cmp);
        let mut within: Vec<f64> = self
            .series
            .iter()
            .filter_map(|series| series.pairs.correlation())
            .collect();
        within.sort_unstable_by(f64::total_cmp);
        let means: Vec<f64> = self
            .series
            .iter()
            .filter(|series| series.count > 0.0)
            .map(|series| series.sum / series.count)
            .collect();
        ValueStatistics {
            name,
            count: self.count,
            zeros: self.zeros,
            mean: self.mean,
            std: (self.squares / self.count as f64).sqrt(),
            min: self.min,
            max: self.max,
            quantiles: QUANTILES.map(|q| quantile(&values, q)),
            quantiles_exact: self.offered == values.len() as u64,
            autocorrelation: self.pooled.correlation().unwrap_or(f64::NAN),
            autocorrelation_within: quantile(&within, 0.5),
            std_between: standard_deviation(&means),
        }
    }
}

fn standard_deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt()
}

/// Sums for the correlation of pairs, taken from the first pair so that they stay small.
#[derive(Debug, Clone, Copy, Default)]
struct Pairs {
    count: f64,
    origin: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Pairs {
    fn push(&mut self, x: f64, y: f64) {
        if self.count == 0.0 {
            self.origin = x;
        }
        let (x, y) = (x - self.origin, y - self.origin);
        self.count += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.yy += y * y;
        self.xy += x * y;
    }

    /// Pearson's correlation; none of fewer than three pairs or of constants.
    fn correlation(&self) -> Option<f64> {
        let n = self.count;
        let x = self.xx - self.x * self.x / n;
        let y = self.yy - self.y * self.y / n;
        let covariance = self.xy - self.x * self.y / n;
        (n >= 3.0 && x > 0.0 && y > 0.0).then(|| (covariance / (x * y).sqrt()).clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::series::mix;

    fn collect(series: &[&[f64]]) -> ValueStatistics {
        let mut collector = Collector::default();
        for (number, values) in series.iter().enumerate() {
            for (position, value) in values.iter().enumerate() {
                collector.push(
                    number,
                    mix(&[number as u64, position as u64]),
                    *value,
                    position > 0,
                );
            }
        }
        collector.finish("x".to_owned())
    }

    #[test]
    fn statistics_are_those_computed_by_hand() {
        let s = collect(&[&[1.0, 2.0, 3.0, 4.0], &[0.0, 4.0, 0.0, 4.0]]);
        assert_eq!((s.count, s.zeros, s.min, s.max, s.mean), (8, 2, 0.0, 4.0, 2.25));
        // squares of the distances: 1.5625 .0625 .5625 3.0625, 5.0625 3.0625 5.0625 3.0625
        assert!((s.std - (21.5f64 / 8.0).sqrt()).abs() < 1e-15);
        assert_eq!(s.quantiles[3], 2.5);
        assert!(s.quantiles_exact);
        // within: 1 and -1, the median interpolates
        assert!(s.autocorrelation_within.abs() < 1e-15);
        // pairs (1,2) (2,3) (3,4) (0,4) (4,0) (0,4): sums 10 and 17, of squares 30 and 61, of products 20
        let expected = (20.0 - 170.0 / 6.0) / ((30.0 - 100.0 / 6.0) * (61.0 - 289.0 / 6.0f64)).sqrt();
        assert!((s.autocorrelation - expected).abs() < 1e-12);
        // means 2.5 and 2
        assert_eq!(s.std_between, 0.25);
    }

    #[test]
    fn quantiles_of_many_values_come_from_a_fair_sample() {
        let mut collector = Collector::default();
        let count = 3 * QUANTILE_SAMPLE;
        for number in 0..count {
            collector.push(0, mix(&[5, number as u64]), number as f64 / count as f64, true);
        }
        let s = collector.finish("x".to_owned());
        assert!(!s.quantiles_exact);
        for (found, q) in s.quantiles.iter().zip(QUANTILES) {
            // four standard errors of a sample of a million
            assert!((found - q).abs() < 4.0 * 0.5 / 1024.0, "{found} {q}");
        }
    }
}
