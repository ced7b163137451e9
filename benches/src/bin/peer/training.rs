//! The paper's training, an epoch at a time, and one decision of what it gives.

use std::error::Error;
use std::hint::black_box;

use laau_benches::{paper_model, play};
use laau_core::problems::WeightedFairness;
use laau_core::{Differentiate, Episodes, Unrolled, rollout_all};
use laau_kkt::FairnessLayer;
use laau_net::candle_engine::CandleEngine;
use laau_net::{Engine, FusedEngine, Model, Optimiser, OptimiserState};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::Case;
use crate::instances::Instances;

/// Epochs before the utility is told.
const EPOCHS: usize = 5;

pub(crate) fn cases(instances: &Instances) -> Result<Vec<Case>, Box<dyn Error>> {
    let (set, batch) = instances.training()?;
    let model = paper_model(&mut layer(), &set);
    let fused = FusedEngine::new(layer().fork(), &model.spec, batch)?;
    let candle = CandleEngine::new(layer().fork());
    let decision = {
        let policy = Unrolled::new("laau", model.clone(), layer())?;
        let (problem, set) = (WeightedFairness::paper(), set.clone());
        Case {
            work: "decision",
            variant: "policy in service, exact ledger included",
            units: set.horizon(),
            facts: serde_json::Map::new(),
            run: Box::new(move || play(&problem, &policy, black_box(&set), 0)),
        }
    };
    Ok(vec![
        epochs(
            "fused engine",
            Box::new(fused),
            model.clone(),
            set.clone(),
            batch,
            EPOCHS,
        )?,
        epochs("candle engine", Box::new(candle), model, set, batch, 0)?,
        decision,
    ])
}

fn layer() -> FairnessLayer {
    FairnessLayer::new(WeightedFairness::paper())
}

/// A shuffle, then one minibatch after the other: loss, gradient through time, Adam.
fn epochs(
    variant: &'static str,
    mut engine: Box<dyn Engine>,
    mut model: Model,
    set: Episodes,
    batch: usize,
    before: usize,
) -> Result<Case, Box<dyn Error>> {
    let mut optimiser = OptimiserState::new(Optimiser::adam(), model.parameters.len());
    let mut gradient = vec![0.0; model.parameters.len()];
    let mut order: Vec<usize> = (0..set.len()).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let data = set.clone();
    let mut epoch = move |model: &mut Model| -> Result<(), laau_net::Error> {
        order.shuffle(&mut rng);
        for chunk in order.chunks_exact(batch) {
            engine.loss_and_gradient(model, &data, chunk, &mut gradient)?;
            optimiser.step(&mut model.parameters, &gradient, 5e-3);
        }
        Ok(())
    };
    let mut facts = serde_json::Map::new();
    if before > 0 {
        for _ in 0..before {
            epoch(&mut model)?;
        }
        let policy = Unrolled::new("laau", model.clone(), layer())?;
        let rollouts = rollout_all(&WeightedFairness::paper(), &policy, &set)?;
        let utility = rollouts.iter().map(laau_core::Rollout::utility).sum::<f64>() / rollouts.len() as f64;
        facts.insert("utility".to_owned(), utility.into());
    }
    Ok(Case {
        work: "train",
        variant,
        units: set.len() / batch,
        facts,
        run: Box::new(move || epoch(&mut model).expect("a feasible minibatch")),
    })
}
