//! The contexts of an episode so far, summed up as they come.

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

    /// Adds the contexts of the same episode that have come since the last call.
    pub(crate) fn see(&mut self, observation: &Observation<'_>) {
        self.entries.resize(observation.context_len, Running::default());
        for context in observation.contexts[self.read..].chunks_exact(observation.context_len) {
            for (running, c) in self.entries.iter_mut().zip(context) {
                running.add(*c);
            }
        }
        self.read = observation.contexts.len();
    }

    /// What has come of one entry.
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
