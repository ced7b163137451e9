//! A model: a specification, the statistics it was normalised with, and its weights.

use laau_core::{Multiplier, Observation, Pricer};
use pulp::Scalar;

use crate::candle_engine::CustomPricer;
use crate::error::Error;
use crate::features::{ContextReader, observe};
use crate::lanes::Doubles;
use crate::network::forward;
use crate::spec::{ModelSpec, Network};
use crate::statistics::Statistics;

/// A multiplier network with its weights. It is a [`Multiplier`].
///
/// The price of budget `m` is `base_m · out(z_m)`: `z` is the network's output on the normalised features, `out` is
/// positive and 1 at zero ([`crate::Output`]), and the base is constant or certainty-equivalent ([`crate::PriceBase`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// What it is.
    pub spec: ModelSpec,
    /// What it was normalised with.
    pub statistics: Statistics,
    /// All weights: per layer the matrix (input × output, row-major), then the bias; of a custom network the variables,
    /// sorted by name.
    pub parameters: Vec<f64>,
}

impl Model {
    /// A model with seeded initial weights.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] when specification and statistics do not fit; [`Error::Tensor`] when the constructor of a
    /// custom network fails.
    pub fn new(spec: ModelSpec, statistics: Statistics, seed: u64) -> Result<Self, Error> {
        spec.validate()?;
        let parameters = match spec.draw_custom(seed)? {
            Some(parameters) => parameters,
            None => spec.initial_parameters(seed),
        };
        Self::from_parts(spec, statistics, parameters)
    }

    /// A model with given weights.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] when the parts do not fit each other, or a value is not finite; [`Error::Tensor`] when the
    /// constructor of a custom network fails.
    pub fn from_parts(
        mut spec: ModelSpec,
        statistics: Statistics,
        parameters: Vec<f64>,
    ) -> Result<Self, Error> {
        spec.validate()?;
        spec.resolve()?;
        let model = Self {
            spec,
            statistics,
            parameters,
        };
        model.validate()?;
        Ok(model)
    }

    /// Checks that the parts fit each other, and that every value is finite.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] that names the part.
    pub fn validate(&self) -> Result<(), Error> {
        self.spec.validate()?;
        self.statistics.validate(&self.spec)?;
        let invalid = |reason| {
            Err(Error::InvalidSetting {
                field: "parameters",
                reason,
            })
        };
        let (expected, found) = (self.spec.parameter_len(), self.parameters.len());
        if expected != found {
            return invalid(format!("expected {expected} values, found {found}"));
        }
        match self.parameters.iter().position(|v| !v.is_finite()) {
            Some(index) => invalid(format!(
                "expected finite values, found {} at {index}",
                self.parameters[index]
            )),
            None => Ok(()),
        }
    }

    /// Pulls the weights back into the set that the network's bound allows; see [`ModelSpec::project`].
    pub fn project(&mut self) {
        self.spec.project(&mut self.parameters);
    }
}

impl Multiplier for Model {
    fn budgets(&self) -> usize {
        self.spec.dimensions.budgets
    }

    fn begin(&self) -> Box<dyn Pricer + '_> {
        match self.spec.network {
            Network::Custom(_) => Box::new(CustomPricer::new(self)),
            Network::Mlp { .. } | Network::Linear { .. } => Box::new(ModelPricer::new(self)),
        }
    }
}

/// A model at work on one episode, with the memory of a forward pass.
struct ModelPricer<'a> {
    model: &'a Model,
    layers: Vec<(usize, usize)>,
    reader: ContextReader,
    features: Vec<f64>,
    base: Vec<f64>,
    hidden: Vec<f64>,
}

impl<'a> ModelPricer<'a> {
    fn new(model: &'a Model) -> Self {
        let spec = &model.spec;
        let layers = spec.layers();
        let widest = layers.iter().map(|(i, o)| *i.max(o)).max().unwrap_or(0);
        Self {
            model,
            reader: ContextReader::default(),
            features: vec![0.0; spec.feature_len()],
            base: vec![0.0; spec.dimensions.budgets],
            hidden: vec![0.0; 2 * widest],
            layers,
        }
    }
}

impl Pricer for ModelPricer<'_> {
    fn price(
        &mut self,
        observation: &Observation<'_>,
        multiplier: &mut [f64],
    ) -> Result<(), laau_core::Error> {
        let model = self.model;
        check_lengths(&model.spec, observation, multiplier)?;
        observe(
            model,
            &mut self.reader,
            observation,
            &mut self.features,
            &mut self.base,
        );
        forward(
            &self.layers,
            &model.parameters,
            &self.features,
            &mut self.hidden,
            multiplier,
        );
        finish_prices(&model.spec, &self.base, multiplier)
    }
}

/// Checks that an observation is of the model's problem.
pub(crate) fn check_lengths(
    spec: &ModelSpec,
    observation: &Observation<'_>,
    multiplier: &[f64],
) -> Result<(), laau_core::Error> {
    let dimensions = spec.dimensions;
    for (what, expected, found) in [
        ("context", dimensions.context, observation.context_len),
        (
            "contexts",
            (observation.step + 1) * dimensions.context,
            observation.contexts.len(),
        ),
        ("remaining", dimensions.budgets, observation.remaining.len()),
        ("multiplier", dimensions.budgets, multiplier.len()),
    ] {
        if expected != found {
            return Err(laau_core::Error::WrongLength {
                what,
                expected,
                found,
            });
        }
    }
    Ok(())
}

/// Turns a network's outputs into prices.
pub(crate) fn finish_prices(
    spec: &ModelSpec,
    base: &[f64],
    outputs: &mut [f64],
) -> Result<(), laau_core::Error> {
    for (price, base) in outputs.iter_mut().zip(base) {
        *price = base * spec.output.apply(Doubles(Scalar::new()), *price).0;
    }
    match outputs.iter().position(|price| !price.is_finite()) {
        None => Ok(()),
        Some(index) => Err(laau_core::Error::NotFinite {
            what: "the multiplier",
            index,
            value: outputs[index],
        }),
    }
}
