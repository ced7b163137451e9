//! Episodes of every size, from fixed seeds.

use laau_core::problems::{LogUtility, VmAllocation, Wireless};
use laau_core::{Episodes, Problem};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Episodes of the paper's weighted fairness: independent contexts in `[0.02, 1]`, many of them small, and 12.5 to spend
/// per step.
///
/// # Panics
/// Never for a horizon of at least one step.
#[must_use]
pub fn fairness_episodes(count: usize, horizon: usize) -> Episodes {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let contexts = (0..count * horizon)
        .map(|_| {
            let quantile: f64 = rng.random();
            0.02 + 0.98 * quantile * quantile
        })
        .collect();
    Episodes::new(horizon, 1, 1, contexts, vec![12.5 * horizon as f64; count]).expect("sizes fit")
}

/// Episodes of log utility: contexts `U[0, 1]`; every budget pays three tenths of what the upper corner uses.
#[must_use]
pub fn log_utility_episodes(problem: &LogUtility, count: usize, horizon: usize) -> Episodes {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let contexts = (0..count * horizon * problem.dimensions().context)
        .map(|_| rng.random_range(0.0..1.0))
        .collect();
    with_budgets(problem, count, horizon, contexts)
}

/// Episodes of virtual machines on a server: weights `U[0.2, 1]`, shares that sum to one, budgets as above.
#[must_use]
pub fn vm_episodes(problem: &VmAllocation, count: usize, horizon: usize) -> Episodes {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let resources = problem.dimensions().actions;
    let mut contexts = Vec::with_capacity(count * horizon * (resources + 1));
    for _ in 0..count * horizon {
        contexts.push(rng.random_range(0.2..1.0));
        let shares: Vec<f64> = (0..resources).map(|_| rng.random_range(0.1..1.0)).collect();
        let sum: f64 = shares.iter().sum();
        contexts.extend(shares.iter().map(|share| share / sum));
    }
    with_budgets(problem, count, horizon, contexts)
}

/// Episodes of a user's rates over fading sub-channels: priorities and gains `U[0.5, 2]`, budgets as above.
#[must_use]
pub fn wireless_episodes(problem: &Wireless, count: usize, horizon: usize) -> Episodes {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let contexts = (0..count * horizon * problem.dimensions().context)
        .map(|_| rng.random_range(0.5..2.0))
        .collect();
    with_budgets(problem, count, horizon, contexts)
}

fn with_budgets(problem: &dyn Problem, count: usize, horizon: usize, contexts: Vec<f64>) -> Episodes {
    let sizes = problem.dimensions();
    let mut budgets = vec![0.0; sizes.budgets];
    problem.usage(problem.upper(), &contexts[..sizes.context], &mut budgets);
    for budget in &mut budgets {
        *budget *= 0.3 * horizon as f64;
    }
    Episodes::new(
        horizon,
        sizes.context,
        sizes.budgets,
        contexts,
        budgets.repeat(count),
    )
    .expect("sizes fit")
}
