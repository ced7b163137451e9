//! Standard output, and files that are there as a whole or not at all.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Writes data to standard output.
pub(crate) fn print(data: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(data.as_ref())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output(&error))
}

/// Talks on standard error. When nobody listens there, the work goes on.
pub(crate) fn talk(words: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// Writes a file as a whole or not at all.
pub(crate) fn write_bytes(place: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut staged = Staged::default();
    let beside = staged.add(place.to_owned())?;
    fs::write(beside, bytes).map_err(|error| cannot_write(place, &error))?;
    staged.commit()
}

/// Finds out whether a file can be written, before hours are spent on what goes into it. Leaves nothing behind.
pub(crate) fn probe(place: &Path) -> Result<(), Failure> {
    if place.is_dir() {
        return Err(Failure::new(
            format_args!("{}: is a directory", place.display()),
            "name a file to write to",
        ));
    }
    let beside = name_beside(place)?;
    File::create(&beside)
        .and_then(|_| fs::remove_file(&beside))
        .map_err(|error| cannot_write(place, &error))
}

/// Files that appear together, each as a whole, or not at all: they are written beside their places, then moved there.
///
/// A full disk or an interruption leaves nothing half-written.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    files: Vec<(PathBuf, PathBuf)>,
}

impl Staged {
    /// The path to write a file to. It has the same ending as its place, since writers choose their format by it.
    pub(crate) fn add(&mut self, place: PathBuf) -> Result<PathBuf, Failure> {
        let beside = name_beside(&place)?;
        self.files.push((beside.clone(), place));
        Ok(beside)
    }

    /// Moves all files to their places.
    pub(crate) fn commit(mut self) -> Result<(), Failure> {
        for (beside, place) in &self.files {
            File::open(beside)
                .and_then(|file| file.sync_all())
                .map_err(|error| cannot_write(place, &error))?;
        }
        while let Some((beside, place)) = self.files.last() {
            fs::rename(beside, place).map_err(|error| cannot_write(place, &error))?;
            self.files.pop();
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for (beside, _) in &self.files {
            // The reason of the failure is what matters; a left-over is removed if it can be.
            let _ = fs::remove_file(beside);
        }
    }
}

/// The failure of an output that cannot be written.
pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::file(
        path,
        error,
        "nothing was written; choose a folder that exists, is writable and has room",
    )
}

/// A hidden name in the same folder, of this process alone.
fn name_beside(path: &Path) -> Result<PathBuf, Failure> {
    let Some(name) = path.file_name() else {
        return Err(Failure::new(
            format_args!("`{}` is no name of a file", path.display()),
            "name a file to write to, for example episodes.parquet",
        ));
    };
    let mut beside = std::ffi::OsString::from(format!(".{}-", std::process::id()));
    beside.push(name);
    Ok(path.with_file_name(beside))
}
