//! Tables on their way to files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use laau::core::tables::Row;

use crate::failure::{Failure, Hint as _};
use crate::output;

/// Named tables; they are written together at the end, each as a whole.
pub(super) struct Tables {
    folder: PathBuf,
    tables: BTreeMap<&'static str, csv::Writer<Vec<u8>>>,
}

impl Tables {
    pub(super) fn new(folder: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| output::cannot_write(folder, &error))?;
        Ok(Self {
            folder: folder.to_owned(),
            tables: BTreeMap::new(),
        })
    }

    /// Adds a row to its table.
    pub(super) fn add<R: Row>(&mut self, row: &R) -> Result<(), Failure> {
        let table = self
            .tables
            .entry(R::FILE)
            .or_insert_with(|| csv::Writer::from_writer(Vec::new()));
        table
            .serialize(row)
            .hint("this is a mistake in laau itself: please report it")
    }

    /// Writes all tables.
    pub(super) fn save(self) -> Result<(), Failure> {
        for (name, table) in self.tables {
            let bytes = table
                .into_inner()
                .hint("this is a mistake in laau itself: please report it")?;
            output::write_bytes(&self.folder.join(name), &bytes)?;
        }
        Ok(())
    }
}
