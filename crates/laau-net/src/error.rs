//! The errors of this crate.

use std::path::PathBuf;

/// What can go wrong with a model, its file or its training.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the problem, the episodes or the layer.
    #[error(transparent)]
    Core(#[from] laau_core::Error),
    /// A setting outside its range.
    #[error("invalid `{field}`: {reason}")]
    InvalidSetting {
        /// The setting's name.
        field: &'static str,
        /// What was expected and what was found.
        reason: String,
    },
    /// A model file that cannot be used.
    #[error("{}: {field}: {reason}", path.display())]
    InvalidFile {
        /// The file.
        path: PathBuf,
        /// The part of the file that is wrong.
        field: String,
        /// What was expected and what was found.
        reason: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A training run whose loss or gradient is no longer finite, or has exploded.
    #[error("training diverged in epoch {}, batch {}: {reason}; {hint}", epoch + 1, batch + 1)]
    Diverged {
        /// The epoch, from 0; messages count from 1.
        epoch: usize,
        /// The batch within it, from 0.
        batch: usize,
        /// What was seen.
        reason: String,
        /// What to change.
        hint: &'static str,
    },
    /// The tensor engine failed.
    #[error("tensor engine: {0}")]
    Tensor(String),
}

impl Error {
    /// The same as an error of the seam, where a policy says it.
    pub(crate) fn of_policy(self, policy: &str) -> laau_core::Error {
        match self {
            Self::Core(error) => error,
            other => laau_core::Error::Policy {
                policy: policy.to_owned(),
                reason: other.to_string(),
            },
        }
    }
}
