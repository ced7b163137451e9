//! The bridge to polars: a Parquet file as blocks of plain columns. No polars type leaves this file and `tables/`.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use polars::prelude::{
    AnyValue, Column as Series, DataFrame, DataType, Engine, FileMetadata, Int64Chunked, LazyFrame,
    ParquetReader, PlRefPath, PlanCallback, PolarsError, ScanArgsParquet, SerReader as _, TimeUnit, col,
    infer_schema,
};

use crate::error::{Cell, CellFault, Error};
use crate::load::block::{
    Block, Column, Kind, Layout, WHOLE_SECONDS, Wanted, lock, malformed, missing_column, shorten,
};
use crate::load::decoder::{DAMAGED, Panicked, decode};
use crate::load::footer;
use crate::load::foreign::foreign;
use crate::load::pages::are_sound;
use crate::load::text::Texts;
use crate::load::time::{Times, stamp};

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
    let opened = open(file)?;
    let columns = check(file, layout, wanted, &opened)?;
    let mut source = File::open(file).map_err(|source| io(file, source))?;
    if !are_sound(&mut source, &opened.metadata, columns).map_err(|source| io(file, source))? {
        return Err(Error::Unreadable {
            file: file.to_path_buf(),
            rows: 0,
            reason: "the pages of its columns are not where or what its footer says".to_owned(),
        });
    }
    let rows = Arc::new(AtomicU64::new(0));
    let failure = Arc::new(Mutex::new(None));
    // Whether that is enough.
    let each = {
        let (rows, failure) = (Arc::clone(&rows), Arc::clone(&failure));
        let (file, layout, wanted) = (file.to_path_buf(), layout.clone(), wanted.to_vec());
        move |frame: DataFrame| {
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
        }
    };
    let outcome = if opened.is_streamed {
        let frame = scan(file, columns, limit)?;
        decode(|| {
            frame
                .sink_batches(PlanCallback::new(each), true, None)?
                .collect_with_engine(Engine::Streaming)
                .map(|_| ())
        })
    } else {
        decode(|| read_row_groups(&source, &opened.metadata, columns, limit, each))
    };
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
        Ok(Ok(())) => Ok(rows),
    }
}

/// The names of a file's columns.
///
/// # Errors
/// A file that cannot be decoded.
pub(crate) fn parquet_names(file: &Path) -> Result<Vec<String>, Error> {
    Ok(open(file)?
        .columns
        .into_iter()
        .map(|column| column.name)
        .collect())
}

/// How the times in a column are written, as its type says; none if it holds text.
///
/// # Errors
/// A file that cannot be decoded.
pub(crate) fn times_of_type(file: &Path, column: &str) -> Result<Option<Times>, Error> {
    Ok(
        match open(file)?.find(column).and_then(|column| column.kind.as_ref()) {
            Some(found) if found.is_string() => None,
            found => Some(found.map_or(Times::Unknown, times_of)),
        },
    )
}

/// How times of a type that is no text are written.
fn times_of(found: &DataType) -> Times {
    match found {
        found if found.is_integer() => Times::Numbers,
        DataType::Datetime(_, Some(_)) => Times::Zoned,
        found if is_stamp(found) => Times::Stamps,
        _ => Times::Unknown,
    }
}

fn is_stamp(found: &DataType) -> bool {
    found.is_date() || found.is_datetime()
}

/// A file whose metadata is read.
struct Opened {
    metadata: FileMetadata,
    columns: Vec<Found>,
    /// Whether the streaming engine can read it, which wants to know the types of all columns, read or not.
    is_streamed: bool,
}

/// A column of a file.
struct Found {
    name: String,
    /// Its type; none if polars has no such type, or not as it is built here.
    kind: Option<DataType>,
    /// The name of its type.
    told: String,
}

impl Opened {
    fn find(&self, name: &str) -> Option<&Found> {
        self.columns.iter().find(|column| column.name == name)
    }
}

fn open(file: &Path) -> Result<Opened, Error> {
    path(file)?;
    let mut source = File::open(file).map_err(|source| io(file, source))?;
    check_kind(file, &mut source).map_err(|source| io(file, source))??;
    footer::check(file)?;
    let found = decode(|| {
        let mut metadata = (**ParquetReader::new(source).get_metadata()?).clone();
        let mut columns = find_columns(&metadata)?;
        let is_streamed = columns.iter().all(|column| column.kind.is_some());
        if !is_streamed {
            // Arrow's own types of the columns, such as categories and lists of one length, are of no use here. Parquet's are
            // texts and lists.
            metadata.key_value_metadata = None;
            let told = columns;
            columns = find_columns(&metadata)?;
            for (column, told) in columns.iter_mut().zip(told) {
                // Half a float is bytes to Parquet.
                if told.kind.is_none() && column.kind == Some(DataType::Binary) {
                    *column = told;
                }
            }
        }
        Ok(Opened {
            metadata,
            columns,
            is_streamed,
        })
    });
    found
        .map_err(|Panicked| Error::Unreadable {
            file: file.to_path_buf(),
            rows: 0,
            reason: DAMAGED.to_owned(),
        })?
        .map_err(|error| unreadable(file, &error))
}

