//! The bodies of answers to requests that change something.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::entry::DecisionId;

/// A step that was decided, with its usage held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// Its name, to settle it by.
    #[schema(value_type = String, example = "0-17")]
    pub decision: DecisionId,
    /// The period.
    pub period: u64,
    /// The step, from 0; the horizon for one beyond it.
    pub step: usize,
    /// The number of steps of the period, those that passed unused not counted.
    pub horizon: usize,
    /// The action.
    pub action: Vec<f64>,
    /// The price of each budget, of a policy that has prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<Vec<f64>>,
    /// What is held of each budget: the most that the decision can be settled by.
    pub held: Vec<f64>,
    /// What remains of each budget.
    pub remaining: Vec<f64>,
    /// Why the action is the lower corner of the box and not the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Whether the guard changed what was advised.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guarded: bool,
    /// Whether the lower corner was granted past the last step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beyond_horizon: bool,
    /// What is odd about the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A decision that was settled or released.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Settled {
    /// Its name.
    #[schema(value_type = String, example = "0-17")]
    pub decision: DecisionId,
    /// What was used of each budget.
    pub settled: Vec<f64>,
    /// What returned to each budget.
    pub returned: Vec<f64>,
    /// What remains of each budget of the decision's period.
    pub remaining: Vec<f64>,
}
