//! The journal of an episode: what was decided is on disk before anybody hears of it.
//!
//! Line 1 says which episode it is, every further line is one decision; each ends in a checksum that also covers all
//! lines before it. Decisions on contexts that wait together share one sync; those after the first say with which step
//! their batch began. What was cut off by a crash in the last batch was never printed, so that it may be taken back.

mod header;
mod look;
mod place;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

use self::header::VERSION;
pub(super) use self::header::{Header, Identity};
pub(crate) use self::look::look;
use self::place::{Place, in_use, no_locks};
use super::lines::{Decision, seal, unseal};
use crate::failure::{Failure, reason};
use crate::memory;
use crate::output::FileIdentity;

/// Bytes that a system may have made room for behind what was written.
const BLOCKS: usize = 1 << 16;

/// A line of the journal: a decision with its context.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) step: usize,
    pub(super) context: Vec<f64>,
    pub(super) action: Vec<f64>,
    #[serde(default, deserialize_with = "prices")]
    pub(super) multiplier: Option<Vec<f64>>,
    pub(super) remaining: Vec<f64>,
    #[serde(default)]
    pub(super) fallback: Option<String>,
    #[serde(default)]
    pub(super) guarded: bool,
    /// What was odd about the context, or the reading that it was made of.
    #[serde(default)]
    pub(super) warning: Option<String>,
    /// The first step of the batch that was synced together, if that is not this one.
    #[serde(default)]
    batch: Option<usize>,
}

impl Record {
    /// Whether a decision is the one that was written down, bit for bit.
    pub(super) fn is(&self, decision: &Decision<'_>) -> bool {
        self.step == decision.step
            && self.action == decision.action
            && self.multiplier.as_deref() == decision.multiplier
            && self.remaining == decision.remaining
            && self.fallback.as_deref() == decision.fallback
            && self.guarded == decision.guarded
    }
}

/// Prices; JSON has no infinite number, and `null` stands for it.
fn prices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<f64>>, D::Error> {
    let prices: Option<Vec<Option<f64>>> = Option::deserialize(deserializer)?;
    Ok(prices.map(|prices| {
        prices
            .into_iter()
            .map(|price| price.unwrap_or(f64::INFINITY))
            .collect()
    }))
}

#[derive(Serialize)]
struct Line<'a> {
    context: &'a [f64],
    #[serde(flatten)]
    decision: Decision<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<usize>,
}

/// Whether a journal may be new, or may exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// It must not exist.
    New,
    /// It must exist.
    Resume,
    /// Either: the one command that a supervisor starts again and again.
    Either,
}

/// A journal that was opened.
pub(super) struct Opened {
    pub(super) journal: Journal,
    /// The decisions of a journal that existed.
    pub(super) records: Option<Vec<Record>>,
    /// What had to be repaired.
    pub(super) repaired: Option<String>,
}

/// A journal that is open, locked, and whole up to its end.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    checksum: u32,
    decisions: usize,
    buffer: Vec<u8>,
    /// Lines that are not written yet, and where each ends.
    waiting: Vec<u8>,
    ends: Vec<usize>,
    #[cfg(unix)]
    identity: FileIdentity,
    /// Given back when the file is closed.
    _place: Place,
}

