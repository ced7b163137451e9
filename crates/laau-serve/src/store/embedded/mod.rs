//! The embedded store: one file (redb), one process, nothing to install.
//!
//! A commit writes copies of the pages that it changes and then syncs once; after a crash the last commit is there as a whole or
//! not at all. Opening a file walks all of it and checks every page, so that a lookup that finds nothing can be believed.
//!
//! Commits that only append, which all decisions do, go to a journal beside the file first, at the cost of one write: see
//! [`book::Book`]. A store that was closed in order has no journal.

mod book;
mod file;
mod journal;
mod tables;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use book::Book;
use redb::Database;

use super::{AccountRecord, Batch, Claim, Store, StoreError, Wanted};
use crate::entry::{ApiKey, Entry};

/// The format this program writes.
const FORMAT: u32 = 2;

/// How long a file that failed is left alone before it is opened again.
const REST: Duration = Duration::from_secs(1);

/// How the file is opened, the first time and after a failure.
type Opener = Box<dyn Fn() -> Result<Book, StoreError> + Send>;

/// The embedded store.
///
/// After a failed read or write (a full disk, say) the file is closed, and opened again by a later call. When another process
/// had it in between, what this one knows of any account is out of date: its epochs are no longer valid.
pub struct Embedded {
    opener: Opener,
    state: State,
    /// How often the file was opened for writing: the epoch of every account.
    epoch: u64,
}

enum State {
    Open(Book),
    /// Reading or writing failed; it may pass.
    Failed {
        reason: String,
        at: Instant,
    },
    /// The file made redb panic: nothing of it can be believed.
    Broken {
        reason: String,
    },
}

impl Embedded {
    /// Opens a store, or makes one where no file is.
    ///
    /// # Errors
    /// [`StoreError::Version`] for a file of another version or of another program, [`StoreError::Locked`] for one in use,
    /// [`StoreError::Damaged`] for one whose pages are not as they were written, [`StoreError::Unavailable`] for one that cannot
    /// be read and written, or is no file at all.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        Self::new(Box::new(move || file::open(&path)))
    }

    fn new(opener: Opener) -> Result<Self, StoreError> {
        let mut store = Self {
            state: State::Open(guarded(&opener)?),
            opener,
            epoch: 0,
        };
        store.epoch = store.read(tables::next_epoch)?;
        Ok(store)
    }

    /// Lets the store do something, and takes it away if it fails.
    fn with<T>(&mut self, work: impl FnOnce(&mut Book) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.reopen()?;
        let book = match &mut self.state {
            State::Open(book) => book,
            State::Failed { reason, .. } => {
                return Err(StoreError::Unavailable {
                    reason: reason.clone(),
                });
            }
            State::Broken { reason } => {
                return Err(StoreError::Damaged {
                    reason: reason.clone(),
                });
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| work(book)));
        let (state, error) = match outcome {
            Ok(Err(StoreError::Unavailable { reason })) => (
                State::Failed {
                    reason: reason.clone(),
                    at: Instant::now(),
                },
                StoreError::Unavailable { reason },
            ),
            Ok(outcome) => return outcome,
            Err(panic) => {
                let reason = words(panic.as_ref());
                (
                    State::Broken {
                        reason: reason.clone(),
                    },
                    StoreError::Damaged { reason },
                )
            }
        };
        self.replace(state);
        Err(error)
    }

    /// Reads what is never in the journal.
    fn read<T>(&mut self, work: impl FnOnce(&Database) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.with(|book| work(book.database()))
    }

    /// Opens the file again after a failure, once it has rested.
    fn reopen(&mut self) -> Result<(), StoreError> {
        match &self.state {
            State::Failed { at, .. } if at.elapsed() >= REST => {}
            _ => return Ok(()),
        }
        let opened = guarded(&self.opener).and_then(|book| {
            // Somebody else had the file: an epoch of our own tells the commits that were prepared before.
            let epoch = match tables::epoch(book.database())? {
                epoch if epoch == self.epoch => epoch,
                _ => tables::next_epoch(book.database())?,
            };
            Ok((book, epoch))
        });
        match opened {
            Ok((book, epoch)) => {
                self.epoch = epoch;
                self.state = State::Open(book);
                Ok(())
            }
            Err(error) => {
                self.state = State::Failed {
                    reason: error.to_string(),
                    at: Instant::now(),
                };
                Err(error)
            }
        }
    }

    /// Closing a database writes to it, which may fail as well.
    fn replace(&mut self, state: State) {
        let old = std::mem::replace(&mut self.state, state);
        if catch_unwind(AssertUnwindSafe(|| drop(old))).is_err() {
            tracing::warn!("the store could not be closed in order");
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let closed = State::Broken {
            reason: "closed".to_owned(),
        };
        let State::Open(book) = std::mem::replace(&mut self.state, closed) else {
            return;
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| book.close()));
        if !matches!(outcome, Ok(Ok(()))) {
            tracing::warn!(
                "the store could not be closed in order: its journal is read when it is opened again"
            );
        }
    }
}

/// Opens a database; a file that makes redb panic is damaged.
fn guarded(opener: &Opener) -> Result<Book, StoreError> {
    catch_unwind(AssertUnwindSafe(opener)).unwrap_or_else(|panic| {
        Err(StoreError::Damaged {
            reason: words(panic.as_ref()),
        })
    })
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("reading it panicked").to_owned()
}

impl Store for Embedded {
    fn accounts(&mut self) -> Result<Vec<String>, StoreError> {
        self.read(tables::accounts)
    }

    fn account(&mut self, name: &str) -> Result<Option<AccountRecord>, StoreError> {
        self.read(|db| tables::account(db, name))
    }

    fn file(&mut self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|db| tables::file(db, digest))
    }

    fn entries(
        &mut self,
        account: &str,
        period: u64,
        from: u64,
        most: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.with(|book| tables::entries(book.settled()?, account, period, from, most))
    }

    fn by_key(
        &mut self,
        account: &str,
        periods: RangeInclusive<u64>,
        key: &str,
    ) -> Result<Option<Entry>, StoreError> {
        let wanted = Wanted {
            account,
            periods,
            key,
        };
        Ok(self.by_keys(&[wanted])?.pop().flatten())
    }

    fn by_keys(&mut self, wanted: &[Wanted<'_>]) -> Result<Vec<Option<Entry>>, StoreError> {
        self.with(|book| tables::by_keys(book.settled()?, wanted))
    }

    fn keys(&mut self) -> Result<Vec<ApiKey>, StoreError> {
        self.read(tables::keys)
    }

    fn claim(&mut self, _account: &str) -> Result<Claim, StoreError> {
        // A file that failed may have been somebody else's since: the epoch is that of the open one.
        self.with(|_| Ok(()))?;
        Ok(Claim::Owned { epoch: self.epoch })
    }

    fn owns(&self, _account: &str) -> bool {
        true
    }

    fn renew(&mut self) -> Result<Vec<String>, StoreError> {
        self.read(tables::tidy)?;
        Ok(Vec::new())
    }

    fn release(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.reopen()?;
        batch.fenced(|_, claimed| claimed == self.epoch)?;
        self.with(|book| book.commit(batch))
    }
}
