//! Episodes, layers and models that several tests share.

use laau_core::problems::WeightedFairness;
use laau_core::{Differentiate, Episodes, Problem};
use laau_kkt::FairnessLayer;
use laau_net::{Features, Model, ModelSpec, Network, Output, PriceBase, Statistics};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The closed form of the paper's problem.
pub(crate) fn fairness() -> FairnessLayer {
    FairnessLayer::new(WeightedFairness::paper())
}

/// Episodes whose contexts wander between 0.02 and 1, each around a level of its own; budgets within a tenth of the given
/// ones.
pub(crate) fn episodes(count: usize, horizon: usize, context_len: usize, budgets: &[f64]) -> Episodes {
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

/// A model with seeded weights, none of them zero, normalised with episodes of its own.
pub(crate) fn model(spec: &ModelSpec, solver: &dyn Differentiate, seed: u64) -> Model {
    let budget = 12.0 * spec.horizon as f64;
    let train = episodes(
        30,
        spec.horizon,
        spec.dimensions.context,
        &vec![budget; spec.dimensions.budgets],
    );
    let statistics = Statistics::fit(spec, &mut solver.fork(), &train).unwrap();
    let mut model = Model::new(spec.clone(), statistics, seed).unwrap();
    let mut generator = ChaCha8Rng::seed_from_u64(seed + 1);
    for parameter in &mut model.parameters {
        if *parameter == 0.0 {
            *parameter = generator.random_range(-0.2..0.2);
        }
    }
    model
}

/// Linear models and MLPs with every combination of features, output and form.
pub(crate) fn every_spec(problem: &dyn Problem, horizon: usize) -> Vec<ModelSpec> {
    let mlp = |hidden: &[usize]| Network::Mlp {
        hidden: hidden.to_vec(),
        spectral_bound: None,
    };
    let mut specs = Vec::new();
    for features in [Features::Paper, Features::History] {
        for output in [Output::Softplus, Output::Exp] {
            for form in [PriceBase::Plain, PriceBase::Residual] {
                for network in [
                    mlp(&[10, 10]),
                    mlp(&[7]),
                    mlp(&[6, 9, 8]),
                    Network::Linear { norm_bound: None },
                ] {
                    specs.push(ModelSpec {
                        network,
                        features,
                        output,
                        form,
                        ..ModelSpec::paper(problem, horizon)
                    });
                }
            }
        }
    }
    specs
}
