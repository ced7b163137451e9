//! One file as blocks of plain columns, checked cell by cell.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Cell, CellFault, Error, printable};
use crate::load::cells::Csv;
use crate::load::csv::{first_row, read_csv};
use crate::load::parquet::{parquet_names, read_parquet};
use crate::load::text::Texts;
use crate::load::time::Times;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text; a missing cell is the empty text.
    Text,
    /// Text, or whatever else is there as it is written.
    Any,
    /// A whole number.
    Integer,
    /// A whole number, or a time stamp that becomes its seconds, as the column is written.
    Time(Times),
    /// A finite number.
    Number,
}

impl Kind {
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Text | Self::Any => "text",
            Self::Integer => "a whole number",
            Self::Time(Times::Unknown) => "a whole number or an ISO 8601 time in whole seconds",
            Self::Time(Times::Numbers) => "a whole number, as the first time of the table is",
            Self::Time(Times::Stamps) => {
                "an ISO 8601 time in whole seconds and without a zone, as the first time of the table is"
            }
            Self::Time(Times::Zoned) => {
                "an ISO 8601 time in whole seconds and with a zone, as the first time of the table is"
            }
            Self::Number => "a finite number",
        }
    }
}

/// The columns of a file.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Their names, in the order of the file.
    pub(crate) names: Vec<String>,
    /// The format of the file.
    pub(crate) format: Format,
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Separated text, plain or compressed.
    Csv(Csv),
    /// Parquet.
    Parquet,
}

/// A column to read: its name and its type.
pub(crate) type Wanted = (String, Kind);

/// Consecutive rows of a file.
#[derive(Debug)]
pub(crate) struct Block {
    /// The row number of the first row, from 1, a header counted.
    pub(crate) first_row: u64,
    /// Number of rows.
    pub(crate) rows: usize,
    /// The wanted columns, in the order of the request.
    pub(crate) columns: Vec<Column>,
}

/// One column of a block.
#[derive(Debug)]
pub(crate) enum Column {
    Text(Texts),
    Integer(Vec<i64>),
    Number(Vec<f64>),
}

impl Column {
    /// An empty column, with room for a number of cells.
    pub(crate) fn with_capacity(kind: Kind, cells: usize) -> Self {
        match kind {
            Kind::Text | Kind::Any => Self::Text(Texts::with_capacity(cells)),
            Kind::Integer | Kind::Time(_) => Self::Integer(Vec::with_capacity(cells)),
            Kind::Number => Self::Number(Vec::with_capacity(cells)),
        }
    }
}

impl Block {
    /// Takes a column of kind [`Kind::Text`] out of the block.
    pub(crate) fn take_text(&mut self, column: usize) -> Texts {
        match &mut self.columns[column] {
            Column::Text(texts) => std::mem::take(texts),
            other => unreachable!("column {column} was not asked for as text: {other:?}"),
        }
    }

    /// Takes a column of kind [`Kind::Integer`] or [`Kind::Time`] out of the block.
    pub(crate) fn take_integers(&mut self, column: usize) -> Vec<i64> {
        match &mut self.columns[column] {
            Column::Integer(values) => std::mem::take(values),
            other => unreachable!("column {column} was not asked for as integers: {other:?}"),
        }
    }

    /// Takes a column of kind [`Kind::Number`] out of the block.
    pub(crate) fn take_numbers(&mut self, column: usize) -> Vec<f64> {
        match &mut self.columns[column] {
            Column::Number(values) => std::mem::take(values),
            other => unreachable!("column {column} was not asked for as numbers: {other:?}"),
        }
    }

    /// A column of kind [`Kind::Text`].
    pub(crate) fn text(&self, column: usize) -> &Texts {
        match &self.columns[column] {
            Column::Text(texts) => texts,
            other => unreachable!("column {column} was not asked for as text: {other:?}"),
        }
    }

    /// A column of kind [`Kind::Integer`].
    pub(crate) fn integers(&self, column: usize) -> &[i64] {
        match &self.columns[column] {
            Column::Integer(values) => values,
            other => unreachable!("column {column} was not asked for as integers: {other:?}"),
        }
    }

    /// A column of kind [`Kind::Number`].
    pub(crate) fn numbers(&self, column: usize) -> &[f64] {
        match &self.columns[column] {
            Column::Number(values) => values,
            other => unreachable!("column {column} was not asked for as numbers: {other:?}"),
        }
    }
}

/// Reads the wanted columns of a file, block by block and in order, in memory that does not grow with the file.
///
/// # Errors
/// A file that cannot be decoded or has no rows, or a malformed cell.
pub(crate) fn read_blocks(
    file: &Path,
    layout: &Layout,
    wanted: &[Wanted],
    limit: Option<usize>,
    visit: impl Fn(Block) -> Result<ControlFlow<()>, Error> + Send + Sync + 'static,
) -> Result<(), Error> {
    let rows = match layout.format {
        Format::Csv(csv) => read_csv(file, csv, layout, wanted, limit, visit),
        Format::Parquet => read_parquet(file, layout, wanted, limit, visit),
    }?;
    if rows == 0 {
        return Err(Error::Empty {
            file: file.to_path_buf(),
            expected: shorten(&layout.names.join(", ")),
            has_header: matches!(layout.format, Format::Csv(csv) if csv.header),
        });
    }
    Ok(())
}

