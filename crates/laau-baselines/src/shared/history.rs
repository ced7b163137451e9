//! Running statistics of the contexts of an episode.
//!
//! laau-net has its own, and both stay: shifted sums over several episodes at once, on whose rounding stored models depend.

use laau_core::Observation;

/// Running statistics of every entry of the context: `O(1)` a step, whatever the horizon.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    entries: Vec<Running>,
    /// How many values have been read, over all entries.
    read: usize,
}

impl History {
    /// The history of one observation, read from its start.
    pub(crate) fn of(observation: &Observation<'_>) -> Self {
        let mut history = Self::default();
        history.see(observation);
        history
    }

    /// Adds the contexts that have come since the last call. Where none have, a step is repeated or an episode begins, and
    /// everything is read from the start.
    pub(crate) fn see(&mut self, observation: &Observation<'_>) {
        if observation.contexts.len() <= self.read {
            self.entries.clear();
            self.read = 0;
        }
        self.entries.resize(observation.context_len, Running::default());
        for context in observation.contexts[self.read..].chunks_exact(observation.context_len) {
            for (running, c) in self.entries.iter_mut().zip(context) {
                running.add(*c);
            }
        }
        self.read = observation.contexts.len();
    }

    /// The statistics of one entry.
    pub(crate) fn entry(&self, entry: usize) -> &Running {
        &self.entries[entry]
    }
}

/// The history of one entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    pub(crate) count: f64,
    pub(crate) sum: f64,
    pub(crate) last: f64,
    pub(crate) smallest: f64,
    pub(crate) largest: f64,
    /// By Welford's recursion, not the sum over the count.
    pub(crate) mean: f64,
    /// Sum of squared distances from the mean (Welford).
    spread: f64,
}

impl Default for Running {
    fn default() -> Self {
        Self {
            count: 0.0,
            sum: 0.0,
            last: 0.0,
            smallest: f64::INFINITY,
            largest: f64::NEG_INFINITY,
            mean: 0.0,
            spread: 0.0,
        }
    }
}

impl Running {
    pub(crate) fn add(&mut self, c: f64) {
        self.count += 1.0;
        self.sum += c;
        self.last = c;
        let before = c - self.mean;
        self.mean += before / self.count;
        self.spread += before * (c - self.mean);
        self.smallest = self.smallest.min(c);
        self.largest = self.largest.max(c);
    }

    /// The standard deviation.
    pub(crate) fn deviation(&self) -> f64 {
        (self.spread / self.count).max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(contexts: &[f64]) -> Observation<'_> {
        Observation {
            step: contexts.len() / 2 - 1,
            horizon: 9,
            contexts,
            context_len: 2,
            budgets: &[1.0],
            remaining: &[1.0],
            available: &[1.0],
        }
    }

    #[test]
    fn every_entry_has_a_history_of_its_own() {
        let mut history = History::default();
        for steps in 1..=4 {
            history.see(&observation(
                &[3.0, 0.1, 1.0, 0.2, 2.0, 0.4, 6.0, 0.8][..2 * steps],
            ));
        }
        let first = history.entry(0);
        assert_eq!((first.count, first.sum, first.last), (4.0, 12.0, 6.0));
        assert_eq!((first.mean, first.smallest, first.largest), (3.0, 1.0, 6.0));
        assert!((first.deviation() - 3.5_f64.sqrt()).abs() < 1e-15);
        assert_eq!((history.entry(1).last, history.entry(1).largest), (0.8, 0.8));
    }

    #[test]
    fn a_step_that_is_asked_again_counts_once() {
        let mut history = History::default();
        for contexts in [&[1.0, 1.0][..], &[1.0, 1.0, 9.0, 9.0], &[1.0, 1.0, 2.0, 2.0]] {
            history.see(&observation(contexts));
        }
        assert_eq!((history.entry(0).count, history.entry(0).sum), (2.0, 3.0));
        history.see(&observation(&[5.0, 5.0]));
        assert_eq!((history.entry(0).count, history.entry(0).sum), (1.0, 5.0));
    }
}
