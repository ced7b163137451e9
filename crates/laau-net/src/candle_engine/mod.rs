//! The candle engine, and price networks made of candle-nn's parts.
//!
//! This is the one public module that names candle's types, since a custom network is made of them; [`candle_core`] and
//! [`candle_nn`] are re-exported in the versions it was built with. Everything is `f64` on the CPU.
//!
//! | item | purpose |
//! |---|---|
//! | [`PriceNetwork`] | a network that prices budgets; every candle [`Module`](candle_nn::Module) is one |
//! | [`Laau::with_network`](crate::Laau::with_network), [`CustomNetwork`] | a constructor over a `VarBuilder`, to be trained, compared and deployed |
//! | [`ContextView`], [`StepView`] | what a network sees at a step |
//! | [`Dense`] | a linear layer with ReLU that is faster than candle's for small sizes |
//! | [`CandleEngine`] | loss and gradient of any model through candle's graph: the reference, and the engine of custom networks |
//!
//! ```
//! use laau_net::Laau;
//! use laau_net::candle_engine::candle_nn::{Activation, linear, seq};
//!
//! let laau = Laau::history().with_network(|vb, spec| {
//!     Ok(seq()
//!         .add(linear(spec.feature_len(), 16, vb.pp("hidden"))?)
//!         .add(Activation::Silu)
//!         .add(linear(16, spec.dimensions.budgets, vb.pp("out"))?))
//! });
//! ```

mod custom;
mod dense;
mod ops;
mod pricer;
mod variables;

use std::sync::Arc;

pub use candle_core;
pub use candle_nn;

use candle_core::{Device, Tensor, Var};
use laau_core::{Differentiate, Episodes, Shadow};

pub use self::custom::{ContextView, CustomNetwork, PriceNetwork, StepView};
pub use self::dense::Dense;
pub(crate) use self::pricer::CustomPricer;
pub use self::variables::Variable;

use self::custom::{Opened, open};
use self::ops::{Base, FeatureOp, PriceOp, Shared, StepOp, to_vec};
use self::variables::slots;
use crate::engine::{BatchResult, Engine, check_sizes};
use crate::error::Error;
use crate::features::{ContextReader, base_constants, budget_feature, budget_features, budget_normalisation};
use crate::guarded::GuardedLayer;
use crate::model::Model;
use crate::spec::PriceBase;

/// The engine of any [`Model`] through candle's graph: the reference for the fused one.
pub struct CandleEngine {
    shared: Arc<Shared>,
}

impl CandleEngine {
    /// An engine with a layer, which also knows the problem.
    #[must_use]
    pub fn new(layer: Box<dyn Differentiate>) -> Self {
        Self {
            shared: Arc::new(Shared::new(layer)),
        }
    }

    /// Plays the episodes; the result is the root of the graph, the costs are counted by its steps.
    fn play(
        &self,
        model: &Model,
        network: &mut dyn Opened,
        episodes: &Episodes,
        batch: &[usize],
    ) -> candle_core::Result<Tensor> {
        let (rows, horizon) = (batch.len(), episodes.horizon());
        let mut reader = BatchReader::new(model, rows);
        let budgets = gather(episodes, batch, |episode| episode.budgets());
        let budgets = Tensor::from_vec(budgets, (rows, model.spec.dimensions.budgets), &Device::Cpu)?;
        let mut remaining = budgets.clone();
        for step in 0..horizon {
            let contexts = gather(episodes, batch, |episode| episode.context(step));
            let multiplier = if step + 1 == horizon {
                budgets.zeros_like()?
            } else {
                let (features, price) = reader.read(&contexts, horizon - 1 - step, horizon);
                let width = features.known.len() / rows;
                let view = ContextView {
                    step,
                    horizon,
                    context: Tensor::from_slice(&contexts, (rows, contexts.len() / rows), &Device::Cpu)?,
                    budgets: budgets.clone(),
                    features: Tensor::from_slice(&features.known, (rows, width), &Device::Cpu)?,
                };
                network.read(&view)?;
                let outputs = network.output(&StepView {
                    contexts: &view,
                    remaining: &remaining,
                    features: &remaining.apply_op1(features)?,
                })?;
                outputs.apply_op2(&remaining, price)?
            };
            let op = StepOp::new(&self.shared, step, horizon, contexts);
            remaining = multiplier.apply_op2(&remaining, op)?;
        }
        Ok(remaining)
    }