/// Refuses a file that does not begin as Parquet does.
fn check_kind(file: &Path, source: &mut File) -> std::io::Result<Result<(), Error>> {
    let mut first = Vec::new();
    source.take(1024).read_to_end(&mut first)?;
    source.rewind()?;
    if first.starts_with(b"PAR1") {
        return Ok(Ok(()));
    }
    let found = match foreign(&first) {
        _ if first.starts_with(b"\x1f\x8b") || first.starts_with(b"\x28\xb5\x2f\xfd") => {
            "a packed file: unpack it first"
        }
        _ if first.is_empty() => "an empty file",
        _ if first.starts_with(b"PARE") => "an encrypted one: save it without encryption",
        Some(found) => found,
        // The last letter may be cut in two.
        None if str::from_utf8(&first).map_or_else(|error| error.error_len().is_none(), |_| true) => {
            "text: give it a name that ends with .csv"
        }
        None => "a file of an unknown kind",
    };
    Ok(Err(Error::OtherKind {
        file: file.to_path_buf(),
        expected: "a Parquet file, as its name says",
        found: found.to_owned(),
    }))
}

fn find_columns(metadata: &FileMetadata) -> Result<Vec<Found>, PolarsError> {
    let schema = infer_schema(metadata)?;
    let columns = schema.iter_values().map(|field| {
        let kind = decode(|| DataType::from_arrow_field(field)).ok();
        Found {
            name: field.name.to_string(),
            told: kind
                .as_ref()
                .map_or_else(|| shorten(&format!("{:?}", field.dtype)), ToString::to_string),
            kind,
        }
    });
    Ok(columns.collect())
}

/// The wanted columns, if their types are.
fn check<'a>(
    file: &Path,
    layout: &Layout,
    wanted: &'a [Wanted],
    opened: &Opened,
) -> Result<&'a [Wanted], Error> {
    for (name, kind) in wanted {
        let Some(Found {
            kind: found, told, ..
        }) = opened.find(name)
        else {
            return Err(missing_column(file, name, &layout.names));
        };
        let is_text = found.as_ref().is_some_and(DataType::is_string);
        let is_category = found
            .as_ref()
            .is_some_and(|found| found.is_categorical() || found.is_enum());
        let is_whole = found
            .as_ref()
            .is_some_and(|found| found.is_integer() && !is_short(found));
        let fits = match kind {
            Kind::Text => is_text || is_whole || is_category,
            Kind::Time(Times::Numbers) => is_text || is_whole,
            Kind::Any => found.as_ref().is_some_and(|found| !is_short(found)),
            Kind::Integer => is_whole,
            Kind::Time(Times::Unknown) => is_text,
            Kind::Time(times @ (Times::Stamps | Times::Zoned)) => {
                is_text || found.as_ref().is_some_and(|found| times_of(found) == *times)
            }
            Kind::Number => is_whole || found.as_ref().is_some_and(DataType::is_float),
        };
        if !fits {
            // One that holds what is wanted in a form that is not read.
            let is_number = !matches!(kind, Kind::Text | Kind::Any | Kind::Number);
            let is_cast = (found.as_ref())
                .is_none_or(|found| is_short(found) || is_category || is_number && found.is_float());
            let advice = match kind {
                _ if !is_cast => "",
                Kind::Text | Kind::Any => " (cast it to String)",
                // The number of a category is no time.
                Kind::Time(_) if is_category => " (cast it to String)",
                Kind::Integer | Kind::Time(_) => " (cast it to Int64)",
                Kind::Number => " (cast it to Float64)",
            };
            let found = format!("a column of type {told}{advice}");
            return Err(Cell::new(file, 1, name).refuse(kind.expected(), found));
        }
    }
    Ok(wanted)
}

fn is_short(found: &DataType) -> bool {
    matches!(
        found,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16
    )
}

fn scan(file: &Path, wanted: &[Wanted], limit: Option<usize>) -> Result<LazyFrame, Error> {
    let options = ScanArgsParquet {
        glob: false,
        ..ScanArgsParquet::default()
    };
    let frame = LazyFrame::scan_parquet(path(file)?, options).map_err(|error| unreadable(file, &error))?;
    let columns = wanted.iter().map(|(name, _)| col(name.as_str()));
    let frame = frame.select(columns.collect::<Vec<_>>());
    Ok(match limit {
        #[expect(clippy::cast_possible_truncation, reason = "a limit of a few rows")]
        Some(limit) => frame.limit(limit as polars::prelude::IdxSize),
        None => frame,
    })
}

