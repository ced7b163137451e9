//! Names ⇄ concrete types: the one place that knows every problem, policy and workload by its name.
//!
//! The command line and services use it; a program that knows its types does not need it.

mod error;
mod files;
mod models;
mod policies;
mod problems;
#[cfg(any(test, feature = "conformance"))]
pub mod sample;
pub mod suggest;
mod untuned;
mod workloads;

pub use error::Error;
pub use files::{
    Deployed, digest, document_to_bytes, load_policy, policy_from_bytes, policy_to_bytes, save_policy,
};
pub use models::deployed_from_bytes;
pub use policies::PolicyKind;
pub use problems::ProblemSpec;
pub use untuned::{Untuned, untuned};
pub use workloads::ProblemWorkload;
