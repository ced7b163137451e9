//! Tables that are written: episodes, and the columns of a report. Each file appears complete or not at all.

mod columns;
mod episodes;
mod seal;

pub use columns::{TableColumn, Values, write_table, write_table_in_blocks};
pub use episodes::{read_episodes, write_episodes};

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use polars::prelude::{CsvWriter, DataFrame, KeyValueMetadata, ParquetWriter, PolarsError, SerWriter as _};

use crate::error::Error;
use crate::load::block::Format;

/// Writes a table to a temporary file in the same folder, then renames it. Only Parquet holds the metadata.
fn write_frame(
    path: &Path,
    format: Format,
    frame: &mut DataFrame,
    metadata: Vec<(String, String)>,
) -> Result<(), Error> {
    write_whole(path, |part, buffer| {
        let mut bytes = Vec::new();
        match format {
            Format::Parquet => ParquetWriter::new(&mut bytes)
                .with_key_value_metadata(Some(KeyValueMetadata::from_static(metadata)))
                .finish(frame)
                .map(|_| ()),
            Format::Csv(_) => CsvWriter::new(&mut bytes).finish(frame),
        }
        .map_err(|error| unwritable(part, &error))?;
        if format == Format::Parquet {
            seal::seal(&mut bytes);
        }
        buffer.write_all(&bytes).map_err(|source| io(part, source))
    })
}

/// Writes a file to a temporary one in the same folder, whose path `write` is given too, then renames it.
///
/// laau-net and laau-cli write files the same way for themselves: siblings do not depend on each other, and laau-core does
/// no I/O.
fn write_whole<E: From<Error>>(
    path: &Path,
    write: impl FnOnce(&Path, &mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let temporary = path.with_file_name(name);
    let part = || {
        // Moving a file there would replace a device, a pipe or a link by it.
        if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            let kind = std::io::ErrorKind::InvalidInput;
            let source = std::io::Error::new(kind, "expected a regular file, or none");
            return Err(io(path, source).into());
        }
        let file = File::create(&temporary).map_err(|source| io(&temporary, source))?;
        let mut buffer = BufWriter::new(file);
        write(&temporary, &mut buffer)?;
        let file = buffer
            .into_inner()
            .map_err(|error| io(&temporary, error.into_error()))?;
        file.sync_all().map_err(|source| io(&temporary, source))?;
        std::fs::rename(&temporary, path).map_err(|source| io(path, source).into())
    };
    let written = part();
    if written.is_err() {
        // Report the first error, not one of the clean-up.
        let _ = std::fs::remove_file(&temporary);
    }
    written
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