/// Reads the wanted columns, row group by row group, and no other column. Slower than the streaming engine, and indifferent to the
/// types of what is not read.
fn read_row_groups(
    source: &File,
    metadata: &FileMetadata,
    wanted: &[Wanted],
    limit: Option<usize>,
    each: impl Fn(DataFrame) -> Result<bool, PolarsError>,
) -> Result<(), PolarsError> {
    let names: Vec<String> = wanted.iter().map(|(name, _)| name.clone()).collect();
    let mut one = FileMetadata {
        row_groups: Vec::new(),
        ..metadata.clone()
    };
    // An empty frame would be taken for the end of the file.
    let mut left = limit.unwrap_or(usize::MAX);
    for group in metadata.row_groups.iter().filter(|group| group.num_rows() > 0) {
        one.num_rows = group.num_rows();
        one.row_groups = vec![group.clone()];
        let rows = left.min(one.num_rows);
        left -= rows;
        let mut reader = ParquetReader::new(source.try_clone()?)
            .with_columns(Some(names.clone()))
            .with_slice(Some((0, rows)));
        reader.set_metadata(Arc::new(one.clone()));
        if each(reader.finish()?.select(&names)?)? || left == 0 {
            break;
        }
    }
    Ok(())
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
            None if value.is_null() => cell.refuse_empty(kind.expected()),
            None => cell.refuse(kind.expected(), value.to_string()),
        }
    };
    // A cast that is not strict turns a number that does not fit into null.
    let cast = |to| series.cast(&to).map_err(fault);
    match kind {
        Kind::Any if is_stamp(series.dtype()) => {
            let stamps = Stamps::of(series).map_err(fault)?;
            let mut texts = Texts::with_capacity(stamps.counts.len());
            for count in stamps.counts.iter() {
                texts.push(&count.map_or_else(String::new, |count| stamps.to_text(count)));
            }
            Ok(Column::Text(texts))
        }
        Kind::Text | Kind::Any => {
            let texts = cast(DataType::String)?;
            let texts = texts.str().map_err(fault)?.iter();
            Ok(Column::Text(texts.map(Option::unwrap_or_default).collect()))
        }
        Kind::Time(times) if series.dtype().is_string() => (series.str().map_err(fault)?.iter().enumerate())
            .map(|(index, text)| {
                text.and_then(|text| times.parse(text))
                    .ok_or_else(|| wrong(index))
            })
            .collect::<Result<_, _>>()
            .map(Column::Integer),
        Kind::Time(_) if is_stamp(series.dtype()) => {
            // A time between two seconds is refused, as it is in text.
            let stamps = Stamps::of(series).map_err(fault)?;
            (stamps.counts.iter().enumerate())
                .map(|(index, count)| {
                    let count = count.ok_or_else(|| wrong(index))?;
                    stamps.seconds(count).ok_or_else(|| {
                        Cell::new(file, first_row + index as u64, name).refuse_for(
                            CellFault::FractionalTime,
                            WHOLE_SECONDS,
                            stamps.to_text(count),
                        )
                    })
                })
                .collect::<Result<_, _>>()
                .map(Column::Integer)
        }
        Kind::Integer | Kind::Time(_) => (cast(DataType::Int64)?.i64().map_err(fault)?.iter().enumerate())
            .map(|(index, value)| value.ok_or_else(|| wrong(index)))
            .collect::<Result<_, _>>()
            .map(Column::Integer),
        Kind::Number => (cast(DataType::Float64)?.f64().map_err(fault)?.iter().enumerate())
            .map(|(index, value)| value.filter(|v| v.is_finite()).ok_or_else(|| wrong(index)))
            .collect::<Result<_, _>>()
            .map(Column::Number),
    }
}

/// A column of dates, or of dates with a time, as it is counted. Polars cannot write those of a zone as text, as it is built here.
struct Stamps {
    counts: Int64Chunked,
    /// Seconds of a count of dates.
    seconds: i64,
    /// Counts of a second.
    parts: i64,
}

impl Stamps {
    fn of(series: &Series) -> Result<Self, PolarsError> {
        let (seconds, parts) = match series.dtype() {
            DataType::Datetime(TimeUnit::Milliseconds, _) => (1, 1_000),
            DataType::Datetime(TimeUnit::Microseconds, _) => (1, 1_000_000),
            DataType::Datetime(TimeUnit::Nanoseconds, _) => (1, 1_000_000_000),
            _ => (86_400, 1),
        };
        let counts = series.to_physical_repr().cast(&DataType::Int64)?;
        Ok(Self {
            counts: counts.i64()?.clone(),
            seconds,
            parts,
        })
    }

    /// The seconds since 1970, if they are whole.
    fn seconds(&self, count: i64) -> Option<i64> {
        (count % self.parts == 0).then(|| count / self.parts * self.seconds)
    }

    /// As it is written in text.
    fn to_text(&self, count: i64) -> String {
        let whole = stamp(count.div_euclid(self.parts) * self.seconds);
        match count.rem_euclid(self.parts) {
            0 if self.parts == 1 => whole.split('T').next().unwrap_or_default().to_owned(),
            0 => whole,
            part => {
                let digits = self.parts.ilog10() as usize;
                format!("{}.{part:0digits$}Z", whole.trim_end_matches('Z'))
            }
        }
    }
}

fn io(file: &Path, source: std::io::Error) -> Error {
    Error::Io {
        file: file.to_path_buf(),
        source,
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
