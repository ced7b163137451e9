//! The bridge to polars: a file becomes blocks of plain columns, checked cell by cell.
//!
//! CSV is scanned as text and cast by polars batch by batch: a scan with typed columns stops at a bad cell without its row,
//! and the batch still has the text to quote. No polars type leaves this file and `tables/`.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polars::prelude::{
    AnyValue, ChunkApply as _, ChunkCast as _, Column as Series, DataFrame, DataType, Engine, LazyCsvReader,
    LazyFileListReader, LazyFrame, PlRefPath, PlanCallback, PolarsError, ScanArgsParquet, Schema, SchemaRef,
    StringChunked, col,
};

use crate::error::{Cell, Error};
use crate::load::decoder::{DAMAGED, Panicked, decode};
use crate::load::footer;
use crate::load::text::Texts;
use crate::load::time::seconds;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text; a missing cell is the empty text.
    Text,
    /// A whole number.
    Integer,
    /// A whole number, or a time stamp that becomes its seconds.
    Time,
    /// A finite number.
    Number,
}

impl Kind {
    fn expected(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "a whole number",
            Self::Time => "a whole number or an ISO 8601 time in whole seconds",
            Self::Number => "a finite number",
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Text => DataType::String,
            Self::Integer | Self::Time => DataType::Int64,
            Self::Number => DataType::Float64,
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
    Csv {
        header: bool,
        quoted: bool,
        separator: u8,
    },
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

impl Block {
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

/// An extra last column that is filled by rows with too many cells.
const BEYOND: &str = "\u{1}beyond";

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
    let frame = match layout.format {
        Format::Csv { .. } => scan_csv(file, layout, wanted, limit),
        Format::Parquet => scan_parquet(file, layout, wanted, limit),
    }?;
    let header_rows = match layout.format {
        Format::Csv { header: true, .. } => 1,
        _ => 0,
    };
    let rows = Arc::new(AtomicU64::new(0));
    let failure = Arc::new(Mutex::new(None));
    let callback = {
        let (rows, failure) = (Arc::clone(&rows), Arc::clone(&failure));
        let (file, layout, wanted) = (file.to_path_buf(), layout.clone(), wanted.to_vec());
        PlanCallback::new(move |frame: DataFrame| {
            // Batches arrive in order: `sink_batches` is called with `maintain_order`.
            let before = rows.fetch_add(frame.height() as u64, Ordering::Relaxed);
            let first_row = before + header_rows + 1;
            let outcome = convert(&file, &layout, &wanted, first_row, &frame).and_then(&visit);
            Ok(match outcome {
                Ok(flow) => flow.is_break(),
                Err(error) => {
                    *lock(&failure) = Some(error);
                    true
                }
            })
        })
    };
    let outcome = decode(|| {
        frame
            .sink_batches(callback, true, None)?
            .collect_with_engine(Engine::Streaming)
    });
    if let Some(error) = lock(&failure).take() {
        return Err(error);
    }
    let rows = rows.load(Ordering::Relaxed);
    let unreadable = |reason| Error::Unreadable {
        file: file.to_path_buf(),
        rows,
        reason,
    };
    match outcome {
        Err(Panicked) => Err(unreadable(DAMAGED.to_owned())),
        Ok(Err(PolarsError::NoData(_))) => Err(empty(file, layout)),
        Ok(Err(error)) => Err(unreadable(first_line(&error))),
        Ok(Ok(_)) if rows == 0 => Err(empty(file, layout)),
        Ok(Ok(_)) => Ok(()),
    }
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

/// The names of a CSV file's header, or of a Parquet file's columns.
///
/// # Errors
/// A file that cannot be decoded or is empty.
pub(crate) fn column_names(file: &Path, format: Format) -> Result<Vec<String>, Error> {
    if format == Format::Parquet {
        footer::check(file)?;
    }
    let path = path(file)?;
    let scan = match format {
        Format::Csv { separator, .. } => LazyCsvReader::new(path)
            .with_separator(separator)
            .with_has_header(true)
            .with_infer_schema_length(Some(0))
            .with_glob(false)
            .finish(),
        Format::Parquet => LazyFrame::scan_parquet(path, parquet_options()),
    };
    match decode(|| scan?.collect_schema()) {
        Ok(Ok(schema)) => {
            let names: Vec<String> = schema.iter_names().map(ToString::to_string).collect();
            check_header(file, format, &names)?;
            Ok(names)
        }
        Ok(Err(PolarsError::NoData(_))) => Err(Error::Empty {
            file: file.to_path_buf(),
            expected: "named in a header".to_owned(),
        }),
        Ok(Err(error)) => Err(Error::Unreadable {
            file: file.to_path_buf(),
            rows: 0,
            reason: first_line(&error),
        }),
        Err(Panicked) => Err(Error::Unreadable {
            file: file.to_path_buf(),
            rows: 0,
            reason: DAMAGED.to_owned(),
        }),
    }
}

/// Refuses a header with a name twice. Polars gives the second one another name, with this in it.
fn check_header(file: &Path, format: Format, names: &[String]) -> Result<(), Error> {
    const RENAMED: &str = "_duplicated_";
    let Format::Csv {
        header: true,
        separator,
        ..
    } = format
    else {
        return Ok(());
    };
    if !names.iter().any(|name| name.contains(RENAMED)) {
        return Ok(());
    }
    let path = path(file)?;
    let first_row = decode(|| {
        LazyCsvReader::new(path)
            .with_separator(separator)
            .with_has_header(false)
            .with_infer_schema_length(Some(0))
            .with_n_rows(Some(1))
            .with_glob(false)
            .finish()?
            .collect()
    });
    // What cannot be read is told by whoever reads the rows.
    let Ok(Ok(first_row)) = first_row else {
        return Ok(());
    };
    let mut seen = std::collections::BTreeSet::new();
    for column in first_row.columns() {
        let name = text(file, column)?
            .iter()
            .next()
            .flatten()
            .unwrap_or_default()
            .to_owned();
        if seen.contains(&name) {
            return Err(Error::DuplicateColumn {
                file: file.to_path_buf(),
                column: name,
            });
        }
        seen.insert(name);
    }
    Ok(())
}

fn scan_csv(
    file: &Path,
    layout: &Layout,
    wanted: &[Wanted],
    limit: Option<usize>,
) -> Result<LazyFrame, Error> {
    let (header, quoted, separator) = match layout.format {
        Format::Csv {
            header,
            quoted,
            separator,
        } => (header, quoted, separator),
        Format::Parquet => return scan_parquet(file, layout, wanted, limit),
    };
    let mut schema = Schema::with_capacity(layout.names.len() + 1);
    for name in layout.names.iter().map(String::as_str).chain([BEYOND]) {
        schema.insert(name.into(), DataType::String);
    }
    let mut columns: Vec<_> = wanted.iter().map(|(name, _)| col(name.as_str())).collect();
    columns.push(col(BEYOND));
    LazyCsvReader::new(path(file)?)
        .with_has_header(header)
        .with_schema(Some(SchemaRef::new(schema)))
        .with_separator(separator)
        .with_quote_char(quoted.then_some(b'"'))
        .with_truncate_ragged_lines(true)
        .with_raise_if_empty(false)
        .with_glob(false)
        .with_n_rows(limit)
        .finish()
        .map(|frame| frame.select(columns))
        .map_err(|error| unreadable(file, &error))
}

fn scan_parquet(
    file: &Path,
    layout: &Layout,
    wanted: &[Wanted],
    limit: Option<usize>,
) -> Result<LazyFrame, Error> {
    footer::check(file)?;
    let mut frame =
        LazyFrame::scan_parquet(path(file)?, parquet_options()).map_err(|error| unreadable(file, &error))?;
    let schema = decode(|| frame.collect_schema())
        .map_err(|Panicked| Error::Unreadable {
            file: file.to_path_buf(),
            rows: 0,
            reason: DAMAGED.to_owned(),
        })?
        .map_err(|error| unreadable(file, &error))?;
    let mut columns = Vec::with_capacity(wanted.len());
    for (name, kind) in wanted {
        let Some(found) = schema.get(name) else {
            return Err(missing_column(file, name, &layout.names));
        };
        let fits = match kind {
            Kind::Text => found.is_string() || found.is_integer(),
            Kind::Integer => found.is_integer(),
            Kind::Time => found.is_integer() || found.is_string(),
            Kind::Number => found.is_integer() || found.is_float(),
        };
        if !fits {
            return Err(Cell::new(file, 1, name).refuse(kind.expected(), format!("a column of type {found}")));
        }
        columns.push(col(name.as_str()));
    }
    let frame = frame.select(columns);
    Ok(match limit {
        #[expect(clippy::cast_possible_truncation, reason = "a limit of a few rows")]
        Some(limit) => frame.limit(limit as polars::prelude::IdxSize),
        None => frame,
    })
}

fn parquet_options() -> ScanArgsParquet {
    ScanArgsParquet {
        glob: false,
        ..ScanArgsParquet::default()
    }
}

fn path(file: &Path) -> Result<PlRefPath, Error> {
    if file.to_str().is_none() {
        return Err(Error::Io {
            file: file.to_path_buf(),
            source: std::io::Error::new(
                std::io::ErrorKind::InvalidFilename,
                "tables are read by paths in UTF-8, and this one is not",
            ),
        });
    }
    PlRefPath::try_from_path(file).map_err(|error| unreadable(file, &error))
}

fn convert(
    file: &Path,
    layout: &Layout,
    wanted: &[Wanted],
    first_row: u64,
    frame: &DataFrame,
) -> Result<Block, Error> {
    if layout.format != Format::Parquet
        && let Some(beyond) = frame.columns().last()
        && beyond.null_count() < beyond.len()
    {
        let beyond = text(file, beyond)?;
        if let Some((index, found)) = beyond.iter().enumerate().find_map(|(i, t)| Some((i, t?))) {
            return Err(Error::TooManyColumns {
                file: file.to_path_buf(),
                row: first_row + index as u64,
                expected: layout.names.len(),
                found: shorten(found),
            });
        }
    }
    let mut columns = Vec::with_capacity(wanted.len());
    for (wanted, series) in wanted.iter().zip(frame.columns()) {
        columns.push(convert_column(file, layout, wanted, first_row, series)?);
    }
    Ok(Block {
        first_row,
        rows: frame.height(),
        columns,
    })
}

fn convert_column(
    file: &Path,
    layout: &Layout,
    (name, kind): &Wanted,
    first_row: u64,
    series: &Series,
) -> Result<Column, Error> {
    let fault = |error: PolarsError| unreadable(file, &error);
    // A non-strict cast turns a malformed cell into null; the message then quotes the cell from `series`.
    let mut typed = series.cast(&kind.data_type()).map_err(fault)?;
    if series.dtype().is_string() && typed.null_count() > series.null_count() {
        // The cast refuses a number with spaces around it.
        let trimmed = text(file, series)?.apply_values(|text| text.trim().into());
        typed = trimmed.cast(&kind.data_type()).map_err(fault)?.into();
    }
    let wrong = |index: usize| {
        let cell = Cell::new(file, first_row + index as u64, name);
        let value = series.get(index).unwrap_or(AnyValue::Null);
        if let Some(text) = value.get_str() {
            return not_a_number(file, name, layout, *kind, cell, text);
        }
        let found = match layout.format {
            _ if !value.is_null() => value.to_string(),
            Format::Parquet => "nothing".to_owned(),
            Format::Csv { .. } => format!("nothing (a row has {} columns)", layout.names.len()),
        };
        cell.refuse(kind.expected(), found)
    };
    match kind {
        Kind::Text => Ok(Column::Text(
            text(file, &typed)?
                .iter()
                .map(Option::unwrap_or_default)
                .collect(),
        )),
        Kind::Integer => (typed.i64().map_err(fault)?.iter().enumerate())
            .map(|(index, value)| value.ok_or_else(|| wrong(index)))
            .collect::<Result<_, _>>()
            .map(Column::Integer),
        Kind::Time => (typed.i64().map_err(fault)?.iter().enumerate())
            .map(|(index, value)| {
                let stamp = || seconds(series.get(index).ok()?.get_str()?);
                value.or_else(stamp).ok_or_else(|| wrong(index))
            })
            .collect::<Result<_, _>>()
            .map(Column::Integer),
        Kind::Number => (typed.f64().map_err(fault)?.iter().enumerate())
            .map(|(index, value)| value.filter(|v| v.is_finite()).ok_or_else(|| wrong(index)))
            .collect::<Result<_, _>>()
            .map(Column::Number),
    }
}

/// Text where a number belongs; in the first row of a layout without header it is most likely a header.
fn not_a_number(file: &Path, name: &str, layout: &Layout, kind: Kind, cell: Cell, text: &str) -> Error {
    let first = matches!(layout.format, Format::Csv { header: false, .. }) && cell.row == 1;
    if first && text.parse::<f64>().is_err() && text.starts_with(|c: char| c.is_alphabetic()) {
        return Error::Header {
            file: file.to_path_buf(),
            column: name.to_owned(),
            expected: kind.expected(),
            found: shorten(text),
        };
    }
    let expected =
        if kind == Kind::Number && text.contains(',') && text.replace(',', ".").parse::<f64>().is_ok() {
            "a finite number with a decimal point"
        } else {
            kind.expected()
        };
    cell.refuse(expected, format!("`{}`", shorten(text)))
}

fn text<'a>(file: &Path, series: &'a Series) -> Result<&'a StringChunked, Error> {
    series.str().map_err(|error| unreadable(file, &error))
}

/// A table that lacks a column.
pub(crate) fn missing_column(file: &Path, column: &str, found: &[String]) -> Error {
    Error::MissingColumn {
        file: file.to_path_buf(),
        column: column.to_owned(),
        found: shorten(&found.join(", ")),
    }
}

fn empty(file: &Path, layout: &Layout) -> Error {
    Error::Empty {
        file: file.to_path_buf(),
        expected: shorten(&layout.names.join(", ")),
    }
}

fn unreadable(file: &Path, error: &PolarsError) -> Error {
    Error::Unreadable {
        file: file.to_path_buf(),
        rows: 0,
        reason: first_line(error),
    }
}

fn first_line(error: &PolarsError) -> String {
    shorten(error.to_string().lines().next().unwrap_or("unknown"))
}

/// A text that fits into a message.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 100;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
