//! The paper's training, some minibatches at a time, and one decision of what it gives.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;

use laau_benches::{minibatch_model, paper_model, peak_operations, play};
use laau_core::problems::WeightedFairness;
use laau_core::{Differentiate, Episodes, Rollout, Unrolled, rollout_all};
use laau_kkt::FairnessLayer;
use laau_net::candle_engine::CandleEngine;
use laau_net::{Engine, FusedEngine, Model, Optimiser, OptimiserState, Precision};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::ThreadPoolBuilder;

use crate::Case;
use crate::instances::Instances;

/// Epochs before the utility is told.
const EPOCHS: usize = 5;

/// Minibatches that are timed together, as in the scripts of the peers.
const TOGETHER: usize = 100;

pub(crate) fn cases(instances: &Instances) -> Result<Vec<Case>, Box<dyn Error>> {
    let (set, batch) = instances.training()?;
    let model = paper_model(&mut layer(), &set);
    let fused = FusedEngine::new(layer().fork(), &model.spec, batch)?;
    let candle = CandleEngine::new(layer().fork());
    let decision = {
        let policy = Unrolled::new("laau", model.clone(), layer())?;
        let (problem, set) = (WeightedFairness::paper(), set.clone());
        Case {
            work: "decision".to_owned(),
            variant: "policy in service, exact ledger included",
            precision: Precision::F64,
            units: set.horizon(),
            facts: serde_json::Map::new(),
            run: Box::new(move || play(&problem, &policy, black_box(&set), 0)),
        }
    };
    let mut fused = Run::new(Box::new(fused), model.clone(), set.clone(), batch);
    for _ in 0..EPOCHS * set.len() / batch {
        fused.minibatch();
    }
    let mut facts = serde_json::Map::new();
    facts.insert("utility".to_owned(), utility(&fused.model, &set)?.into());
    let candle = Run::new(Box::new(candle), model, set, batch);
    Ok(vec![
        case("train".to_owned(), "fused engine", fused, facts, TOGETHER),
        case(
            "train".to_owned(),
            "candle engine",
            candle,
            serde_json::Map::new(),
            2,
        ),
        decision,
    ])
}

/// The same at every size of the grid, in both precisions, on one thread and on two; and what one core could do at best.
pub(crate) fn grid(instances: &Instances) -> Result<Vec<Case>, Box<dyn Error>> {
    let pools = [1, 2].map(|threads| ThreadPoolBuilder::new().num_threads(threads).build());
    let [one, two] = pools;
    let pools = [("fused engine", one?), ("fused engine, 2 threads", two?)]
        .map(|(name, pool)| (name, Arc::new(pool)));
    let rounds = 20_000;
    let operations = peak_operations(rounds);
    let mut cases = vec![Case {
        work: "peak".to_owned(),
        variant: "multiply-adds on registers, a thousand operations",
        precision: Precision::F64,
        units: usize::try_from(operations / 1_000)?,
        facts: serde_json::Map::new(),
        run: Box::new(move || {
            black_box(peak_operations(black_box(rounds)));
        }),
    }];
    let sizes = &instances.grid;
    for &steps in &sizes.steps {
        let set = instances.of_grid(steps)?;
        for &batch in &sizes.batches {
            for &width in &sizes.widths {
                let model = minibatch_model(&mut layer(), &set, width);
                let together = (40_000_000 / (steps * batch * width * (width + 10))).clamp(1, TOGETHER);
                for precision in [Precision::F64, Precision::F32] {
                    for (variant, pool) in &pools {
                        let engine =
                            FusedEngine::with_precision(layer().fork(), &model.spec, batch, precision)?;
                        let run = Run::new(Box::new(engine), model.clone(), set.clone(), batch);
                        let work = format!("grid/N={steps},batch={batch},width={width}");
                        let mut case = case(work, variant, run, serde_json::Map::new(), together);
                        let (pool, mut inner) = (Arc::clone(pool), case.run);
                        case.run = Box::new(move || pool.install(&mut inner));
                        case.precision = precision;
                        cases.push(case);
                    }
                }
            }
        }
    }
    Ok(cases)
}

fn case(
    work: String,
    variant: &'static str,
    mut run: Run,
    facts: serde_json::Map<String, serde_json::Value>,
    together: usize,
) -> Case {
    Case {
        work,
        variant,
        precision: Precision::F64,
        units: together,
        facts,
        run: Box::new(move || {
            for _ in 0..together {
                run.minibatch();
            }
        }),
    }
}

/// The mean utility per step of a model on a set.
fn utility(model: &Model, set: &Episodes) -> Result<f64, Box<dyn Error>> {
    let policy = Unrolled::new("laau", model.clone(), layer())?;
    let rollouts = rollout_all(&WeightedFairness::paper(), &policy, set)?;
    Ok(rollouts.iter().map(Rollout::utility).sum::<f64>() / rollouts.len() as f64)
}

fn layer() -> FairnessLayer {
    FairnessLayer::new(WeightedFairness::paper())
}

/// Training under way: a shuffle per epoch, then one minibatch after the other.
struct Run {
    engine: Box<dyn Engine>,
    model: Model,
    optimiser: OptimiserState,
    gradient: Vec<f64>,
    set: Episodes,
    order: Vec<usize>,
    next: usize,
    batch: usize,
    rng: ChaCha8Rng,
}

impl Run {
    fn new(engine: Box<dyn Engine>, model: Model, set: Episodes, batch: usize) -> Self {
        let parameters = model.parameters.len();
        Self {
            engine,
            model,
            optimiser: OptimiserState::new(Optimiser::adam(), parameters),
            gradient: vec![0.0; parameters],
            order: (0..set.len()).collect(),
            next: set.len(),
            batch,
            set,
            rng: ChaCha8Rng::seed_from_u64(1),
        }
    }

    /// Loss, gradient through time, Adam.
    fn minibatch(&mut self) {
        if self.next + self.batch > self.order.len() {
            self.order.shuffle(&mut self.rng);
            self.next = 0;
        }
        let chosen = &self.order[self.next..][..self.batch];
        self.engine
            .loss_and_gradient(&self.model, &self.set, chosen, &mut self.gradient)
            .expect("a feasible minibatch");
        self.optimiser
            .step(&mut self.model.parameters, &self.gradient, 5e-3);
        self.next += self.batch;
    }
}
