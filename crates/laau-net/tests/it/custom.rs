//! Custom networks: gradients, training, files and service are those of our own models.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use laau_core::problems::WeightedFairness;
use laau_core::{
    Comparison, Differentiate, Episodes, Fit, Player, Sets, Task, conformance, episode_gradient,
};
use laau_net::candle_engine::candle_core::{DType, Result, Tensor};
use laau_net::candle_engine::candle_nn::rnn::{GRU, GRUConfig, GRUState, RNN, gru};
use laau_net::candle_engine::candle_nn::{Init, Linear, Module, VarBuilder, linear, seq};
use laau_net::candle_engine::{ContextView, CustomNetwork, PriceNetwork, StepView};
use laau_net::{
    BatchResult, Checkpoint, Engine, EngineKind, Features, Laau, Model, ModelSpec, Network, OnlineTraining,
    Output, PriceBase, Statistics, Summary, Training, load_model, load_model_with, model_to_bytes,
    save_model,
};

use crate::engines::{assert_close, differences, gradient};
use crate::support::{fairness, iid_episodes, interior_point, log_episodes, model, one_phase, scatter};

/// A GRU reads the contexts; a linear layer on its state and all features prices.
struct Recurrent {
    gru: GRU,
    head: Linear,
}

impl PriceNetwork for Recurrent {
    type State = GRUState;

    fn begin(&self, rows: usize) -> Result<GRUState> {
        self.gru.zero_state(rows)
    }

    fn read(&self, state: &mut GRUState, contexts: &ContextView) -> Result<()> {
        *state = self.gru.step(&contexts.features, state)?;
        Ok(())
    }

    fn output(&self, state: &GRUState, step: &StepView<'_>) -> Result<Tensor> {
        self.head.forward(&Tensor::cat(&[step.features, state.h()], 1)?)
    }
}

fn recurrent(hidden: usize) -> impl Fn(VarBuilder<'static>, &ModelSpec) -> Result<Recurrent> {
    move |vb, spec| {
        let budgets = spec.dimensions.budgets;
        Ok(Recurrent {
            gru: gru(
                spec.context_feature_len(),
                hidden,
                GRUConfig::default(),
                vb.pp("gru"),
            )?,
            head: linear(spec.feature_len() + hidden, budgets, vb.pp("head"))?,
        })
    }
}

fn laau(hidden: usize) -> Laau {
    Laau::paper().with_network(recurrent(hidden)).trained_by(short(4))
}

fn short(epochs: usize) -> Training {
    Training {
        engine: EngineKind::Candle,
        seed: 3,
        ..one_phase(epochs, 1e-2)
    }
}

fn task() -> Task {
    Task::new(Arc::new(WeightedFairness::paper()), fairness())
}

fn custom_model(network: Network, layer: &dyn Differentiate, training: &Episodes, seed: u64) -> Model {
    let spec = ModelSpec {
        network,
        ..ModelSpec::paper(layer.problem(), training.horizon())
    };
    model(spec, layer, training, seed)
}

#[test]
fn a_recurrent_network_has_the_gradient_of_finite_differences() {
    for (layer, training, episodes) in [
        (fairness(), iid_episodes(30, 6, 3), iid_episodes(4, 6, 11)),
        (interior_point(), log_episodes(20, 4, 3), log_episodes(3, 4, 11)),
    ] {
        for (features, output, form) in [
            (Features::Paper, Output::Softplus, PriceBase::Plain),
            (Features::History, Output::Exp, PriceBase::Residual),
        ] {
            let spec = ModelSpec {
                network: laau(3).network,
                features,
                output,
                form,
                ..ModelSpec::paper(layer.problem(), training.horizon())
            };
            let mut model = model(spec, &*layer, &training, 1);
            scatter(&mut model, 0.4, 5);
            let mut engine = EngineKind::Candle.build(&*layer, &model.spec, 4).unwrap();
            let batch: Vec<usize> = (0..episodes.len()).collect();
            let (loss, found) = gradient(&mut *engine, &model, &episodes, &batch);
            let name = format!("{features:?} {output:?} {form:?}");
            let expected = differences(&model, &*layer, &episodes, loss, &name);
            assert_close(&name, &found, &expected, 1e-5);
        }
    }
}

/// One free output per step and budget, the same for all episodes.
struct Free(Tensor);

impl PriceNetwork for Free {
    type State = ();

