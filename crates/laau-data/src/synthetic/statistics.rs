//! The statistics of the calibration.

use rayon::prelude::*;

/// The statistics of a set of series, one per VM, to which the synthetic workload is calibrated.
///
/// Quantiles interpolate linearly between order statistics; standard deviations divide by the count; the autocorrelation
/// at lag k divides the sum of the `n − k` products by the sum of the `n` squares. Windows are disjoint, of 20 readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    values: [f64; TABLE.len()],
}

/// One line of the calibration table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The name of the statistic.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// How it is compared with its target.
    pub comparison: Comparison,
}

/// How a statistic is compared with its target, and how far the calibrated workload may be from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Comparison {
    /// By their ratio less one: for a scale.
    Ratio(f64),
    /// By their difference: for a correlation or a share.
    Difference(f64),
}

impl Row {
    /// The deviation from a target, in the terms of the comparison.
    #[must_use]
    pub fn deviation(&self, target: f64) -> f64 {
        match self.comparison {
            Comparison::Ratio(_) => self.value / target - 1.0,
            Comparison::Difference(_) => self.value - target,
        }
    }
}

/// The steps of a window over which the statistics within an episode are taken.
const WINDOW: usize = 20;

/// Readings in a day, at one every five minutes.
const DAY: usize = 288;

/// Name, comparison and target of each statistic, in the order of [`Statistics::rows`]. The targets are those of the 100
/// VMs.
const TABLE: [(&str, Comparison, f64); 35] = {
    use Comparison::{Difference, Ratio};
    [
        ("mean", Ratio(0.05), 0.10623),
        ("standard deviation", Ratio(0.10), 0.12380),
        ("5 % quantile", Ratio(0.15), 0.01888),
        ("25 % quantile", Ratio(0.10), 0.04673),
        ("50 % quantile", Ratio(0.10), 0.06685),
        ("75 % quantile", Ratio(0.10), 0.11016),
        ("95 % quantile", Ratio(0.10), 0.33526),
        ("99 % quantile", Ratio(0.10), 0.71719),
        ("largest", Ratio(0.01), 0.99414),
        ("VM means: standard deviation", Ratio(0.15), 0.09525),
        ("VM means: 10 % quantile", Ratio(0.15), 0.04464),
        ("VM means: 25 % quantile", Ratio(0.15), 0.05974),
        ("VM means: 50 % quantile", Ratio(0.15), 0.07389),
        ("VM means: 75 % quantile", Ratio(0.15), 0.11190),
        ("VM means: 90 % quantile", Ratio(0.15), 0.20377),
        ("VM std/mean: 25 % quantile", Ratio(0.35), 0.27344),
        ("VM std/mean: 50 % quantile", Ratio(0.10), 0.60719),
        ("VM std/mean: 75 % quantile", Ratio(0.10), 0.90782),
        ("lag 1: 25 % of VMs", Difference(0.12), 0.35219),
        ("lag 1: median VM", Difference(0.12), 0.80090),
        ("lag 1: 75 % of VMs", Difference(0.12), 0.86334),
        ("lag 5: median VM", Difference(0.12), 0.54848),
        ("lag 5: 75 % of VMs", Difference(0.12), 0.70530),
        ("lag 19: median VM", Difference(0.12), 0.14500),
        ("lag 19: 75 % of VMs", Difference(0.12), 0.58480),
        ("lag 288: median VM", Difference(0.12), 0.14559),
        ("window std/mean: mean", Ratio(0.15), 0.27547),
        ("window std/mean: 25 % quantile", Ratio(0.15), 0.07231),
        ("window std/mean: 50 % quantile", Ratio(0.15), 0.13301),
        ("window std/mean: 75 % quantile", Ratio(0.15), 0.26136),
        ("window std/mean: 90 % quantile", Ratio(0.25), 0.77313),
        ("window max/mean: mean", Ratio(0.15), 1.86190),
        ("variance within windows, share", Difference(0.05), 0.14182),
        ("daily wave/mean: median VM", Ratio(0.20), 0.03973),
        ("daily wave/mean: 90 % of VMs", Ratio(0.20), 0.14939),
    ]
};

impl Statistics {
    /// The statistics of a set of series of at least 289 readings each; `None` if there is none, or a shorter one.
    #[must_use]
    pub fn of(series: &[Vec<f64>]) -> Option<Self> {
        if series.is_empty() || series.iter().any(|s| s.len() < 289) {
            return None;
        }
        let mut pooled: Vec<f64> = series.iter().flatten().copied().collect();
        pooled.par_sort_unstable_by(f64::total_cmp);
        let vms: Vec<PerVm> = series.par_iter().map(|s| PerVm::of(s)).collect();
        let column = |value: fn(&PerVm) -> f64| sorted(vms.iter().map(value));
        let means = column(|vm| vm.mean);
        let ratios = column(|vm| vm.ratio);
        let waves = column(|vm| vm.wave);
        let lags: Vec<Vec<f64>> = (0..LAGS.len())
            .map(|k| sorted(vms.iter().map(|vm| vm.autocorrelation[k])))
            .collect();
        let windows = |value: fn(&PerVm) -> &Vec<f64>| sorted(vms.iter().flat_map(value).copied());
        let window_ratios = windows(|vm| &vm.window_ratios);
        let window_peaks = windows(|vm| &vm.window_peaks);
        let within: f64 = vms.iter().map(|vm| vm.window_variance).sum();

        let (mean, deviation) = moments(&pooled);
        let mut values = vec![mean, deviation];
        values.extend([0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0].map(|p| laau_core::quantile(&pooled, p)));
        values.push(moments(&means).1);
        values.extend([0.1, 0.25, 0.5, 0.75, 0.9].map(|p| laau_core::quantile(&means, p)));
        values.extend([0.25, 0.5, 0.75].map(|p| laau_core::quantile(&ratios, p)));
        values.extend([0.25, 0.5, 0.75].map(|p| laau_core::quantile(&lags[0], p)));
        values.extend([0.5, 0.75].map(|p| laau_core::quantile(&lags[1], p)));
        values.extend([0.5, 0.75].map(|p| laau_core::quantile(&lags[2], p)));
        values.push(laau_core::quantile(&lags[3], 0.5));
        values.push(moments(&window_ratios).0);
        values.extend([0.25, 0.5, 0.75, 0.9].map(|p| laau_core::quantile(&window_ratios, p)));
        values.push(moments(&window_peaks).0);
        values.push(within / window_ratios.len() as f64 / (deviation * deviation));
        values.extend([0.5, 0.9].map(|p| laau_core::quantile(&waves, p)));
        values.try_into().ok().map(|values| Self { values })
    }

