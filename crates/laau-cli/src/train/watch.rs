//! What is shown of a training run.

use std::time::Duration;

use laau::net::{BatchProgress, EpochRecord, TrainObserver, Training};

use crate::progress::Progress;
use laau::core::four_digits;

/// About so many lines are written where there is no bar.
const LINES: usize = 10;

/// Shows loss, validation utility and the time left.
pub(super) struct Watch {
    progress: Progress,
    batches: usize,
    epochs: usize,
    utility: Option<f64>,
}

impl Watch {
    pub(super) fn new(settings: &Training, episodes: usize, quiet: bool) -> Self {
        let (epochs, batches) = (settings.epochs(), episodes.div_ceil(settings.batch));
        Self {
            progress: Progress::new(epochs * batches, quiet),
            batches,
            epochs,
            utility: None,
        }
    }

    pub(super) fn finish(&self) {
        self.progress.finish();
    }
}

impl TrainObserver for Watch {
    fn resumed(&mut self, history: &[EpochRecord]) {
        self.utility = history.iter().rev().find_map(|record| record.validation_utility);
        self.progress.resume(history.len() * self.batches);
        self.progress.line(format_args!(
            "going on after epoch {} of {}",
            history.len(),
            self.epochs
        ));
    }

    fn bias_reset(&mut self, bias: f64) {
        self.progress.line(format_args!(
            "the weights give prices that decide nothing: the outputs go on from a bias of {bias}"
        ));
    }

    fn batch(&mut self, batch: &BatchProgress) {
        let utility = self.utility.unwrap_or(f64::NAN);
        self.progress.at(
            batch.epoch * batch.batches + batch.batches_done,
            format_args!(
                "epoch {} of {}, loss {}, validation utility {}",
                batch.epoch + 1,
                batch.epochs,
                four_digits(batch.loss),
                four_digits(utility)
            ),
        );
    }

    fn epoch(&mut self, record: &EpochRecord, elapsed: Duration) {
        self.utility = record.validation_utility.or(self.utility);
        let done = record.epoch + 1;
        if done == self.epochs || done.is_multiple_of(self.epochs.div_ceil(LINES)) {
            self.progress.log(format_args!(
                "epoch {done} of {}, loss {}, validation utility {}, {:.1} s",
                self.epochs,
                four_digits(record.loss),
                four_digits(self.utility.unwrap_or(f64::NAN)),
                elapsed.as_secs_f64()
            ));
        }
    }
}
