//! The errors of this crate.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// Errors in a trace, an episodes table or an option.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid option or argument.
    #[error("invalid {what}: {reason}")]
    Invalid {
        /// The option or argument.
        what: &'static str,
        /// What was expected and what was found.
        reason: String,
    },
    /// A path or glob that names no file.
    #[error("no file matches `{pattern}`")]
    NoFile {
        /// The path or glob as it was given.
        pattern: String,
    },
    /// A file that cannot be opened, read or written.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file whose content cannot be decoded: a truncated gzip, a broken Parquet footer.
    #[error("{}: cannot be read after row {rows}: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Rows that were read before.
        rows: u64,
        /// The error of the decoder.
        reason: String,
    },
    /// A file of another kind: an archive, a workbook, text in another encoding.
    #[error("{}: expected {expected}, found {found}", file.display())]
    OtherKind {
        /// The file.
        file: PathBuf,
        /// The expected kind.
        expected: &'static str,
        /// Its kind, and what to do about it.
        found: String,
    },
    /// A quote that is not closed.
    #[error("{}, row {row}: expected a quote that closes a cell, found {found}", file.display())]
    UnclosedQuote {
        /// The file.
        file: PathBuf,
        /// The row in which the cell begins, from 1, a header counted.
        row: u64,
        /// Where the search for it ended.
        found: String,
    },
    /// A file without rows.
    #[error(
        "{}: {}",
        file.display(),
        if *has_header {
            "expected rows below the header, found none".to_owned()
        } else {
            format!("the file has no rows, expected columns {expected}")
        }
    )]
    Empty {
        /// The file.
        file: PathBuf,
        /// The columns that were expected.
        expected: String,
        /// Whether it has a header.
        has_header: bool,
    },
    /// A header line in a layout that has none.
    #[error("{}, row 1, column `{}`: expected {expected}, found the header `{found}`", file.display(), printable(column))]
    Header {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
        /// The expected content.
        expected: &'static str,
        /// The text.
        found: String,
    },
    /// A table that lacks a column.
    #[error("{}: expected a column `{}`, found {found}", file.display(), printable(column))]
    MissingColumn {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
        /// The columns it has.
        found: String,
    },
    /// A table with two columns of one name.
    #[error("{}: two columns are called `{}`", file.display(), printable(column))]
    DuplicateColumn {
        /// The file.
        file: PathBuf,
        /// The name.
        column: String,
    },
    /// A row with fewer columns than its layout.
    #[error("{}, row {row}: expected {expected} columns, found {found}", file.display())]
    TooFewColumns {
        /// The file.
        file: PathBuf,
        /// The row, from 1, a header counted.
        row: u64,
        /// The number of columns that were expected.
        expected: usize,
        /// The number of columns that were found.
        found: usize,
    },
    /// A row with more columns than its layout.
    #[error(
        "{}, row {row}: expected {expected} columns, found more, the next is {}{}",
        file.display(),
        if found.is_empty() { "empty".to_owned() } else { format!("`{found}`") },
        if found.is_empty() {
            " (a number has a decimal comma, or some rows end with a separator and the header or other rows do not)"
        } else if found.bytes().all(|byte| byte.is_ascii_digit()) {
            " (numbers have a decimal point, not a comma)"
        } else {
            ""
        }
    )]
    TooManyColumns {
        /// The file.
        file: PathBuf,
        /// The row, from 1, a header counted.
        row: u64,
        /// The number of columns of the layout.
        expected: usize,
        /// The text of the first column beyond.
        found: String,
    },
    /// A malformed cell.
    #[error("{cell}: expected {expected}, found {found}")]
    Cell {
        /// Where.
        cell: Cell,
        /// What is wrong with it.
        fault: CellFault,
        /// The expected content.
        expected: &'static str,
        /// The actual content.
        found: String,
    },
    /// A number outside its range.
    #[error("{cell}: expected a value in [{}, {}], found {}", readable(*lower), readable(*upper), readable(*value))]
    OutOfRange {
        /// Where.
        cell: Cell,
        /// The value.
        value: f64,
        /// The least value.
        lower: f64,
        /// The greatest value.
        upper: f64,
    },
    /// Two readings of one series at one time.
    #[error("{cell}: series `{}` has a second reading at time {time}", printable(series))]
    DuplicateTime {
        /// Where.
        cell: Cell,
        /// The series.
        series: String,
        /// The time, as a user writes it.
        time: String,
    },
    /// A reading that is older than the one before it.
    #[error(
        "{cell}: expected ascending times, found {time} after {previous} in series `{}`",
        printable(series)
    )]
    UnsortedTime {
        /// Where.
        cell: Cell,
        /// The series.
        series: String,
        /// The time, as a user writes it.
        time: Box<str>,
        /// The time before it.
        previous: Box<str>,
    },
    /// A distance in time that is no multiple of the step.
    #[error(
        "{cell}: expected times in steps of {step}{}, found {distance} after the last reading of series `{}`",
        if *is_inferred { ", the first distance" } else { "" },
        printable(series)
    )]
    MixedSteps {
        /// Where.
        cell: Cell,
        /// The series.
        series: String,
        /// The step of the trace.
        step: i64,
        /// Whether the step is the first distance in the trace.
        is_inferred: bool,
        /// The distance to the reading before.
        distance: i64,
    },
    /// A trace with fewer episodes than requested.
    #[error(
        "the trace is too short: {wanted} {set} episodes wanted, {available} available in {series} series \
         (whole trace: {all_available} in {all_series} series)"
    )]
    TooShort {
        /// The set that falls short: train, validation or test.
        set: &'static str,
        /// Episodes requested.
        wanted: usize,
        /// Episodes that the series of this set hold.
        available: usize,
        /// Series of this set.
        series: usize,
        /// Episodes in the whole trace.
        all_available: usize,
        /// Series in the whole trace.
        all_series: usize,
    },
    /// Rows of an episodes table that do not form episodes.
    #[error("{cell}: episode {episode}: {reason}")]
    BrokenEpisode {
        /// Where.
        cell: Cell,
        /// The episode.
        episode: u32,
        /// What was expected and what was found.
        reason: String,
    },
    /// A distribution shift that no noise of the family reaches.
    #[error("a distance of {target} is out of reach: {reason}")]
    ShiftOutOfReach {
        /// The target distance.
        target: f64,
        /// How close the search came.
        reason: String,
    },
    /// Episodes that laau-core rejects.
    #[error(transparent)]
    Core(#[from] laau_core::Error),
}

