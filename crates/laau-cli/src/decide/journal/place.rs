//! The place of a journal, held by one process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// A lock on `FILE.lock` beside a journal.
///
/// The lock of the journal itself goes with the file: when somebody removes it, a second process would start the episode anew
/// with the whole budget, while the first one has yet to notice.
#[derive(Debug)]
pub(super) struct Place {
    /// The file, and its path; none in a folder in which this user cannot make a second journal either.
    lock: Option<(File, PathBuf)>,
}

impl Place {
    /// Holds the place of a journal, whether there is one or not.
    pub(super) fn hold(journal: &Path) -> Result<Self, Failure> {
        /// Other processes may end, and remove the file, between two steps of this one; they do not do so forever.
        const ATTEMPTS: usize = 100;
        // A link leads to the place; two links to one file share it.
        let mut name = output::resolve(journal).into_os_string();
        name.push(".lock");
        let path = PathBuf::from(name);
        for _ in 0..ATTEMPTS {
            if std::fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file() || found.len() > 0) {
                return Err(Failure::new(
                    format_args!("{}: a journal needs this name for its lock", path.display()),
                    "remove or rename what is there, or name another journal",
                ));
            }
            let opened = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path);
            let file = match opened {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Self { lock: None }),
                Err(error) => {
                    return Err(Failure::file(
                        journal,
                        &error,
                        "choose a folder that exists and is writable",
                    ));
                }
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(in_use(journal)),
                Err(TryLockError::Error(error)) => return Err(no_locks(journal, &error)),
            }
            if is_at(&file, &path) {
                return Ok(Self {
                    lock: Some((file, path)),
                });
            }
        }
        Err(in_use(journal))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((file, path)) = &self.lock
            && is_at(file, path)
        {
            // What is left of a process that was killed is locked by the next one.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether a file that is open still is the one at its path.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use crate::output::FileIdentity;
        let same = |found: std::fs::Metadata| {
            file.metadata()
                .is_ok_and(|ours| FileIdentity::of(&ours) == FileIdentity::of(&found))
        };
        std::fs::symlink_metadata(path).is_ok_and(same)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

/// Another process has the journal.
pub(super) fn in_use(journal: &Path) -> Failure {
    Failure::new(
        format_args!("{}: the journal is in use by another process", journal.display()),
        "wait until that one has ended, or name another file",
    )
}

/// The file system cannot keep another process away.
pub(super) fn no_locks(journal: &Path, error: &std::io::Error) -> Failure {
    Failure::file(journal, error, "put the journal on a file system with locks")
}
