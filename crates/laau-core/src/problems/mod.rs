//! The problems that come with the crate.

mod log_utility;
mod weighted_fairness;

pub use log_utility::LogUtility;
pub use weighted_fairness::WeightedFairness;