/// Reads the wanted columns of a file into a state, block by block and in order.
///
/// # Errors
/// As [`read_blocks`].
pub(crate) fn fold_blocks<S: Default + Send + 'static>(
    file: &Path,
    layout: &Layout,
    wanted: &[Wanted],
    state: S,
    add: impl Fn(&mut S, Block) -> Result<(), Error> + Send + Sync + 'static,
) -> Result<S, Error> {
    let state = Arc::new(Mutex::new(state));
    let shared = Arc::clone(&state);
    read_blocks(file, layout, wanted, None, move |block| {
        add(&mut lock(&shared), block)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(std::mem::take(&mut *lock(&state)))
}

/// The value of a mutex, whether or not a thread panicked while it held it.
pub(crate) fn lock<S>(state: &Mutex<S>) -> MutexGuard<'_, S> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of a Parquet file's columns or of a CSV file's header.
///
/// # Errors
/// A file that cannot be decoded or is empty, a header with a name twice.
pub(crate) fn column_names(file: &Path, format: Format) -> Result<Vec<String>, Error> {
    match format {
        Format::Csv(csv) => names_of_text(file, csv, true).map(|(_, names)| names),
        Format::Parquet => parquet_names(file),
    }
}

/// How a CSV file with quotes is separated, and the cells of its first row.
///
/// # Errors
/// As [`column_names`].
pub(crate) fn find_names(file: &Path, header: bool) -> Result<(Csv, Vec<String>), Error> {
    let csv = Csv {
        header,
        quoted: true,
        separator: b',',
    };
    names_of_text(file, csv, false)
}

fn names_of_text(file: &Path, csv: Csv, is_separated: bool) -> Result<(Csv, Vec<String>), Error> {
    let (csv, names) = first_row(file, csv, is_separated)?.ok_or_else(|| Error::Empty {
        file: file.to_path_buf(),
        expected: "named in a header".to_owned(),
        has_header: false,
    })?;
    let mut seen = BTreeSet::new();
    // Of columns without a name there may be many: spreadsheets leave them behind the others.
    let mut named = names.iter().filter(|name| !name.is_empty());
    match named.find(|name| !seen.insert(*name)) {
        Some(twice) if csv.header => Err(Error::DuplicateColumn {
            file: file.to_path_buf(),
            column: twice.clone(),
        }),
        _ => Ok((csv, names)),
    }
}

/// What is expected where a time lies between two seconds.
pub(crate) const WHOLE_SECONDS: &str = "a time in whole seconds";

/// Whether a text is a number with a decimal comma, or with separators of thousands.
fn is_written_otherwise(text: &str) -> bool {
    let text = text.trim().trim_start_matches(['-', '+']);
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == ',');
    is_number && text.contains(|c: char| c.is_ascii_digit()) && {
        let mut letters = text.chars();
        letters.all(|c| c.is_ascii_digit() || ".,' \u{a0}\u{202f}".contains(c))
    }
}

/// Whether a text is what programs write where there is no number.
fn is_word_for_nothing(text: &str) -> bool {
    const WORDS: [&str; 9] = ["nan", "nat", "na", "n/a", "null", "none", "nil", "-", "?"];
    WORDS.contains(&text.trim().to_ascii_lowercase().as_str())
}

/// The error of a malformed cell of text.
pub(crate) fn malformed(layout: &Layout, kind: Kind, cell: Cell, text: &str) -> Error {
    let csv = match layout.format {
        Format::Csv(csv) => Some(csv),
        Format::Parquet => None,
    };
    if text.is_empty() {
        return cell.refuse_empty(kind.expected());
    }
    // Text in the first row of a layout without header is most likely a header.
    let is_first = csv.is_some_and(|csv| !csv.header) && cell.row == 1;
    if is_first && text.parse::<f64>().is_err() && text.starts_with(|c: char| c.is_alphabetic()) {
        return Error::Header {
            file: cell.file,
            column: cell.column,
            expected: kind.expected(),
            found: shorten(text),
        };
    }
    let (fault, expected) = match kind {
        Kind::Text | Kind::Any => (CellFault::Other, kind.expected()),
        _ if is_word_for_nothing(text) => (CellFault::Missing, kind.expected()),
        Kind::Number if is_written_otherwise(text) => {
            (CellFault::NumberFormat, "a finite number with a decimal point")
        }
        Kind::Time(Times::Numbers) if Times::Numbers.is_fractional(text) => {
            (CellFault::FractionalTime, "a whole number")
        }
        Kind::Time(times) if times.is_fractional(text) => (CellFault::FractionalTime, WHOLE_SECONDS),
        Kind::Time(_) if Times::of(text) != Times::Unknown => (CellFault::MixedTimes, kind.expected()),
        Kind::Time(_) => (CellFault::TimeFormat, kind.expected()),
        Kind::Integer | Kind::Number => (CellFault::Other, kind.expected()),
    };
    cell.refuse_for(fault, expected, format!("`{}`", shorten(text)))
}

/// A table that lacks a column.
pub(crate) fn missing_column(file: &Path, column: &str, found: &[String]) -> Error {
    Error::MissingColumn {
        file: file.to_path_buf(),
        column: column.to_owned(),
        found: shorten(&found.join(", ")),
    }
}

/// A text that fits into a message.
pub(crate) fn shorten(text: &str) -> String {
    const LONGEST: usize = 100;
    match text.char_indices().nth(LONGEST) {
        None => printable(text).into_owned(),
        Some((end, _)) => format!("{}…", printable(&text[..end])),
    }
}
