//! Who watches a training run.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use laau_core::GradientCounts;
use serde::{Deserialize, Serialize};

use super::CsvLog;

/// What one epoch gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// The epoch, from 0.
    pub epoch: usize,
    /// Its learning rate.
    pub learning_rate: f64,
    /// The mean loss over its batches, each before its step.
    pub loss: f64,
    /// The utility per step on the validation set after it, by exact rollouts, if it was measured.
    pub validation_utility: Option<f64>,
    /// The layer's gradients in it.
    pub gradients: GradientCounts,
}

/// How far an epoch is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchProgress {
    /// The epoch, from 0.
    pub epoch: usize,
    /// The number of epochs.
    pub epochs: usize,
    /// Batches done in this epoch.
    pub batches_done: usize,
    /// Batches of an epoch.
    pub batches: usize,
    /// The loss of the last one.
    pub loss: f64,
}

/// Watches a training run, and may stop it.
///
/// Observers combine: a pair of two is one, `()` is silent, and a `&AtomicBool` stops the run when it is set (a handler
/// of Ctrl-C sets it).
pub trait TrainObserver {
    /// A run goes on from a checkpoint with this history.
    fn resumed(&mut self, history: &[EpochRecord]) {
        let _ = history;
    }

    /// The weights had no gradient, at the start or in a whole epoch: the biases of the outputs are now this.
    fn bias_reset(&mut self, bias: f64) {
        let _ = bias;
    }

    /// A batch is done.
    fn batch(&mut self, progress: &BatchProgress) {
        let _ = progress;
    }

    /// An epoch is done, `elapsed` after the run (or its resumption) began.
    fn epoch(&mut self, record: &EpochRecord, elapsed: Duration) {
        let _ = (record, elapsed);
    }

    /// Asked after every batch: whether to stop. The run then ends as of the last whole epoch.
    fn should_stop(&mut self) -> bool {
        false
    }
}

impl TrainObserver for () {}

impl TrainObserver for &AtomicBool {
    fn should_stop(&mut self) -> bool {
        self.load(Ordering::Relaxed)
    }
}

impl<T: TrainObserver + ?Sized> TrainObserver for &mut T {
    fn resumed(&mut self, history: &[EpochRecord]) {
        (**self).resumed(history);
    }

    fn bias_reset(&mut self, bias: f64) {
        (**self).bias_reset(bias);
    }

    fn batch(&mut self, progress: &BatchProgress) {
        (**self).batch(progress);
    }

    fn epoch(&mut self, record: &EpochRecord, elapsed: Duration) {
        (**self).epoch(record, elapsed);
    }

    fn should_stop(&mut self) -> bool {
        (**self).should_stop()
    }
}

impl<A: TrainObserver, B: TrainObserver> TrainObserver for (A, B) {
    fn resumed(&mut self, history: &[EpochRecord]) {
        self.0.resumed(history);
        self.1.resumed(history);
    }

    fn bias_reset(&mut self, bias: f64) {
        self.0.bias_reset(bias);
        self.1.bias_reset(bias);
    }

    fn batch(&mut self, progress: &BatchProgress) {
        self.0.batch(progress);
        self.1.batch(progress);
    }

    fn epoch(&mut self, record: &EpochRecord, elapsed: Duration) {
        self.0.epoch(record, elapsed);
        self.1.epoch(record, elapsed);
    }

    fn should_stop(&mut self) -> bool {
        // Both are asked, so that each sees every batch.
        let stop = self.0.should_stop();
        self.1.should_stop() || stop
    }
}

impl<W: Write> TrainObserver for CsvLog<W> {
    fn resumed(&mut self, history: &[EpochRecord]) {
        for record in history {
            log(self, record, None);
        }
    }

    fn batch(&mut self, _: &BatchProgress) {
        self.begin();
    }

    fn epoch(&mut self, record: &EpochRecord, elapsed: Duration) {
        log(self, record, Some(elapsed));
    }
}

/// The header of a training's log.
pub(super) const EPOCHS: &str =
    "epoch,learning_rate,loss,validation_utility,exact_gradients,approximate_gradients,seconds";

fn log<W: Write>(log: &mut CsvLog<W>, record: &EpochRecord, elapsed: Option<Duration>) {
    let utility = record
        .validation_utility
        .map_or(String::new(), |utility| utility.to_string());
    let seconds = elapsed.map_or(String::new(), |elapsed| format!("{:.3}", elapsed.as_secs_f64()));
    log.row(
        EPOCHS,
        format_args!(
            "{},{},{},{utility},{},{},{seconds}",
            record.epoch + 1,
            record.learning_rate,
            record.loss,
            record.gradients.exact,
            record.gradients.approximate,
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(epoch: usize, validation_utility: Option<f64>) -> EpochRecord {
        EpochRecord {
            epoch,
            learning_rate: 5e-3,
            loss: -0.25,
            validation_utility,
            gradients: GradientCounts {
                exact: 100,
                approximate: 1,
            },
        }
    }

    #[test]
    fn a_log_has_one_row_per_epoch_also_of_those_before_a_resumption() {
        let mut out = Vec::new();
        let mut log = CsvLog::new(&mut out);
        log.resumed(&[record(0, Some(0.5))]);
        log.epoch(&record(1, None), Duration::from_millis(1500));
        assert!(log.error().is_none());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "epoch,learning_rate,loss,validation_utility,exact_gradients,approximate_gradients,seconds\n\
             1,0.005,-0.25,0.5,100,1,\n\
             2,0.005,-0.25,,100,1,1.500\n"
        );
    }

    #[test]
    fn a_writer_that_fails_is_reported_and_not_asked_again() {
        let mut tiny = [0_u8; 8];
        let mut log = CsvLog::new(&mut tiny[..]);
        log.epoch(&record(0, None), Duration::ZERO);
        log.epoch(&record(1, None), Duration::ZERO);
        assert!(log.error().is_some());
    }

    #[test]
    fn a_pair_stops_when_either_does() {
        let flag = AtomicBool::new(false);
        let mut pair = ((), &flag);
        assert!(!pair.should_stop());
        flag.store(true, Ordering::Relaxed);
        assert!(pair.should_stop());
    }
}
