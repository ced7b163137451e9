//! The tables of the file, and what is read from and written to them.

use std::collections::BTreeSet;

use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata as _,
    TableDefinition, TableHandle as _, WriteTransaction,
};

use super::FORMAT;
use super::file::foreign;
use crate::entry::{ApiKey, Entry};
use crate::store::codec::{seal, seal_entry, seal_json, unseal, unseal_entry, unseal_json};
use crate::store::{AccountRecord, Batch, StoreError, Wanted, Write};

/// The format and the epoch.
const META: TableDefinition<&str, &[u8]> = TableDefinition::new("laau-serve");
/// Account → record.
const ACCOUNTS: TableDefinition<&str, &[u8]> = TableDefinition::new("accounts");
/// Digest → policy file.
const FILES: TableDefinition<&str, &[u8]> = TableDefinition::new("files");
/// Account, period, number → entry.
const ENTRIES: TableDefinition<(&str, u64, u64), &[u8]> = TableDefinition::new("entries");
/// Account, period, idempotency key → number of the entry.
const REQUESTS: TableDefinition<(&str, u64, &str), &[u8]> = TableDefinition::new("requests");
/// Account → the first period that is kept, while earlier ones are being deleted.
const FORGOTTEN: TableDefinition<&str, &[u8]> = TableDefinition::new("forgotten");
/// Public name → API key.
const KEYS: TableDefinition<&str, &[u8]> = TableDefinition::new("keys");

/// The entries that a commit deletes besides twice as many as it writes: the log shrinks faster than it grows, and no commit
/// takes long.
const CHUNK: usize = 256;

const FORMAT_KEY: &str = "format";
const EPOCH_KEY: &str = "epoch";
/// The generation of the journal that the database has not taken over, and whether there is a journal.
const GENERATION_KEY: &str = "generation";
const JOURNAL_KEY: &str = "journal";

/// Everything redb may say while a transaction is under way.
fn failed(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        error @ (redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableDoesNotExist(_)
        | redb::Error::TypeDefinitionChanged { .. }) => StoreError::Damaged {
            reason: error.to_string(),
        },
        error => StoreError::Unavailable {
            reason: error.to_string(),
        },
    }
}

/// Makes the tables.
pub(super) fn make(db: &Database) -> Result<(), StoreError> {
    let write = db.begin_write().map_err(failed)?;
    write.open_table(ACCOUNTS).map_err(failed)?;
    write.open_table(FILES).map_err(failed)?;
    write.open_table(ENTRIES).map_err(failed)?;
    write.open_table(REQUESTS).map_err(failed)?;
    write.open_table(FORGOTTEN).map_err(failed)?;
    write.open_table(KEYS).map_err(failed)?;
    set_meta(&write, FORMAT_KEY, u64::from(FORMAT))?;
    set_meta(&write, EPOCH_KEY, 0)?;
    set_meta(&write, GENERATION_KEY, 0)?;
    set_meta(&write, JOURNAL_KEY, 0)?;
    write.commit().map_err(failed)
}

/// Refuses a redb file that is not ours. One of the format before, which had no journal, becomes one of this format.
pub(super) fn recognise(db: &Database) -> Result<(), StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let ours = read
        .list_tables()
        .map_err(failed)?
        .any(|table| table.name() == META.name());
    if !ours {
        return Err(foreign("a redb file of another program"));
    }
    match meta(&read, FORMAT_KEY)? {
        format if format == u64::from(FORMAT) => Ok(()),
        1 => {
            let write = db.begin_write().map_err(failed)?;
            set_meta(&write, FORMAT_KEY, u64::from(FORMAT))?;
            set_meta(&write, GENERATION_KEY, 0)?;
            set_meta(&write, JOURNAL_KEY, 0)?;
            write.commit().map_err(failed)
        }
        format => Err(foreign(&format!("format {format}"))),
    }
}

/// The bytes of the file that are in use.
pub(super) fn in_use(db: &Database) -> Result<u64, StoreError> {
    let write = db.begin_write().map_err(failed)?;
    let stats = write.stats().map_err(failed)?;
    write.abort().map_err(failed)?;
    Ok(stats.stored_bytes() + stats.metadata_bytes())
}

fn meta(read: &ReadTransaction, key: &str) -> Result<u64, StoreError> {
    let table = read.open_table(META).map_err(failed)?;
    let value = table.get(key).map_err(failed)?;
    let value = value.ok_or_else(|| StoreError::Damaged {
        reason: format!("no {key}"),
    })?;
    number(&[key.as_bytes()], value.value())
}

