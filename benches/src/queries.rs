//! Queries of the convex layer.

use laau_core::Queries;
use laau_core::problems::LogUtility;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A table of queries and upstream gradients, drawn from a seed.
#[derive(Debug, Clone)]
pub struct Batch {
    /// `rows × context`.
    pub contexts: Vec<f64>,
    /// `rows × M`.
    pub multipliers: Vec<f64>,
    /// `rows × M`.
    pub remaining: Vec<f64>,
    /// `rows × d`.
    pub upstream: Vec<f64>,
    /// Number of rows.
    pub rows: usize,
}

impl Batch {
    /// The queries.
    #[must_use]
    pub fn queries(&self) -> Queries<'_> {
        Queries {
            contexts: &self.contexts,
            multipliers: &self.multipliers,
            available: &self.remaining,
        }
    }
}

fn uniform(rng: &mut ChaCha8Rng, count: usize, low: f64, high: f64) -> Vec<f64> {
    (0..count).map(|_| rng.random_range(low..high)).collect()
}

/// Log utility with a usage matrix of `U[0, 1]` and the box `[0.1, 10]`.
///
/// # Panics
/// Never for positive sizes.
#[must_use]
pub fn log_utility(actions: usize, budgets: usize) -> LogUtility {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let matrix = uniform(&mut rng, actions * budgets, 0.0, 1.0);
    LogUtility::new(actions, budgets, matrix, 0.1, 10.0).expect("a non-negative matrix and an ordered box")
}

/// Queries for [`log_utility`]: contexts `U[0.5, 2]`, multipliers `U[0.05, 0.4]`, budgets `U[6, 16]` for 8 actions and
/// in proportion for other numbers of actions.
#[must_use]
pub fn log_utility_batch(actions: usize, budgets: usize, rows: usize) -> Batch {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let share = actions as f64 / 8.0;
    Batch {
        contexts: uniform(&mut rng, rows * actions, 0.5, 2.0),
        multipliers: uniform(&mut rng, rows * budgets, 0.05, 0.4),
        remaining: uniform(&mut rng, rows * budgets, 6.0 * share, 16.0 * share),
        upstream: uniform(&mut rng, rows * actions, -1.0, 1.0),
        rows,
    }
}

/// Queries for the paper's weighted fairness: contexts `U[0.5, 2]`, multipliers `U[0.02, 0.25]`, budgets `U[5, 60]`.
#[must_use]
pub fn fairness_batch(rows: usize) -> Batch {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    Batch {
        contexts: uniform(&mut rng, rows, 0.5, 2.0),
        multipliers: uniform(&mut rng, rows, 0.02, 0.25),
        remaining: uniform(&mut rng, rows, 5.0, 60.0),
        upstream: uniform(&mut rng, rows, -1.0, 1.0),
        rows,
    }
}
