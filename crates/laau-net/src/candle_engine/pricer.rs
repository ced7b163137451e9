//! Custom networks in service: one episode, step by step.

use candle_core::{Device, Tensor};
use laau_core::{Observation, Pricer};
use send_wrapper::SendWrapper;

use super::custom::{ContextView, Opened, StepView, open};
use super::ops::to_vec;
use super::tensor_error;
use super::variables::slots;
use crate::error::Error;
use crate::features::{ContextReader, budget_features, write_base, write_budget_features};
use crate::model::{Model, check_lengths, finish_prices};

/// A custom network at work on one episode.
pub(crate) struct CustomPricer<'a> {
    model: &'a Model,
    /// Modules of candle-nn may not be moved to another thread; an episode may, and the network is opened there again.
    network: Option<SendWrapper<Box<dyn Opened>>>,
    reader: ContextReader,
    /// Steps that have been read.
    read: usize,
    /// The contexts of the last of them.
    contexts: Option<ContextView>,
    features: Vec<f64>,
    base: Vec<f64>,
}

impl<'a> CustomPricer<'a> {
    pub(crate) fn new(model: &'a Model) -> Self {
        Self {
            model,
            network: None,
            reader: ContextReader::default(),
            read: 0,
            contexts: None,
            features: vec![0.0; model.spec.feature_len()],
            base: vec![0.0; model.spec.dimensions.budgets],
        }
    }

    /// The outputs for an observation; the network is opened at the first one, and reads from the start where a step is
    /// asked about again.
    fn outputs(&mut self, observation: &Observation<'_>) -> candle_core::Result<Vec<f64>> {
        let (spec, statistics) = (&self.model.spec, &self.model.statistics);
        if self.network.as_ref().is_some_and(|network| !network.valid()) {
            self.leave();
        }
        let network = match &mut self.network {
            Some(network) => network,
            closed @ None => {
                let mut rest = &self.model.parameters[..];
                let tensors = slots(spec).into_iter().map(|slot| {
                    let (values, after) = rest.split_at(slot.len());
                    rest = after;
                    Ok((slot.name, Tensor::from_slice(values, slot.shape, &Device::Cpu)?))
                });
                let opened = open(spec, tensors.collect::<candle_core::Result<_>>()?, 1)?;
                closed.insert(SendWrapper::new(opened))
            }
        };
        let row = |values: &[f64]| Tensor::from_slice(values, (1, values.len()), &Device::Cpu);
        if self.read == 0 || observation.step < self.read {
            self.read = 0;
            self.reader.reset(observation.context_len);
            network.restart(1)?;
        }
        while self.read <= observation.step {
            let step = self.read;
            let context = &observation.contexts[step * observation.context_len..][..observation.context_len];
            self.reader.push(spec, statistics, context);
            let features = &mut self.features;
            let steps = (observation.horizon - 1 - step, observation.horizon);
            self.reader
                .features(spec, statistics, context, steps, |index, value| {
                    features[index] = value;
                });
            let view = ContextView {
                step,
                horizon: observation.horizon,
                context: row(context)?,
                budgets: row(observation.budgets)?,
                features: row(&self.features[budget_features(spec)..])?,
            };
            network.read(&view)?;
            self.contexts = Some(view);
            self.read += 1;
        }
        let contexts = self
            .contexts
            .as_ref()
            .ok_or_else(|| candle_core::Error::msg("expected a context"))?;
        let (remaining, steps_left) = (observation.remaining, observation.steps_left());
        write_budget_features(spec, statistics, observation, &mut self.features);
        write_base(
            spec,
            statistics,
            &self.reader,
            remaining,
            steps_left,
            &mut self.base,
        );
        to_vec(&network.output(&StepView {
            contexts,
            remaining: &row(remaining)?,
            features: &row(&self.features)?,
        })?)
    }
}

impl CustomPricer<'_> {
    /// Leaves a network of another thread where it is: only that one could drop it.
    fn leave(&mut self) {
        std::mem::forget(self.network.take());
        self.read = 0;
    }
}

impl Drop for CustomPricer<'_> {
    fn drop(&mut self) {
        if self.network.as_ref().is_some_and(|network| !network.valid()) {
            self.leave();
        }
    }
}

impl Pricer for CustomPricer<'_> {
    fn price(
        &mut self,
        observation: &Observation<'_>,
        multiplier: &mut [f64],
    ) -> Result<(), laau_core::Error> {
        check_lengths(&self.model.spec, observation, multiplier)?;
        match self.outputs(observation) {
            Ok(outputs) => multiplier.copy_from_slice(&outputs),
            Err(error) => {
                // What was read may be incomplete: the next answer starts anew.
                self.read = 0;
                let error: Error = tensor_error(&error);
                return Err(error.of_policy("custom network"));
            }
        }
        finish_prices(&self.model.spec, &self.base, multiplier)
    }
}
