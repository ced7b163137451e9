//! Integration tests of `laau-kkt`.

mod clarabel;
mod conformance;
mod edges;
mod episodes;
mod gradients;
mod problems;
mod random_instances;
