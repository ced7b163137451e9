//! The candle engine: any candle module prices the budgets, and `loss.backward()` runs through the whole episode.
//!
//! This is the one public module that names candle's types, since a network of your own is one of them. Everything is
//! `f64` on the CPU.
//!
//! | item | for |
//! |---|---|
//! | [`Unroller`] | plays a minibatch with prices from any closure over tensors, and gives the loss with its graph |
//! | [`StepView`] | what that closure sees at a step |
//! | [`CandleEngine`] | the same for a [`Model`], as an [`Engine`] |

mod ops;

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use laau_core::{Differentiate, Episodes, GradientCounts};

use self::ops::{CostOp, LayerOp, ReluOp, Shared, SoftplusOp, UsageOp, to_vec};
use crate::engine::{BatchResult, Engine};
use crate::error::Error;
use crate::features::{ContextReader, base_constants, budget_features};
use crate::model::Model;
use crate::spec::{Features, Output, PriceBase};

/// Plays minibatches through candle's graph: price, solve, pay, for any network and any problem.
///
/// ```
/// use candle_core::{DType, Device, Module, Tensor, Var};
/// use laau_core::{Episodes, problems::WeightedFairness};
/// use laau_kkt::FairnessLayer;
/// use laau_net::candle_engine::Unroller;
///
/// // A network of one's own: the price is exp(w · remaining / 100).
/// let w = Var::ones((1, 1), DType::F64, &Device::Cpu)?;
/// let network = |features: &Tensor| features.matmul(&w)?.exp();
///
/// let unroller = Unroller::new(Box::new(FairnessLayer::new(WeightedFairness::paper())));
/// let episodes = Episodes::new(3, 1, 1, vec![0.2, 0.5, 0.3], vec![30.0])?;
/// let loss = unroller.loss(&episodes, &[0], |step| network.forward(&(&step.remaining / 100.0)?))?;
/// let gradient = loss.backward()?;
/// assert!(gradient.get(&w).is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Unroller {
    shared: Arc<Shared>,
}

/// What a network may see at a step of a minibatch.
pub struct StepView<'a> {
    /// The step, from 0.
    pub step: usize,
    /// The number of steps.
    pub horizon: usize,
    /// The context of this step, `rows × context`.
    pub context: Tensor,
    /// The budgets at the start, `rows × M`.
    pub budgets: Tensor,
    /// What remains of them, `rows × M`. Gradients flow through it into all earlier steps.
    pub remaining: Tensor,
    episodes: &'a Episodes,
    batch: &'a [usize],
}

impl StepView<'_> {
    /// The contexts up to and including this step, `rows × (step + 1) × context`.
    ///
    /// # Errors
    /// Candle's, when the tensor cannot be made.
    pub fn contexts_so_far(&self) -> candle_core::Result<Tensor> {
        let (steps, width) = (self.step + 1, self.episodes.context_len());
        let values = self.rows(|episode| &episode.contexts()[..steps * width]);
        Tensor::from_vec(values, (self.batch.len(), steps, width), &Device::Cpu)
    }

    /// Number of steps after this one.
    #[must_use]
    pub fn steps_left(&self) -> usize {
        self.horizon - 1 - self.step
    }

    fn rows(&self, part: impl for<'e> Fn(&laau_core::Episode<'e>) -> &'e [f64]) -> Vec<f64> {
        gather(self.episodes, self.batch, part)
    }
}

impl Unroller {
    /// Plays with a layer, which also knows the problem.
    #[must_use]
    pub fn new(layer: Box<dyn Differentiate>) -> Self {
        Self {
            shared: Arc::new(Shared::new(layer)),
        }
    }

