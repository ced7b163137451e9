//! Training and comparison, with the problem and the solver of this crate in place of the library's.

use std::sync::Arc;

use laau_baselines::{AvgLtOptions, EqualOptions, OptOptions};
use laau_core::{AutoDiff, Comparison, Episodes, Report, Sets, Task};
use laau_kkt::Kkt;
use laau_net::{Laau, Phase, Training};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{AdPacing, ClarabelLayer};

/// How much to generate and how long to train.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Hours of a campaign.
    pub horizon: usize,
    /// Training episodes.
    pub train: usize,
    /// Validation episodes, on which the best weights are chosen.
    pub validation: usize,
    /// Test episodes.
    pub test: usize,
    /// Passes over the training episodes.
    pub epochs: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            horizon: 12,
            train: 200,
            validation: 50,
            test: 200,
            epochs: 10,
        }
    }
}

impl Sizes {
    /// A quick look.
    #[must_use]
    pub fn small() -> Self {
        Self {
            horizon: 5,
            train: 10,
            validation: 5,
            test: 20,
            epochs: 6,
        }
    }
}

/// Campaigns: values rise and fall over the day around a level of their own, prices jump from hour to hour; the budgets buy
/// about a third of all there is.
///
/// # Errors
/// Those of [`Episodes::new`].
pub fn campaigns(rng: &mut ChaCha8Rng, count: usize, horizon: usize) -> Result<Episodes, laau_core::Error> {
    let (mut contexts, mut budgets) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let levels = [rng.random_range(0.3..1.5), rng.random_range(0.3..1.5)];
        let phase: f64 = rng.random_range(0.0..6.0);
        for hour in 0..horizon {
            let day = 1.0 + 0.6 * (phase + 6.0 * hour as f64 / horizon as f64).sin();
            contexts.extend(levels.map(|level| level * day * rng.random_range(0.6..1.4)));
            contexts.extend([rng.random_range(0.2..1.0), rng.random_range(0.2..1.0)]);
        }
        let hours = horizon as f64;
        budgets.extend([
            rng.random_range(0.6..1.0) * hours,
            rng.random_range(1.2..2.0) * hours,
        ]);
    }
    Episodes::new(horizon, 4, 2, contexts, budgets)
}

/// Trains LAAU on campaigns and compares it with OPT and some rivals on others.
///
/// # Errors
/// Whatever training or a policy reports.
pub fn compare(sizes: Sizes, seed: u64) -> anyhow::Result<Report> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let sets = Sets {
        train: campaigns(&mut rng, sizes.train, sizes.horizon)?,
        validation: campaigns(&mut rng, sizes.validation, sizes.horizon)?,
        test: campaigns(&mut rng, sizes.test, sizes.horizon)?,
    };
    let training = Training {
        phases: vec![Phase {
            epochs: sizes.epochs,
            learning_rate: 5e-3,
        }],
        ..Training::paper()
    };
    // The two parts that were swapped: everything below would be the same with any other problem and solver.
    let problem = Arc::new(AutoDiff::new(AdPacing)?);
    let task = Task::new(problem.clone(), Box::new(Kkt::new(ClarabelLayer::new(problem)?)?));
    Ok(Comparison::new(&task, &sets)
        .with("opt", OptOptions::default())
        .with("equal", EqualOptions::default())
        .with("avg-lt", AvgLtOptions::default())
        .with("laau", Laau::residual().trained_by(training))
        .seeds([seed])
        .run()?)
}
