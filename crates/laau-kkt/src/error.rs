//! The errors of this crate.

/// Errors of constructing a solver or running a check.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option outside its range.
    #[error("option `{option}`: expected {expected}, found {found}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// The range that was expected.
        expected: &'static str,
        /// The value that was found.
        found: f64,
    },
    /// A problem or a call that breaks the contract of `laau-core`.
    #[error(transparent)]
    Core(#[from] laau_core::Error),
    /// A query that must be solved before it can be checked.
    #[error("the query to be checked is not solved: {0}")]
    NotSolved(laau_core::Status),
}
