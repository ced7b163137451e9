//! The section `[model]`.

use laau_core::Problem;
use laau_net::{Features, ModelSpec, Network, Output, PriceBase};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// What a model is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ModelConfig {
    network: Family,
    hidden: Vec<usize>,
    form: PriceBase,
    features: Option<Features>,
    output: Option<Output>,
    spectral_bound: Option<f64>,
    norm_bound: Option<f64>,
}

/// The family of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Family {
    Mlp,
    Linear,
}

impl ModelConfig {
    /// The specification of a model for a problem.
    pub(crate) fn spec(&self, problem: &dyn Problem, horizon: usize) -> Result<ModelSpec, Failure> {
        let stray = |key: &str, of: &str, value: Option<f64>| match value {
            Some(_) => Err(Failure::new(
                format_args!("`{key}` in [model] is a key of network = \"{of}\""),
                format_args!("leave it out, or choose --network {of}"),
            )),
            None => Ok(()),
        };
        let network = match self.network {
            Family::Mlp => {
                stray("norm-bound", "linear", self.norm_bound)?;
                Network::Mlp {
                    hidden: self.hidden.clone(),
                    spectral_bound: self.spectral_bound,
                }
            }
            Family::Linear => {
                stray("spectral-bound", "mlp", self.spectral_bound)?;
                Network::Linear {
                    norm_bound: self.norm_bound,
                }
            }
        };
        // What the paper has for the plain form, what the study found for the residual one.
        let stock = match self.form {
            PriceBase::Plain => ModelSpec::paper(problem, horizon),
            PriceBase::Residual => ModelSpec::residual(problem, horizon),
        };
        let spec = ModelSpec {
            network,
            features: self.features.unwrap_or(stock.features),
            output: self.output.unwrap_or(stock.output),
            ..stock
        };
        spec.validate()?;
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use laau_core::problems::WeightedFairness;

    fn spec(toml: &str) -> Result<ModelSpec, String> {
        let config = Config::from_text(toml).map_err(|failure| failure.to_string())?;
        let spec = config.model.spec(&WeightedFairness::paper(), 20);
        spec.map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_default_is_the_model_of_the_paper_and_a_form_brings_its_own() {
        let problem = WeightedFairness::paper();
        assert_eq!(spec("").unwrap(), ModelSpec::paper(&problem, 20));
        assert_eq!(
            spec("[model]\nform = \"residual\"").unwrap(),
            ModelSpec::residual(&problem, 20)
        );
        let both = spec("[model]\nform = \"residual\"\nfeatures = \"paper\"").unwrap();
        assert_eq!((both.features, both.output), (Features::Paper, Output::Exp));
    }

    #[test]
    fn a_bound_of_the_other_network_is_refused() {
        assert_eq!(
            spec("[model]\nnorm-bound = 3.0").unwrap_err(),
            "`norm-bound` in [model] is a key of network = \"linear\" (hint: leave it out, or choose --network linear)"
        );
        assert!(spec("[model]\nnetwork = \"linear\"\nnorm-bound = 3.0").is_ok());
    }
}
