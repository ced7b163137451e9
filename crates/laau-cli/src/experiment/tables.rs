//! Tables on their way to files.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// Named tables; they are written together at the end, each as a whole.
pub(super) struct Tables {
    folder: PathBuf,
    texts: BTreeMap<&'static str, String>,
}

impl Tables {
    pub(super) fn new(folder: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| output::cannot_write(folder, &error))?;
        Ok(Self {
            folder: folder.to_owned(),
            texts: BTreeMap::new(),
        })
    }

    /// Adds a row; the first one of a table brings its heading. No value contains a comma.
    pub(super) fn add(&mut self, table: &'static str, heading: &str, values: &[&dyn Display]) {
        let text = self.texts.entry(table).or_insert_with(|| format!("{heading}\n"));
        for (index, value) in values.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma}{value}");
        }
        text.push('\n');
    }

    /// Writes all tables.
    pub(super) fn save(&self) -> Result<(), Failure> {
        for (name, text) in &self.texts {
            output::write_bytes(&self.folder.join(name), text.as_bytes())?;
        }
        Ok(())
    }
}
