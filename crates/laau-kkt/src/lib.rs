#![doc = include_str!("../README.md")]

mod active_set;
mod barrier;
mod closed_form;
mod dense;
mod differentiate;
mod direct;
mod error;
mod evaluations;
mod feasible;
mod interior_point;
mod kkt;
mod lengths;
mod options;
mod passes;
mod pin;
mod polish;
mod refine;
mod rows;
mod settle;
mod workspace;

pub use closed_form::FairnessLayer;
pub use differentiate::Jacobians;
pub use error::Error;
pub use interior_point::InteriorPoint;
pub use kkt::Kkt;
pub use options::{Kink, Options};
