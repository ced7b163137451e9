//! The paper's whole training, as a quick check: 20 steps, 5000 / 1000 / 2000 episodes of independent contexts.
//!
//! `cargo run --release -p laau-net --example paper_training [paper|history|residual] [fused|candle] [seed]`
#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use std::time::{Duration, Instant};

use laau_core::problems::WeightedFairness;
use laau_core::{Differentiate, Episodes, Rollout, StepSolver as _, Unrolled, rollout_all};
use laau_kkt::FairnessLayer;
use laau_net::{EngineKind, EpochRecord, Features, Model, ModelSpec, Statistics, TrainObserver, Training};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const HORIZON: usize = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize, default| arguments.get(index).map_or(default, String::as_str);
    let layer: Box<dyn Differentiate> = Box::new(FairnessLayer::new(WeightedFairness::paper()));
    let paper = ModelSpec::paper(layer.problem(), HORIZON);
    let spec = match argument(0, "paper") {
        "paper" => paper,
        "history" => ModelSpec {
            features: Features::History,
            ..paper
        },
        "residual" => ModelSpec::residual(layer.problem(), HORIZON),
        other => return Err(format!("expected paper, history or residual, found {other}").into()),
    };
    let engine = match argument(1, "fused") {
        "fused" => EngineKind::Fused,
        "candle" => EngineKind::Candle,
        other => return Err(format!("expected fused or candle, found {other}").into()),
    };
    let seed = argument(2, "0").parse()?;

    let mut generator = ChaCha8Rng::seed_from_u64(1000 + seed);
    let [training, validation, test] = [5000, 1000, 2000].map(|count| episodes(&mut generator, count));
    let (training, validation, test) = (training?, validation?, test?);

    let statistics = Statistics::fit(&spec, &mut layer.fork(), &training)?;
    let mut model = Model::new(spec, statistics, seed)?;
    println!("untrained: test utility {:.5}", utility(&model, &*layer, &test)?);

    let trainer = Training {
        engine,
        seed,
        ..Training::paper()
    }
    .check()?;
    let began = Instant::now();
    let trained = trainer.run(&mut model, &*layer, &training, Some(&validation), &mut Table)?;
    println!(
        "{:?} after {} epochs, {:.2} s with validation; best epoch {:?}, validation utility {:.5}; {} exact and {} approximate gradients",
        trained.ending,
        trained.summary.epochs,
        began.elapsed().as_secs_f64(),
        trained.summary.best_epoch,
        trained.summary.best_validation_utility.unwrap_or(f64::NAN),
        trained.summary.gradients.exact,
        trained.summary.gradients.approximate,
    );
    println!("trained: test utility {:.5}", utility(&model, &*layer, &test)?);
    Ok(())
}

/// Independent contexts, mostly small; budgets between 10 and 15 per step.
fn episodes(generator: &mut ChaCha8Rng, count: usize) -> Result<Episodes, laau_core::Error> {
    let contexts = (0..count * HORIZON)
        .map(|_| 0.02 + 0.98 * generator.random::<f64>().powi(3))
        .collect();
    let budgets = (0..count)
        .map(|_| HORIZON as f64 * (10.0 + 5.0 * generator.random::<f64>()))
        .collect();
    Episodes::new(HORIZON, 1, 1, contexts, budgets)
}

fn utility(model: &Model, layer: &dyn Differentiate, episodes: &Episodes) -> Result<f64, laau_core::Error> {
    let policy = Unrolled::new("laau", model.clone(), layer.fork())?;
    let rollouts = rollout_all(layer.problem(), &policy, episodes)?;
    let violations: usize = rollouts.iter().map(|rollout| rollout.violations).sum();
    println!("{} episodes, {violations} violations", rollouts.len());
    Ok(rollouts.iter().map(Rollout::utility).sum::<f64>() / rollouts.len() as f64)
}

/// Prints every tenth epoch.
struct Table;

impl TrainObserver for Table {
    fn epoch(&mut self, record: &EpochRecord, elapsed: Duration) {
        if record.epoch == 0 || (record.epoch + 1).is_multiple_of(10) {
            println!(
                "epoch {:2}: loss {:.5}, validation utility {:.5}, {:.2} s",
                record.epoch,
                record.loss,
                record.validation_utility.unwrap_or(f64::NAN),
                elapsed.as_secs_f64()
            );
        }
    }
}
