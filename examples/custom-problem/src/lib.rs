#![doc = include_str!("../README.md")]

mod campaign;
mod problem;
mod solver;

pub use campaign::{Sizes, campaigns, compare};
pub use problem::AdPacing;
pub use solver::ClarabelLayer;
