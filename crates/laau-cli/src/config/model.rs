//! The section `[model]`.

use clap::Args;
use laau::net::{Features, Laau, Network, Output, PriceBase};
use serde::{Deserialize, Serialize};

use super::Section;
use super::values::word;
use crate::failure::Failure;

/// What a model is made of.
#[derive(Debug, Clone, PartialEq, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "model")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ModelSection {
    /// mlp: layers of rectified linear units; linear: none
    #[arg(long, value_name = "NAME", value_parser = word::<Family>)]
    network: Option<Family>,
    /// the width of each hidden layer of an mlp
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    hidden: Option<Vec<usize>>,
    /// plain: the price is the network's; residual: it scales the certainty-equivalent price
    #[arg(long, value_name = "NAME", value_parser = word::<PriceBase>)]
    form: Option<PriceBase>,
    /// what the network sees: paper or history; if not given paper, for the residual form history
    #[arg(long, value_name = "NAME", value_parser = word::<Features>)]
    features: Option<Features>,
    /// how its output becomes a price: softplus or exp; if not given softplus, for the residual form exp
    #[arg(long, value_name = "NAME", value_parser = word::<Output>)]
    output_function: Option<Output>,
    /// the largest spectral norm of a layer of an mlp
    #[arg(long, value_name = "X")]
    spectral_bound: Option<f64>,
    /// the largest norm of the weights of a linear network
    #[arg(long, value_name = "X")]
    norm_bound: Option<f64>,
}

/// The family of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Family {
    Mlp,
    Linear,
}

/// The units of the paper's network.
const HIDDEN: [usize; 2] = [10, 10];

impl Section for ModelSection {
    const NAME: &'static str = "model";
    const HELP: &'static str = "The network that prices the budgets, for `laau train` and `laau learn`.";

    fn defaults() -> Self {
        Self {
            network: Some(Family::Mlp),
            hidden: Some(vec![10, 10]),
            form: Some(PriceBase::Plain),
            ..Self::default()
        }
    }

    fn examples() -> Self {
        Self {
            features: Some(Features::History),
            output_function: Some(Output::Exp),
            spectral_bound: Some(2.0),
            norm_bound: Some(10.0),
            ..Self::default()
        }
    }
}

impl ModelSection {
    /// The learned policy before it is trained.
    pub(crate) fn laau(&self) -> Result<Laau, Failure> {
        let stray = |key: &str, of: &str, is_given: bool| {
            if !is_given {
                return Ok(());
            }
            Err(Failure::new(
                format_args!("`{key}` in [model] is a key of network = \"{of}\""),
                format_args!("leave it out, or choose --network {of}"),
            ))
        };
        let network = match self.network.unwrap_or(Family::Mlp) {
            Family::Mlp => {
                stray("norm-bound", "linear", self.norm_bound.is_some())?;
                Network::Mlp {
                    hidden: self.hidden.clone().unwrap_or_else(|| HIDDEN.to_vec()),
                    spectral_bound: self.spectral_bound,
                }
            }
            Family::Linear => {
                stray("spectral-bound", "mlp", self.spectral_bound.is_some())?;
                // The default of a configuration that was printed is no mistake.
                stray(
                    "hidden",
                    "mlp",
                    self.hidden.as_ref().is_some_and(|hidden| hidden != &HIDDEN),
                )?;
                Network::Linear {
                    norm_bound: self.norm_bound,
                }
            }
        };
        // What the paper has for the plain form, what the study found for the residual one.
        let stock = match self.form.unwrap_or(PriceBase::Plain) {
            PriceBase::Plain => Laau::paper(),
            PriceBase::Residual => Laau::residual(),
        };
        Ok(Laau {
            network,
            features: self.features.unwrap_or(stock.features),
            output: self.output_function.unwrap_or(stock.output),
            ..stock
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Flags};

    fn laau(toml: &str) -> Result<Laau, String> {
        let config = Config::from(toml.parse::<toml::Table>().unwrap());
        let section = config.section(&Flags::<ModelSection>::default());
        section
            .and_then(|section| section.laau())
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_default_is_the_model_of_the_paper_and_a_form_brings_its_own() {
        assert_eq!(laau("").unwrap(), Laau::paper());
        assert_eq!(ModelSection::defaults().laau().unwrap(), Laau::paper());
        assert_eq!(laau("[model]\nform = \"residual\"").unwrap(), Laau::residual());
        let both = laau("[model]\nform = \"residual\"\nfeatures = \"paper\"").unwrap();
        assert_eq!((both.features, both.output), (Features::Paper, Output::Exp));
    }

    #[test]
    fn a_bound_of_the_other_network_is_refused() {
        assert_eq!(
            laau("[model]\nnorm-bound = 3.0").unwrap_err(),
            "`norm-bound` in [model] is a key of network = \"linear\" (hint: leave it out, or choose --network linear)"
        );
        assert!(laau("[model]\nnetwork = \"linear\"\nnorm-bound = 3.0").is_ok());
    }
}