fn set_meta(write: &WriteTransaction, key: &str, value: u64) -> Result<(), StoreError> {
    let mut table = write.open_table(META).map_err(failed)?;
    let sealed = seal(&[key.as_bytes()], &value.to_le_bytes());
    table.insert(key, &*sealed).map_err(failed)?;
    Ok(())
}

/// The number in sealed bytes.
fn number(key: &[&[u8]], sealed: &[u8]) -> Result<u64, StoreError> {
    let bytes = unseal(key, sealed)?;
    bytes
        .try_into()
        .map(u64::from_le_bytes)
        .map_err(|_| StoreError::Damaged {
            reason: "expected a number of eight bytes".to_owned(),
        })
}

pub(super) fn epoch(db: &Database) -> Result<u64, StoreError> {
    meta(&db.begin_read().map_err(failed)?, EPOCH_KEY)
}

/// Begins an epoch that nobody had before.
pub(super) fn next_epoch(db: &Database) -> Result<u64, StoreError> {
    let next = epoch(db)? + 1;
    let write = db.begin_write().map_err(failed)?;
    set_meta(&write, EPOCH_KEY, next)?;
    write.commit().map_err(failed)?;
    Ok(next)
}

/// The generation of the journal that holds what the database does not, and whether there is such a journal.
pub(super) fn generation(db: &Database) -> Result<(u64, bool), StoreError> {
    let read = db.begin_read().map_err(failed)?;
    Ok((meta(&read, GENERATION_KEY)?, meta(&read, JOURNAL_KEY)? != 0))
}

pub(super) fn accounts(db: &Database) -> Result<Vec<String>, StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let table = read.open_table(ACCOUNTS).map_err(failed)?;
    let names = table
        .iter()
        .map_err(failed)?
        .map(|row| Ok(row.map_err(failed)?.0.value().to_owned()));
    names.collect()
}

pub(super) fn account(db: &Database, name: &str) -> Result<Option<AccountRecord>, StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let table = read.open_table(ACCOUNTS).map_err(failed)?;
    let value = table.get(name).map_err(failed)?;
    value
        .map(|value| unseal_json(&[name.as_bytes()], value.value()))
        .transpose()
}

pub(super) fn file(db: &Database, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let table = read.open_table(FILES).map_err(failed)?;
    let value = table.get(digest).map_err(failed)?;
    value
        .map(|value| unseal(&[digest.as_bytes()], value.value()).map(<[u8]>::to_vec))
        .transpose()
}

pub(super) fn entries(
    db: &Database,
    account: &str,
    period: u64,
    from: u64,
    most: usize,
) -> Result<Vec<Entry>, StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let forgotten = read.open_table(FORGOTTEN).map_err(failed)?;
    if period < kept(&forgotten, account)? {
        return Ok(Vec::new());
    }
    let table = read.open_table(ENTRIES).map_err(failed)?;
    let range = table
        .range((account, period, from)..=(account, period, u64::MAX))
        .map_err(failed)?;
    let rows = range.take(most).map(|row| {
        let (key, value) = row.map_err(failed)?;
        let (account, period, number) = key.value();
        unseal_entry(account, period, number, value.value())
    });
    rows.collect()
}

/// The entries of requests, all in one transaction: to begin one and to open its tables costs more than a lookup.
pub(super) fn by_keys(db: &Database, wanted: &[Wanted<'_>]) -> Result<Vec<Option<Entry>>, StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let forgotten = read.open_table(FORGOTTEN).map_err(failed)?;
    let requests = read.open_table(REQUESTS).map_err(failed)?;
    let find = |wanted: &Wanted<'_>| {
        let Wanted {
            account,
            periods,
            key,
        } = wanted;
        let first = kept(&forgotten, account)?.max(*periods.start());
        for period in (first..=*periods.end()).rev() {
            let Some(sealed) = requests.get((*account, period, *key)).map_err(failed)? else {
                continue;
            };
            let number = number(&request_key(account, &period.to_le_bytes(), key), sealed.value())?;
            let table = read.open_table(ENTRIES).map_err(failed)?;
            let value = table.get((*account, period, number)).map_err(failed)?;
            let value = value.ok_or_else(|| StoreError::Damaged {
                reason: format!("{account} {period}-{number}: its key is there, the entry is not"),
            })?;
            return unseal_entry(account, period, number, value.value()).map(Some);
        }
        Ok(None)
    };
    wanted.iter().map(find).collect()
}