impl Journal {
    /// Starts a journal, or goes on with one; a line has at most so many values.
    pub(super) fn open(
        path: &Path,
        header: &Header,
        opening: Opening,
        values: usize,
    ) -> Result<Opened, Failure> {
        let exists = match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => return Err(no_regular_file(path)),
            Ok(_) => true,
            Err(_) => false,
        };
        if opening == Opening::Resume || (opening == Opening::Either && exists) {
            let (journal, records, repaired) = Self::resume(path, header, values)?;
            return Ok(Opened {
                journal,
                records: Some(records),
                repaired,
            });
        }
        Ok(Opened {
            journal: Self::create(path, header)?,
            records: None,
            repaired: None,
        })
    }

    /// Starts a journal; a file that exists is left alone.
    fn create(path: &Path, header: &Header) -> Result<Self, Failure> {
        let place = Place::hold(path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists if !path.exists() => Failure::new(
                    format_args!("{}: the journal is a link that leads nowhere", path.display()),
                    "remove the link, or name the file that it should lead to",
                ),
                std::io::ErrorKind::AlreadyExists => Failure::new(
                    format_args!("{}: the journal exists already", path.display()),
                    "leave --new out to go on with its episode, or name a new file",
                ),
                _ => Failure::file(path, &error, "choose a folder that exists and is writable"),
            })?;
        let mut journal = Self::lock(path, file, place)?;
        journal.start(header)?;
        Ok(journal)
    }

    /// Opens the journal of an interrupted episode and reads its decisions; says what had to be repaired.
    fn resume(
        path: &Path,
        header: &Header,
        values: usize,
    ) -> Result<(Self, Vec<Record>, Option<String>), Failure> {
        const HINT: &str = "a journal has a line per step, and this file is too long for one; name the journal of the episode, or a new file";
        /// The file as it is, and what it says.
        const COPIES: u128 = 3;
        let place = Place::hold(path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| {
                let hint = match error.kind() {
                    std::io::ErrorKind::NotFound => "leave --resume out to start a new journal",
                    _ => "the journal has to be readable and writable: check its permissions, or name a new file",
                };
                Failure::file(path, &error, hint)
            })?;
        let mut journal = Self::lock(path, file, place)?;
        let length = journal
            .file
            .metadata()
            .map_err(|error| Failure::file(path, &error, "check the disk and the file's permissions"))?
            .len();
        if length > header.longest(values) {
            return Err(Failure::new(
                format_args!(
                    "{}: {length} bytes are more than the journal of an episode of {} steps has",
                    path.display(),
                    header.horizon
                ),
                HINT,
            ));
        }
        memory::check(
            &format!("{}: reading the journal takes", path.display()),
            COPIES * u128::from(length),
            HINT,
        )?;
        let mut bytes = Vec::new();
        journal
            .file
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::file(path, &error, "check the disk and the file's permissions"))?;
        if journal.is_torn_header(&bytes, header)? {
            journal
                .file
                .set_len(0)
                .map_err(|error| journal.cannot_write(&error))?;
            journal.start(header)?;
            let word = format!("{}: repaired: the first line was cut off", path.display());
            return Ok((journal, Vec::new(), Some(word)));
        }
        let (records, repaired) = journal.read(&bytes, header)?;
        Ok((journal, records, repaired))
    }

    /// Adds a decision to those that wait for [`Journal::commit`].
    pub(super) fn stage(&mut self, context: &[f64], decision: Decision<'_>) -> Result<(), Failure> {
        let batch = (!self.ends.is_empty()).then_some(self.decisions);
        let line = Line {
            context,
            decision,
            batch,
        };
        self.checksum =
            seal(&mut self.buffer, &line, self.checksum).map_err(|error| self.cannot_write(&error))?;
        self.waiting.extend_from_slice(&self.buffer);
        self.ends.push(self.waiting.len());
        Ok(())
    }

    /// Writes the decisions that wait, and syncs: they are on disk when this returns.
    ///
    /// # Errors
    /// Why not, and how many of them are on disk all the same; the journal is of no more use then.
    pub(super) fn commit(&mut self) -> Result<(), (usize, Failure)> {
        if self.ends.is_empty() {
            return Ok(());
        }
        self.check_place().map_err(|failure| (0, failure))?;
        let (waiting, ends) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.ends));
        if self.write(&waiting).is_ok() {
            self.decisions += ends.len();
            (self.waiting, self.ends) = (waiting, ends);
            self.waiting.clear();
            self.ends.clear();
            return Ok(());
        }
        // There may be room for some of them.
        let mut start = 0;
        for (safe, end) in ends.into_iter().enumerate() {
            let written = self
                .file
                .seek(SeekFrom::Start(self.length))
                .and_then(|_| self.write(&waiting[start..end]));
            if let Err(error) = written {
                return Err((safe, self.cannot_write(&error)));
            }
            self.decisions += 1;
            start = end;
        }
        Ok(())
    }

    /// Makes sure that the file still is the one at its path, and as long as it was left.
    fn check_place(&self) -> Result<(), Failure> {
        #[cfg(unix)]
        {
            let told = |what: &str| {
                Failure::new(
                    format_args!(
                        "{}: the journal was {what} after {} decisions",
                        self.path.display(),
                        self.decisions
                    ),
                    "no other decision was printed; put the file back as it was, then go on with --resume",
                )
            };
            match std::fs::metadata(&self.path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(told("removed")),
                Err(error) => return Err(self.cannot_write(&error)),
                Ok(found) if FileIdentity::of(&found) != self.identity => return Err(told("replaced")),
                Ok(found) if found.len() != self.length => {
                    return Err(told("changed by another program"));
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    fn lock(path: &Path, file: File, place: Place) -> Result<Self, Failure> {
        let unknown = |error| Failure::file(path, &error, "check the disk and the file's permissions");
        let metadata = file.metadata().map_err(unknown)?;
        if !metadata.is_file() {
            return Err(no_regular_file(path));
        }
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => in_use(path),
            TryLockError::Error(error) => no_locks(path, &error),
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            length: 0,
            checksum: 0,
            decisions: 0,
            buffer: Vec::new(),
            waiting: Vec::new(),
            ends: Vec::new(),
            #[cfg(unix)]
            identity: FileIdentity::of(&metadata),
            _place: place,
        })
    }

    /// Writes the header, and makes sure that the file's name is on disk, too.
    fn start(&mut self, header: &Header) -> Result<(), Failure> {
        self.file
            .seek(SeekFrom::Start(0))
            .map_err(|error| self.cannot_write(&error))?;
        let mut line = Vec::new();
        self.checksum = seal(&mut line, header, self.checksum)
            .and_then(|checksum| self.write(&line).map(|()| checksum))
            .map_err(|error| self.cannot_write(&error))?;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // Where a folder cannot be opened as a file, there is nothing to sync.
        if let Ok(folder) = File::open(folder) {
            folder.sync_all().map_err(|error| self.cannot_write(&error))?;
        }
        Ok(())
    }

    /// Writes sealed lines at the end, all of them or nothing, and syncs.
    fn write(&mut self, lines: &[u8]) -> std::io::Result<()> {
        let written = self.file.write_all(lines).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.length += lines.len() as u64,
            // What cannot be taken back now is taken back by --resume: its seal is broken.
            Err(_) => drop(self.file.set_len(self.length)),
        }
        written
    }

    fn cannot_write(&self, error: &std::io::Error) -> Failure {
        Failure::new(
            format_args!(
                "{}: the journal cannot be written after {} decisions: {}",
                self.path.display(),
                self.decisions,
                reason(error)
            ),
            "these decisions are safe, and no other was printed; make room, then go on with --resume",
        )
    }

    /// Whether the process that made the file died before its first line was whole.
    fn is_torn_header(&self, bytes: &[u8], header: &Header) -> Result<bool, Failure> {
        if bytes.contains(&b'\n') {
            return Ok(false);
        }
        let mut expected = Vec::new();
        seal(&mut expected, header, 0).map_err(|error| self.cannot_write(&error))?;
        // A system may have made more room than was written, but not this much more.
        if bytes.len() > expected.len() + BLOCKS {
            return Ok(false);
        }
        // Nothing but our own beginning may be overwritten, and blocks of zeros that never reached the disk.
        let written = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        Ok(expected.starts_with(&bytes[..written]))
    }

    /// Reads header and records, and cuts off a torn end.
    fn read(&mut self, bytes: &[u8], header: &Header) -> Result<(Vec<Record>, Option<String>), Failure> {
        let mut records = Vec::new();
        let mut rest = bytes;
        let mut repaired = None;
        while !rest.is_empty() {
            let number = records.len() + 1 + usize::from(self.length > 0);
            let end = rest.iter().position(|byte| *byte == b'\n');
            let line = &rest[..end.unwrap_or(rest.len())];
            let Some((content, checksum)) = unseal(line, self.checksum) else {
                let is_last = end.is_none_or(|end| end + 1 == rest.len());
                let start = bytes.len() - rest.len();
                // A line without an end, or with blocks of zeros that never reached the disk. Lines after it are of its batch.
                let is_torn = self.length > 0
                    && !has_flipped_bit(line, self.checksum)
                    && (end.is_none() || has_torn_blocks(bytes, start..start + line.len()))
                    && (is_last || !any_synced_after(&rest[line.len() + 1..], records.len()));
                if !is_torn {
                    return Err(self.damaged(number));
                }
                let what = if is_last {
                    "was cut off; its decision was"
                } else {
                    "and those after it were cut off; their decisions were"
                };
                repaired = Some(format!(
                    "{}: repaired: line {number} {what} never printed",
                    self.path.display()
                ));
                break;
            };
            if self.length == 0 {
                self.check_header(&content, header)?;
            } else {
                let record: Record = serde_json::from_slice(&content).map_err(|_| self.damaged(number))?;
                if record.step != records.len() {
                    return Err(self.damaged(number));
                }
                records.push(record);
            }
            self.checksum = checksum;
            self.length += line.len() as u64 + 1;
            rest = &rest[(line.len() + 1).min(rest.len())..];
            if end.is_none() {
                repaired = Some(format!(
                    "{}: repaired: line {number} was whole but for its end",
                    self.path.display()
                ));
            }
        }
        self.decisions = records.len();
        self.repair(bytes)?;
        Ok((records, repaired))
    }

    /// Makes the file as long as its whole lines, with an end on the last one.
    fn repair(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let whole = self.length;
        let mut repair = || {
            if (bytes.len() as u64) < whole {
                self.file.seek(SeekFrom::End(0))?;
                self.file.write_all(b"\n")?;
            } else if bytes.len() as u64 > whole {
                self.file.set_len(whole)?;
            }
            self.file.seek(SeekFrom::Start(whole))?;
            self.file.sync_data()
        };
        repair().map_err(|error| self.cannot_write(&error))
    }

    fn check_header(&self, content: &[u8], header: &Header) -> Result<(), Failure> {
        let found: Header = serde_json::from_slice(content).map_err(|_| {
            Failure::new(
                format_args!("{}: no journal of this version of laau", self.path.display()),
                "finish the episode with the version that began it, or name a new file",
            )
        })?;
        if found.journal != VERSION {
            return Err(Failure::new(
                format_args!(
                    "{}: the journal has format {}, expected {VERSION}",
                    self.path.display(),
                    found.journal
                ),
                "finish the episode with the version of laau that began it",
            ));
        }
        match found.difference(header) {
            None => Ok(()),
            Some((field, theirs, ours)) => Err(Failure::new(
                format_args!(
                    "{}: the journal is of another episode: its {field} is {theirs}, not {ours}",
                    self.path.display()
                ),
                "give the problem, horizon, budgets, policy and --raw as the episode began, or name a new file",
            )),
        }
    }

    fn damaged(&self, line: usize) -> Failure {
        Failure::new(
            format_args!("{}: line {line} of the journal is damaged", self.path.display()),
            "restore the file from a copy; to go on without it could spend a budget twice",
        )
    }
}

