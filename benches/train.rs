//! One minibatch of training (forward, backward through time, Adam) on both engines, by horizon, batch and width, and behind
//! a guard; the
//! paper's whole training; and the multiply-adds that one core could do at best.

use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use laau_baselines::DualDescentOptions;
use laau_benches::{fairness_episodes, minibatch_model, peak_operations, sweep, vm_episodes};
use laau_core::problems::{VmAllocation, WeightedFairness};
use laau_core::{Differentiate, Episodes, Fit, FitSets, Player, Shadow, StepSolver, Task};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use laau_net::candle_engine::CandleEngine;
use laau_net::{
    Engine, FusedEngine, Model, ModelSpec, Optimiser, OptimiserState, Precision, Statistics, Training,
};

fn layer() -> FairnessLayer {
    FairnessLayer::new(WeightedFairness::paper())
}

/// Times one minibatch after the other, each on the next episodes of the set.
fn minibatches(c: &mut Criterion, name: &str, engine: Box<dyn Engine>, model: Model, batch: usize) {
    let train = fairness_episodes(1000, model.spec.horizon);
    minibatches_of(c, name, engine, model, &train, batch);
}

fn minibatches_of(
    c: &mut Criterion,
    name: &str,
    mut engine: Box<dyn Engine>,
    mut model: Model,
    train: &Episodes,
    batch: usize,
) {
    let horizon = model.spec.horizon;
    let mut optimiser = OptimiserState::new(Optimiser::adam(), model.parameters.len());
    let mut gradient = vec![0.0; model.parameters.len()];
    let mut indices = vec![0; batch];
    let mut next = 0;
    let width = model.spec.layers()[0].1;
    let mut group = c.benchmark_group(format!("train/{name}"));
    group.throughput(Throughput::Elements(batch as u64));
    group.bench_function(format!("N={horizon},batch={batch},width={width}"), |b| {
        b.iter(|| {
            for index in &mut indices {
                *index = next;
                next = (next + 1) % train.len();
            }
            let result = engine
                .loss_and_gradient(&model, train, &indices, &mut gradient)
                .expect("a feasible minibatch");
            optimiser.step(&mut model.parameters, &gradient, 1e-3);
            result.loss
        });
    });
    group.finish();
}

fn fused(c: &mut Criterion) {
    let mut sizes = sweep(
        &[
            (20, 10, 10),
            (80, 10, 10),
            (5, 10, 10),
            (10, 10, 10),
            (40, 10, 10),
        ],
        2,
    );
    sizes.extend(
        sweep(&[100, 1, 4, 8, 16, 32], 1)
            .iter()
            .map(|batch| (20, *batch, 10)),
    );
    sizes.extend(sweep(&[4, 20, 40, 80], 0).iter().map(|width| (20, 10, *width)));
    // The corners and edges that JAX is measured at as well.
    for horizon in sweep(&[20, 80], 0) {
        for batch in [10, 100, 1000] {
            for width in [10, 40, 80] {
                if !sizes.contains(&(horizon, batch, width)) {
                    sizes.push((horizon, batch, width));
                }
            }
        }
    }
    for (horizon, batch, width) in sizes {
        let model = minibatch_model(&mut layer(), &fairness_episodes(200, horizon), width);
        for (name, precision) in [("fused", Precision::F64), ("fused-f32", Precision::F32)] {
            let engine = FusedEngine::with_precision(layer().fork(), &model.spec, batch, precision);
            let engine = engine.expect("a layer of the problem");
            minibatches(c, name, Box::new(engine), model.clone(), batch);
        }
    }
}

fn residual(c: &mut Criterion) {
    for horizon in sweep(&[20, 10, 40], 1) {
        let spec = ModelSpec::residual(layer().problem(), horizon);
        let set = fairness_episodes(200, horizon);
        let statistics = Statistics::fit(&spec, &mut layer(), &set).expect("a training set");
        let engine = FusedEngine::new(layer().fork(), &spec, 10).expect("a layer of the problem");
        let model = Model::new(spec, statistics, 1).expect("statistics of this specification");
        minibatches(c, "fused-residual", Box::new(engine), model, 10);
    }
}

