//! Files for the tests.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use laau_data::{EpisodeOptions, Error, Imported, Table, TableOptions, import};
use tempfile::TempDir;

/// A folder that goes when the test ends.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, gzipped if its name ends so, and returns its path as text.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path: PathBuf = self.path().join(name);
        let bytes = if Path::new(name).extension().is_some_and(|e| e == "gz") {
            gzip(content.as_ref())
        } else {
            content.as_ref().to_vec()
        };
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A message without the name of the folder.
    pub(crate) fn strip(&self, error: &laau_data::Error) -> String {
        error
            .to_string()
            .replace(&format!("{}/", self.path().display()), "")
    }
}

/// Imports rows of a table with the columns `series`, `time` and `value`.
pub(crate) fn import_rows(rows: &str, options: &EpisodeOptions) -> Result<Imported, Error> {
    let folder = Folder::new();
    let table = Table::open(TableOptions {
        paths: vec![folder.write("t.csv", format!("series,time,value\n{rows}"))],
        ..TableOptions::default()
    });
    import(&table.unwrap(), options)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
