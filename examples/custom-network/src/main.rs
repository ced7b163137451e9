//! A GRU reads the contexts and prices the budget: `cargo run --release -p custom-network [-- --small]`.
#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use std::path::Path;
use std::sync::Arc;

use laau_baselines::OptOptions;
use laau_core::problems::WeightedFairness;
use laau_core::{Comparison, Episode, EpisodeRun, Episodes, Policy, Sets, Task, Unfitted, Unrolled};
use laau_kkt::FairnessLayer;
use laau_net::candle_engine::candle_core::{Result as TensorResult, Tensor};
use laau_net::candle_engine::candle_nn::rnn::{GRU, GRUConfig, GRUState, RNN, gru};
use laau_net::candle_engine::candle_nn::{Linear, Module, linear};
use laau_net::candle_engine::{ContextView, PriceNetwork, StepView};
use laau_net::{Laau, Training, load_model_with, save_model};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

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

/// Consecutive readings of one machine each, around its own level; 12.5 to spend per step.
fn readings(rng: &mut ChaCha8Rng, count: usize) -> anyhow::Result<Episodes> {
    let mut contexts = Vec::with_capacity(count * HORIZON);
    for _ in 0..count {
        let level: f64 = rng.random_range(0.05..0.8);
        let mut reading = level;
        for _ in 0..HORIZON {
            reading += 0.3 * (level - reading) + rng.random_range(-0.15..0.15);
            reading = reading.clamp(0.01, 1.0);
            contexts.push(reading);
        }
    }
    let budgets = vec![12.5 * HORIZON as f64; count];
    Ok(Episodes::new(HORIZON, 1, 1, contexts, budgets)?)
}

fn main() -> anyhow::Result<()> {
    let small = std::env::args().any(|argument| argument == "--small");
    let (count, epochs) = if small { (40, 2) } else { (1000, 20) };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let sets = Sets {
        train: readings(&mut rng, count)?,
        validation: readings(&mut rng, count / 4)?,
        test: readings(&mut rng, count / 2)?,
    };
    let problem = WeightedFairness::paper();
    let layer = Box::new(FairnessLayer::new(problem.clone()));
    let task = Task::new(Arc::new(problem), layer);

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
fn serve(policy: &dyn Policy, task: &Task, episode: &Episode<'_>) -> Result<f64, laau_core::Error> {
    let mut run = EpisodeRun::new(&*task.problem, HORIZON, episode.budgets())?;
    let (mut agent, mut action) = (policy.begin(), [0.0]);
    for index in 0..HORIZON {
        let step = run.reveal(episode.context(index))?;
        agent.decide(&step.observation(), &mut action)?;
        step.pay(&action)?;
    }
    Ok(run.remaining()[0])
}
