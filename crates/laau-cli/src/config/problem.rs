//! The section `[problem]`.

use clap::Args;
use laau::net::ModelSpec;
use laau::registry::{self, ProblemSpec};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::values::rows;
use super::{Config, Flags, Section, table};
use crate::failure::{Failure, Hint as _};

/// Which problem, and its parameters; what is not given is as the problem's name promises.
#[derive(Debug, Clone, PartialEq, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "problem")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ProblemSection {
    /// weighted-fairness, log-utility, vm-allocation, wireless, trading, power or llm-tokens
    #[arg(long = "problem", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// the least action
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    lower: Option<f64>,
    /// the greatest action
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    upper: Option<f64>,
    /// number of actions of log-utility, vm-allocation, wireless and llm-tokens
    #[arg(long, value_name = "D")]
    actions: Option<usize>,
    /// usage of each budget (row) by each action (column) in log-utility
    #[arg(long, value_name = "ROWS", value_parser = rows::<Matrix>)]
    usage: Option<Matrix>,
    /// fairness of vm-allocation
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    alpha: Option<f64>,
    /// market impact of trading
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    impact: Option<f64>,
    /// bandwidth of a channel of wireless
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    bandwidth: Option<f64>,
    /// energy per unit of each load of power
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    energy: Option<Vec<f64>>,
    /// the greatest load of power
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    most_load: Option<f64>,
    /// the greatest carbon intensity of power
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    most_intensity: Option<f64>,
    /// curvature of the utility of llm-tokens
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    kappa: Option<f64>,
    /// price of a thousand prompt tokens of llm-tokens
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    input_price: Option<f64>,
    /// price of a thousand output tokens of llm-tokens
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    output_price: Option<f64>,
}

type Matrix = Vec<Vec<f64>>;

impl Section for ProblemSection {
    const NAME: &'static str = "problem";
    const HELP: &'static str = "What is decided at each step, and in which box. Keys that are not set are as the problem's name promises.";

    fn defaults() -> Self {
        Self {
            name: Some(ProblemSpec::default().name().to_owned()),
            ..Self::default()
        }
    }

    fn examples() -> Self {
        Self {
            name: None,
            lower: Some(1.0),
            upper: Some(40.0),
            actions: Some(2),
            usage: Some(vec![vec![1.0, 1.0]]),
            alpha: Some(2.0),
            impact: Some(0.05),
            bandwidth: Some(1.0),
            energy: Some(vec![1.0, 0.8]),
            most_load: Some(1.0),
            most_intensity: Some(1.0),
            kappa: Some(9.0),
            input_price: Some(1.0),
            output_price: Some(3.0),
        }
    }
}

impl Config {
    /// The problem of the flags and the file.
    pub(crate) fn problem(&self, flags: &Flags<ProblemSection>) -> Result<ProblemSpec, Failure> {
        self.section(flags)?.spec()
    }
}

impl Config {
    /// The problem of a model, with what the flags and the configuration say instead; another one if they name it.
    pub(crate) fn problem_of(
        &self,
        flags: &Flags<ProblemSection>,
        spec: &ModelSpec,
    ) -> Result<ProblemSpec, Failure> {
        self.section(flags)?.completed_by(&ProblemSpec::of_model(spec)?)
    }
}

impl ProblemSection {
    /// A problem that is known, with what is said here instead; another one if it is named here.
    pub(crate) fn completed_by(&self, known: &ProblemSpec) -> Result<ProblemSpec, Failure> {
        if self.name.as_deref().is_some_and(|name| name != known.name()) {
            return self.spec();
        }
        let section = self.named(known.name())?;
        let mut keys = Table::try_from(known).hint("this is a mistake in laau itself: please report it")?;
        let said = table(&section)?;
        if said.keys().all(|key| keys.contains_key(key)) {
            keys.extend(said);
            if let Ok(spec) = ProblemSpec::deserialize(keys) {
                return Ok(spec);
            }
        }
        // What does not go together says so.
        section.spec()
    }

    /// The section of a problem, without a least action where that is 0 and cannot be another.
    fn named(&self, name: &str) -> Result<Self, Failure> {
        const FROM_ZERO: [&str; 3] = ["llm-tokens", "trading", "wireless"];
        let mut section = Self {
            name: Some(name.to_owned()),
            ..self.clone()
        };
        if FROM_ZERO.contains(&name)
            && let Some(lower) = section.lower.take()
            && lower != 0.0
        {
            return Err(Failure::new(
                format_args!("problem `{name}`: the least action is 0, found lower = {lower}"),
                "leave --lower out",
            ));
        }
        Ok(section)
    }

    /// The problem, with every parameter.
    pub(crate) fn spec(&self) -> Result<ProblemSpec, Failure> {
        let name = self.name.clone().or(Self::defaults().name).unwrap_or_default();
        let section = self.named(&name)?;
        if !ProblemSpec::NAMES.contains(&name.as_str()) {
            return Err(registry::Error::Unknown {
                what: "problem",
                name,
                known: ProblemSpec::NAMES.to_vec(),
            }
            .into());
        }
        ProblemSpec::deserialize(table(&section)?).map_err(|error| {
            Failure::new(
                format_args!("problem `{name}`: {}", error.message()),
                "`laau config --default` shows which problem has which keys",
            )
        })
    }
}
