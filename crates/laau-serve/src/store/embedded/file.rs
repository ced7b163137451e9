//! The file: made as a whole or not at all, opened when it is ours and sound.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError, StorageError};

use super::book::Book;
use super::journal::{Journal, open_disk};
use super::{FORMAT, tables};
use crate::store::StoreError;

/// The pages that are kept in memory, in bytes.
const CACHE: usize = 64 << 20;

/// A file of at least this length is made smaller when most of it is free.
const LARGE: u64 = 64 << 20;

/// The first bytes of every redb file.
const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

/// Opens a file, or makes one.
pub(super) fn open(path: &Path) -> Result<Book, StoreError> {
    match fs::metadata(path) {
        Ok(data) if !data.is_file() => {
            return Err(unavailable(path, "expected a file"));
        }
        Ok(data) if data.len() > 0 => {}
        Ok(_) => fs::remove_file(path)
            .and_then(|()| make(path))
            .map_err(|error| unavailable(path, error))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(path).map_err(|error| unavailable(path, error))?;
        }
        Err(error) => return Err(unavailable(path, error)),
    }
    Book::open(existing(path)?, Journal::beside(path), open_disk)
}

/// Makes a store beside the path and moves it there: a crash leaves a whole store or none.
fn make(path: &Path) -> io::Result<()> {
    let beside = Beside::new(path);
    let db = Builder::new()
        .create_file(beside.create()?)
        .map_err(io::Error::other)?;
    tables::make(&db).map_err(io::Error::other)?;
    drop(db);
    // A link, since renaming would replace a store that another process has made meanwhile.
    match fs::hard_link(&beside.0, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    drop(beside);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// A file of a name of its own, removed in the end.
struct Beside(PathBuf);

impl Beside {
    fn new(path: &Path) -> Self {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".new-{}", std::process::id()));
        Self(path.with_file_name(name))
    }

    fn create(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.0)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // A file that stays is in nobody's way.
        let _ = fs::remove_file(&self.0);
    }
}

fn existing(path: &Path) -> Result<Database, StoreError> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| unavailable(path, error))?;
    let mut magic = [0; MAGIC.len()];
    match file.read_exact(&mut magic) {
        Ok(()) if magic == MAGIC => {}
        Ok(()) => return Err(foreign("a file of another program")),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(foreign("a file of another program"));
        }
        Err(error) => return Err(unavailable(path, error)),
    }
    let length = file.metadata().map_err(|error| unavailable(path, error))?.len();
    let mut db = Builder::new()
        .set_cache_size(CACHE)
        .create_file(file)
        .map_err(|error| open_error(path, error))?;
    // redb trusts the pages of a file that was closed in order. We do not: a page that lost an entry would let it be decided twice.
    match db.check_integrity() {
        Ok(true) => {}
        Ok(false) => {
            return Err(StoreError::Damaged {
                reason: "its pages are not as they were written".to_owned(),
            });
        }
        Err(error) => return Err(open_error(path, error)),
    }
    tables::recognise(&db)?;
    if length >= LARGE && tables::in_use(&db)? < length / 4 {
        db.compact().map_err(|error| unavailable(path, error))?;
    }
    Ok(db)
}

fn open_error(path: &Path, error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::Locked,
        DatabaseError::UpgradeRequired(version) => foreign(&format!("a redb file of version {version}")),
        DatabaseError::Storage(StorageError::Io(error))
            if !matches!(
                error.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            unavailable(path, error)
        }
        error => StoreError::Damaged {
            reason: error.to_string(),
        },
    }
}

pub(super) fn foreign(found: &str) -> StoreError {
    StoreError::Version {
        expected: FORMAT,
        found: found.to_owned(),
    }
}

fn unavailable(path: &Path, reason: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable {
        reason: format!("{}: {reason}", path.display()),
    }
}
