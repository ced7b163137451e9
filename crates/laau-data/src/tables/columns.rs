//! Tables of named columns as Parquet, the export format of reports.

use std::path::Path;

use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{Column, DataFrame, ParquetWriter};

use super::{unwritable, write_whole};
use crate::error::{Error, invalid};

/// A named column.
#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    /// The name in the file.
    pub name: String,
    /// The values, one per row.
    pub values: Values,
}

impl TableColumn {
    /// A column.
    pub fn new(name: impl Into<String>, values: Values) -> Self {
        Self {
            name: name.into(),
            values,
        }
    }
}

/// The values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Words; UTF-8 in the file.
    Words(Vec<String>),
    /// Counts; u64 in the file.
    Counts(Vec<u64>),
    /// Numbers; f64 in the file.
    Numbers(Vec<f64>),
    /// Numbers that may be missing; f64 with nulls in the file.
    Optional(Vec<Option<f64>>),
}

/// Writes columns of equal length as Parquet. The file appears complete or not at all.
///
/// ```
/// use laau_data::{TableColumn, Values, write_table};
///
/// let folder = tempfile::tempdir()?;
/// let columns = vec![
///     TableColumn::new("policy", Values::Words(vec!["opt".to_owned(), "equal".to_owned()])),
///     TableColumn::new("utility", Values::Numbers(vec![1.25, 1.125])),
/// ];
/// write_table(&folder.path().join("rollouts.parquet"), columns)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Invalid`] for columns of different lengths or two of one name, [`Error::Io`] for a file that cannot be
/// written.
pub fn write_table(path: &Path, columns: Vec<TableColumn>) -> Result<(), Error> {
    write_table_in_blocks(path, |add| add(columns))
}

/// Writes a table some rows at a time, so that not all of them have to be in memory; `write` calls its argument with the
/// same columns again and again. The file appears complete or not at all.
///
/// # Errors
/// As [`write_table`], and what `write` returns.
pub fn write_table_in_blocks<E: From<Error>>(
    path: &Path,
    write: impl FnOnce(&mut dyn FnMut(Vec<TableColumn>) -> Result<(), Error>) -> Result<(), E>,
) -> Result<(), E> {
    write_whole(path, |part, buffer| {
        let mut writer: Option<BatchedWriter<_>> = None;
        let mut buffer = Some(buffer);
        write(&mut |columns| {
            let frame = frame(columns)?;
            if let Some(buffer) = buffer.take() {
                let opened = ParquetWriter::new(buffer).batched(frame.schema());
                writer = Some(opened.map_err(|error| unwritable(part, &error))?);
            }
            match &mut writer {
                Some(writer) => writer
                    .write_batch(&frame)
                    .map_err(|error| unwritable(part, &error)),
                None => Ok(()),
            }
        })?;
        match writer {
            Some(writer) => writer.finish().map_err(|error| unwritable(part, &error))?,
            None => return Err(invalid("table", "expected at least one row, found none".to_owned()).into()),
        };
        Ok(())
    })
}

fn frame(columns: Vec<TableColumn>) -> Result<DataFrame, Error> {
    let columns = columns
        .into_iter()
        .map(|TableColumn { name, values }| match values {
            Values::Words(values) => Column::new(name.into(), values),
            Values::Counts(values) => Column::new(name.into(), values),
            Values::Numbers(values) => Column::new(name.into(), values),
            Values::Optional(values) => Column::new(name.into(), values),
        })
        .collect();
    DataFrame::new_infer_height(columns).map_err(|error| invalid("columns", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::{ParquetReader, SerReader as _};

    #[test]
    fn a_table_comes_back_with_its_types_and_holes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        write_table(
            &path,
            vec![
                TableColumn::new("policy", Values::Words(vec!["opt".to_owned(), "dgd".to_owned()])),
                TableColumn::new("episode", Values::Counts(vec![0, u64::MAX])),
                TableColumn::new("utility", Values::Numbers(vec![0.1, -2.5])),
                TableColumn::new("multiplier", Values::Optional(vec![None, Some(0.25)])),
            ],
        )
        .unwrap();
        let frame = ParquetReader::new(std::fs::File::open(&path).unwrap())
            .finish()
            .unwrap();
        assert_eq!(frame.shape(), (2, 4));
        assert_eq!(frame.column("policy").unwrap().str().unwrap().get(1), Some("dgd"));
        assert_eq!(
            frame.column("episode").unwrap().u64().unwrap().get(1),
            Some(u64::MAX)
        );
        assert_eq!(frame.column("utility").unwrap().f64().unwrap().get(0), Some(0.1));
        let prices = frame.column("multiplier").unwrap().f64().unwrap();
        assert_eq!((prices.get(0), prices.get(1)), (None, Some(0.25)));
    }

    #[test]
    fn a_table_in_blocks_is_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let block = |from: u64| {
            vec![TableColumn::new(
                "episode",
                Values::Counts((from..from + 3).collect()),
            )]
        };
        write_table_in_blocks(&path, |add| {
            add(block(0))?;
            add(block(3))
        })
        .unwrap();
        let frame = ParquetReader::new(std::fs::File::open(&path).unwrap())
            .finish()
            .unwrap();
        let values: Vec<u64> = frame
            .column("episode")
            .unwrap()
            .u64()
            .unwrap()
            .into_no_null_iter()
            .collect();
        assert_eq!(values, [0, 1, 2, 3, 4, 5]);
        // A table that is not finished leaves nothing, and the old one.
        let stopped = write_table_in_blocks(&path, |add| {
            add(block(0))?;
            Err(invalid("rows", "no more".to_owned()))
        });
        assert_eq!(stopped.unwrap_err().to_string(), "invalid rows: no more");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn columns_that_do_not_fit_each_other_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let check = |columns: Vec<TableColumn>, expected: &str| {
            assert_eq!(write_table(&path, columns).unwrap_err().to_string(), expected);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        };
        let column = |name: &str, rows: usize| TableColumn::new(name, Values::Numbers(vec![0.0; rows]));
        check(
            vec![column("a", 2), column("b", 3)],
            "invalid columns: lengths don't match: could not create a new DataFrame: \
             height of column 'b' (3) does not match height of column 'a' (2)",
        );
        check(
            vec![column("a", 2), column("a", 2)],
            "invalid columns: duplicate: could not create a new DataFrame: column with name 'a' has more than one occurrence",
        );
    }
}
