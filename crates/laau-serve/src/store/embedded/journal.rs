//! The journal beside the database: what a commit appends is durable after one write in place and one sync.
//!
//! It holds the lines that the database does not have yet. Its file has a fixed length from the beginning, so that a sync has no
//! length to write. Records follow each other from the start; when the database has taken them over, the next generation
//! begins at the start again. The state at both ends of the file, written with every record, tells how many there must be: a
//! record that is torn may be the last one only, which nobody was told of.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use redb::{DatabaseError, StorageBackend};

use crate::store::StoreError;

/// The length of the file.
const LENGTH: usize = 1 << 20;
/// The length of the state at each end.
const STATE: usize = 32;
/// Where records begin, away from the state before them, and end.
const BEGIN: usize = 512;
const END: usize = LENGTH - 512;
/// The length of what precedes each record: checksum, length, generation and index.
const HEAD: usize = 4 + 4 + 8 + 8;
/// How the state begins, and so the file.
const MAGIC: [u8; 8] = *b"laau-jnl";

/// A file, or in tests one that fails.
pub(super) type Disk = Box<dyn StorageBackend>;

/// An open journal.
pub(super) struct Journal {
    path: PathBuf,
    disk: Disk,
    generation: u64,
    /// The records of this generation.
    count: u64,
    /// Where the next one goes.
    end: usize,
    /// The bytes of a record, kept for its room.
    buffer: Vec<u8>,
}

impl Journal {
    /// The journal of a store.
    pub(super) fn beside(store: &Path) -> PathBuf {
        let mut name = store.file_name().unwrap_or_default().to_owned();
        name.push(".journal");
        store.with_file_name(name)
    }

    /// Makes an empty journal; one that is there is written over.
    pub(super) fn create(path: PathBuf, wrap: impl Fn(File) -> io::Result<Disk>) -> io::Result<Self> {
        match fs::metadata(&path) {
            Ok(data) if !data.is_file() => return Err(io::Error::other("expected a file")),
            Ok(data) if data.len() > 0 && !is_journal(&path)? => {
                return Err(io::Error::other(
                    "expected a journal, found a file of another program",
                ));
            }
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let disk = wrap(options.open(&path)?)?;
        disk.set_len(LENGTH as u64)?;
        disk.write(0, &vec![0; LENGTH])?;
        let mut journal = Self {
            path,
            disk,
            generation: 0,
            count: 0,
            end: BEGIN,
            buffer: Vec::new(),
        };
        journal.write_state()?;
        journal.disk.sync_data()?;
        let folder = journal
            .path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        journal.begin(0);
        Ok(journal)
    }

    /// Opens a journal; gives the records of a generation.
    pub(super) fn open(
        path: PathBuf,
        generation: u64,
        wrap: impl Fn(File) -> io::Result<Disk>,
    ) -> Result<(Self, Vec<Vec<u8>>), StoreError> {
        let unavailable = |error: io::Error| StoreError::Unavailable {
            reason: format!("{}: {error}", path.display()),
        };
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged("it was not closed in order, and its journal is missing"));
            }
            file => file.map_err(unavailable)?,
        };
        let disk = wrap(file).map_err(unavailable)?;
        if disk.len().map_err(unavailable)? != LENGTH as u64 {
            return Err(damaged("its journal is not as long as it was made"));
        }
        let mut bytes = vec![0; LENGTH];
        disk.read(0, &mut bytes).map_err(unavailable)?;
        let records = read(&bytes, generation)?;
        let journal = Self {
            disk,
            generation,
            count: 0,
            end: END,
            buffer: Vec::new(),
            path,
        };
        Ok((journal, records))
    }

    /// Whether a record of so many bytes has room.
    pub(super) fn fits(&self, length: usize) -> bool {
        HEAD + length <= END - self.end
    }

    /// Appends a record; it is durable when this returns. After an error it may be there or not.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let length = u32::try_from(record.len()).map_err(io::Error::other)?;
        self.buffer.clear();
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(&self.generation.to_le_bytes());
        self.buffer.extend_from_slice(&self.count.to_le_bytes());
        self.buffer.extend_from_slice(record);
        let sum = crc32fast::hash(&self.buffer[4..]).to_le_bytes();
        self.buffer[..4].copy_from_slice(&sum);
        self.disk.write(self.end as u64, &self.buffer)?;
        self.end += self.buffer.len();
        self.count += 1;
        self.write_state()?;
        self.disk.sync_data()
    }

    /// Begins another generation: what is there belongs to those before.
    pub(super) fn begin(&mut self, generation: u64) {
        (self.generation, self.count, self.end) = (generation, 0, BEGIN);
    }

    /// Removes the file; the database has all that was in it.
    pub(super) fn remove(self) {
        drop(self.disk);
        // One that stays is written over by the next.
        let _ = fs::remove_file(self.path);
    }

    /// One end after the other, so that a torn write of one leaves the state of the record before at the other.
    fn write_state(&self) -> io::Result<()> {
        let place = if self.count.is_multiple_of(2) {
            0
        } else {
            LENGTH - STATE
        };
        self.disk.write(place as u64, &state(self.generation, self.count))
    }
}

