//! Integration tests of `laau-kkt`.

mod problems;
mod random_instances;