    /// The mean cost per step over the batch, as a scalar with its graph.
    ///
    /// `prices` gives `rows × M` non-negative multipliers; it is not asked at the last step, where they are zero.
    ///
    /// # Errors
    /// When sizes do not fit, a layer cannot be solved, or candle fails.
    pub fn loss<F>(&self, episodes: &Episodes, batch: &[usize], mut prices: F) -> Result<Tensor, Error>
    where
        F: FnMut(&StepView<'_>) -> candle_core::Result<Tensor>,
    {
        self.check(episodes, batch)?;
        self.play(episodes, batch, &mut prices)
            .map_err(|error| self.explain(&error))
    }

    /// The gradients counted since the last call.
    #[must_use]
    pub fn take_counts(&self) -> GradientCounts {
        std::mem::take(&mut self.shared.lock().counts)
    }

    fn check(&self, episodes: &Episodes, batch: &[usize]) -> Result<(), Error> {
        let dimensions = self.shared.dimensions();
        let wrong = |what, expected, found| {
            Err(Error::Core(laau_core::Error::WrongLength {
                what,
                expected,
                found,
            }))
        };
        if episodes.context_len() != dimensions.context {
            return wrong("a context", dimensions.context, episodes.context_len());
        }
        if episodes.budget_len() != dimensions.budgets {
            return wrong("the budgets", dimensions.budgets, episodes.budget_len());
        }
        if batch.is_empty() {
            return wrong("a batch", 1, 0);
        }
        match batch.iter().find(|index| **index >= episodes.len()) {
            Some(&index) => wrong("the episodes", index + 1, episodes.len()),
            None => Ok(()),
        }
    }

    fn play(
        &self,
        episodes: &Episodes,
        batch: &[usize],
        prices: &mut dyn FnMut(&StepView<'_>) -> candle_core::Result<Tensor>,
    ) -> candle_core::Result<Tensor> {
        let dimensions = self.shared.dimensions();
        let (rows, horizon) = (batch.len(), episodes.horizon());
        let budgets = Tensor::from_vec(
            gather(episodes, batch, |episode| episode.budgets()),
            (rows, dimensions.budgets),
            &Device::Cpu,
        )?;
        let mut reserve = vec![0.0; dimensions.budgets];
        let mut remaining = budgets.clone();
        let mut total: Option<Tensor> = None;
        for step in 0..horizon {
            let context = Tensor::from_vec(
                gather(episodes, batch, |episode| episode.context(step)),
                (rows, dimensions.context),
                &Device::Cpu,
            )?;
            let view = StepView {
                step,
                horizon,
                context,
                budgets: budgets.clone(),
                remaining,
                episodes,
                batch,
            };
            let multiplier = if step + 1 == horizon {
                budgets.zeros_like()?
            } else {
                prices(&view)?
            };
            let StepView {
                context,
                remaining: before,
                ..
            } = view;
            self.shared
                .lock()
                .layer
                .problem()
                .reserve(horizon - 1 - step, &mut reserve);
            let reserved = Tensor::from_slice(&reserve, (1, reserve.len()), &Device::Cpu)?;
            let available = before.broadcast_sub(&reserved)?;
            let action =
                multiplier.apply_op3(&available, &context, LayerOp::new(Arc::clone(&self.shared), step))?;
            let cost = action
                .apply_op2(&context, CostOp(Arc::clone(&self.shared)))?
                .sum_all()?;
            total = Some(match total {
                None => cost,
                Some(total) => (total + cost)?,
            });
            remaining = (before - action.apply_op2(&context, UsageOp(Arc::clone(&self.shared)))?)?;
        }
        let total = total.ok_or_else(|| candle_core::Error::msg("expected at least one step"))?;
        total / (rows * horizon) as f64
    }

    /// Core's own error where there is one, else candle's text.
    fn explain(&self, error: &candle_core::Error) -> Error {
        match self.shared.lock().failure.take() {
            Some(failure) => Error::Core(failure),
            None => tensor_error(error),
        }
    }
}

/// Candle's error without its backtrace.
fn tensor_error(error: &candle_core::Error) -> Error {
    match error {
        candle_core::Error::WithBacktrace { inner, .. } => tensor_error(inner),
        error => Error::Tensor(error.to_string()),
    }
}

/// The engine of a [`Model`] through candle's graph: the reference for the fused one.
pub struct CandleEngine {
    unroller: Unroller,
}

impl CandleEngine {
    /// An engine with a layer, which also knows the problem.
    #[must_use]
    pub fn new(layer: Box<dyn Differentiate>) -> Self {
        Self {
            unroller: Unroller::new(layer),
        }
    }
}

impl Engine for CandleEngine {
    fn loss_and_gradient(
        &mut self,
        model: &Model,
        episodes: &Episodes,
        batch: &[usize],
        gradient: &mut [f64],
    ) -> Result<BatchResult, Error> {
        if gradient.len() != model.parameters.len() {
            return Err(Error::Core(laau_core::Error::WrongLength {
                what: "the gradient",
                expected: model.parameters.len(),
                found: gradient.len(),
            }));
        }
        let tensor = |error: candle_core::Error| tensor_error(&error);
        let network = ModelNetwork::new(model).map_err(tensor)?;
        let mut reader = BatchReader::new(model, batch.len());
        let loss = self.unroller.loss(episodes, batch, |step| {
            let (features, base) = reader.observe(step)?;
            network.price(&features, &base)
        })?;
        let gradients = loss.backward().map_err(|error| self.unroller.explain(&error))?;
        let mut rest = gradient;
        for var in &network.vars {
            let (out, after) = rest.split_at_mut(var.elem_count());
            match gradients.get(var) {
                Some(gradient) => out.copy_from_slice(&to_vec(gradient).map_err(tensor)?),
                // A weight that no step depends on: an episode of one step has no price.
                None => out.fill(0.0),
            }
            rest = after;
        }
        Ok(BatchResult {
            loss: loss.to_scalar().map_err(tensor)?,
            counts: self.unroller.take_counts(),
        })
    }
}

/// The network of a model on candle's variables, in the order of its flat parameters.
struct ModelNetwork {
    output: Output,
    vars: Vec<Var>,
}

impl ModelNetwork {
    fn new(model: &Model) -> candle_core::Result<Self> {
        let mut vars = Vec::new();
        let mut rest = &model.parameters[..];
        for (inputs, outputs) in model.spec.layers() {
            for shape in [(inputs, outputs), (1, outputs)] {
                let Some((values, after)) = rest.split_at_checked(shape.0 * shape.1) else {
                    return Err(candle_core::Error::msg("expected more weights in the model"));
                };
                vars.push(Var::from_slice(values, shape, &Device::Cpu)?);
                rest = after;
            }
        }
        Ok(Self {
            output: model.spec.output,
            vars,
        })
    }

    fn price(&self, features: &Tensor, base: &Tensor) -> candle_core::Result<Tensor> {
        /// Beyond this, `e^z` would leave the range where a price means anything.
        const LARGEST_EXPONENT: f64 = 30.0;
        let mut values = features.clone();
        let layers = self.vars.chunks_exact(2);
        let last = layers.len() - 1;
        for (index, layer) in layers.enumerate() {
            values = values.matmul(&layer[0])?.broadcast_add(&layer[1])?;
            if index < last {
                values = values.apply_op1(ReluOp)?;
            }
        }
        let positive = match self.output {
            Output::Softplus => (values.apply_op1(SoftplusOp)? / std::f64::consts::LN_2)?,
            Output::Exp => values.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)?.exp()?,
        };
        positive.broadcast_mul(base)
    }
}

/// Writes the features of a model for all rows of a batch, those of the remaining budgets as part of the graph.
struct BatchReader<'a> {
    model: &'a Model,
    readers: Vec<ContextReader>,
}

