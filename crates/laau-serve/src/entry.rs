//! What is stored: the log of an account, and the keys of the API.

use std::fmt;
use std::str::FromStr;

use laau::core::HoldId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The name of a decision: the number of its period and that of its hold, `3-17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DecisionId {
    /// The period, from 0.
    pub period: u64,
    /// The hold in the period's ledger.
    pub hold: HoldId,
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.period, self.hold)
    }
}

impl From<DecisionId> for String {
    fn from(decision: DecisionId) -> Self {
        decision.to_string()
    }
}

impl TryFrom<String> for DecisionId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for DecisionId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a decision as `PERIOD-NUMBER`, for example 0-17";
        let number = |digits: &str| match digits.as_bytes() {
            // One spelling each: no signs, no leading zeros.
            [b'0'] => Ok(0),
            [b'1'..=b'9', ..] => digits.parse().map_err(|_| EXPECTED),
            _ => Err(EXPECTED),
        };
        let (period, hold) = text.split_once('-').ok_or(EXPECTED)?;
        Ok(Self {
            period: number(period)?,
            hold: HoldId::new(number(hold)?),
        })
    }
}

/// What happened to an account in a period.
///
/// A period is rebuilt by its events in their order: the same policy decides the same actions once more, to the last bit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// The period began.
    Opened {
        /// When, in milliseconds since 1970.
        at: u64,
        /// When it ends, for a period by the clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
        /// Its budgets, with what was carried over.
        budgets: Vec<f64>,
        /// Its number of steps.
        horizon: usize,
    },
    /// A step was decided and its usage held.
    Decided {
        /// When, in milliseconds since 1970.
        at: u64,
        /// The context.
        context: Vec<f64>,
        /// The action, which replaying must give again.
        action: Vec<f64>,
    },
    /// The lower corner was granted past the horizon.
    Granted {
        /// When, in milliseconds since 1970.
        at: u64,
        /// The context.
        context: Vec<f64>,
    },
    /// A hold was settled by the usage that really happened.
    Settled {
        /// The hold.
        #[schema(value_type = u64)]
        hold: HoldId,
        /// The usage.
        usage: Vec<f64>,
    },
    /// A hold was released by an operator.
    Released {
        /// The hold.
        #[schema(value_type = u64)]
        hold: HoldId,
    },
    /// Steps passed unused.
    Skipped {
        /// How many.
        steps: usize,
    },
}

/// One line of the log of an account, with the answer that its request got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The period it belongs to.
    pub period: u64,
    /// Its place in the period, from 0 without gaps.
    pub number: u64,
    /// What happened.
    pub event: Event,
    /// The request it came from; none for what the clock did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<KeyedRequest>,
}

/// A request with its key and the answer that every repetition of it gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyedRequest {
    /// The idempotency key.
    pub key: String,
    /// SHA-256 of what was asked for, in hexadecimal: another request may not have the key.
    pub digest: String,
    /// The status of the answer.
    pub status: u16,
    /// The body of the answer.
    pub answer: String,
}

/// What an API key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// To look.
    Read,
    /// To look, to decide and to settle.
    Decide,
    /// Everything.
    Admin,
}

/// An API key as it is stored: never the secret itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// Its public name, the first part of the secret.
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    /// What it allows.
    pub scope: Scope,
    /// The account it is for; all of them if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
}