/// Whether a line that looks torn was whole, and its decision printed: but for one bit of its end, or of a byte that is zero.
fn has_flipped_bit(line: &[u8], checksum: u32) -> bool {
    let is_end = line.split_last().is_some_and(|(last, content)| {
        (last ^ b'\n').is_power_of_two() && unseal(content, checksum).is_some()
    });
    let mut zeros = (0..line.len()).filter(|at| line[*at] == 0);
    let (Some(zero), None) = (zeros.next(), zeros.next()) else {
        return is_end;
    };
    let mut mended = line.to_vec();
    is_end
        || (0..8).any(|bit| {
            mended[zero] = 1 << bit;
            unseal(&mended, checksum).is_some()
        })
}

/// Whether a line has zeros, and all of them in blocks that never reached the disk: these begin with the line or a sector, and end with
/// a sector or the file.
fn has_torn_blocks(bytes: &[u8], line: Range<usize>) -> bool {
    const SECTOR: usize = 512;
    let mut at = line.start;
    let mut has_zeros = false;
    while let Some(zero) = bytes[at..line.end].iter().position(|byte| *byte == 0) {
        let start = at + zero;
        let count = bytes[start..].iter().position(|byte| *byte != 0);
        let end = count.map_or(bytes.len(), |count| start + count);
        let is_block = (start == line.start || start.is_multiple_of(SECTOR))
            && (end == bytes.len() || end.is_multiple_of(SECTOR));
        if !is_block {
            return false;
        }
        has_zeros = true;
        at = end.min(line.end);
    }
    has_zeros
}

/// Whether a line says that a step was on disk when it was written: its batch began later.
fn any_synced_after(lines: &[u8], step: usize) -> bool {
    #[derive(Deserialize)]
    struct Place {
        step: usize,
        batch: Option<usize>,
    }
    lines.split(|byte| *byte == b'\n').any(|line| {
        serde_json::from_slice::<Place>(line).is_ok_and(|place| place.batch.unwrap_or(place.step) > step)
    })
}

fn no_regular_file(path: &Path) -> Failure {
    Failure::new(
        format_args!(
            "{}: a journal is a regular file, and this is none",
            path.display()
        ),
        "name a file on a disk, or a new one",
    )
}

#[cfg(test)]
mod tests;
