//! One test suite per trait, for every implementation here and in any team's own crate.
