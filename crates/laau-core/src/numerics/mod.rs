//! Building blocks that the sibling crates share, so that each algorithm exists once.

pub mod adam;
pub mod cholesky;
pub mod mlp;
mod normal;
mod softplus;

pub use normal::normal_pair;
pub use softplus::softplus;
