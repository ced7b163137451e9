//! Training: offline over a set of episodes, and online, one episode at a time.

mod checkpoint;
mod csv;
mod observer;
mod offline;
mod online;
mod reset_dead_bias;
mod settings;

use laau_core::{Differentiate, Episodes};
use serde::{Deserialize, Serialize};

pub use self::checkpoint::Checkpoint;
pub use self::csv::CsvLog;
pub use self::observer::{BatchProgress, EpochRecord, TrainObserver};
pub use self::offline::{Ending, Trained, Trainer};
pub use self::online::{OnlineLearner, OnlineObserver, OnlineRun, OnlineTraining, Round};
pub use self::settings::{Phase, Training};
use crate::candle_engine::CandleEngine;
use crate::engine::{BatchResult, Engine, Precision};
use crate::error::Error;
use crate::fused::FusedEngine;
use crate::model::Model;
use crate::optimiser::OptimiserState;
use crate::spec::{ModelSpec, Network};

/// Which engine computes the gradients. Both give the same answer; custom networks need candle's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// The hand-written one.
    #[default]
    Fused,
    /// Through candle's graph: the reference, and the engine of custom networks.
    Candle,
}

impl EngineKind {
    /// An engine of this kind for models of a specification, best with batches of the given size.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] when the specification is not of the layer's problem, or the batch is empty.
    pub fn build(
        self,
        layer: &dyn Differentiate,
        spec: &ModelSpec,
        batch: usize,
    ) -> Result<Box<dyn Engine>, Error> {
        self.build_in(Precision::F64, layer, spec, batch)
    }

    /// The same with a network that is computed in a precision.
    ///
    /// # Errors
    /// As [`EngineKind::build`], and for the candle engine in singles.
    pub fn build_in(
        self,
        precision: Precision,
        layer: &dyn Differentiate,
        spec: &ModelSpec,
        batch: usize,
    ) -> Result<Box<dyn Engine>, Error> {
        self.check(precision)?;
        spec.check_problem(layer.problem())?;
        Ok(match self {
            Self::Fused => Box::new(FusedEngine::with_precision(layer.fork(), spec, batch, precision)?),
            Self::Candle => Box::new(CandleEngine::new(layer.fork())),
        })
    }

    /// Refuses a precision that this engine does not have.
    fn check(self, precision: Precision) -> Result<(), Error> {
        match (self, precision) {
            (Self::Candle, Precision::F32) => Err(Error::InvalidSetting {
                field: "precision",
                reason: "expected f64 for the candle engine, found f32".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// What is needed for one gradient step, in offline and online training alike.
struct Stepper {
    engine: Box<dyn Engine>,
    gradient: Vec<f64>,
    clip: Option<f64>,
    bounded: bool,
    /// Whether the last gradient was zero.
    flat: bool,
}

/// Why a step was not taken, or leads nowhere.
struct NoStep(String);

/// The largest weight that a step may lead to.
const LARGEST_WEIGHT: f64 = 1e6;

/// Refuses weights from which nothing is learned any more: a network of normalised features can only saturate, and prices of a linear
/// model decide nothing.
fn expect_alive(model: &Model) -> Result<(), NoStep> {
    let mut weights = model.parameters.iter().map(|weight| weight.abs());
    match weights.find(|weight| weight.is_nan() || *weight > LARGEST_WEIGHT) {
        None => Ok(()),
        Some(weight) => Err(NoStep(format!("the step leads to a weight of {weight:e}"))),
    }
}

impl Stepper {
    fn new(engine: Box<dyn Engine>, model: &Model, clip: Option<f64>) -> Self {
        let bounded = match model.spec.network {
            Network::Mlp { spectral_bound, .. } => spectral_bound.is_some(),
            Network::Linear { norm_bound } => norm_bound.is_some(),
            Network::Custom(_) => false,
        };
        Self {
            engine,
            gradient: vec![0.0; model.parameters.len()],
            clip,
            bounded,
            flat: false,
        }
    }

    /// Computes loss and gradient of a batch at the model's weights, the gradient clipped.
    ///
    /// The inner result is `NoStep` when the numbers leave the range where a step has a meaning.
    fn differentiate(
        &mut self,
        model: &Model,
        episodes: &Episodes,
        batch: &[usize],
    ) -> Result<Result<BatchResult, NoStep>, Error> {
        let result = match self
            .engine
            .loss_and_gradient(model, episodes, batch, &mut self.gradient)
        {
            Ok(result) => result,
            Err(Error::Core(error)) => match price_out_of_range(&error) {
                Some(reason) => return Ok(Err(NoStep(reason))),
                None => return Err(Error::Core(error)),
            },
            Err(error) => return Err(error),
        };
        if !result.loss.is_finite() {
            return Ok(Err(NoStep(format!("the loss is {}", result.loss))));
        }
        let norm = sum_of_squares(&self.gradient).sqrt();
        if !norm.is_finite() {
            return Ok(Err(NoStep(format!("the norm of the gradient is {norm}"))));
        }
        self.flat = norm == 0.0;
        if let Some(clip) = self.clip
            && norm > clip
        {
            for value in &mut self.gradient {
                *value *= clip / norm;
            }
        }
        Ok(Ok(result))
    }

    /// Takes the step and projects the weights back to their bounds.
    fn step(
        &mut self,
        model: &mut Model,
        optimiser: &mut OptimiserState,
        learning_rate: f64,
    ) -> Result<(), NoStep> {
        optimiser.step(&mut model.parameters, &self.gradient, learning_rate);
        // A sum is finite only if all of it is; one that only overflows is looked at more closely.
        if !sum_of_squares(&model.parameters).is_finite()
            && let Some(value) = model.parameters.iter().find(|value| !value.is_finite())
        {
            return Err(NoStep(format!("a weight became {value}")));
        }
        if self.bounded {
            model.project();
        }
        Ok(())
    }
}

/// Eight sums side by side, so that none waits for the last.
fn sum_of_squares(values: &[f64]) -> f64 {
    let (eights, rest) = values.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for values in eights {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value * value;
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|value| value * value).sum::<f64>()
}

/// Whether a layer failed only because the network's price was NaN or infinite.
fn price_out_of_range(error: &laau_core::Error) -> Option<String> {
    match error {
        laau_core::Error::Unsolved {
            step,
            status:
                laau_core::Status::Invalid {
                    input: laau_core::Input::Multiplier,
                    value,
                    ..
                },
        } => Some(format!("the multiplier at step {step} is {value}")),
        laau_core::Error::NotFinite {
            what: "the multiplier",
            value,
            ..
        } => Some(format!("the multiplier is {value}")),
        _ => None,
    }
}
