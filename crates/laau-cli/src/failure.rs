//! What the user is told when something is wrong: one sentence, then a hint.

use std::fmt::{self, Display};
use std::io::Write as _;
use std::path::Path;

/// The status of a command that failed.
const FAILED: u8 = 1;

/// The status for wrong arguments, as most programs have it.
pub(crate) const USAGE: u8 = 2;

/// The status of a process that a closed pipe has ended: 128 + SIGPIPE, as shells count it.
const CLOSED_PIPE: u8 = 141;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to tell the user.
    Told {
        /// What is wrong, in one sentence without a full stop.
        sentence: String,
        /// What to do about it.
        hint: String,
        /// The status to exit with.
        status: u8,
    },
    /// A policy that is not for the problem: something to tell, unless the policy can be left out.
    NotApplicable {
        /// What is wrong, in one sentence without a full stop.
        sentence: String,
        /// What to do about it.
        hint: String,
    },
    /// The user asked for the end; not a mistake.
    Interrupted {
        /// How far the work is.
        sentence: String,
        /// How to go on.
        hint: String,
    },
    /// The reader of standard output has gone: nobody is left to be told.
    ClosedPipe,
}

impl Failure {
    /// A sentence and a hint. There is no failure without a hint.
    pub(crate) fn new(sentence: impl Display, hint: impl Display) -> Self {
        Self::with_status(FAILED, sentence, hint)
    }

    /// What is missing in the arguments, and what to give.
    pub(crate) fn usage(sentence: impl Display, hint: impl Display) -> Self {
        Self::with_status(USAGE, sentence, hint)
    }

    fn with_status(status: u8, sentence: impl Display, hint: impl Display) -> Self {
        Self::Told {
            sentence: sentence.to_string(),
            hint: hint.to_string(),
            status,
        }
    }

    /// What the system said about a file.
    pub(crate) fn file(path: &Path, error: &std::io::Error, hint: impl Display) -> Self {
        Self::new(format_args!("{}: {}", path.display(), reason(error)), hint)
    }

    /// What the system said about standard output.
    pub(crate) fn output(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::ClosedPipe;
        }
        Self::new(
            format_args!("standard output: {}", reason(error)),
            "what was written is incomplete; make room and run the command again",
        )
    }

    /// Tells the user, and gives the status to exit with.
    pub(crate) fn tell(&self) -> u8 {
        // When standard error is closed, too, the status is all that is left to say.
        let complain = |sentence, hint| {
            let _ = writeln!(std::io::stderr(), "error: {sentence}\nhint: {hint}");
        };
        match self {
            Self::Told {
                sentence,
                hint,
                status,
            } => {
                complain(sentence, hint);
                *status
            }
            Self::NotApplicable { sentence, hint } => {
                complain(sentence, hint);
                FAILED
            }
            Self::Interrupted { sentence, hint } => {
                let _ = writeln!(std::io::stderr(), "{sentence}\nhint: {hint}");
                crate::interrupt::INTERRUPTED
            }
            Self::ClosedPipe => CLOSED_PIPE,
        }
    }
}

/// The system's reason without its number, in lower case: `no such file or directory`.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => text.to_owned(),
    }
}

/// Gives a hint to any error.
pub(crate) trait Hint<T> {
    /// The error's own words, and this hint.
    fn hint(self, hint: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(error, hint))
    }
}

impl From<laau::core::Error> for Failure {
    fn from(error: laau::core::Error) -> Self {
        use laau::core::Error;
        let hint = match error.root() {
            Error::BudgetTooSmall { least, .. } => {
                return Self::new(
                    &error,
                    format_args!("a budget of at least {least} pays every step"),
                );
            }
            Error::OtherProblem { made_for, .. } => {
                return Self::new(&error, format_args!("name their problem: --problem {made_for}"));
            }
            Error::InvalidProblem { .. } => "see the keys of [problem] in `laau config --default`",
            Error::NotApplicable { .. } => {
                return Self::NotApplicable {
                    sentence: error.to_string(),
                    hint: "leave the policy out, or choose another problem".to_owned(),
                };
            }
            Error::WrongLength { .. } => {
                "the sizes of problem, episodes and model must agree; `laau inspect FILE` shows those of a file"
            }
            Error::NotFinite { .. } | Error::Negative { .. } | Error::OutsideDomain { .. } => {
                "correct the value, or choose a problem that is defined there"
            }
            _ => "see `laau --help` for what the command expects",
        };
        Self::new(error, hint)
    }
}

impl From<laau::registry::Error> for Failure {
    fn from(error: laau::registry::Error) -> Self {
        use laau::registry::Error;
        match error {
            Error::Core(error) => error.into(),
            Error::Data(error) => error.into(),
            Error::Net(error) => error.into(),
            other => {
                let hint = other.hint().unwrap_or_default();
                Self::new(other, hint)
            }
        }
    }
}

impl From<laau::kkt::Error> for Failure {
    fn from(error: laau::kkt::Error) -> Self {
        Self::new(error, "see the keys of [problem] in `laau config --default`")
    }
}

