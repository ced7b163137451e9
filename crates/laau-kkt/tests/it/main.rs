//! Integration tests of `laau-kkt`.

mod gradients;
mod problems;
mod random_instances;