    fn begin(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn read(&self, (): &mut (), _: &ContextView) -> Result<()> {
        Ok(())
    }

    fn output(&self, (): &(), step: &StepView<'_>) -> Result<Tensor> {
        self.0
            .narrow(0, step.contexts.step, 1)?
            .broadcast_as(step.remaining.shape())
    }
}

#[test]
fn free_prices_have_the_gradient_that_core_computes_episode_by_episode() {
    let layer = interior_point();
    let episodes = log_episodes(4, 5, 2);
    let network = CustomNetwork::new(|vb, _| Ok(Free(vb.get((4, 2), "prices")?)));
    let spec = ModelSpec {
        network: Network::Custom(network),
        output: Output::Exp,
        ..ModelSpec::paper(layer.problem(), 5)
    };
    let mut model = model(spec, &*layer, &episodes, 0);
    let prices: Vec<f64> = (0..8).map(|i| 0.05 + 0.01 * f64::from(i)).collect();
    for (i, (z, price)) in model.parameters.iter_mut().zip(&prices).enumerate() {
        *z = (price / model.statistics.multiplier_scale[i % 2]).ln();
    }
    let mut engine = EngineKind::Candle.build(&*layer, &model.spec, 4).unwrap();
    let (loss, found) = gradient(&mut *engine, &model, &episodes, &[0, 1, 2, 3]);

    let mut multipliers = prices.clone();
    multipliers.extend([0.0; 2]);
    let mut expected = vec![0.0; 8];
    let mut cost = 0.0;
    for episode in episodes.iter() {
        let gradient = episode_gradient(&mut *layer.fork(), &episode, &multipliers).unwrap();
        cost += gradient.cost / 20.0;
        for (i, sum) in expected.iter_mut().enumerate() {
            *sum += prices[i] * gradient.multipliers[i] / 20.0;
        }
    }
    assert!((loss - cost).abs() < 1e-12);
    assert_close("free prices", &found, &expected, 1e-9);
}

/// The paper's network from candle-nn's parts.
fn candle_mlp() -> Network {
    Network::Custom(CustomNetwork::new(|vb, spec| {
        Ok(seq()
            .add(linear(spec.feature_len(), 10, vb.pp("l0"))?)
            .add_fn(Tensor::relu)
            .add(linear(10, 10, vb.pp("l1"))?)
            .add_fn(Tensor::relu)
            .add(linear(10, spec.dimensions.budgets, vb.pp("l2"))?))
    }))
}

#[test]
fn an_mlp_of_candles_parts_is_trained_as_ours() {
    let (layer, training) = (fairness(), iid_episodes(60, 8, 1));
    let validation = iid_episodes(20, 8, 2);
    let mut ours = custom_model(
        ModelSpec::paper(layer.problem(), 8).network,
        &*layer,
        &training,
        4,
    );
    let mut theirs = custom_model(candle_mlp(), &*layer, &training, 4);
    // Sorted by name, the bias comes first; candle's matrices are `outputs × inputs`.
    let reorder = |parameters: &[f64]| {
        let (mut rest, mut flat) = (parameters, Vec::new());
        for (inputs, outputs) in [(3, 10), (10, 10), (10, 1)] {
            let (weight, after) = rest.split_at(inputs * outputs);
            let (bias, after) = after.split_at(outputs);
            flat.extend_from_slice(bias);
            flat.extend((0..outputs).flat_map(|o| (0..inputs).map(move |i| weight[i * outputs + o])));
            rest = after;
        }
        flat
    };
    theirs.parameters = reorder(&ours.parameters);
    let trainer = short(3).check().unwrap();
    for model in [&mut ours, &mut theirs] {
        trainer
            .run(model, &*layer, &training, Some(&validation), &mut ())
            .unwrap();
    }
    assert_close("weights", &theirs.parameters, &reorder(&ours.parameters), 1e-9);
}

#[test]
fn variables_are_drawn_by_seed_in_the_order_of_their_names() {
    let (layer, training) = (fairness(), iid_episodes(10, 5, 1));
    let network = || {
        Network::Custom(CustomNetwork::new(|vb, spec| {
            let b = vb.get_with_hints(
                1000,
                "b",
                Init::Randn {
                    mean: 2.0,
                    stdev: 0.1,
                },
            )?;
            let a = vb.get_with_hints(1000, "a", Init::Uniform { lo: -1.0, up: 3.0 })?;
            let ones = vb.get_with_hints((2, 2), "c", Init::Const(1.0))?;
            assert_eq!(spec.feature_len(), 3);
            Ok(move |x: &Tensor| {
                let sum = (a.sum_all()? + b.sum_all()? + ones.sum_all()?)?;
                x.narrow(1, 0, 1)?.broadcast_mul(&(sum * 1e-4)?)
            })
        }))
    };
    let drawn = |seed| custom_model(network(), &*layer, &training, seed).parameters;
    let first = drawn(7);
    assert_eq!(first, drawn(7));
    assert_ne!(first, drawn(8));
    let (a, b) = (&first[..1000], &first[1000..2000]);
    assert!(a.iter().all(|v| (-1.0..3.0).contains(v)));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    assert!((mean(a) - 1.0).abs() < 0.2 && (mean(b) - 2.0).abs() < 0.02);
    let deviation = mean(&b.iter().map(|v| (v - 2.0).powi(2)).collect::<Vec<_>>()).sqrt();
    assert!((deviation - 0.1).abs() < 0.01, "{deviation}");
    assert_eq!(first[2000..], [1.0; 4]);
}

#[test]
fn a_resumed_run_gives_the_bytes_of_an_uninterrupted_one() {
    let (layer, training, validation) = (fairness(), iid_episodes(30, 5, 1), iid_episodes(10, 5, 2));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let trainer = short(4).check().unwrap();
    let mut whole = custom_model(laau(4).network, &*layer, &training, 9);
    let trained = trainer
        .run(&mut whole, &*layer, &training, Some(&validation), &mut ())
        .unwrap();
    let whole = model_to_bytes(&whole, &trained.summary).unwrap();

    let trainer = trainer.with_checkpoint(&path);
    let mut half = custom_model(laau(4).network, &*layer, &training, 9);
    let stop_after_two = &mut StopAfter(2);
    trainer
        .run(&mut half, &*layer, &training, Some(&validation), stop_after_two)
        .unwrap();
    let message = Checkpoint::load(&path).unwrap_err().to_string();
    assert!(
        message.contains("expected the constructor of the custom network"),
        "{message}"
    );
    let checkpoint = Checkpoint::load_with(&path, &laau(4).network).unwrap();
    assert_eq!(checkpoint.epochs_done(), 2);
    let (resumed, trained) = trainer
        .resume(checkpoint, &*layer, &training, Some(&validation), &mut ())
        .unwrap();
    assert!(model_to_bytes(&resumed, &trained.summary).unwrap() == whole);
}

struct StopAfter(usize);

impl laau_net::TrainObserver for StopAfter {
    fn epoch(&mut self, _: &laau_net::EpochRecord, _: std::time::Duration) {
        self.0 -= 1;
    }