impl From<laau::net::Error> for Failure {
    fn from(error: laau::net::Error) -> Self {
        use laau::net::Error;
        match error {
            Error::Core(error) => error.into(),
            Error::Io { path, source } => Self::file(
                &path,
                &source,
                "check the path, its permissions and the room on its disk",
            ),
            Error::InvalidFile { .. } => Self::new(
                error,
                "models are written by `laau train`; this file is not one of them, or damaged",
            ),
            Error::InvalidSetting { .. } => Self::new(
                error,
                "see the keys of [model] and [training] in `laau config --default`",
            ),
            Error::Diverged { .. } => Self::new(error, "lower the learning rate, or clip the gradient"),
            _ => Self::new(error, "see `laau train --help`"),
        }
    }
}

impl From<laau::data::Error> for Failure {
    fn from(error: laau::data::Error) -> Self {
        use laau::data::{CellFault, Error};
        let hint = match error {
            Error::Core(error) => return error.into(),
            Error::Io { file, source } => {
                let hint = match source.kind() {
                    std::io::ErrorKind::InvalidFilename => "rename the file or its folder",
                    _ => "check the path and its permissions",
                };
                return Self::file(&file, &source, hint);
            }
            Error::Invalid { what: "gap", .. } => {
                "with --split-by time or both, --gap is a number of steps, or a duration where times are ISO 8601 or since 1970"
            }
            Error::Invalid { .. } => "`laau config --default` shows every key with a value that fits",
            Error::NoFile { .. } => {
                "check the path; a pattern such as 'vm_cpu_readings-*.csv.gz' belongs in quotes"
            }
            Error::TooShort { .. } => "ask for fewer episodes with --split, or a shorter --horizon",
            Error::OtherKind { .. } => {
                "the message says what the file is; text may be packed with gzip, zlib or zstd"
            }
            Error::UnclosedQuote { .. } => {
                "close the quote, or double it if it is part of the text; or the file is truncated: fetch it again"
            }
            Error::Empty { has_header: true, .. } => {
                "the file ends after its header: export it again with its rows"
            }
            Error::Empty { .. } | Error::Unreadable { .. } => "the file may be truncated: fetch it again",
            Error::DuplicateColumn { .. } => "give each column a name of its own",
            Error::UnsortedTime { .. } => {
                "--sort true sorts a table in memory; rows of several hosts, users or shops need --series NAME; files of other traces must be in the order of their times"
            }
            Error::DuplicateTime { .. } => {
                "keep one row per time; rows of several hosts, users or shops need --series NAME; local times come twice when clocks go \
                 back: write them with their zone"
            }
            Error::Header { .. } => "leave --header false out: the file has a header",
            Error::OutOfRange { value, .. } if value < 0.0 => {
                "negative readings want --normalisation min-max or none; --out-of-range clamp is for a few that stray"
            }
            Error::OutOfRange { .. } => {
                "readings that are not percentages want --normalisation series-max, min-max or none; --out-of-range clamp is for a few that stray"
            }
            Error::MixedSteps {
                step,
                distance,
                is_inferred: true,
                ..
            } if step % distance == 0 => {
                let hint =
                    format!("if a row is missing after the first one, give the step: --step {distance}");
                return Self::new(error, hint);
            }
            Error::MixedSteps { .. } => {
                "round times that jitter to whole steps first; of a table, --step N with --irregular-times gap makes it a gap; of \
                 azure-vm, --irregular gap does"
            }
            Error::TooFewColumns { .. } => {
                "write every cell, empty ones too; if it is the last row, the file may be truncated: fetch it again"
            }
            Error::TooManyColumns { .. } => {
                "export numbers with a decimal point, quote texts with separators in them, and end all rows alike"
            }
            Error::MissingColumn { ref column, .. } if column == "series" => {
                "name the column of the series with --series NAME, or --series '' if all rows are one series"
            }
            Error::MissingColumn { .. } => {
                "name the columns with --time, --series and --values (by number, from 1, with --header false); separators are commas, semicolons or tabs"
            }
            Error::Cell { fault, .. } => match fault {
                CellFault::TimeFormat => {
                    "write times as 2024-03-01T08:00:00Z, 2024-03-01 08:00 or 2024-03-01, or number the rows; zones may follow as Z or +01:00"
                }
                CellFault::MixedTimes => {
                    "write all times in one way: as stamps, all with a zone or all without one, or as whole numbers in one unit"
                }
                CellFault::FractionalTime => {
                    "round the times to whole steps, or write them as whole numbers, such as milliseconds since 1970"
                }
                CellFault::DateInDigits => {
                    "write dates as 2024-01-31; --step N says that these are counts, N from one row of a series to the next"
                }
                CellFault::NumberFormat => {
                    "export numbers with a decimal point, and without separators of thousands"
                }
                CellFault::Missing => {
                    "fill the cell in, or leave the row out: no episode spans a row that is missing"
                }
                _ => "correct the cell; see `laau import --help`",
            },
            _ => "correct the file, or choose another format; see `laau import --help`",
        };
        Self::new(error, hint)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told { sentence, hint, .. }
            | Self::NotApplicable { sentence, hint }
            | Self::Interrupted { sentence, hint } => write!(f, "{sentence} (hint: {hint})"),
            Self::ClosedPipe => f.write_str("standard output is closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_lower_case_and_has_no_number() {
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(reason(&error), "no such file or directory");
    }

    #[test]
    fn a_closed_pipe_is_not_talked_about() {
        let error = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::output(&error), Failure::ClosedPipe));
    }
}