fn state(generation: u64, count: u64) -> [u8; STATE] {
    let mut bytes = [0; STATE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&generation.to_le_bytes());
    bytes[16..24].copy_from_slice(&count.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..24]);
    bytes[24..28].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Generation and count of a state that is whole.
fn read_state(bytes: &[u8]) -> Option<(u64, u64)> {
    let (generation, count) = (number(bytes, 8)?, number(bytes, 16)?);
    (*bytes == state(generation, count)).then_some((generation, count))
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Whether a file begins as a journal does.
fn is_journal(path: &Path) -> io::Result<bool> {
    let mut magic = [0; MAGIC.len()];
    let read = io::Read::read_exact(&mut File::open(path)?, &mut magic);
    Ok(read.is_ok() && magic == MAGIC)
}

/// The records of a generation. Only the last may be missing or torn.
fn read(bytes: &[u8], generation: u64) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut records = Vec::new();
    let mut at = BEGIN;
    while let Some((found, index, record)) = record_at(&bytes[..END], at) {
        if (found, index) != (generation, records.len() as u64) {
            break;
        }
        at += HEAD + record.len();
        records.push(record.to_vec());
    }
    let states = [&bytes[..STATE], &bytes[bytes.len() - STATE..]].map(read_state);
    let newest = states.iter().flatten().max();
    let count = records.len() as u64;
    match newest {
        Some((later, _)) if *later > generation => {
            return Err(damaged("its last commit is gone, for its journal is newer"));
        }
        // The state and the record are written before the same sync: either may be torn, but nothing before them.
        Some((same, written)) if *same == generation && *written > count + 1 => {
            return Err(damaged("records of its journal are not as they were written"));
        }
        Some((same, written)) if *same == generation && count > *written + 1 => {
            return Err(damaged("its journal has more records than it says"));
        }
        Some((same, _)) if *same == generation => {}
        _ if count > 1 => return Err(damaged("its journal has more records than it says")),
        _ => {}
    }
    // A record behind one that cannot be read was written after it.
    let is_later = |at: usize| {
        number(bytes, at + 8) == Some(generation)
            && record_at(&bytes[..END], at)
                .is_some_and(|(found, index, _)| found == generation && index >= count)
    };
    if (at..END - HEAD).any(is_later) {
        return Err(damaged(
            "a record in the middle of its journal is not as it was written",
        ));
    }
    Ok(records)
}

/// Generation, index and content of the record at a place, if one is whole there.
fn record_at(bytes: &[u8], at: usize) -> Option<(u64, u64, &[u8])> {
    let sum = bytes.get(at..at + 4)?;
    let length = u32::from_le_bytes(bytes.get(at + 4..at + 8)?.try_into().ok()?);
    let whole = bytes.get(at + 4..(at + HEAD).checked_add(usize::try_from(length).ok()?)?)?;
    if sum != crc32fast::hash(whole).to_le_bytes() {
        return None;
    }
    Some((
        number(bytes, at + 8)?,
        number(bytes, at + 16)?,
        &whole[HEAD - 4..],
    ))
}

/// As the errors of a disk are told where one is opened.
pub(super) fn open_disk(file: File) -> io::Result<Disk> {
    match redb::backends::FileBackend::new(file) {
        Ok(disk) => Ok(Box::new(disk)),
        Err(DatabaseError::DatabaseAlreadyOpen) => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn damaged(reason: &str) -> StoreError {
    StoreError::Damaged {
        reason: reason.to_owned(),
    }
}
