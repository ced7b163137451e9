//! Section 5: KKT differentiation against the zero-order estimates that the paper argues against.

use laau::core::numerics::normal_pair;
use laau::core::tables::GradientRow;
use laau::core::{Differentiate, Episode, episode_gradient};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::tables::Tables;
use super::{Cell, Study};
use crate::failure::Failure;

/// The step of the zero-order estimates, relative to the price.
const SMOOTHING: f64 = 1e-3;

/// The step of the reference, relative to the price.
const REFERENCE_STEP: f64 = 1e-5;

/// Differentiates one episode in every way; writes `gradients.csv`.
///
/// The cost is counted in solves of the layer, so that the table has the same bytes on every machine; a pullback counts
/// as one. The reference are central differences in every price, with Richardson's extrapolation.
pub(super) fn run(study: &Study, cell: Cell, tables: &mut Tables) -> Result<(), Failure> {
    let Study { experiment, task, .. } = study;
    let Cell { horizon, seed, .. } = cell;
    let sets = study.sets(cell)?;
    let episode = sets.test.get(0);
    let mut solver = task.solver.clone();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Prices about the one that spends the budget evenly, so that some budgets bind and others do not.
    let mean = episode.contexts().iter().sum::<f64>() / episode.budgets()[0];
    let prices: Vec<f64> = (0..horizon).map(|_| mean * rng.random_range(0.7..1.4)).collect();
    let mut cost = |prices: &[f64]| cost(&mut *solver, &episode, prices);
    let reference = reference(&prices, &mut cost)?;

    let mut add = |method: &str, solves: usize, estimate: &[f64]| {
        let error = distance(estimate, &reference) / distance(&vec![0.0; horizon], &reference);
        tables.add(&GradientRow {
            method: method.to_owned(),
            solves,
            relative_error: error,
        })
    };
    let exact = episode_gradient(&mut *task.solver.clone(), &episode, &prices)?;
    add("KKT differentiation", 2 * horizon, &exact.multipliers)?;
    let mut differences = vec![0.0; horizon];
    for step in 0..horizon {
        differences[step] = central(&prices, step, SMOOTHING, &mut cost)?;
    }
    add("central differences", 2 * horizon * horizon, &differences)?;
    for &directions in &experiment.directions {
        let mut estimate = vec![0.0; horizon];
        for _ in 0..directions {
            let direction: Vec<f64> = (0..horizon).map(|_| normal(&mut rng)).collect();
            let moved = |sign: f64| -> Vec<f64> {
                prices
                    .iter()
                    .zip(&direction)
                    .map(|(p, d)| (p + sign * SMOOTHING * mean * d).max(1e-9))
                    .collect()
            };
            let slope = (cost(&moved(1.0))? - cost(&moved(-1.0))?) / (2.0 * SMOOTHING * mean);
            estimate
                .iter_mut()
                .zip(&direction)
                .for_each(|(e, d)| *e += slope * d / directions as f64);
        }
        add(
            "zero-order (random directions)",
            2 * directions * horizon,
            &estimate,
        )?;
    }
    Ok(())
}

fn cost(solver: &mut dyn Differentiate, episode: &Episode<'_>, prices: &[f64]) -> Result<f64, Failure> {
    Ok(episode_gradient(solver, episode, prices)?.cost)
}

type Cost<'a> = dyn FnMut(&[f64]) -> Result<f64, Failure> + 'a;

/// A central difference in one price.
fn central(prices: &[f64], index: usize, relative: f64, cost: &mut Cost<'_>) -> Result<f64, Failure> {
    let step = relative * prices[index];
    let mut moved = prices.to_vec();
    moved[index] = prices[index] + step;
    let above = cost(&moved)?;
    moved[index] = prices[index] - step;
    Ok((above - cost(&moved)?) / (2.0 * step))
}

fn reference(prices: &[f64], cost: &mut Cost<'_>) -> Result<Vec<f64>, Failure> {
    (0..prices.len())
        .map(|index| {
            let wide = central(prices, index, 2.0 * REFERENCE_STEP, cost)?;
            let narrow = central(prices, index, REFERENCE_STEP, cost)?;
            Ok((4.0 * narrow - wide) / 3.0)
        })
        .collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b) * (a - b))
        .sum::<f64>()
        .sqrt()
}

/// A standard normal draw.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    normal_pair(1.0 - rng.random::<f64>(), rng.random()).0
}