    /// The statistics of the real sample that the default workload was calibrated to: 100 VMs of the Azure Public Dataset
    /// V1, 8,004 readings each, as shares of the whole CPU.
    #[must_use]
    pub fn target() -> Self {
        Self {
            values: TABLE.map(|(_, _, target)| target),
        }
    }

    /// The table, in a fixed order.
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row> + '_ {
        TABLE
            .iter()
            .zip(&self.values)
            .map(|(&(name, comparison, _), &value)| Row {
                name,
                value,
                comparison,
            })
    }
}

const LAGS: [usize; 4] = [1, 5, 19, 288];

struct PerVm {
    mean: f64,
    ratio: f64,
    wave: f64,
    autocorrelation: [f64; LAGS.len()],
    window_ratios: Vec<f64>,
    window_peaks: Vec<f64>,
    window_variance: f64,
}

impl PerVm {
    fn of(series: &[f64]) -> Self {
        let (mean, deviation) = moments(series);
        let centred: Vec<f64> = series.iter().map(|x| x - mean).collect();
        let squares: f64 = centred.iter().map(|x| x * x).sum();
        let autocorrelation = LAGS.map(|lag| {
            let products: f64 = centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum();
            // A series that never changes is its own past.
            if squares > 0.0 { products / squares } else { 1.0 }
        });
        let mut vm = Self {
            mean,
            ratio: deviation / mean,
            wave: daily_wave(&centred) / mean,
            autocorrelation,
            window_ratios: Vec::new(),
            window_peaks: Vec::new(),
            window_variance: 0.0,
        };
        for window in series.chunks_exact(WINDOW) {
            let (mean, deviation) = moments(window);
            let peak = window.iter().fold(0.0, |a: f64, b| a.max(*b));
            vm.window_ratios.push(deviation / mean);
            vm.window_peaks.push(peak / mean);
            vm.window_variance += deviation * deviation;
        }
        vm
    }
}

/// The amplitude of the best-fitting sine of one day.
fn daily_wave(centred: &[f64]) -> f64 {
    let (mut cos, mut sin) = (0.0, 0.0);
    for (t, x) in centred.iter().enumerate() {
        let angle = std::f64::consts::TAU * (t % DAY) as f64 / DAY as f64;
        cos += x * libm::cos(angle);
        sin += x * libm::sin(angle);
    }
    2.0 * cos.hypot(sin) / centred.len() as f64
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(statistics: &Statistics, name: &str) -> f64 {
        statistics.rows().find(|row| row.name == name).unwrap().value
    }

    #[test]
    fn statistics_of_series_known_by_hand() {
        // A square wave of 10 readings at 1 and 10 at 3, and a constant 2: windows of 20 hold one period each.
        let wave: Vec<f64> = (0..2880).map(|t| if t % 20 < 10 { 1.0 } else { 3.0 }).collect();
        let statistics = Statistics::of(&[wave, vec![2.0; 2880]]).unwrap();
        let check = |name: &str, expected: f64| {
            let found = value(&statistics, name);
            assert!(
                (found - expected).abs() < 1e-9,
                "{name}: {found}, expected {expected}"
            );
        };
        check("mean", 2.0);
        check("standard deviation", 0.5f64.sqrt());
        check("5 % quantile", 1.0);
        check("50 % quantile", 2.0);
        check("largest", 3.0);
        check("VM means: standard deviation", 0.0);
        check("VM std/mean: 50 % quantile", 0.25);
        // Of each 20 products at lag 1, two are −1; the last reading has none, and the constant counts as 1.
        let lag_1: f64 = (0.8 * 2880.0 - 1.0 + 2.0) / 2880.0;
        check("lag 1: median VM", lag_1.midpoint(1.0));
        check("window std/mean: mean", 0.25);
        check("window max/mean: mean", 1.25);
        check("variance within windows, share", 1.0);
        check("daily wave/mean: median VM", 0.0);
    }

    #[test]
    fn a_daily_wave_is_measured_by_its_amplitude() {
        let wave = |t: usize| 1.0 + 0.3 * (std::f64::consts::TAU * (t as f64 / 288.0) + 0.7).sin();
        let statistics = Statistics::of(&[(0..2880).map(wave).collect()]).unwrap();
        assert!((value(&statistics, "daily wave/mean: median VM") - 0.3).abs() < 1e-9);
    }

    #[test]
    fn too_short_a_series_has_no_statistics() {
        assert!(Statistics::of(&[]).is_none());
        assert!(Statistics::of(&[vec![1.0; 300], vec![1.0; 288]]).is_none());
    }
}
