//! Milliseconds per minibatch (20 steps, 10 episodes, gradients included) of every engine, one after the other.
//!
//! `cargo run --release -p laau-net --example minibatch`
#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use std::time::Instant;

use laau_core::problems::WeightedFairness;
use laau_core::{Differentiate, Episodes, StepSolver as _};
use laau_kkt::FairnessLayer;
use laau_net::candle_engine::CustomNetwork;
use laau_net::candle_engine::candle_core::Tensor;
use laau_net::candle_engine::candle_nn::{linear, seq};
use laau_net::{Engine, EngineKind, Model, ModelSpec, Network, Statistics};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const HORIZON: usize = 20;
const BATCH: usize = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let layer: Box<dyn Differentiate> = Box::new(FairnessLayer::new(WeightedFairness::paper()));
    let mut generator = ChaCha8Rng::seed_from_u64(1);
    let contexts = (0..500 * HORIZON)
        .map(|_| generator.random_range(0.02..1.0))
        .collect();
    let episodes = Episodes::new(HORIZON, 1, 1, contexts, vec![12.5 * HORIZON as f64; 500])?;
    let paper = ModelSpec::paper(layer.problem(), HORIZON);
    let residual = ModelSpec::residual(layer.problem(), HORIZON);
    let custom = |network| ModelSpec {
        network: Network::Custom(network),
        ..paper.clone()
    };
    let linears = custom(CustomNetwork::new(|vb, spec| {
        Ok(seq()
            .add(linear(spec.feature_len(), 10, vb.pp("a"))?)
            .add_fn(Tensor::relu)
            .add(linear(10, 10, vb.pp("b"))?)
            .add_fn(Tensor::relu)
            .add(linear(10, 1, vb.pp("c"))?))
    }));
    for (name, kind, spec) in [
        ("paper, fused", EngineKind::Fused, &paper),
        ("paper, candle", EngineKind::Candle, &paper),
        ("residual, fused", EngineKind::Fused, &residual),
        ("residual, candle", EngineKind::Candle, &residual),
        ("paper of candle-nn's linear layers", EngineKind::Candle, &linears),
    ] {
        let statistics = Statistics::fit(spec, &mut layer.fork(), &episodes)?;
        let model = Model::new(spec.clone(), statistics, 1)?;
        let mut engine = kind.build(&*layer, &model.spec, BATCH)?;
        println!("{name}: {:.3} ms", time(&mut *engine, &model, &episodes)?);
    }
    Ok(())
}

/// The median of a hundred minibatches.
fn time(engine: &mut dyn Engine, model: &Model, episodes: &Episodes) -> Result<f64, laau_net::Error> {
    let mut gradient = vec![0.0; model.parameters.len()];
    let mut times = Vec::new();
    for index in 0..110 {
        let batch: Vec<usize> = (0..BATCH)
            .map(|row| (index * BATCH + row) % episodes.len())
            .collect();
        let began = Instant::now();
        engine.loss_and_gradient(model, episodes, &batch, &mut gradient)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.drain(..10);
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