    fn should_stop(&mut self) -> bool {
        self.0 == 0
    }
}

#[test]
fn a_file_holds_the_variables_and_is_refused_for_another_network() {
    let (layer, training) = (fairness(), iid_episodes(10, 5, 1));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let model = custom_model(laau(4).network, &*layer, &training, 2);
    let summary = Summary::untrained(2);
    save_model(&path, &model, &summary).unwrap();
    let (loaded, again) = load_model_with(&path, &laau(4).network).unwrap();
    assert_eq!(loaded, model);
    assert!(model_to_bytes(&loaded, &again).unwrap() == std::fs::read(&path).unwrap());

    let refused = |result: std::result::Result<(Model, Summary), laau_net::Error>, expected: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.ends_with(expected), "{message}");
    };
    refused(
        load_model(&path),
        "network: expected the constructor of the custom network: use the loader that takes one",
    );
    refused(
        load_model_with(&path, &laau(5).network),
        "network: expected variable `gru.bias_hh_l0` of shape [15], found [12]",
    );
    refused(
        load_model_with(&path, &candle_mlp()),
        "network: expected variable `l0.bias`, found `gru.bias_hh_l0`",
    );
    refused(
        load_model_with(&path, &ModelSpec::paper(layer.problem(), 5).network),
        "network: expected the constructor of the custom network: use the loader that takes one",
    );
}

#[test]
fn a_recurrent_network_passes_the_suites_and_takes_part_in_a_comparison() {
    let task = task();
    let sets = Sets {
        train: iid_episodes(40, 6, 1),
        validation: iid_episodes(10, 6, 2),
        test: iid_episodes(20, 6, 3),
    };
    let report = Comparison::new(&task, &sets)
        .with("mlp", Laau::paper().trained_by(short(2)))
        .with("gru", laau(4))
        .run()
        .unwrap();
    assert_eq!(report.policies[1].violations + report.policies[1].failures, 0);
    let (model, trained) = laau(4)
        .train(&task, &sets.train, Some(&sets.validation), 0, &mut ())
        .unwrap();
    assert_eq!(trained.summary.engine, Some(EngineKind::Candle));
    conformance::multiplier(&*task.problem, &model, &sets.test);
    let fitted = laau(4).fit(&task, sets.to_fit(), 0, &mut ()).unwrap();
    let Player::Online(policy) = fitted.player else {
        panic!("an online policy")
    };
    conformance::policy(&*task.problem, &*policy, &sets.test);
}