pub(super) fn keys(db: &Database) -> Result<Vec<ApiKey>, StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let table = read.open_table(KEYS).map_err(failed)?;
    let rows = table.iter().map_err(failed)?.map(|row| {
        let (id, value) = row.map_err(failed)?;
        unseal_json(&[id.value().as_bytes()], value.value())
    });
    rows.collect()
}

/// The first period of an account that is kept.
fn kept(forgotten: &ReadOnlyTable<&'static str, &'static [u8]>, account: &str) -> Result<u64, StoreError> {
    let value = forgotten.get(account).map_err(failed)?;
    value.map_or(Ok(0), |value| number(&[account.as_bytes()], value.value()))
}

fn request_key<'a>(account: &'a str, period: &'a [u8], key: &'a str) -> [&'a [u8]; 3] {
    [account.as_bytes(), period, key.as_bytes()]
}

/// A line of a log as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) account: String,
    pub(super) period: u64,
    pub(super) number: u64,
    /// The idempotency key of its request.
    pub(super) key: Option<String>,
    pub(super) sealed: Vec<u8>,
}

impl Line {
    pub(super) fn new(account: &str, entry: &Entry) -> Result<Self, StoreError> {
        Ok(Self::sealed(account, entry, seal_entry(account, entry)?))
    }

    pub(super) fn sealed(account: &str, entry: &Entry, sealed: Vec<u8>) -> Self {
        Self {
            account: account.to_owned(),
            period: entry.period,
            number: entry.number,
            key: entry.request.as_ref().map(|request| request.key.clone()),
            sealed,
        }
    }

    /// What no other line may have: the number, and the key of the request. No name has the byte that ends it.
    pub(super) fn marks(&self) -> impl Iterator<Item = Vec<u8>> {
        let mark =
            |last: &[u8]| [self.account.as_bytes(), b"\xff", &self.period.to_le_bytes(), last].concat();
        let number = mark(&[b"#", &self.number.to_le_bytes()[..]].concat());
        let key = self
            .key
            .as_ref()
            .map(|key| mark(&[b"k", key.as_bytes()].concat()));
        std::iter::once(number).chain(key)
    }

    pub(super) fn fenced(&self) -> StoreError {
        StoreError::Fenced {
            account: self.account.clone(),
        }
    }
}

/// Refuses lines that the database has already, by their numbers or keys.
pub(super) fn expect_new(db: &Database, lines: &[Line]) -> Result<(), StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let entries = read.open_table(ENTRIES).map_err(failed)?;
    let requests = read.open_table(REQUESTS).map_err(failed)?;
    for line in lines {
        let (account, period) = (line.account.as_str(), line.period);
        let entry = entries.get((account, period, line.number)).map_err(failed)?;
        let known = match &line.key {
            Some(key) => requests.get((account, period, key.as_str())).map_err(failed)?,
            None => None,
        };
        if entry.is_some() || known.is_some() {
            return Err(line.fenced());
        }
    }
    Ok(())
}

/// Writes lines of the journal and then a batch, all of it or nothing, and begins another generation of the journal.
pub(super) fn commit(
    db: &Database,
    lines: &[Line],
    batch: &Batch,
    (generation, journal): (u64, bool),
) -> Result<(), StoreError> {
    let write = db.begin_write().map_err(failed)?;
    let outcome = write_all(&write, lines, batch)
        .and_then(|()| set_meta(&write, GENERATION_KEY, generation))
        .and_then(|()| set_meta(&write, JOURNAL_KEY, u64::from(journal)));
    if outcome.is_err() {
        // The fault is told, not that of aborting; an aborted transaction leaves nothing in any case.
        let _ = write.abort();
        return outcome;
    }
    write.commit().map_err(failed)
}

/// The number of entries in the file, those included that are forgotten.
#[cfg(test)]
pub(super) fn stored(db: &Database) -> Result<u64, StoreError> {
    let read = db.begin_read().map_err(failed)?;
    read.open_table(ENTRIES).map_err(failed)?.len().map_err(failed)
}

/// Deletes a chunk of what is forgotten, if there is any.
pub(super) fn tidy(db: &Database) -> Result<(), StoreError> {
    let read = db.begin_read().map_err(failed)?;
    let nothing = read
        .open_table(FORGOTTEN)
        .map_err(failed)?
        .is_empty()
        .map_err(failed)?;
    drop(read);
    if nothing {
        return Ok(());
    }
    let write = db.begin_write().map_err(failed)?;
    forget_chunk(&write, CHUNK)?;
    write.commit().map_err(failed)
}

