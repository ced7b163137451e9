//! Standard output, and files that are there as a whole or not at all.

use std::fs::{self, File};
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};

use laau::net::LARGEST_FILE;

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

/// Reads a file that is small: a model, a policy, a configuration, a report.
pub(crate) fn read_bytes(path: &Path, hint: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::file(path, &error, hint))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(Failure::new(
            format_args!(
                "{}: expected at most {} MB, found more",
                path.display(),
                LARGEST_FILE >> 20
            ),
            hint,
        ));
    }
    Ok(bytes)
}

/// Reads a small file that is text.
pub(crate) fn read_text(path: &Path, hint: &str) -> Result<String, Failure> {
    String::from_utf8(read_bytes(path, hint)?)
        .map_err(|_| Failure::new(format_args!("{}: expected text in UTF-8", path.display()), hint))
}

/// Writes a file as a whole or not at all.
pub(crate) fn write_bytes(place: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut staged = Staged::default();
    let beside = staged.add(place.to_owned())?;
    fs::write(beside, bytes).map_err(|error| cannot_write(place, &error))?;
    staged.commit()
}

/// A folder for what is written. If it is still empty at the end, it is removed, with those above it that were made for it.
pub(crate) struct Folder {
    path: PathBuf,
    /// Those that were made, the outermost first.
    new: Vec<PathBuf>,
}

impl Folder {
    /// Makes a folder, unless it is there.
    pub(crate) fn make(path: &Path) -> Result<Self, Failure> {
        let above = path.ancestors().filter(|above| !above.as_os_str().is_empty());
        let mut new: Vec<_> = above
            .take_while(|above| !above.exists())
            .map(Path::to_owned)
            .collect();
        new.reverse();
        let folder = Self {
            path: path.to_owned(),
            new,
        };
        fs::create_dir_all(path).map_err(|error| cannot_write(path, &error))?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for folder in self.new.iter().rev() {
            // Only a folder without files goes.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Finds out whether a file can be written, before hours are spent on what goes into it. Leaves nothing behind.
pub(crate) fn probe(place: &Path) -> Result<(), Failure> {
    check_replaceable(place)?;
    let beside = name_beside(place)?;
    File::create(&beside)
        .and_then(|_| fs::remove_file(&beside))
        .map_err(|error| cannot_write(place, &error))
}

/// Refuses a place where something else than a regular file is: moving a file there would replace a device, a pipe or a link by it.
fn check_replaceable(place: &Path) -> Result<(), Failure> {
    let found = fs::symlink_metadata(place).map(|found| found.file_type());
    let (what, hint) = match found {
        Ok(found) if found.is_dir() => ("is a directory", "name a file to write to"),
        Ok(found) if found.is_symlink() => (
            "is a link, which the output would replace",
            "name the file that it leads to, or a new one",
        ),
        Ok(found) if !found.is_file() => (
            "is no regular file, and the output would replace it",
            "name a file on a disk, or a new one",
        ),
        // What cannot be looked at cannot be written to either, and that says why.
        _ => return Ok(()),
    };
    Err(Failure::new(format_args!("{}: {what}", place.display()), hint))
}

/// Flags whose files are written where they are, and not moved there.
const IN_PLACE: [&str; 2] = ["--log", "--journal"];

/// A file by what names it on the command line: `--train`, `-o`.
pub(crate) type Named<'a> = (&'a str, &'a Path);

/// Links to the files that the standard streams were redirected to, where there are such.
const STREAMS: [(&str, &str); 3] = [
    ("standard input", "/dev/stdin"),
    ("standard output", "/dev/stdout"),
    ("standard error", "/dev/stderr"),
];

/// Refuses outputs that would overwrite an input, what a standard stream was redirected to, each other, or what is no regular file,
/// before any work is done.
///
/// Files are compared by what they are, not by what they are called: a link to an input is that input.
pub(crate) fn keep_apart(inputs: &[Named<'_>], outputs: &[Named<'_>]) -> Result<(), Failure> {
    let streams = STREAMS.map(|(name, path)| (name, Path::new(path)));
    let is_file = |(_, path): &&Named<'_>| fs::metadata(path).is_ok_and(|found| found.is_file());
    let redirected: Vec<&Named<'_>> = streams.iter().filter(is_file).collect();
    for (at, (flag, path)) in outputs.iter().enumerate() {
        let place = identity(path);
        let mut kept = inputs.iter().chain(redirected.iter().copied());
        if let Some((input, _)) = kept.find(|(_, input)| identity(input) == place) {
            return Err(Failure::new(
                format_args!("{}: {flag} would overwrite the file of {input}", path.display()),
                format_args!("name another file with {flag}"),
            ));
        }
        if let Some((other, _)) = outputs[..at].iter().find(|(_, other)| identity(other) == place) {
            return Err(Failure::new(
                format_args!("{}: {other} and {flag} name the same file", path.display()),
                "name a file of its own for each",
            ));
        }
        if !IN_PLACE.contains(flag) {
            check_replaceable(path)?;
        }
    }
    Ok(())
}

/// Refuses one and the same file as two sets of episodes.
pub(crate) fn check_distinct(sets: &[Named<'_>]) -> Result<(), Failure> {
    for (at, (flag, path)) in sets.iter().enumerate() {
        let file = identity(path);
        if let Some((other, _)) = sets[..at].iter().find(|(_, other)| identity(other) == file) {
            return Err(Failure::new(
                format_args!("{}: {other} and {flag} are the same file", path.display()),
                "what is learned from episodes has to be judged on others; `laau generate --split` makes sets that share nothing",
            ));
        }
    }
    Ok(())
}

/// What makes two paths the same file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileIdentity {
    /// Device and number on it.
    #[cfg(unix)]
    Number(u64, u64),
    /// A name in a folder of this device and number.
    #[cfg(unix)]
    In(u64, u64, std::ffi::OsString),
    /// The whole path, without links.
    Path(PathBuf),
}

impl FileIdentity {
    /// The identity of a file that exists, by what the system says about it.
    #[cfg(unix)]
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self::Number(metadata.dev(), metadata.ino())
    }
}

/// The identity of a file that exists, or of the place where it would be.
fn identity(path: &Path) -> FileIdentity {
    #[cfg(unix)]
    if let Ok(metadata) = fs::metadata(path) {
        return FileIdentity::of(&metadata);
    }
    let path = resolve(path);
    // A folder may be mounted in several places.
    #[cfg(unix)]
    if let (Some(folder), Some(name)) = (path.parent(), path.file_name())
        && let Ok(FileIdentity::Number(device, number)) =
            fs::metadata(folder).map(|metadata| FileIdentity::of(&metadata))
    {
        return FileIdentity::In(device, number, name.to_owned());
    }
    FileIdentity::Path(path)
}

/// A whole path without links; links that lead nowhere yet are followed to where the file would be.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    follow(path, 0)
}

fn follow(path: &Path, links: usize) -> PathBuf {
    /// As many as Linux follows.
    const MOST_LINKS: usize = 40;
    if let Ok(found) = fs::canonicalize(path) {
        return found;
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if links < MOST_LINKS
        && let Ok(target) = fs::read_link(path)
    {
        return follow(&folder.join(target), links + 1);
    }
    match (fs::canonicalize(folder), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
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
        check_replaceable(&place)?;
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
