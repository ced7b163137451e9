//! Interior-point step solver and KKT differentiation for laau.

mod closed_form;
mod lengths;

pub use closed_form::FairnessLayer;