impl<'a> BatchReader<'a> {
    fn new(model: &'a Model, rows: usize) -> Self {
        let mut reader = ContextReader::default();
        reader.reset(model.spec.dimensions.context);
        Self {
            model,
            readers: vec![reader; rows],
        }
    }

    /// The features, `rows × features`, and what the price is relative to, `rows × M` or `1 × M`.
    fn observe(&mut self, step: &StepView<'_>) -> candle_core::Result<(Tensor, Tensor)> {
        let (spec, statistics) = (&self.model.spec, &self.model.statistics);
        let (rows, budgets) = (self.readers.len(), spec.dimensions.budgets);
        let first = budget_features(spec);
        let width = spec.feature_len() - first;
        let mut known = vec![0.0; rows * width];
        let mut levels = vec![0.0; rows];
        let steps = (step.steps_left(), step.horizon);
        for (row, reader) in self.readers.iter_mut().enumerate() {
            let context = step.episodes.get(step.batch[row]).context(step.step);
            let known = &mut known[row * width..][..width];
            reader.push(spec, statistics, context);
            reader.features(spec, statistics, context, steps, |index, value| {
                known[index - first] = value;
            });
            if spec.form == PriceBase::Residual {
                levels[row] = reader.level_to_come(statistics, steps.0);
            }
        }
        let row_tensor = |values: &[f64]| Tensor::from_slice(values, (1, values.len()), &Device::Cpu);
        let raw = match spec.features {
            Features::Paper => step.remaining.clone(),
            Features::History => {
                let per_step = (&step.remaining / (steps.0 + 1) as f64)?;
                Tensor::cat(&[&step.remaining, &per_step], 1)?
            }
        };
        let of_budgets = raw
            .broadcast_sub(&row_tensor(&statistics.feature_mean[..first])?)?
            .broadcast_div(&row_tensor(&statistics.feature_scale[..first])?)?;
        let known = Tensor::from_vec(known, (rows, width), &Device::Cpu)?;
        let features = Tensor::cat(&[&of_budgets, &known], 1)?;
        let base = match spec.form {
            PriceBase::Plain => row_tensor(&statistics.multiplier_scale)?,
            PriceBase::Residual => {
                let (constants, least): (Vec<f64>, Vec<f64>) =
                    (0..budgets).map(|m| base_constants(statistics, m)).unzip();
                let levels = Tensor::from_vec(levels, (rows, 1), &Device::Cpu)?;
                levels
                    .broadcast_mul(&row_tensor(&constants)?)?
                    .broadcast_div(&step.remaining.broadcast_maximum(&row_tensor(&least)?)?)?
            }
        };
        Ok((features, base))
    }
}

/// A part of each episode of a batch, one after the other.
fn gather(
    episodes: &Episodes,
    batch: &[usize],
    part: impl for<'e> Fn(&laau_core::Episode<'e>) -> &'e [f64],
) -> Vec<f64> {
    batch
        .iter()
        .flat_map(|&index| part(&episodes.get(index)).iter().copied())
        .collect()
}
