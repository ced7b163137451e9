//! What the answers to changes say.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// Its name, for its settlement: the period and the number of the hold.
    pub decision: String,
    /// The period.
    pub period: u64,
    /// The step.
    pub step: usize,
    /// The number of steps of the period.
    pub horizon: usize,
    /// What to do.
    pub action: Vec<f64>,
    /// The price of each budget behind it, where the policy has prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<Vec<f64>>,
    /// The usage that is held of each budget, until it is settled.
    pub held: Vec<f64>,
    /// What remains of each budget.
    pub remaining: Vec<f64>,
    /// Why the action is the least one and not the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// That the guard changed the action.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guarded: bool,
    /// That the period had no step left, and the least action was granted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beyond_horizon: bool,
    /// That the context is far outside those of the training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A settlement or a release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Settled {
    /// The decision.
    pub decision: String,
    /// The usage that counts from now on, of each budget.
    pub settled: Vec<f64>,
    /// What returned to each budget.
    pub returned: Vec<f64>,
    /// What remains of each budget of its period.
    pub remaining: Vec<f64>,
}
