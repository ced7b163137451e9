//! The models and engines of this crate, from the outside.
#![expect(clippy::unwrap_used, reason = "a test whose setting fails has failed")]

mod custom;
mod edges;
mod engines;
mod files;
mod fused;
mod guarded;
mod guarded_training;
mod horizons;
mod learning;
mod model;
mod online;
mod precision;
mod safety;
mod support;
mod training;
