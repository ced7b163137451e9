//! Where accounts, their logs, policies and API keys are kept.

mod codec;
mod embedded;
mod postgres;

pub use embedded::Embedded;
pub use postgres::Postgres;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::account::AccountSpec;
use crate::entry::{ApiKey, Entry};

/// Why a store did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Reading or writing failed, or its outcome is not known. It may pass.
    #[error("{reason}")]
    Unavailable {
        /// The store's own words.
        reason: String,
    },
    /// Another node has taken an account over: nothing was written.
    #[error("another node has taken over account `{account}`")]
    Fenced {
        /// The account, the first of several.
        account: String,
    },
    /// What is stored cannot be what was written.
    #[error("the store is damaged: {reason}")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
    /// A store of another version, or of another program.
    #[error("expected a store of format {expected}, found {found}")]
    Version {
        /// The version this program writes.
        expected: u32,
        /// What was found.
        found: String,
    },
    /// Another process has the store.
    #[error("the store is in use by another process")]
    Locked,
}

/// An account as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountRecord {
    /// Its settings.
    pub spec: AccountSpec,
    /// The policy files it was made with: name in the settings → SHA-256 of the bytes.
    pub files: BTreeMap<String, String>,
    /// The period that is open, if any has begun.
    pub period: Option<u64>,
    /// Whether it was closed for good.
    pub closed: bool,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
}

/// Who may write an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// This node, as long as nobody has a higher epoch.
    Owned {
        /// Part of every commit.
        epoch: u64,
    },
    /// Another node.
    Elsewhere {
        /// The base URL of that node.
        address: String,
    },
}

/// One change. A batch of them is written as a whole, and is durable when [`Store::commit`] returns.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A new account, or its changed record.
    Account(AccountRecord),
    /// The bytes of a policy file, under their SHA-256 in hexadecimal.
    File {
        /// SHA-256 of the bytes.
        digest: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A line of an account's log. A line that exists already is a fault: [`StoreError::Fenced`].
    Append {
        /// The account's name.
        account: String,
        /// The line.
        entry: Entry,
    },
    /// Entries of periods before this one are no longer needed.
    Forget {
        /// The account's name.
        account: String,
        /// The first period to keep.
        before: u64,
    },
    /// A new API key.
    Key(ApiKey),
    /// An API key that is revoked.
    RevokeKey {
        /// Its public name.
        id: String,
    },
}

/// What is written together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// The epoch under which this node owns each account that the batch writes to.
    pub epochs: BTreeMap<String, u64>,
    /// The changes, in order.
    pub writes: Vec<Write>,
}

impl Batch {
    /// Refuses the batch if it writes to an account without an epoch, or under one that is not valid.
    pub(crate) fn fenced(&self, valid: impl Fn(&str, u64) -> bool) -> Result<(), StoreError> {
        let stale = self
            .epochs
            .iter()
            .find(|(account, epoch)| !valid(account, **epoch))
            .map(|(account, _)| account.as_str());
        let written = self.writes.iter().filter_map(|write| match write {
            Write::Account(record) => Some(record.spec.name.as_str()),
            Write::Append { account, .. } | Write::Forget { account, .. } => Some(account.as_str()),
            Write::File { .. } | Write::Key(_) | Write::RevokeKey { .. } => None,
        });
        let unclaimed = written
            .into_iter()
            .find(|account| !self.epochs.contains_key(*account));
        match stale.or(unclaimed) {
            Some(account) => Err(StoreError::Fenced {
                account: account.to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// A request that is looked for by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The account.
    pub account: &'a str,
    /// The periods in which it may be.
    pub periods: RangeInclusive<u64>,
    /// The key.
    pub key: &'a str,
}

/// A store: durable, with all-or-nothing batches. One thread of the authority owns it, so that its calls may block.
pub trait Store: Send {
    /// The names of all accounts.
    ///
    /// # Errors
    /// As every method: see [`StoreError`].
    fn accounts(&mut self) -> Result<Vec<String>, StoreError>;

    /// An account.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn account(&mut self, name: &str) -> Result<Option<AccountRecord>, StoreError>;

    /// The bytes of a policy file, by their digest, which the caller checks.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn file(&mut self, digest: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Entries of a period in order, from a number on, at most so many.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn entries(
        &mut self,
        account: &str,
        period: u64,
        from: u64,
        most: usize,
    ) -> Result<Vec<Entry>, StoreError>;

    /// The entry of a request, by its key, in the given periods; the newest, should there be several.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn by_key(
        &mut self,
        account: &str,
        periods: RangeInclusive<u64>,
        key: &str,
    ) -> Result<Option<Entry>, StoreError>;

    /// The entries of several requests at once, in their order: one way to a server and back.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn by_keys(&mut self, wanted: &[Wanted<'_>]) -> Result<Vec<Option<Entry>>, StoreError> {
        let one = |wanted: &Wanted<'_>| self.by_key(wanted.account, wanted.periods.clone(), wanted.key);
        wanted.iter().map(one).collect()
    }

    /// All API keys.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn keys(&mut self) -> Result<Vec<ApiKey>, StoreError>;

    /// Asks for an account before anything of it is read: afterwards nobody else can write it, unless this node's lease ends.
    ///
    /// A store of one process owns every account.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn claim(&mut self, account: &str) -> Result<Claim, StoreError>;

    /// Whether an account can be read as its owner without taking it from other nodes: this one has claimed it before, or there
    /// are no others.
    fn owns(&self, account: &str) -> bool;

    /// Renews the leases of the accounts that this node owns; gives the names of those it has lost.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn renew(&mut self) -> Result<Vec<String>, StoreError>;

    /// Gives up the leases, so that another node need not wait for their end.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn release(&mut self) -> Result<(), StoreError>;

    /// Writes a batch, all of it or nothing; it is durable when this returns.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when an epoch is not the account's any more: nothing was written. After
    /// [`StoreError::Unavailable`] the outcome is unknown: the caller reads the accounts anew.
    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError>;
}
