//! Fits to what was measured: exponents, decays, and their spread over seeds.

use laau_core::statistics::Difference;

/// A statistic of the seeds that are used, with jackknife pseudo-values; nothing if it is not defined without some seed. Their
/// mean is the statistic of all seeds: where it is not smooth, as on a grid, the mean of pseudo-values may be far from all of them.
pub(super) fn jackknife(seeds: usize, of: impl Fn(&[usize]) -> Option<f64>) -> Option<Difference> {
    let all: Vec<usize> = (0..seeds).collect();
    let whole = of(&all)?;
    if seeds < 2 {
        return Some(Difference::of_seeds(vec![whole]));
    }
    let count = seeds as f64;
    let pseudo: Option<Vec<f64>> = (0..seeds)
        .map(|left_out| {
            let used: Vec<usize> = all.iter().copied().filter(|seed| *seed != left_out).collect();
            Some(count * whole - (count - 1.0) * of(&used)?)
        })
        .collect();
    let found = Difference::of_seeds(pseudo?);
    let centre = whole - found.estimate;
    Some(found.plus(centre))
}

pub(super) fn mean_of(values: &[f64], used: &[usize]) -> f64 {
    used.iter().map(|&index| values[index]).sum::<f64>() / used.len() as f64
}

/// The slope of the least-squares line.
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
    let (x, y) = (x / count, y / count);
    let (mut xx, mut xy) = (0.0, 0.0);
    for (a, b) in points {
        xx += (a - x) * (a - x);
        xy += (a - x) * (b - y);
    }
    xy / xx
}

/// A fit of `floor + amplitude · e^{−rate · i}`.
pub(super) struct Fit {
    pub(super) floor: f64,
    pub(super) amplitude: f64,
    pub(super) rate: f64,
    /// Whether the rate is the first or the last of the grid.
    pub(super) at_edge: bool,
}

/// Least squares, weighted, over a grid of rates: from those that are seen within the rounds to those that are over after one. The
/// amplitude may be negative: then the loss grows.
pub(super) fn decay(points: &[(f64, f64, f64)]) -> Option<Fit> {
    const GRID: u32 = 100;
    let last = points.last()?.0.max(2.0);
    let mut best: Option<(f64, Fit)> = None;
    for index in 0..=GRID {
        let rate = (1.0 / last).powf(f64::from(index) / f64::from(GRID));
        let (mut w, mut x, mut y) = (0.0, 0.0, 0.0);
        let rows: Vec<(f64, f64, f64)> = points
            .iter()
            .map(|(i, loss, weight)| ((-rate * i).exp(), *loss, *weight))
            .collect();
        for (e, loss, weight) in &rows {
            w += weight;
            x += weight * e;
            y += weight * loss;
        }
        let (x, y) = (x / w, y / w);
        let (mut xx, mut xy) = (0.0, 0.0);
        for (e, loss, weight) in &rows {
            xx += weight * (e - x) * (e - x);
            xy += weight * (e - x) * (loss - y);
        }
        if xx <= 0.0 {
            continue;
        }
        let amplitude = xy / xx;
        let floor = y - amplitude * x;
        let error: f64 = rows
            .iter()
            .map(|(e, loss, weight)| weight * (loss - floor - amplitude * e).powi(2))
            .sum();
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            let fit = Fit {
                floor,
                amplitude,
                rate,
                at_edge: index == 0 || index == GRID,
            };
            best = Some((error, fit));
        }
    }
    best.map(|(_, fit)| fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_decay_is_found() {
        let points: Vec<(f64, f64, f64)> = (0..40)
            .map(|k| {
                let i = 10_f64.powf(0.08 * f64::from(k));
                (i, 0.02 + 0.5 * (-0.01 * i).exp(), 1.0)
            })
            .collect();
        let Fit {
            floor, rate, at_edge, ..
        } = decay(&points).unwrap();
        assert!(
            (floor - 0.02).abs() < 0.002 && (rate / 0.01 - 1.0).abs() < 0.08 && !at_edge,
            "{floor} {rate}"
        );
    }
}
