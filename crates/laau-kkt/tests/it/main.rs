//! Integration tests of `laau-kkt`.
#![expect(clippy::unwrap_used, reason = "a test panics where something is wrong")]

mod allocations;
mod clarabel;
mod conformance;
mod corners;
mod degenerate;
mod edges;
mod episodes;
mod episodes_of_problems;
mod exactness;
mod foreign;
mod gradcheck;
mod gradients;
mod guarded;
mod problems;
mod random_instances;
mod staircase;
