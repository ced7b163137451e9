//! What a model is made of, before it has weights.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use laau_core::{Dimensions, Parameter, Problem};
use serde::{Deserialize, Serialize};

use crate::archive::LARGEST_FILE;
use crate::candle_engine::CustomNetwork;
use crate::error::Error;
use crate::features::budget_features;

/// `name = value`, one after the other.
fn listed(parameters: &BTreeMap<String, Parameter>) -> String {
    let texts = parameters.iter().map(|(name, value)| format!("{name} = {value}"));
    texts.collect::<Vec<_>>().join(", ")
}

/// Everything about a model that is not learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// The problem's name; a model is refused for any other.
    pub problem: String,
    /// The problem's parameters, its box among them; a model is refused for any others.
    pub parameters: BTreeMap<String, Parameter>,
    /// The problem's sizes.
    pub dimensions: Dimensions,
    /// The number of steps it was trained for; the most of them, if for several.
    pub horizon: usize,
    /// The fewest steps it was trained for; `horizon` for a model of one.
    pub shortest_horizon: usize,
    /// The network.
    pub network: Network,
    /// What the network sees.
    pub features: Features,
    /// How its output becomes a positive price.
    pub output: Output,
    /// What the price is relative to.
    pub form: PriceBase,
}

/// A checkpoint holds 4 numbers of 8 bytes per weight; a policy file behind a guard holds them in hexadecimal digits, 64 bytes per
/// weight. With at most so many weights, every file that is written can be read back.
const MOST_WEIGHTS: u128 = LARGEST_FILE as u128 / 64 - 1000;

impl ModelSpec {
    /// The paper's model (Section 7) for a problem: two hidden layers of ten, `b`, `c` and `t̄`, softplus.
    #[must_use]
    pub fn paper(problem: &dyn Problem, horizon: usize) -> Self {
        Self {
            problem: problem.name().to_owned(),
            parameters: problem.parameters(),
            dimensions: problem.dimensions(),
            horizon,
            shortest_horizon: horizon,
            network: Network::Mlp {
                hidden: vec![10, 10],
                spectral_bound: None,
            },
            features: Features::Paper,
            output: Output::Softplus,
            form: PriceBase::Plain,
        }
    }

    /// The paper's network on history features, times the certainty-equivalent price.
    #[must_use]
    pub fn residual(problem: &dyn Problem, horizon: usize) -> Self {
        Self {
            features: Features::History,
            output: Output::Exp,
            form: PriceBase::Residual,
            ..Self::paper(problem, horizon)
        }
    }

    /// Checks every setting's range.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] that names the setting.
    pub fn validate(&self) -> Result<(), Error> {
        let invalid = |field, reason| Err(Error::InvalidSetting { field, reason });
        let Dimensions {
            actions,
            budgets,
            context,
        } = self.dimensions;
        if actions == 0 || budgets == 0 || context == 0 {
            return invalid(
                "dimensions",
                format!(
                    "expected at least one action, budget and context entry, found {actions}, {budgets} and {context}"
                ),
            );
        }
        if self.horizon == 0 {
            return invalid("horizon", "expected at least one step, found 0".to_owned());
        }
        if !(1..=self.horizon).contains(&self.shortest_horizon) {
            return invalid(
                "shortest_horizon",
                format!(
                    "expected 1 to {} steps, found {}",
                    self.horizon, self.shortest_horizon
                ),
            );
        }
        let bound = match &self.network {
            Network::Mlp {
                hidden,
                spectral_bound,
            } => {
                if hidden.contains(&0) {
                    return invalid(
                        "network.hidden",
                        format!("expected at least one unit per layer, found {hidden:?}"),
                    );
                }
                let widths: Vec<u128> = self
                    .layers()
                    .iter()
                    .map(|(inputs, _)| *inputs as u128 + 1)
                    .collect();
                let weights = widths.windows(2).map(|pair| pair[0].saturating_mul(pair[1]));
                if weights.fold(0, u128::saturating_add) > MOST_WEIGHTS {
                    return invalid(
                        "network.hidden",
                        format!("expected at most {MOST_WEIGHTS} weights, found {hidden:?} units"),
                    );
                }
                ("network.spectral_bound", spectral_bound)
            }
            Network::Linear { norm_bound } => ("network.norm_bound", norm_bound),
            Network::Custom(_) => return Ok(()),
        };
        match bound {
            (field, &Some(value)) if !(value.is_finite() && value > 0.0) => {
                invalid(field, format!("expected a positive, finite bound, found {value}"))
            }
            _ => Ok(()),
        }
    }