fn write_all(write: &WriteTransaction, lines: &[Line], batch: &Batch) -> Result<(), StoreError> {
    {
        let mut entries = write.open_table(ENTRIES).map_err(failed)?;
        let mut requests = write.open_table(REQUESTS).map_err(failed)?;
        let mut append = |line: &Line| {
            let (account, period, number) = (line.account.as_str(), line.period, line.number);
            let old = entries
                .insert((account, period, number), &*line.sealed)
                .map_err(failed)?;
            if old.is_some() {
                return Err(line.fenced());
            }
            if let Some(key) = &line.key {
                let sealed = seal(
                    &request_key(account, &period.to_le_bytes(), key),
                    &number.to_le_bytes(),
                );
                let old = requests
                    .insert((account, period, key.as_str()), &*sealed)
                    .map_err(failed)?;
                if old.is_some() {
                    return Err(line.fenced());
                }
            }
            Ok(())
        };
        for line in lines {
            append(line)?;
        }
        for one in &batch.writes {
            match one {
                Write::Append { account, entry } => append(&Line::new(account, entry)?)?,
                one => write_one(write, one)?,
            }
        }
    }
    forget_chunk(write, CHUNK + 2 * (lines.len() + batch.writes.len()))
}

fn write_one(write: &WriteTransaction, one: &Write) -> Result<(), StoreError> {
    match one {
        Write::Account(record) => {
            let name = record.spec.name.as_str();
            let sealed = seal_json(&[name.as_bytes()], record)?;
            write
                .open_table(ACCOUNTS)
                .map_err(failed)?
                .insert(name, &*sealed)
                .map_err(failed)?;
        }
        Write::File { digest, bytes } => {
            let mut files = write.open_table(FILES).map_err(failed)?;
            if files.get(digest.as_str()).map_err(failed)?.is_none() {
                let sealed = seal(&[digest.as_bytes()], bytes);
                files.insert(digest.as_str(), &*sealed).map_err(failed)?;
            }
        }
        Write::Forget { account, before } => {
            let mut forgotten = write.open_table(FORGOTTEN).map_err(failed)?;
            let sealed = seal(&[account.as_bytes()], &before.to_le_bytes());
            forgotten.insert(account.as_str(), &*sealed).map_err(failed)?;
        }
        Write::Key(key) => {
            let sealed = seal_json(&[key.id.as_bytes()], key)?;
            write
                .open_table(KEYS)
                .map_err(failed)?
                .insert(key.id.as_str(), &*sealed)
                .map_err(failed)?;
        }
        Write::RevokeKey { id } => {
            write
                .open_table(KEYS)
                .map_err(failed)?
                .remove(id.as_str())
                .map_err(failed)?;
        }
        // Appended by the caller, which has the tables open.
        Write::Append { .. } => {}
    }
    Ok(())
}

/// Deletes at most so many entries of periods that are forgotten, and as many keys.
fn forget_chunk(write: &WriteTransaction, most: usize) -> Result<(), StoreError> {
    let mut forgotten = write.open_table(FORGOTTEN).map_err(failed)?;
    let mut finished = BTreeSet::new();
    let mut left = most;
    for row in forgotten.iter().map_err(failed)? {
        let (account, sealed) = row.map_err(failed)?;
        let account = account.value();
        let before = number(&[account.as_bytes()], sealed.value())?;
        let mut entries = write.open_table(ENTRIES).map_err(failed)?;
        let range = (account, 0, 0)..(account, before, 0);
        let mut deleted = 0;
        for row in entries
            .extract_from_if(range, |_, _| true)
            .map_err(failed)?
            .take(left)
        {
            row.map_err(failed)?;
            deleted += 1;
        }
        let mut requests = write.open_table(REQUESTS).map_err(failed)?;
        let range = (account, 0, "")..(account, before, "");
        let mut keys = 0;
        for row in requests
            .extract_from_if(range, |_, _| true)
            .map_err(failed)?
            .take(left)
        {
            row.map_err(failed)?;
            keys += 1;
        }
        if deleted.max(keys) == left {
            break;
        }
        left -= deleted.max(keys);
        finished.insert(account.to_owned());
    }
    for account in finished {
        forgotten.remove(account.as_str()).map_err(failed)?;
    }
    Ok(())
}
