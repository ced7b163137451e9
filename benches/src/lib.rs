#![doc = include_str!("../README.md")]

mod episodes;
mod models;
mod queries;

pub use episodes::{fairness_episodes, log_utility_episodes, vm_episodes};
pub use models::{minibatch_model, paper_model, play};
pub use queries::{Batch, fairness_batch, log_utility, log_utility_batch};

/// The environment variable that chooses a set of sizes: `small` or everything.
pub const SET: &str = "LAAU_BENCH";

/// The sizes of a sweep: all of them, or the first few when [`SET`] is `small`.
#[must_use]
pub fn sweep<T: Clone>(sizes: &[T], small: usize) -> Vec<T> {
    let taken = match std::env::var(SET).as_deref() {
        Ok("small") => small.min(sizes.len()),
        _ => sizes.len(),
    };
    sizes[..taken].to_vec()
}
