//! Training where budgets run out, and with a layer that falls short of its tolerance.

use std::sync::Arc;

use laau_core::problems::LogUtility;
use laau_core::{Differentiate, Episodes, Problem};
use laau_kkt::{InteriorPoint, Options};
use laau_net::{EngineKind, ModelSpec, Phase, Training};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::{model, play};

/// Log-utility whose budgets are used up long before most episodes end.
fn problem() -> Arc<LogUtility> {
    Arc::new(LogUtility::new(3, 2, vec![1.0, 0.5, 0.0, 0.2, 0.7, 1.0], 0.1, 10.0).unwrap())
}

fn episodes(count: usize, horizon: usize, rng: &mut ChaCha8Rng) -> Episodes {
    let contexts = (0..count * horizon * 3)
        .map(|_| rng.random_range(0.05..1.0))
        .collect();
    let budgets = (0..2 * count)
        .map(|i| [1.5, 2.0][i % 2] * horizon as f64 * rng.random_range(0.7..1.3))
        .collect();
    Episodes::new(horizon, 3, 2, contexts, budgets).unwrap()
}

fn training(epochs: usize, seed: u64, engine: EngineKind) -> Training {
    Training {
        phases: vec![Phase {
            epochs,
            learning_rate: 1e-2,
        }],
        seed,
        engine,
        ..Training::paper()
    }
}

#[test]
fn training_does_not_abort_when_budgets_are_used_up() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (train, validation) = (episodes(100, 40, &mut rng), episodes(20, 40, &mut rng));
        let layer: Box<dyn Differentiate> =
            Box::new(InteriorPoint::new(problem(), Options::default()).unwrap());
        let mut model = model(ModelSpec::paper(layer.problem(), 40), &*layer, &train, seed);
        let trainer = training(5, seed, EngineKind::Fused).check().unwrap();
        if let Err(error) = trainer.run(&mut model, &*layer, &train, Some(&validation), &mut ()) {
            panic!("seed {seed}: {error}");
        }
        for rollout in play(&model, &*layer, &validation) {
            assert_eq!(
                (rollout.failures, rollout.violations, rollout.unconverged),
                (0, 0, 0),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_layer_short_of_its_tolerance_is_played_flagged_and_counted() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (train, validation) = (episodes(20, 10, &mut rng), episodes(10, 10, &mut rng));
    // No query is solved to this tolerance, but every answer is feasible.
    let options = Options {
        tolerance: 1e-19,
        ..Options::default()
    };
    let layer: Box<dyn Differentiate> = Box::new(InteriorPoint::new(problem(), options).unwrap());
    for engine in [EngineKind::Fused, EngineKind::Candle] {
        let mut model = model(ModelSpec::paper(layer.problem(), 10), &*layer, &train, 1);
        let trainer = training(2, 1, engine).check().unwrap();
        let trained = trainer
            .run(&mut model, &*layer, &train, Some(&validation), &mut ())
            .unwrap();
        assert!(trained.summary.gradients.approximate > 0, "{engine:?}");
        let rollouts = play(&model, &*layer, &validation);
        let sum = |of: fn(&laau_core::Rollout) -> usize| rollouts.iter().map(of).sum::<usize>();
        assert_eq!((sum(|r| r.failures), sum(|r| r.violations)), (0, 0));
        assert!(sum(|r| r.unconverged) > 0);
        let problem = problem();
        let lower = rollouts
            .iter()
            .flat_map(|r| &r.actions)
            .filter(|x| **x == problem.lower()[0]);
        assert!(
            lower.count() < rollouts.len() * 30,
            "the lower corner was played throughout"
        );
    }
}
