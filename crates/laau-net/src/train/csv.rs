use std::fmt::Display;
use std::io::Write;

use super::observer::EPOCHS;

/// Writes a CSV row per epoch of [offline](crate::TrainObserver), or per round of [online](crate::OnlineObserver) training,
/// and flushes it, so that an interrupted run keeps its log.
///
/// A resumed offline run writes its whole history again, without the seconds of what it did not run itself. A log that
/// cannot be written does not stop the training; [`CsvLog::error`] says what happened.
pub struct CsvLog<W> {
    out: W,
    begun: bool,
    error: Option<std::io::Error>,
}

impl<W: Write> CsvLog<W> {
    /// A log into a fresh file or any other writer.
    pub fn new(out: W) -> Self {
        Self {
            out,
            begun: false,
            error: None,
        }
    }

    /// The first error of the writer, if there was one; after it nothing is written.
    #[must_use]
    pub fn error(&self) -> Option<&std::io::Error> {
        self.error.as_ref()
    }

    /// Writes the header of a training, unless there are rows: while the first epoch lasts, what an earlier run left would pass for
    /// rows of this one.
    pub(super) fn begin(&mut self) {
        if self.error.is_none() {
            self.error = self.try_begin(EPOCHS).and_then(|()| self.out.flush()).err();
        }
    }

    /// One row, under the header if it is the first.
    pub(super) fn row(&mut self, header: &str, row: impl Display) {
        if self.error.is_none()
            && let Err(error) = self.try_row(header, row)
        {
            self.error = Some(error);
        }
    }

    fn try_row(&mut self, header: &str, row: impl Display) -> std::io::Result<()> {
        self.try_begin(header)?;
        writeln!(self.out, "{row}")?;
        self.out.flush()
    }

    fn try_begin(&mut self, header: &str) -> std::io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        writeln!(self.out, "{header}")
    }
}
