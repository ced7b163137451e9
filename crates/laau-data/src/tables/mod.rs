//! Tables that are written: episodes, and the columns of a report. Each file appears complete or not at all.

mod columns;
mod episodes;
mod seal;

pub use columns::{TableColumn, Values, write_table};
pub use episodes::{read_episodes, write_episodes};

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use polars::prelude::{CsvWriter, DataFrame, KeyValueMetadata, ParquetWriter, PolarsError, SerWriter as _};

use crate::error::Error;
use crate::load::block::Format;

/// Writes a table to a temporary file in the same folder, then renames it. Only Parquet holds the metadata.
///
/// laau-net and laau-cli write files the same way for themselves: siblings do not depend on each other, and laau-core does
/// no I/O.
fn write_frame(
    path: &Path,
    format: Format,
    frame: &mut DataFrame,
    metadata: Vec<(String, String)>,
) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = encode(&temporary, format, frame, metadata)
        .and_then(|()| std::fs::rename(&temporary, path).map_err(|source| io(path, source)));
    if written.is_err() {
        // Report the first error, not one of the clean-up.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn encode(
    path: &Path,
    format: Format,
    frame: &mut DataFrame,
    metadata: Vec<(String, String)>,
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    match format {
        Format::Parquet => ParquetWriter::new(&mut bytes)
            .with_key_value_metadata(Some(KeyValueMetadata::from_static(metadata)))
            .finish(frame)
            .map(|_| ()),
        Format::Csv { .. } => CsvWriter::new(&mut bytes).finish(frame),
    }
    .map_err(|error| unwritable(path, &error))?;
    if format == Format::Parquet {
        seal::seal(&mut bytes);
    }
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(&bytes)?;
        file.sync_all()
    };
    write().map_err(|source| io(path, source))
}

fn io(path: &Path, source: std::io::Error) -> Error {
    Error::Io {
        file: path.to_path_buf(),
        source,
    }
}

fn unwritable(path: &Path, error: &PolarsError) -> Error {
    io(path, std::io::Error::other(error.to_string()))
}
