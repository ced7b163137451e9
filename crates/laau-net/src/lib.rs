//! Multiplier networks and unrolled training.
#![allow(
    clippy::inline_always,
    reason = "SIMD dispatch reaches only what is inlined into the dispatched function"
)]

mod engine;
mod error;
mod features;
mod math;
mod model;
mod network;
mod spec;
mod statistics;

pub use engine::{BatchResult, Engine};
pub use error::Error;
pub use model::Model;
pub use spec::{Features, Form, ModelSpec, Network, Output};
pub use statistics::Statistics;