    /// Core's own error where there is one, else candle's text.
    fn explain(&self, error: &candle_core::Error) -> Error {
        match self.shared.lock().failure.take() {
            Some(failure) => Error::Core(failure),
            None => tensor_error(error),
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
        let (dimensions, parameters) = (self.shared.dimensions, model.spec.parameter_len());
        check_sizes(dimensions, parameters, model, episodes, batch, gradient)?;
        {
            let mut workspace = self.shared.lock();
            model.spec.check_problem(workspace.layer.problem())?;
            workspace.cost = 0.0;
            workspace.counts = laau_core::GradientCounts::default();
            if let Some(guard) = &mut workspace.guard {
                guard.shadow().check(episodes)?;
                guard.begin(batch);
            }
            workspace.failure = None;
        }
        let mut differentiate = || {
            let slots = slots(&model.spec);
            let mut vars = Vec::with_capacity(slots.len());
            let mut rest = &model.parameters[..];
            for slot in &slots {
                let (values, after) = rest.split_at(slot.len());
                vars.push(Var::from_vec(
                    slot.read_flat(values),
                    &slot.shape[..],
                    &Device::Cpu,
                )?);
                rest = after;
            }
            let tensors = slots.iter().zip(&vars);
            let tensors = tensors.map(|(slot, var)| (slot.name.clone(), var.as_tensor().clone()));
            let mut network = open(&model.spec, tensors.collect(), batch.len())?;
            let gradients = self.play(model, &mut *network, episodes, batch)?.backward()?;
            let mut rest = &mut *gradient;
            for (slot, var) in slots.iter().zip(&vars) {
                let (out, after) = rest.split_at_mut(slot.len());
                match gradients.get(var) {
                    Some(gradient) => slot.write_flat(&to_vec(gradient)?, out),
                    // An episode of one step has no price.
                    None if episodes.horizon() == 1 => out.fill(0.0),
                    // Candle says nothing where a gradient ends at an operation without a backward pass.
                    None => {
                        let reason = format!(
                            "variable `{}` has no gradient: the price does not depend on it, or through an operation without a backward pass",
                            slot.name
                        );
                        return Err(candle_core::Error::msg(reason));
                    }
                }
                rest = after;
            }
            Ok(())
        };
        differentiate().map_err(|error| self.explain(&error))?;
        let workspace = self.shared.lock();
        Ok(BatchResult {
            loss: workspace.cost / (batch.len() * episodes.horizon()) as f64,
            counts: workspace.counts,
        })
    }

    fn guard(&mut self, shadow: Arc<Shadow>) -> Result<(), Error> {
        let mut workspace = self.shared.lock();
        workspace.guard = Some(GuardedLayer::new(workspace.layer.clone(), shadow));
        Ok(())
    }
}

/// Candle's error without its backtrace.
fn tensor_error(error: &candle_core::Error) -> Error {
    match error {
        candle_core::Error::WithBacktrace { inner, .. } => tensor_error(inner),
        error => Error::Tensor(error.to_string()),
    }
}

/// Computes what follows from the contexts of a batch, step by step.
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

    /// Takes in the contexts of the next step; gives its features and its prices as functions of the remaining budgets.
    fn read(&mut self, contexts: &[f64], steps_left: usize, horizon: usize) -> (FeatureOp, PriceOp) {
        let (spec, statistics) = (&self.model.spec, &self.model.statistics);
        let (budgets, first) = (spec.dimensions.budgets, budget_features(spec));
        let width = spec.context_feature_len();
        let mut known = vec![0.0; self.readers.len() * width];
        let rows = self.readers.iter_mut().zip(known.chunks_exact_mut(width));
        for ((reader, known), context) in rows.zip(contexts.chunks_exact(spec.dimensions.context)) {
            reader.push(spec, statistics, context);
            reader.features(
                spec,
                statistics,
                context,
                (steps_left, horizon),
                |index, value| {
                    known[index - first] = value;
                },
            );
        }
        let of_budgets = (0..first).map(|j| {
            let normalisation = budget_normalisation(spec, statistics, j, horizon);
            budget_feature(normalisation, budgets, j, steps_left)
        });
        let base = match spec.form {
            PriceBase::Plain => Base::Plain(statistics.multiplier_scale.clone()),
            PriceBase::Residual => {
                let levels = self.readers.iter();
                Base::Residual {
                    constants: (0..budgets).map(|m| base_constants(statistics, m)).collect(),
                    levels: levels
                        .map(|reader| reader.level_to_come(statistics, steps_left))
                        .collect(),
                }
            }
        };
        let features = FeatureOp {
            of_budgets: of_budgets.collect(),
            known,
        };
        (
            features,
            PriceOp {
                output: spec.output,
                base,
            },
        )
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
