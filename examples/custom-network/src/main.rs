//! A GRU reads the contexts and prices the budget: `cargo run --release -p custom-network [-- --small]`.
#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use std::path::Path;

use laau::core::{Episode, Unrolled};
use laau::net::candle_engine::candle_core::{Result as TensorResult, Tensor};
use laau::net::candle_engine::candle_nn::rnn::{GRU, GRUConfig, GRUState, RNN, gru};
use laau::net::candle_engine::candle_nn::{Linear, Module, linear};
use laau::net::candle_engine::{ContextView, PriceNetwork, StepView};
use laau::net::{load_model_with, save_model};
use laau::prelude::*;

const HORIZON: usize = 20;
const HIDDEN: usize = 8;

/// The network: a GRU over the contexts; a linear layer prices by its state and all features.
struct Recurrent {
    gru: GRU,
    head: Linear,
}

impl PriceNetwork for Recurrent {
    type State = GRUState;

    fn begin(&self, rows: usize) -> TensorResult<GRUState> {
        self.gru.zero_state(rows)
    }

    fn read(&self, state: &mut GRUState, contexts: &ContextView) -> TensorResult<()> {
        *state = self.gru.step(&contexts.features, state)?;
        Ok(())
    }

    fn output(&self, state: &GRUState, step: &StepView<'_>) -> TensorResult<Tensor> {
        self.head.forward(&Tensor::cat(&[step.features, state.h()], 1)?)
    }
}

fn main() -> anyhow::Result<()> {
    let small = std::env::args().any(|argument| argument == "--small");
    let (count, epochs) = if small { (40, 2) } else { (1000, 20) };
    // Consecutive readings of one machine each: what it did before says what it will do.
    let split = Split {
        train: count,
        validation: count / 4,
        test: count / 2,
    };
    let sets = Workload::default().generate_split(split, &GenerateOptions::default())?;
    let task = laau::task(WeightedFairness::paper())?;

    // The network is swapped here; everything else is as for the paper's MLP.
    let mut training = Training::paper();
    training.phases.truncate(1);
    training.phases[0].epochs = epochs;
    let mlp = Laau::paper().trained_by(training);
    let gru = mlp.clone().with_network(|vb, spec| {
        let (inputs, outputs) = (spec.feature_len() + HIDDEN, spec.dimensions.budgets);
        let config = GRUConfig::default();
        Ok(Recurrent {
            gru: gru(spec.context_feature_len(), HIDDEN, config, vb.pp("gru"))?,
            head: linear(inputs, outputs, vb.pp("head"))?,
        })
    });

    // Files hold the weights; the constructor comes from `gru.network`.
    let path = Path::new("gru.safetensors");
    let (model, trained) = gru.train(&task, &sets.train, Some(&sets.validation), 0, &mut ())?;
    save_model(path, &model, &trained.summary)?;
    let (model, _) = load_model_with(path, &gru.network)?;

    let policy = Unrolled::new("gru", model, task.solver.clone())?;
    let left = serve(&policy, &task, &sets.test.get(0))?;
    let report = Comparison::new(&task, &sets)
        .relative_to(OptOptions::default())
        .with("mlp", mlp)
        .with("gru", Unfitted(move |_: &Task| Ok(policy.clone())))
        .run()?;
    println!("{} episodes of {HORIZON} consecutive readings", report.episodes);
    println!("\n{report}\nserved one episode; {left} of the budget remains");
    Ok(())
}

/// In service, contexts come one at a time, and what is decided is paid.
fn serve(policy: &dyn Policy, task: &Task, episode: &Episode<'_>) -> Result<f64, Error> {
    let mut run = EpisodeRun::new(&*task.problem, HORIZON, episode.budgets())?;
    let (mut agent, mut action) = (policy.begin(), [0.0]);
    for index in 0..HORIZON {
        let step = run.reveal(episode.context(index))?;
        agent.decide(&step.observation(), &mut action)?;
        step.pay(&action)?;
    }
    Ok(run.remaining()[0])
}
