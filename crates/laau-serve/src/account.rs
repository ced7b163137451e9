//! Accounts: a budget with a policy, as people ask for one and as they see it.

use std::collections::BTreeMap;

use laau::core::Certificate;
use laau::registry::ProblemSpec;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;

/// Where a policy comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected a policy as {\"file\": …} or as {\"name\": …, \"parameters\": {…}}"
)]
pub enum PolicySource {
    /// A policy file or a model in the folder of policies.
    File {
        /// The file's name, without a path.
        file: String,
    },
    /// A policy that decides without data.
    Named {
        /// Its name: equal, avg-lt, dgd, mw, cr-pursuit or ce.
        name: String,
        /// Its parameters; sensible ones where none are given.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        parameters: BTreeMap<String, Vec<f64>>,
    },
}

/// A guard: at least a share of what an incumbent would have gained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardSpec {
    /// The incumbent.
    pub policy: PolicySource,
    /// The share, between 0 and 1.
    #[serde(default = "default_level")]
    pub level: f64,
}

fn default_level() -> f64 {
    0.95
}

/// When periods begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PeriodSpec {
    /// A period lasts so many seconds and begins at multiples of them since 1970.
    pub seconds: u64,
}

/// The settings of an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountSpec {
    /// Its name: lower-case letters, digits, `.`, `_` and `-`, at most 64, a letter or digit first.
    pub name: String,
    /// The problem; a policy file knows its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = crate::http::problem_schema)]
    pub problem: Option<ProblemSpec>,
    /// The policy that decides.
    pub policy: PolicySource,
    /// What keeps it from doing harm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardSpec>,
    /// The budgets of a period.
    pub budgets: Vec<f64>,
    /// The number of steps of a period; that of the policy file if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizon: Option<usize>,
    /// Periods by the clock; on request if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<PeriodSpec>,
    /// Whether what is left of a period is added to the budgets of the next.
    #[serde(default)]
    pub rollover: bool,
}

/// Up to here a ledger keeps the reserve of the steps to come without rounding.
const LONGEST_HORIZON: usize = 2_000_000;

/// Ten years.
const LONGEST_PERIOD: u64 = 10 * 366 * 24 * 3600;

/// Checks the name of an account.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let inner =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    let first = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    if first && name.len() <= 64 && name.as_bytes().iter().all(inner) {
        return Ok(());
    }
    Err(Error::Invalid {
        reason: format!(
            "expected a name of lower-case letters, digits, `.`, `_` and `-`, at most 64, a letter or digit first, found `{}`",
            name.escape_debug()
        ),
    })
}

impl AccountSpec {
    /// Checks what can be wrong with settings whatever the problem is.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let invalid = |reason: String| Err(Error::Invalid { reason });
        check_name(&self.name)?;
        if let Some(horizon) = self
            .horizon
            .filter(|steps| !(1..=LONGEST_HORIZON).contains(steps))
        {
            return invalid(format!(
                "expected a horizon of 1 to {LONGEST_HORIZON} steps, found {horizon}"
            ));
        }
        if let Some(PeriodSpec { seconds }) = self.period
            && !(1..=LONGEST_PERIOD).contains(&seconds)
        {
            return invalid(format!(
                "expected a period of 1 to {LONGEST_PERIOD} seconds, found {seconds}"
            ));
        }
        Ok(())
    }

    /// Whether an account has these settings, which may leave open what its policy knows.
    pub(crate) fn is_met_by(&self, stored: &Self) -> bool {
        let mut asked = self.clone();
        asked.problem = asked.problem.or_else(|| stored.problem.clone());
        asked.horizon = asked.horizon.or(stored.horizon);
        asked == *stored
    }
}

/// A period as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PeriodView {
    /// Its number, from 0.
    pub number: u64,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// When it ends, for one by the clock.
    pub until: Option<u64>,
    /// Its budgets.
    pub budgets: Vec<f64>,
    /// What remains of them; what is held does not.
    pub remaining: Vec<f64>,
    /// What is held and not yet settled, of each budget.
    pub held: Vec<f64>,
    /// The number of open holds.
    pub holds: usize,
    /// The next step.
    pub step: usize,
    /// The number of steps, those that passed unused not counted.
    pub horizon: usize,
    /// Decisions past the horizon.
    pub granted: usize,
    /// The prices behind the last decision.
    pub multiplier: Option<Vec<f64>>,
    /// What the guard has kept of its promise; none before its first decision.
    #[schema(value_type = Option<Object>)]
    pub certificate: Option<Certificate>,
}

/// An account as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccountView {
    /// Its settings.
    pub spec: AccountSpec,
    /// Whether it was closed.
    pub closed: bool,
    /// How many numbers a context has; not known here of an account that cannot be loaded, or that another node owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// The open period; not told in a list of an account that cannot be loaded, or that this node does not own.
    pub period: Option<PeriodView>,
}
