//! The bridge to polars: a Parquet file as blocks of plain columns. No polars type leaves this file and `tables/`.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use polars::prelude::{
    AnyValue, Column as Series, DataFrame, DataType, Engine, LazyFrame, PlRefPath, PlanCallback, PolarsError,
    ScanArgsParquet, SchemaRef, TimeUnit, col,
};

use crate::error::{Cell, Error};
use crate::load::block::{Block, Column, Kind, Layout, Wanted, lock, malformed, missing_column, shorten};
use crate::load::decoder::{DAMAGED, Panicked, decode};
use crate::load::footer;
use crate::load::time::seconds;

/// Reads the wanted columns of a file, block by block and in order, in memory that does not grow with the file.
///
/// # Errors
/// A file that cannot be decoded or has no rows, or a malformed cell.
pub(crate) fn read_parquet(
    file: &Path,
    layout: &Layout,
    wanted: &[Wanted],
    limit: Option<usize>,
    visit: impl Fn(Block) -> Result<ControlFlow<()>, Error> + Send + Sync + 'static,
) -> Result<u64, Error> {
    let frame = scan(file, layout, wanted, limit)?;
    let rows = Arc::new(AtomicU64::new(0));
    let failure = Arc::new(Mutex::new(None));
    let callback = {
        let (rows, failure) = (Arc::clone(&rows), Arc::clone(&failure));
        let (file, layout, wanted) = (file.to_path_buf(), layout.clone(), wanted.to_vec());
        PlanCallback::new(move |frame: DataFrame| {
            // Batches arrive in order: `sink_batches` is called with `maintain_order`.
            let before = rows.fetch_add(frame.height() as u64, Ordering::Relaxed);
            let first_row = before + 1;
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
        Ok(Err(error)) => Err(unreadable(first_line(&error))),
        Ok(Ok(_)) => Ok(rows),
    }
}

/// The names of a file's columns.
///
/// # Errors
/// A file that cannot be decoded.
pub(crate) fn parquet_names(file: &Path) -> Result<Vec<String>, Error> {
    let (_, schema) = open(file)?;
    Ok(schema.iter_names().map(ToString::to_string).collect())
}

/// Whether a column holds dates, or dates with a time.
///
/// # Errors
/// A file that cannot be decoded.
pub(crate) fn holds_stamps(file: &Path, column: &str) -> Result<bool, Error> {
    let (_, schema) = open(file)?;
    Ok(schema.get(column).is_some_and(is_stamp))
}

fn is_stamp(found: &DataType) -> bool {
    found.is_date() || found.is_datetime()
}

fn open(file: &Path) -> Result<(LazyFrame, SchemaRef), Error> {
    footer::check(file)?;
    let options = ScanArgsParquet {
        glob: false,
        ..ScanArgsParquet::default()
    };
    let mut frame =
        LazyFrame::scan_parquet(path(file)?, options).map_err(|error| unreadable(file, &error))?;
    let schema = decode(|| frame.collect_schema())
        .map_err(|Panicked| Error::Unreadable {
            file: file.to_path_buf(),
            rows: 0,
            reason: DAMAGED.to_owned(),
        })?
        .map_err(|error| unreadable(file, &error))?;
    Ok((frame, schema))
}

fn scan(file: &Path, layout: &Layout, wanted: &[Wanted], limit: Option<usize>) -> Result<LazyFrame, Error> {
    let (frame, schema) = open(file)?;
    let mut columns = Vec::with_capacity(wanted.len());
    for (name, kind) in wanted {
        let Some(found) = schema.get(name) else {
            return Err(missing_column(file, name, &layout.names));
        };
        let fits = match kind {
            Kind::Text => found.is_string() || found.is_integer(),
            Kind::Integer => found.is_integer(),
            Kind::Time => found.is_integer() || found.is_string() || is_stamp(found),
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
    let columns = wanted.iter().zip(frame.columns());
    Ok(Block {
        first_row,
        rows: frame.height(),
        columns: columns
            .map(|(wanted, series)| convert_column(file, layout, wanted, first_row, series))
            .collect::<Result<_, _>>()?,
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
    let wrong = |index: usize| {
        let cell = Cell::new(file, first_row + index as u64, name);
        let value = series.get(index).unwrap_or(AnyValue::Null);
        match value.get_str() {
            Some(text) => malformed(layout, *kind, cell, text),
            None if value.is_null() => cell.refuse(kind.expected(), "nothing"),
            None => cell.refuse(kind.expected(), value.to_string()),
        }
    };
    // A cast that is not strict turns a number that does not fit into null.
    let cast = |to| series.cast(&to).map_err(fault);
    match kind {
        Kind::Text => {
            let texts = cast(DataType::String)?;
            let texts = texts.str().map_err(fault)?.iter();
            Ok(Column::Text(texts.map(Option::unwrap_or_default).collect()))
        }
        Kind::Time if series.dtype().is_string() => (series.str().map_err(fault)?.iter().enumerate())
            .map(|(index, text)| text.and_then(seconds).ok_or_else(|| wrong(index)))
            .collect::<Result<_, _>>()
            .map(Column::Integer),
        Kind::Time if is_stamp(series.dtype()) => {
            // Days, or parts of a second; a time between two seconds is refused, as it is in text.
            let (seconds, parts) = match series.dtype() {
                DataType::Datetime(TimeUnit::Milliseconds, _) => (1, 1_000),
                DataType::Datetime(TimeUnit::Microseconds, _) => (1, 1_000_000),
                DataType::Datetime(TimeUnit::Nanoseconds, _) => (1, 1_000_000_000),
                _ => (86_400, 1),
            };
            let counts = series.to_physical_repr().cast(&DataType::Int64).map_err(fault)?;
            (counts.i64().map_err(fault)?.iter().enumerate())
                .map(|(index, count)| {
                    count
                        .filter(|count| count % parts == 0)
                        .map(|count| count / parts * seconds)
                        .ok_or_else(|| wrong(index))
                })
                .collect::<Result<_, _>>()
                .map(Column::Integer)
        }
        Kind::Integer | Kind::Time => (cast(DataType::Int64)?.i64().map_err(fault)?.iter().enumerate())
            .map(|(index, value)| value.ok_or_else(|| wrong(index)))
            .collect::<Result<_, _>>()
            .map(Column::Integer),
        Kind::Number => (cast(DataType::Float64)?.f64().map_err(fault)?.iter().enumerate())
            .map(|(index, value)| value.filter(|v| v.is_finite()).ok_or_else(|| wrong(index)))
            .collect::<Result<_, _>>()
            .map(Column::Number),
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
