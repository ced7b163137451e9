#![doc = include_str!("../README.md")]

mod episodes;
mod models;
mod peak;
mod queries;

pub use episodes::{fairness_episodes, log_utility_episodes, vm_episodes, wireless_episodes};
pub use models::{minibatch_model, paper_model, play};
pub use peak::peak_operations;
pub use queries::{Batch, fairness_batch, log_utility, log_utility_batch};

/// The environment variable that chooses a set of sizes: `small` or everything.
pub const SET: &str = "LAAU_BENCH";

/// The sizes of a sweep: all of them, or the first few when [`SET`] is `small`.
#[must_use]
pub fn sweep<T: Clone>(sizes: &[T], small: usize) -> Vec<T> {
    chosen(std::env::var(SET).ok().as_deref(), sizes, small)
}

fn chosen<T: Clone>(set: Option<&str>, sizes: &[T], small: usize) -> Vec<T> {
    let taken = if set == Some("small") { small } else { sizes.len() };
    sizes[..taken.min(sizes.len())].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_set_is_the_beginning_of_the_whole() {
        assert_eq!(chosen(None, &[1, 2, 3], 2), [1, 2, 3]);
        assert_eq!(chosen(Some("small"), &[1, 2, 3], 2), [1, 2]);
        assert_eq!(chosen(Some("small"), &[1], 2), [1]);
    }
}
