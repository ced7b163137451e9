//! Episodes, layers and models that several tests share.

use std::sync::Arc;

use laau_core::problems::{LogUtility, WeightedFairness};
use laau_core::{Differentiate, Episodes, Multiplier, Rollout, Unrolled, rollout_all};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use laau_net::{Features, Model, ModelSpec, Network, Output, Phase, PriceBase, Statistics, Training};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The layer of the paper's problem, in closed form.
pub(crate) fn fairness() -> Box<dyn Differentiate> {
    Box::new(FairnessLayer::new(WeightedFairness::paper()))
}

/// Three actions under two budgets.
pub(crate) fn log_utility() -> LogUtility {
    LogUtility::new(3, 2, vec![1.0, 0.5, 0.2, 0.3, 1.0, 0.8], 0.1, 20.0).unwrap()
}

/// The general solver on [`log_utility`].
pub(crate) fn interior_point() -> Box<dyn Differentiate> {
    Box::new(InteriorPoint::new(Arc::new(log_utility()), Options::default()).unwrap())
}

/// The context at a quantile: many small ones, few large ones.
pub(crate) fn draw_context(quantile: f64) -> f64 {
    0.02 + 0.98 * quantile * quantile
}

/// Episodes of independent contexts, with about 12.5 to spend per step.
pub(crate) fn iid_episodes(count: usize, horizon: usize, seed: u64) -> Episodes {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let contexts = (0..count * horizon)
        .map(|_| draw_context(generator.random()))
        .collect();
    let budgets = (0..count)
        .map(|_| horizon as f64 * generator.random_range(11.0..14.0))
        .collect();
    Episodes::new(horizon, 1, 1, contexts, budgets).unwrap()
}

/// Episodes whose contexts wander between 0.02 and 1, each around a level of its own; budgets within a tenth of the given
/// ones.
pub(crate) fn wandering(count: usize, horizon: usize, context_len: usize, budgets: &[f64]) -> Episodes {
    let mut generator = ChaCha8Rng::seed_from_u64(17);
    let mut contexts = Vec::new();
    let mut all_budgets = Vec::new();
    for _ in 0..count {
        let level: f64 = generator.random_range(0.1..0.7);
        let mut values = vec![level; context_len];
        for _ in 0..horizon {
            for value in &mut values {
                *value = (0.7 * *value + 0.3 * level + generator.random_range(-0.15..0.15)).clamp(0.02, 1.0);
            }
            contexts.extend_from_slice(&values);
        }
        all_budgets.extend(budgets.iter().map(|b| b * generator.random_range(0.9..1.1)));
    }
    Episodes::new(horizon, context_len, budgets.len(), contexts, all_budgets).unwrap()
}

/// Episodes for [`log_utility`].
pub(crate) fn log_episodes(count: usize, horizon: usize, seed: u64) -> Episodes {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let contexts = (0..count * horizon * 3)
        .map(|_| draw_context(generator.random()))
        .collect();
    let budgets = (0..count * 2)
        .map(|_| horizon as f64 * generator.random_range(4.0..8.0))
        .collect();
    Episodes::new(horizon, 3, 2, contexts, budgets).unwrap()
}

/// A network of hidden layers, without a bound.
pub(crate) fn mlp(hidden: &[usize]) -> Network {
    Network::Mlp {
        hidden: hidden.to_vec(),
        spectral_bound: None,
    }
}

/// The linear model, without a bound.
pub(crate) fn linear() -> Network {
    Network::Linear { norm_bound: None }
}

/// Every kind of model: both networks, features, outputs and forms.
pub(crate) fn all_specs(layer: &dyn Differentiate, horizon: usize) -> Vec<ModelSpec> {
    specs_of(&[mlp(&[10, 10]), mlp(&[4]), linear()], layer, horizon)
}

/// The same of networks whose layers differ in width and number.
pub(crate) fn every_spec(layer: &dyn Differentiate, horizon: usize) -> Vec<ModelSpec> {
    specs_of(
        &[mlp(&[10, 10]), mlp(&[7]), mlp(&[6, 9, 8]), linear()],
        layer,
        horizon,
    )
}

/// The given networks with every combination of features, output and form.
fn specs_of(networks: &[Network], layer: &dyn Differentiate, horizon: usize) -> Vec<ModelSpec> {
    let mut specs = Vec::new();
    for network in networks {
        for features in [Features::Paper, Features::History] {
            for output in [Output::Softplus, Output::Exp] {
                for form in [PriceBase::Plain, PriceBase::Residual] {
                    specs.push(ModelSpec {
                        network: network.clone(),
                        features,
                        output,
                        form,
                        ..ModelSpec::paper(layer.problem(), horizon)
                    });
                }
            }
        }
    }
    specs
}

/// The paper's training, for some epochs at one learning rate.
pub(crate) fn one_phase(epochs: usize, learning_rate: f64) -> Training {
    Training {
        phases: vec![Phase {
            epochs,
            learning_rate,
        }],
        ..Training::paper()
    }
}

/// A model normalised with a training set.
pub(crate) fn model(spec: ModelSpec, layer: &dyn Differentiate, training: &Episodes, seed: u64) -> Model {
    let statistics = Statistics::fit(&spec, &mut layer.fork(), training).unwrap();
    Model::new(spec, statistics, seed).unwrap()
}

/// A model normalised with [`wandering`] episodes, none of its weights zero.
pub(crate) fn full_model(spec: &ModelSpec, layer: &dyn Differentiate, seed: u64) -> Model {
    let budget = 12.0 * spec.horizon as f64;
    let training = wandering(
        30,
        spec.horizon,
        spec.dimensions.context,
        &vec![budget; spec.dimensions.budgets],
    );
    let mut model = model(spec.clone(), layer, &training, seed);
    let mut generator = ChaCha8Rng::seed_from_u64(seed + 1);
    for parameter in &mut model.parameters {
        if *parameter == 0.0 {
            *parameter = generator.random_range(-0.2..0.2);
        }
    }
    model
}

/// The paper's model of weighted fairness.
pub(crate) fn paper_model(training: &Episodes, seed: u64) -> Model {
    let layer = fairness();
    model(
        ModelSpec::paper(layer.problem(), training.horizon()),
        &*layer,
        training,
        seed,
    )
}

/// Replaces all weights by random ones within ±`scale`.
pub(crate) fn scatter(model: &mut Model, scale: f64, seed: u64) {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    for parameter in &mut model.parameters {
        let unit: f64 = generator.random_range(-1.0..1.0);
        *parameter = scale * unit;
    }
}

/// Plays all episodes with a multiplier, paid by exact ledgers.
pub(crate) fn play<M: Multiplier + Clone>(
    multiplier: &M,
    layer: &dyn Differentiate,
    episodes: &Episodes,
) -> Vec<Rollout> {
    let policy = Unrolled::new("laau", multiplier.clone(), layer.fork()).unwrap();
    rollout_all(layer.problem(), &policy, episodes).unwrap()
}

/// The mean utility per step.
pub(crate) fn mean_utility(rollouts: &[Rollout]) -> f64 {
    rollouts.iter().map(Rollout::utility).sum::<f64>() / rollouts.len() as f64
}