    /// The numbers of steps it was trained for.
    #[must_use]
    pub fn horizons(&self) -> RangeInclusive<usize> {
        self.shortest_horizon..=self.horizon
    }

    /// What remaining budgets are multiplied with before the network sees them: a model of several horizons sees those of a
    /// short episode as large as those of the longest one.
    pub(crate) fn stretch(&self, horizon: usize) -> f64 {
        if self.shortest_horizon == self.horizon {
            return 1.0;
        }
        self.horizon as f64 / horizon as f64
    }

    /// Checks that this is a model for a problem.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] that names the setting that does not fit.
    pub fn check_problem(&self, problem: &dyn Problem) -> Result<(), Error> {
        if self.problem != problem.name() {
            return Err(Error::InvalidSetting {
                field: "problem",
                reason: format!("expected `{}`, found `{}`", self.problem, problem.name()),
            });
        }
        if self.dimensions != problem.dimensions() {
            return Err(Error::InvalidSetting {
                field: "dimensions",
                reason: format!("expected {:?}, found {:?}", self.dimensions, problem.dimensions()),
            });
        }
        let parameters = problem.parameters();
        if self.parameters != parameters {
            return Err(Error::InvalidSetting {
                field: "parameters",
                reason: format!(
                    "expected {}, found {}",
                    listed(&self.parameters),
                    listed(&parameters)
                ),
            });
        }
        Ok(())
    }

    /// Number of features the network sees.
    #[must_use]
    pub fn feature_len(&self) -> usize {
        let Dimensions { budgets, context, .. } = self.dimensions;
        match self.features {
            Features::Paper => budgets + context + 1,
            Features::History => 2 * budgets + 5 * context + 1,
        }
    }

    /// Number of features that follow from the contexts alone.
    #[must_use]
    pub fn context_feature_len(&self) -> usize {
        self.feature_len() - budget_features(self)
    }

    /// The layers from input to output, as (inputs, outputs); none of a custom network.
    #[must_use]
    pub fn layers(&self) -> Vec<(usize, usize)> {
        if let Network::Custom(_) = self.network {
            return Vec::new();
        }
        let mut widths = vec![self.feature_len()];
        if let Network::Mlp { hidden, .. } = &self.network {
            widths.extend(hidden);
        }
        widths.push(self.dimensions.budgets);
        widths.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// Number of weights and biases; 0 for a custom network of which no model was made.
    #[must_use]
    pub fn parameter_len(&self) -> usize {
        if let Network::Custom(custom) = &self.network {
            return custom.parameter_len();
        }
        self.layers()
            .iter()
            .map(|(inputs, outputs)| (inputs + 1) * outputs)
            .sum()
    }
}

/// The family of functions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Network {
    /// Fully connected layers with rectified linear units; the paper's has two of ten.
    Mlp {
        /// The width of each hidden layer.
        hidden: Vec<usize>,
        /// The largest spectral norm that a layer's weight matrix may have, if bounded (Prop. 6.2).
        spectral_bound: Option<f64>,
    },
    /// `θᵀφ(v)` with `‖θ‖ ≤ Z` (Prop. 6.2); `θ` holds all outputs and the bias.
    Linear {
        /// The bound `Z`, if any.
        norm_bound: Option<f64>,
    },
    /// Any network made of candle-nn's parts; [`crate::Laau::with_network`] makes one.
    Custom(CustomNetwork),
}

/// What the network sees at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Features {
    /// The paper's: remaining budgets, context, share of steps left, in this order.
    Paper,
    /// Remaining budgets, the same per remaining step, context, share of steps left; then of the contexts so far the mean of
    /// each entry, the least, the greatest and the standard deviation.
    History,
}

/// How the network's output `z` becomes a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// `ln(1 + e^z) / ln 2`, which is 1 at `z = 0`.
    Softplus,
    /// `e^z`, with `z` held within ±30.
    Exp,
    /// `max(1 + z, 0)`: with a linear network, the `max(θᵀφ, 0)` of Proposition 6.2.
    Rectified,
}

/// What the output is multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriceBase {
    /// A constant: the AVG-LT multiplier of the training set.
    Plain,
    /// The certainty-equivalent multiplier at this step.
    Residual,
}