/// Minibatches behind a guard of MW at a level of 0.95 beside the same without one: in closed form, and with the interior
/// point for four actions under four budgets.
fn guarded(c: &mut Criterion) {
    let problem = Arc::new(VmAllocation::server());
    let general = InteriorPoint::new(Arc::clone(&problem) as Arc<_>, Options::default()).expect("a problem");
    let cases = [
        (
            Task::new(Arc::new(WeightedFairness::paper()), layer().fork()),
            fairness_episodes(500, 20),
            ["fused-guarded", "fused-plain"],
        ),
        (
            Task::new(Arc::clone(&problem) as Arc<_>, Box::new(general)),
            vm_episodes(&problem, 500, 20),
            ["fused-vm-guarded", "fused-vm-plain"],
        ),
    ];
    for (task, train, names) in cases {
        let sets = FitSets {
            train: &train,
            validation: &train.select(&(0..100).collect::<Vec<_>>()),
        };
        let incumbent = DualDescentOptions::mw()
            .fit(&task, sets, 0, &mut ())
            .expect("a fit");
        let Player::Online(incumbent) = incumbent.player else {
            unreachable!("MW is online");
        };
        let shadow = Shadow::new(&*task.problem, &*incumbent, 0.95, &train).expect("a level in its range");
        let shadow = Arc::new(shadow);
        for (name, is_guarded) in names.into_iter().zip([true, false]) {
            let model = minibatch_model(&mut *task.solver.clone(), &train, 10);
            let engine = FusedEngine::new(task.solver.clone(), &model.spec, 10);
            let mut engine = engine.expect("a layer of the problem");
            if is_guarded {
                engine.guard(Arc::clone(&shadow)).expect("an engine that can");
            }
            minibatches_of(c, name, Box::new(engine), model, &train, 10);
        }
    }
}

fn candle(c: &mut Criterion) {
    for (horizon, batch) in sweep(&[(20, 10), (10, 10), (40, 10), (20, 100)], 1) {
        let model = minibatch_model(&mut layer(), &fairness_episodes(200, horizon), 10);
        let engine = CandleEngine::new(layer().fork());
        minibatches(c, "candle", Box::new(engine), model, batch);
    }
}

/// The paper's whole training: 5,000 episodes, batches of 10, 80 epochs, that is 40,000 minibatches; then with 1,000 episodes
/// played after every epoch to find the best.
fn whole(c: &mut Criterion) {
    let (train, validation) = (fairness_episodes(5000, 20), fairness_episodes(1000, 20));
    let untrained = minibatch_model(&mut layer(), &train, 10);
    let trainer = Training::paper().check().expect("settings in their ranges");
    let minibatches = trainer.settings().epochs() * train.len() / trainer.settings().batch;
    let mut group = c.benchmark_group("train/whole");
    group.throughput(Throughput::Elements(minibatches as u64));
    for (name, validation) in sweep(&[("plain", None), ("validated", Some(&validation))], 1) {
        group.bench_function(format!("N=20,{name}"), |b| {
            b.iter(|| {
                let mut model = untrained.clone();
                trainer
                    .run(&mut model, &layer(), &train, validation, &mut ())
                    .expect("a training that converges");
                model
            });
        });
    }
    group.finish();
}

/// Floating-point operations on registers alone, to hold those of a minibatch against.
fn peak(c: &mut Criterion) {
    let rounds = 1000;
    let mut group = c.benchmark_group("train/peak");
    group.throughput(Throughput::Elements(peak_operations(rounds)));
    group.bench_function("multiply-add", |b| b.iter(|| peak_operations(rounds)));
    group.finish();
}

criterion_group! {
    name = whole_runs;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(6));
    targets = whole
}
criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = fused, residual, guarded, candle, peak
}
criterion_main!(benches, whole_runs);
