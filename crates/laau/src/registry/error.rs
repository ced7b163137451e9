//! What can be wrong with a name or with the parameters that come with it.

use std::fmt::Display;

use super::suggest;

/// Why a name gives no type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that nothing has.
    #[error("unknown {what} `{name}`")]
    Unknown {
        /// What was looked for: `problem`, `policy`.
        what: &'static str,
        /// The name.
        name: String,
        /// All names there are.
        known: Vec<&'static str>,
    },
    /// Parameters that do not go with the name.
    #[error("{sentence}")]
    Parameter {
        /// What is wrong.
        sentence: String,
        /// What to do about it.
        hint: String,
    },
    /// A policy file that cannot be used.
    #[error("{reason}")]
    File {
        /// What is wrong with it.
        reason: String,
    },
    /// A problem, policy or solver that refuses its parameters.
    #[error(transparent)]
    Core(#[from] laau_core::Error),
    /// A workload that refuses its parameters.
    #[error(transparent)]
    Data(#[from] laau_data::Error),
    /// A model that cannot be used.
    #[error(transparent)]
    Net(#[from] laau_net::Error),
}

impl Error {
    pub(super) fn parameter(sentence: impl Display, hint: impl Display) -> Self {
        Self::Parameter {
            sentence: sentence.to_string(),
            hint: hint.to_string(),
        }
    }

    /// What to do about it, if the registry knows.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { name, known, .. } => Some(suggest::hint(name, known.iter().copied())),
            Self::Parameter { hint, .. } => Some(hint.clone()),
            _ => None,
        }
    }
}