/// What is wrong with a cell, as far as that says what helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CellFault {
    /// It is empty, or holds a word that programs write where there is no number.
    Missing,
    /// A number with a decimal comma or separators of thousands.
    NumberFormat,
    /// A time in a format that is not supported.
    TimeFormat,
    /// A time in a supported format, but not in that of the times before it.
    MixedTimes,
    /// A time between two whole ones.
    FractionalTime,
    /// A date without dashes.
    DateInDigits,
    /// Anything else.
    Other,
}

/// A place in a table: file, row and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The file.
    pub file: PathBuf,
    /// The row, from 1; in CSV the header counts.
    pub row: u64,
    /// The name of the column.
    pub column: String,
}

impl Cell {
    /// A place in a table.
    #[must_use]
    pub fn new(file: &Path, row: u64, column: impl Into<String>) -> Self {
        Self {
            file: file.to_path_buf(),
            row,
            column: column.into(),
        }
    }

    /// The error of a cell with other content than expected.
    pub(crate) fn refuse(self, expected: &'static str, found: impl Into<String>) -> Error {
        self.refuse_for(CellFault::Other, expected, found)
    }

    /// The error of an empty cell.
    pub(crate) fn refuse_empty(self, expected: &'static str) -> Error {
        self.refuse_for(CellFault::Missing, expected, "nothing")
    }

    /// The error of a cell whose fault is known.
    pub(crate) fn refuse_for(
        self,
        fault: CellFault,
        expected: &'static str,
        found: impl Into<String>,
    ) -> Error {
        Error::Cell {
            cell: self,
            fault,
            expected,
            found: found.into(),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, row {}, column `{}`",
            self.file.display(),
            self.row,
            printable(&self.column)
        )
    }
}

/// A number without dozens of zeros.
fn readable(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-5..1e15 => value.to_string(),
        _ => format!("{value:e}"),
    }
}

/// A text with its control characters written out: a line break in a cell would break the message.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let written = text.chars().map(|letter| {
        if letter.is_control() {
            letter.escape_default().to_string()
        } else {
            letter.to_string()
        }
    });
    Cow::Owned(written.collect())
}

/// The error of an invalid option or argument.
pub(crate) fn invalid(what: &'static str, reason: impl Into<String>) -> Error {
    Error::Invalid {
        what,
        reason: reason.into(),
    }
}

/// Rejects an option that is out of range.
pub(crate) fn expect(what: &'static str, found: f64, holds: bool, expected: &str) -> Result<(), Error> {
    if holds {
        return Ok(());
    }
    Err(invalid(what, format!("expected {expected}, found {found}")))
}

pub(crate) fn within(what: &'static str, found: f64, low: f64, high: f64) -> Result<(), Error> {
    let expected = format!("a value from {low} to {high}");
    expect(what, found, low <= found && found <= high, &expected)
}

pub(crate) fn positive(what: &'static str, found: f64) -> Result<(), Error> {
    expect(what, found, found.is_finite() && found > 0.0, "a positive value")
}

pub(crate) fn non_negative(what: &'static str, found: f64) -> Result<(), Error> {
    let holds = found.is_finite() && found >= 0.0;
    expect(what, found, holds, "a finite value, at least 0")
}

pub(crate) fn finite(what: &'static str, found: f64) -> Result<(), Error> {
    expect(what, found, found.is_finite(), "a finite value")
}

pub(crate) fn at_least_one(what: &'static str, found: usize) -> Result<(), Error> {
    expect(what, found as f64, found > 0, "at least 1")
}