#[test]
fn a_custom_network_learns_online() {
    let (layer, training) = (fairness(), iid_episodes(20, 6, 1));
    let model = custom_model(laau(4).network, &*layer, &training, 2);
    let settings = OnlineTraining {
        engine: EngineKind::Candle,
        ..OnlineTraining::default()
    };
    let before = model.parameters.clone();
    let mut learner = settings.check(model, layer).unwrap();
    assert_eq!(learner.run(&training, &mut ()).unwrap().skipped, 0);
    assert_ne!(learner.model().parameters, before);
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let (layer, training) = (fairness(), iid_episodes(10, 5, 1));
    let loss = |network: CustomNetwork, kind: EngineKind| {
        let spec = ModelSpec {
            network: Network::Custom(network),
            ..ModelSpec::paper(layer.problem(), 5)
        };
        let statistics = Statistics::fit(&spec, &mut layer.fork(), &training).unwrap();
        let model = Model::new(spec, statistics, 1)?;
        let mut engine = kind.build(&*layer, &model.spec, 2)?;
        let mut gradient = vec![0.0; model.parameters.len()];
        engine.loss_and_gradient(&model, &training, &[0, 1], &mut gradient)
    };
    let check = |network: CustomNetwork, kind, expected: &str| {
        assert_eq!(loss(network, kind).unwrap_err().to_string(), expected);
    };
    check(
        CustomNetwork::new(recurrent(2)),
        EngineKind::Fused,
        "invalid `engine`: expected `candle` for a custom network, found `fused`",
    );
    check(
        CustomNetwork::new(|vb, spec| linear(spec.feature_len(), 2, vb)),
        EngineKind::Candle,
        "tensor engine: expected outputs of shape [2, 1], found [2, 2]",
    );
    check(
        CustomNetwork::new(|vb, spec| {
            let layer = linear(spec.feature_len(), 1, vb)?;
            Ok(move |x: &Tensor| layer.forward(x)?.to_dtype(DType::F32))
        }),
        EngineKind::Candle,
        "tensor engine: expected a tensor of f64 values",
    );
    check(
        CustomNetwork::new(|vb, spec| {
            let (inner, outer) = (
                linear(spec.feature_len(), 2, vb.pp("inner"))?,
                linear(2, 1, vb.pp("outer"))?,
            );
            Ok(move |x: &Tensor| outer.forward(&inner.forward(x)?.detach()))
        }),
        EngineKind::Candle,
        "tensor engine: variable `inner.bias` has no gradient: the price does not depend on it, or through an operation without a backward pass",
    );
    check(
        CustomNetwork::new(|vb, _| {
            let table = vb.get((1 << 13, 1 << 13), "table")?;
            Ok(move |_: &Tensor| table.narrow(0, 0, 2)?.narrow(1, 0, 1))
        }),
        EngineKind::Candle,
        "tensor engine: expected variables of at most 33554432 values, found 67108864",
    );
    check(
        CustomNetwork::new(|_, _| Ok(Tensor::relu)),
        EngineKind::Candle,
        "invalid `network`: expected a constructor that asks for variables, found none",
    );
}

/// Counts its calls.
struct Counting(Box<dyn Engine>, Arc<AtomicUsize>);

impl Engine for Counting {
    fn loss_and_gradient(
        &mut self,
        model: &Model,
        episodes: &Episodes,
        batch: &[usize],
        gradient: &mut [f64],
    ) -> std::result::Result<BatchResult, laau_net::Error> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.loss_and_gradient(model, episodes, batch, gradient)
    }
}

#[test]
fn a_trainer_takes_an_engine_of_another_crate() {
    let (layer, training) = (fairness(), iid_episodes(40, 5, 1));
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let trainer = short(1).check().unwrap();
    let counted = trainer.clone().with_engine(move |layer, spec, batch| {
        let engine = EngineKind::Candle.build(layer, spec, batch)?;
        Ok(Box::new(Counting(engine, Arc::clone(&counter))))
    });
    let mut models = [1, 1].map(|seed| custom_model(laau(2).network, &*layer, &training, seed));
    trainer
        .run(&mut models[0], &*layer, &training, None, &mut ())
        .unwrap();
    let trained = counted
        .run(&mut models[1], &*layer, &training, None, &mut ())
        .unwrap();
    assert_eq!(trained.summary.engine, None);
    assert_eq!(models[0], models[1]);
    assert_eq!(calls.load(Ordering::Relaxed), 4);
}
