//! One minibatch of training (forward, backward through time, Adam) on both engines, and one decision in service.

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use laau_core::problems::WeightedFairness;
use laau_core::{Differentiate, Episodes, Policy, Problem, Progress, StepSolver, Unrolled};
use laau_kkt::FairnessLayer;
use laau_net::candle_engine::CandleEngine;
use laau_net::{Engine, FusedEngine, Model, ModelSpec, Network, Optimiser, OptimiserState, Statistics};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Episodes with independent contexts in `[0.02, 1]`, many of them small, and 12.5 to spend per step.
fn episodes(count: usize, horizon: usize) -> Episodes {
    let mut generator = ChaCha8Rng::seed_from_u64(1);
    let contexts = (0..count * horizon)
        .map(|_| {
            let quantile: f64 = generator.random();
            0.02 + 0.98 * quantile * quantile
        })
        .collect();
    Episodes::new(horizon, 1, 1, contexts, vec![12.5 * horizon as f64; count]).expect("sizes fit")
}

fn layer() -> FairnessLayer {
    FairnessLayer::new(WeightedFairness::paper())
}

fn model(spec: ModelSpec, train: &Episodes) -> Model {
    let statistics = Statistics::fit(&spec, &mut layer(), train).expect("a training set");
    Model::new(spec, statistics, 1).expect("statistics of this specification")
}

/// The paper's model with two hidden layers of another width.
fn paper(horizon: usize, width: usize) -> ModelSpec {
    ModelSpec {
        network: Network::Mlp {
            hidden: vec![width, width],
            spectral_bound: None,
        },
        ..ModelSpec::paper(layer().problem(), horizon)
    }
}

/// Times one minibatch after the other, each on the next episodes of the set.
fn minibatches(c: &mut Criterion, name: &str, mut engine: Box<dyn Engine>, mut model: Model, batch: usize) {
    let horizon = model.spec.horizon;
    let train = episodes(500, horizon);
    let mut optimiser = OptimiserState::new(Optimiser::adam(), model.parameters.len());
    let mut gradient = vec![0.0; model.parameters.len()];
    let mut indices = vec![0; batch];
    let mut next = 0;
    let width = model.spec.layers()[0].1;
    let id = format!("{name}/N{horizon}-batch{batch}-width{width}");
    c.bench_function(&id, |b| {
        b.iter(|| {
            for index in &mut indices {
                *index = next;
                next = (next + 1) % train.len();
            }
            let result = engine
                .loss_and_gradient(&model, &train, &indices, &mut gradient)
                .expect("a feasible minibatch");
            optimiser.step(&mut model.parameters, &gradient, 1e-3);
            result.loss
        });
    });
}

fn fused(c: &mut Criterion) {
    let mut sizes = vec![(20, 10, 10)];
    sizes.extend([5, 10, 40, 80].map(|horizon| (horizon, 10, 10)));
    sizes.extend([1, 4, 8, 16, 32, 100].map(|batch| (20, batch, 10)));
    sizes.extend([4, 20, 40].map(|width| (20, 10, width)));
    for (horizon, batch, width) in sizes {
        let spec = paper(horizon, width);
        let engine = FusedEngine::new(layer().fork(), &spec, batch).expect("a layer of the problem");
        let model = model(spec, &episodes(200, horizon));
        minibatches(c, "train/fused", Box::new(engine), model, batch);
    }
    let spec = ModelSpec::residual(layer().problem(), 20);
    let engine = FusedEngine::new(layer().fork(), &spec, 10).expect("a layer of the problem");
    let model = model(spec, &episodes(200, 20));
    minibatches(c, "train/fused-residual", Box::new(engine), model, 10);
}

fn candle(c: &mut Criterion) {
    let model = model(paper(20, 10), &episodes(200, 20));
    let engine = CandleEngine::new(layer().fork());
    minibatches(c, "train/candle", Box::new(engine), model, 10);
}

/// One decision through the library: context check, features, network, layer, ledger. Time is per decision, an episode's
/// opening included.
fn decision(c: &mut Criterion) {
    let problem = WeightedFairness::paper();
    let set = episodes(200, 20);
    for (name, spec) in [
        ("paper", ModelSpec::paper(&problem, 20)),
        ("residual", ModelSpec::residual(&problem, 20)),
    ] {
        let policy = Unrolled::new("laau", model(spec, &set), layer()).expect("one budget");
        c.bench_function(&format!("decision/{name}/N20"), |b| {
            b.iter_custom(|decisions| {
                let rounds = usize::try_from(decisions)
                    .unwrap_or(usize::MAX)
                    .div_ceil(set.horizon());
                let start = Instant::now();
                for round in 0..rounds {
                    play(&problem, &policy, &set, round % set.len());
                }
                let made = (rounds * set.horizon()) as f64;
                Duration::from_secs_f64(start.elapsed().as_secs_f64() * decisions as f64 / made)
            });
        });
    }
}

fn play(problem: &dyn Problem, policy: &dyn Policy, set: &Episodes, index: usize) {
    let episode = set.get(index);
    let mut progress =
        Progress::new(problem, episode.horizon(), episode.budgets()).expect("a feasible budget");
    let mut agent = policy.begin();
    let mut action = [0.0];
    while !progress.is_over() {
        let context = episode.context(progress.step());
        progress
            .decide(context, &mut *agent, &mut action)
            .expect("a decision");
        progress.pay(&action).expect("an action that can be paid");
    }
}

criterion_group!(benches, fused, candle, decision);
criterion_main!(benches);
