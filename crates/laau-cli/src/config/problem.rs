//! The section `[problem]`.

use serde::{Deserialize, Serialize};

/// Which problem, and its parameters; what is not given is as the problem's name promises.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ProblemConfig {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lower: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upper: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) actions: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Vec<Vec<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alpha: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) impact: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bandwidth: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) energy: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) most_load: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) most_intensity: Option<f64>,
}
