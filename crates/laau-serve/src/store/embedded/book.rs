//! The database and its journal, as one.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use redb::Database;

use super::journal::{Disk, Journal};
use super::tables::{self, Line};
use crate::store::codec::open_entry;
use crate::store::{Batch, StoreError, Write};

/// The most lines that wait in the journal. The more there are, the fewer pages the database writes for each, and the longer the
/// commit takes that moves them.
const MOST: usize = 256;

/// An open store. What is only appended goes to the journal, which costs one write; the database takes it over many commits at a
/// time, and before anything is read that may be among it.
pub(super) struct Book {
    db: Database,
    journal: Journal,
    generation: u64,
    /// What the journal has and the database does not.
    waiting: Vec<Line>,
    /// The numbers and keys of these.
    taken: HashSet<Vec<u8>>,
}

impl Book {
    /// Takes over what the journal of a process that was killed still holds, and begins a journal.
    pub(super) fn open(
        db: Database,
        journal: PathBuf,
        wrap: impl Fn(File) -> io::Result<Disk>,
    ) -> Result<Self, StoreError> {
        let (generation, in_use) = tables::generation(&db)?;
        let (journal, records) = if in_use {
            Journal::open(journal, generation, wrap)?
        } else {
            let name = journal.display().to_string();
            let made = Journal::create(journal, wrap).map_err(|error| StoreError::Unavailable {
                reason: format!("{name}: {error}"),
            })?;
            (made, Vec::new())
        };
        let mut book = Self {
            db,
            journal,
            generation,
            waiting: Vec::new(),
            taken: HashSet::new(),
        };
        for record in records {
            decode(&record, &mut book.waiting)?;
        }
        book.settle(&Batch::default()).map_err(|error| match error {
            StoreError::Fenced { account } => StoreError::Damaged {
                reason: format!("its journal repeats a line of account `{account}`"),
            },
            error => error,
        })?;
        Ok(book)
    }

    /// The database, for what is never in the journal.
    pub(super) fn database(&self) -> &Database {
        &self.db
    }

    /// The database with all that was committed.
    pub(super) fn settled(&mut self) -> Result<&Database, StoreError> {
        if !self.waiting.is_empty() {
            self.settle(&Batch::default())?;
        }
        Ok(&self.db)
    }

    /// Writes a batch, all of it or nothing.
    pub(super) fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let lines = batch.writes.iter().map(|write| match write {
            Write::Append { account, entry } => Some(Line::new(account, entry)),
            _ => None,
        });
        match lines.collect::<Option<Result<Vec<_>, _>>>() {
            Some(lines) => self.append(lines?, batch),
            None => self.settle(batch),
        }
    }

    fn append(&mut self, mut lines: Vec<Line>, batch: &Batch) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        if lines.len() >= MOST {
            return self.settle(batch);
        }
        let record = encode(&lines);
        if self.waiting.len() + lines.len() > MOST || !self.journal.fits(record.len()) {
            self.settle(&Batch::default())?;
        }
        if !self.journal.fits(record.len()) {
            return self.settle(batch);
        }
        let mut marks = HashSet::with_capacity(2 * lines.len());
        for line in &lines {
            for mark in line.marks() {
                if self.taken.contains(&mark) || !marks.insert(mark) {
                    return Err(line.fenced());
                }
            }
        }
        tables::expect_new(&self.db, &lines)?;
        self.journal
            .append(&record)
            .map_err(|error| StoreError::Unavailable {
                reason: format!("the journal: {error}"),
            })?;
        self.waiting.append(&mut lines);
        self.taken.extend(marks);
        Ok(())
    }

    /// Moves all that waits into the database, and then a batch.
    fn settle(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let next = self.generation + 1;
        tables::commit(&self.db, &self.waiting, batch, (next, true))?;
        self.generation = next;
        self.journal.begin(next);
        self.waiting.clear();
        self.taken.clear();
        Ok(())
    }

    /// Leaves the database alone, without a journal.
    pub(super) fn close(self) -> Result<(), StoreError> {
        tables::commit(
            &self.db,
            &self.waiting,
            &Batch::default(),
            (self.generation + 1, false),
        )?;
        self.journal.remove();
        Ok(())
    }
}

/// A record of the journal: the account of each line and the line, each behind its length.
fn encode(lines: &[Line]) -> Vec<u8> {
    let mut record = Vec::new();
    for part in lines
        .iter()
        .flat_map(|line| [line.account.as_bytes(), &line.sealed])
    {
        record.extend_from_slice(&(part.len() as u64).to_le_bytes());
        record.extend_from_slice(part);
    }
    record
}

/// The lines of a record.
fn decode(mut record: &[u8], lines: &mut Vec<Line>) -> Result<(), StoreError> {
    let damaged = || StoreError::Damaged {
        reason: "a record of its journal cannot be read".to_owned(),
    };
    let mut part = || {
        let (length, rest) = record.split_first_chunk()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (part, rest) = rest.split_at_checked(length)?;
        record = rest;
        Some((part, rest.is_empty()))
    };
    loop {
        let (account, _) = part().ok_or_else(damaged)?;
        let (sealed, last) = part().ok_or_else(damaged)?;
        let account = std::str::from_utf8(account).map_err(|_| damaged())?;
        let entry = open_entry(account, sealed)?;
        lines.push(Line::sealed(account, &entry, sealed.to_vec()));
        if last {
            return Ok(());
        }
    }
}
