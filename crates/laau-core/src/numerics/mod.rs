//! Building blocks that the sibling crates share, so that each algorithm exists once.

pub mod adam;
pub mod cholesky;
pub mod mlp;
mod normal;

pub use normal::normal_pair;
