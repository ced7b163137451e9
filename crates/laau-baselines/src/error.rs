//! The errors of this crate; at the seams they travel as [`laau_core::Error`].

/// What can be wrong with the options of a policy, or with what it is fitted on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option outside its range.
    #[error("expected {expected} for option `{option}`, found {value}")]
    InvalidOption {
        /// The policy's name.
        policy: &'static str,
        /// The option's name.
        option: &'static str,
        /// The range.
        expected: &'static str,
        /// The value that was given.
        value: f64,
    },
    /// A set of episodes with nothing in it.
    #[error("expected at least one {set} episode to fit on")]
    NoEpisodes {
        /// The policy's name.
        policy: &'static str,
        /// Which set: `training` or `validation`.
        set: &'static str,
    },
    /// A policy that projects several actions, in a setting that cannot.
    #[error("expected a projector for {actions} actions (`Setting::with_projector`), found none")]
    NoProjector {
        /// The policy's name.
        policy: &'static str,
        /// The number of actions.
        actions: usize,
    },
    /// An iteration that stopped short of its tolerance.
    #[error(
        "{what} stopped after {iterations} iterations at {residual:.1e}, expected at most {tolerance:.1e}"
    )]
    NotConverged {
        /// The policy's name.
        policy: &'static str,
        /// What was iterated.
        what: &'static str,
        /// Iterations taken.
        iterations: usize,
        /// The residual or gap reached.
        residual: f64,
        /// The one asked for.
        tolerance: f64,
    },
}

impl Error {
    /// The policy that has something to say.
    #[must_use]
    pub fn policy(&self) -> &'static str {
        match self {
            Self::InvalidOption { policy, .. }
            | Self::NoEpisodes { policy, .. }
            | Self::NoProjector { policy, .. }
            | Self::NotConverged { policy, .. } => policy,
        }
    }
}

impl From<Error> for laau_core::Error {
    fn from(error: Error) -> Self {
        Self::Policy {
            policy: error.policy().to_owned(),
            reason: error.to_string(),
        }
    }
}

/// Checks one option of a policy.
pub(crate) fn expect_option(
    good: bool,
    policy: &'static str,
    option: &'static str,
    expected: &'static str,
    value: f64,
) -> Result<(), Error> {
    if good {
        Ok(())
    } else {
        Err(Error::InvalidOption {
            policy,
            option,
            expected,
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_words_at_the_seam() {
        let error = expect_option(false, "dgd", "rounds", "at least 1", 0.0).unwrap_err();
        assert_eq!(
            laau_core::Error::from(error).to_string(),
            "policy `dgd`: expected at least 1 for option `rounds`, found 0"
        );
    }
}
