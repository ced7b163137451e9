//! What can be wrong with a request, and the status that says so.

use std::time::Duration;

use crate::entry::DecisionId;
use crate::store::StoreError;

/// Why a request was refused. Nothing has then changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A body, parameter or header that is not what was expected.
    #[error("{reason}")]
    Invalid {
        /// What was expected.
        reason: String,
    },
    /// A request that changes something, without a key.
    #[error("expected an Idempotency-Key header of 1 to 255 visible ASCII characters")]
    MissingKey,
    /// No API key, or one that nobody has.
    #[error("expected a valid API key in the Authorization header")]
    Unauthorized,
    /// An API key that does not allow this.
    #[error("the API key does not allow this")]
    Forbidden,
    /// An account that does not exist.
    #[error("no account `{account}`")]
    UnknownAccount {
        /// Its name.
        account: String,
    },
    /// A name that is taken.
    #[error("account `{account}` exists already, with other settings")]
    AccountExists {
        /// The name.
        account: String,
    },
    /// An account that was closed.
    #[error("account `{account}` is closed")]
    AccountClosed {
        /// Its name.
        account: String,
    },
    /// A decision that was never made, or so long ago that it is forgotten.
    #[error("no decision {decision} in this period or the one before")]
    UnknownDecision {
        /// Its name.
        decision: DecisionId,
    },
    /// No period has begun.
    #[error("no period is open: begin one first")]
    NoPeriod,
    /// An account that would keep the others of its node waiting.
    #[error(
        "expected an account of at most {most} actions times budgets, found {actions} actions and {budgets} budgets{}",
        match steps {
            1 => String::new(),
            steps => format!("; policy `cr-pursuit` looks at all {steps} steps of a period in each decision, so that they are multiplied in"),
        }
    )]
    TooLarge {
        /// The number of actions.
        actions: usize,
        /// The number of budgets.
        budgets: usize,
        /// The steps that a decision looks at.
        steps: usize,
        /// The largest product.
        most: usize,
    },
    /// The key was used for another request.
    #[error("the idempotency key was used before, for another request")]
    KeyReused,
    /// The budget does not cover even the least there is.
    #[error("the budget of the period is used up: {reason}")]
    Exhausted {
        /// Which budget, and what is left of it.
        reason: String,
    },
    /// What the state of the account does not allow: a hold that is closed, more steps than are left.
    #[error("{reason}")]
    Conflict {
        /// What is in the way.
        reason: String,
    },
    /// A context, usage or setting that the problem does not take.
    #[error(transparent)]
    Core(#[from] laau::core::Error),
    /// A problem, policy or file that the registry does not take.
    #[error(transparent)]
    Registry(#[from] laau::registry::Error),
    /// Another node owns the account.
    #[error("account `{account}` is served by {address}")]
    Elsewhere {
        /// The account.
        account: String,
        /// The base URL of its owner.
        address: String,
    },
    /// More requests wait than can be answered.
    #[error("too many requests wait")]
    Overloaded,
    /// The service ends.
    #[error("the service is shutting down")]
    ShuttingDown,
    /// An account whose log does not give its state again: it is not served, lest something be decided twice.
    #[error("account `{account}` is not served: {reason}")]
    Unplayable {
        /// The account.
        account: String,
        /// What is wrong.
        reason: String,
        /// How long it is left alone before it is rebuilt once more.
        rest: Duration,
    },
    /// The store could not be read or written; the request may have been carried out, and its key tells.
    #[error("the store is not available: {0}")]
    Store(#[from] StoreError),
}

impl Error {
    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        use laau::core::Error as Core;
        match self {
            Self::Invalid { .. } | Self::MissingKey => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::UnknownAccount { .. }
            | Self::UnknownDecision { .. }
            | Self::Core(Core::UnknownHold { .. }) => 404,
            Self::AccountExists { .. }
            | Self::NoPeriod
            | Self::Exhausted { .. }
            | Self::Conflict { .. }
            | Self::Core(Core::HoldClosed { .. } | Core::EpisodeOver { .. } | Core::Overspend { .. }) => 409,
            Self::AccountClosed { .. } => 410,
            Self::TooLarge { .. } | Self::KeyReused | Self::Core(_) | Self::Registry(_) => 422,
            Self::Elsewhere { .. } => 307,
            Self::Overloaded | Self::ShuttingDown | Self::Unplayable { .. } | Self::Store(_) => 503,
        }
    }

    /// A stable name of the kind of error, the last part of the `type` of a problem document.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid",
            Self::MissingKey => "missing-key",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::UnknownAccount { .. } => "unknown-account",
            Self::AccountExists { .. } => "account-exists",
            Self::AccountClosed { .. } => "account-closed",
            Self::UnknownDecision { .. } => "unknown-decision",
            Self::NoPeriod => "no-period",
            Self::TooLarge { .. } => "account-too-large",
            Self::KeyReused => "key-reused",
            Self::Exhausted { .. } => "exhausted",
            Self::Conflict { .. } => "conflict",
            Self::Core(_) => "refused",
            Self::Registry(_) => "unknown-policy",
            Self::Elsewhere { .. } => "elsewhere",
            Self::Overloaded => "overloaded",
            Self::ShuttingDown => "shutting-down",
            Self::Unplayable { .. } => "unplayable",
            Self::Store(_) => "store",
        }
    }

    /// When to try again, for what passes by itself.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unplayable { rest, .. } => Some(*rest),
            _ => (self.status() == 503).then_some(Duration::from_secs(1)),
        }
    }
}
