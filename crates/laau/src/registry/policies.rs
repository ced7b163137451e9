//! Policies by name.

use std::fmt;
use std::str::FromStr;

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescentOptions, EqualOptions, OptOptions,
    RlOptions,
};
use laau_core::Fit;
use laau_net::{Laau, Training};
use serde::{Deserialize, Serialize};

use super::Error;

/// Every policy that can be fitted, in the order of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// The offline optimum.
    Opt,
    /// Equal shares.
    Equal,
    /// The average multiplier.
    AvgLt,
    /// Dual gradient descent.
    Dgd,
    /// Multiplicative weights.
    Mw,
    /// CR-Pursuit.
    CrPursuit,
    /// End-to-end reinforcement learning.
    Rl,
    /// The certainty-equivalent price, solved anew at every step.
    Ce,
    /// Dynamic programming.
    Dp,
    /// LAAU as in the paper.
    Laau,
    /// LAAU with history features.
    LaauHistory,
    /// LAAU times the certainty-equivalent price.
    LaauResidual,
}

impl PolicyKind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 12] = [
        Self::Opt,
        Self::Equal,
        Self::AvgLt,
        Self::Dgd,
        Self::Mw,
        Self::CrPursuit,
        Self::Rl,
        Self::Ce,
        Self::Dp,
        Self::Laau,
        Self::LaauHistory,
        Self::LaauResidual,
    ];

    /// The name in tables and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opt => "opt",
            Self::Equal => "equal",
            Self::AvgLt => "avg-lt",
            Self::Dgd => "dgd",
            Self::Mw => "mw",
            Self::CrPursuit => "cr-pursuit",
            Self::Rl => "rl",
            Self::Ce => "ce",
            Self::Dp => "dp",
            Self::Laau => "laau",
            Self::LaauHistory => "laau-history",
            Self::LaauResidual => "laau-residual",
        }
    }

    /// Whether the policy is trained, so that it may fail on data it was not trained for.
    #[must_use]
    pub const fn learns(self) -> bool {
        matches!(
            self,
            Self::Rl | Self::Laau | Self::LaauHistory | Self::LaauResidual
        )
    }

    /// What fits the policy; `training` is for those that are trained.
    #[must_use]
    pub fn fit(self, training: &Training) -> Box<dyn Fit> {
        let learned = |laau: Laau| Box::new(laau.trained_by(training.clone()));
        match self {
            Self::Opt => Box::new(OptOptions::default()),
            Self::Equal => Box::new(EqualOptions::default()),
            Self::AvgLt => Box::new(AvgLtOptions::default()),
            Self::Dgd => Box::new(DualDescentOptions::dgd()),
            Self::Mw => Box::new(DualDescentOptions::mw()),
            Self::CrPursuit => Box::new(CrPursuitOptions::default()),
            Self::Ce => Box::new(CeOptions::default()),
            Self::Dp => Box::new(DpOptions::default()),
            Self::Rl => Box::new(rl(training)),
            Self::Laau => learned(Laau::paper()),
            Self::LaauHistory => learned(Laau::history()),
            Self::LaauResidual => learned(Laau::residual()),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| Error::Unknown {
            what: "policy",
            name: name.to_owned(),
            known: Self::ALL.map(Self::name).to_vec(),
        })
    }
}

/// RL with the phases, batches and validation of LAAU's training.
fn rl(training: &Training) -> RlOptions {
    RlOptions {
        schedule: training.phases.clone(),
        batch: training.batch,
        validate_every: training.validate_every,
        ..RlOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_to_end_learning_follows_the_training_of_laau() {
        let training = Training {
            batch: 7,
            validate_every: 3,
            ..Training::default()
        };
        let options = rl(&training);
        assert_eq!(
            (options.batch, options.validate_every, &options.schedule),
            (7, 3, &training.phases)
        );
    }

    #[test]
    fn every_name_is_read_back() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.name().parse::<PolicyKind>().unwrap(), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
        let error = "lau".parse::<PolicyKind>().unwrap_err();
        assert_eq!(error.hint().unwrap(), "did you mean `laau`?");
    }
}
