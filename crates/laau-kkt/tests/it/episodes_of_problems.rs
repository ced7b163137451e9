//! The gradient of whole episodes of every problem that comes with the core, and what is degenerate in them.

use crate::gradcheck::{GradcheckOptions, check_episode};
use crate::problems::solver;
use laau_core::problems::{PowerProvisioning, Trading, VmAllocation, Wireless};
use laau_core::{Dimensions, Episode, Query, SmoothProblem, Solutions, StepSolver};
use laau_kkt::InteriorPoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Episodes that are drawn for each problem, and their steps.
const EPISODES: usize = 12;
const STEPS: usize = 10;

/// Prices of a step: those at which its share of the budgets is spent, times `level` and a random factor.
fn prices(
    layer: &mut InteriorPoint,
    context: &[f64],
    share: &[f64],
    level: f64,
    rng: &mut ChaCha8Rng,
) -> Vec<f64> {
    let dimensions = layer.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, 1);
    let query = Query {
        context,
        multiplier: &vec![0.0; dimensions.budgets],
        available: share,
    };
    layer.solve(query, solutions.row_mut(0)).unwrap();
    let duals = solutions.row(0).duals;
    let typical = duals.iter().sum::<f64>() / duals.len() as f64;
    duals
        .iter()
        .map(|dual| dual.max(0.1 * typical) * level * rng.random_range(0.8..1.25))
        .collect()
}

/// Checks episodes with contexts uniform between two and budgets per step uniform between two.
fn check(
    problem: impl SmoothProblem + 'static,
    (low, high): (&[f64], &[f64]),
    (least, most): (&[f64], &[f64]),
    floor: f64,
) {
    let name = problem.name().to_owned();
    let Dimensions { budgets: m, .. } = problem.dimensions();
    let mut layer = solver(problem);
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let options = GradcheckOptions {
        floor,
        ..GradcheckOptions::default()
    };
    let between = |rng: &mut ChaCha8Rng, low: &[f64], high: &[f64]| -> Vec<f64> {
        let pairs = low.iter().zip(high);
        pairs.map(|(low, high)| rng.random_range(*low..*high)).collect()
    };
    let (mut checked, mut kinks, mut spent, mut left) = (0, 0, 0, 0);
    let mut counts = laau_core::GradientCounts::default();
    for index in 0..EPISODES {
        // Every second episode is cheap, and runs out of budget before its end.
        let level = if index % 2 == 0 { 0.8 } else { 1.1 };
        let share = between(&mut rng, least, most);
        let budgets: Vec<f64> = share.iter().map(|share| share * STEPS as f64).collect();
        let contexts: Vec<f64> = (0..STEPS).flat_map(|_| between(&mut rng, low, high)).collect();
        let multipliers: Vec<f64> = contexts
            .chunks_exact(low.len())
            .flat_map(|context| prices(&mut layer, context, &share, level, &mut rng))
            .collect();
        let episode = Episode::new(&contexts, low.len(), &budgets).unwrap();
        let report = check_episode(&mut layer, &episode, &multipliers, &options).unwrap();
        assert!(report.worst_error() < 1e-6, "{name}: {report:?}");
        assert!(report.unsolved.is_empty(), "{name}: {report:?}");
        checked += report.checked;
        kinks += report.kinks.len();
        counts.exact += report.gradients.exact;
        counts.approximate += report.gradients.approximate;
        // A budget that is worth nothing at the start was not used up.
        let gradient = laau_core::episode_gradient(&mut layer, &episode, &multipliers).unwrap();
        for worth in gradient.budgets {
            *(if worth == 0.0 { &mut left } else { &mut spent }) += 1;
        }
    }
    let all = EPISODES * (STEPS * m + m);
    assert_eq!(checked + kinks, all, "{name}");
    // Only a step that finds nothing left has no exact gradient: it is pinned to its lower bound.
    assert_eq!(
        counts.exact + counts.approximate,
        (EPISODES * STEPS) as u64,
        "{name}"
    );
    assert!(counts.approximate * 2 <= counts.exact, "{name}: {counts:?}");
    assert!(kinks * 20 < all, "{name}: {kinks} of {all} are kinks");
    assert!(
        spent > 0 && left > 0,
        "{name}: {spent} budgets spent, {left} left"
    );
}

#[test]
fn the_gradient_of_vm_allocation_episodes_equals_differences() {
    let (low, high) = ([0.05, 0.1, 0.1, 0.1, 0.1], [1.0, 0.4, 0.4, 0.4, 0.4]);
    check(
        VmAllocation::server(),
        (&low, &high),
        (&[10.0; 4], &[15.0; 4]),
        1e-5,
    );
}

#[test]
fn the_gradient_of_wireless_episodes_equals_differences() {
    let (low, high) = ([0.5, 0.1, 0.1, 0.1], [2.0, 3.0, 3.0, 3.0]);
    check(
        Wireless::three_channels(),
        (&low, &high),
        (&[3.0, 3.0], &[7.0, 5.0]),
        1e-4,
    );
}

#[test]
fn the_gradient_of_trading_episodes_equals_differences() {
    check(Trading::inventory(), (&[1.0], &[4.0]), (&[2.0], &[4.0]), 1e-4);
}

#[test]
fn the_gradient_of_power_episodes_equals_differences() {
    let (low, high) = ([0.1, 0.1, 0.3], [0.9, 0.9, 0.99]);
    check(
        PowerProvisioning::two_loads(),
        (&low, &high),
        (&[4.0, 2.6], &[6.0, 3.8]),
        1e-4,
    );
}

#[test]
fn what_is_worth_nothing_is_not_sold() {
    let mut layer = solver(Trading::inventory());
    let mut solutions = Solutions::new(layer.problem().dimensions(), 1);
    for price in [0.0, 1e-9, 0.3, 2.0] {
        for remaining in [0.0, 1e-6, 0.7, 30.0] {
            // At its own price a unit is worth nothing, and the cost is κ/2 x²: its gradient vanishes at the bound.
            let query = Query {
                context: &[price],
                multiplier: &[price],
                available: &[remaining],
            };
            layer.solve(query, solutions.row_mut(0)).unwrap();
            let row = solutions.row(0);
            assert!(row.status.is_solved(), "{price}, {remaining}: {}", row.status);
            assert!(
                row.action[0].abs() <= 1e-9,
                "{price}, {remaining}: {}",
                row.action[0]
            );
        }
    }
}
