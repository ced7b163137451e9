//! PostgreSQL: several nodes, each account written by one of them.
//!
//! A node owns an account by a lease, which ends by the database's clock, and by an epoch that no other claim ever had. Every
//! commit is one statement that locks the leases of its accounts and compares the epochs: whoever takes an account over waits
//! for it, and a node that was taken over from cannot write, however late it comes back. A lease that ended while nobody wanted
//! the account does no harm.

mod schema;
mod session;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use session::Server;
use tokio_postgres::types::ToSql;

use super::codec::{seal, seal_entry, seal_json, unseal, unseal_entry, unseal_json};
use super::{AccountRecord, Batch, Claim, Store, StoreError, Wanted, Write};
use crate::entry::{ApiKey, Entry};

/// The store in PostgreSQL.
///
/// It runs what it asks on a runtime of its own, so that it must not be used from within an asynchronous one. The connection is
/// encrypted, and the server's certificate verified, if the URL says `sslmode=verify-full` (or `require`), with `sslrootcert=FILE`
/// for other certificates than those that the system trusts. A pooler between must keep sessions.
pub struct Postgres {
    server: Server,
    node: String,
    address: String,
    lease: Duration,
    /// How often leases are renewed, and when they were.
    interval: Duration,
    renewed: Option<Instant>,
    /// The accounts that this node owns, and the epochs.
    owned: BTreeMap<String, u64>,
}

impl Postgres {
    /// Connects, and makes the tables or brings them up to date.
    ///
    /// `node` is the name by which this node is known again after a restart, `address` the base URL at which others find it, and
    /// `lease` the time after which another node may take over its accounts. Leases are renewed by the calls of
    /// [`Store::renew`], each fourth part of that time and not more often.
    ///
    /// # Errors
    /// [`StoreError::Version`] for tables of a later version or of another program, [`StoreError::Unavailable`] when the server
    /// does not answer or does not let this node in.
    pub fn connect(url: &str, node: &str, address: &str, lease: Duration) -> Result<Self, StoreError> {
        Ok(Self {
            server: Server::connect(url)?,
            node: node.to_owned(),
            address: address.to_owned(),
            lease,
            interval: lease / 4,
            renewed: None,
            owned: BTreeMap::new(),
        })
    }

    /// Renews the leases in another interval.
    #[must_use]
    pub fn renewing_every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }
}

/// Accounts and epochs as columns.
fn columns(epochs: &BTreeMap<String, u64>) -> (Vec<&str>, Vec<i64>) {
    epochs
        .iter()
        .map(|(account, epoch)| (account.as_str(), signed(*epoch)))
        .unzip()
}

/// Numbers beyond PostgreSQL's are never reached: as bounds of a range they become its largest.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of PostgreSQL's that was written as an unsigned one.
fn unsigned(number: i64) -> u64 {
    number.unsigned_abs()
}

impl Store for Postgres {
    fn accounts(&mut self) -> Result<Vec<String>, StoreError> {
        let rows = self
            .server
            .ask(async |session| session.client.query(&session.accounts, &[]).await)?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    fn account(&mut self, name: &str) -> Result<Option<AccountRecord>, StoreError> {
        let row = self
            .server
            .ask(async |session| session.client.query_opt(&session.account, &[&name]).await)?;
        row.map(|row| unseal_json(&[name.as_bytes()], row.get(0)))
            .transpose()
    }

    fn file(&mut self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let row = self
            .server
            .ask(async |session| session.client.query_opt(&session.file, &[&digest]).await)?;
        row.map(|row| unseal(&[digest.as_bytes()], row.get(0)).map(<[u8]>::to_vec))
            .transpose()
    }

    fn entries(
        &mut self,
        account: &str,
        period: u64,
        from: u64,
        most: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let (Ok(first), Ok(start)) = (i64::try_from(period), i64::try_from(from)) else {
            return Ok(Vec::new());
        };
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 4] = [&account, &first, &start, &most];
        let rows = self
            .server
            .ask(async |session| session.client.query(&session.entries, &parameters).await)?;
        let entries = rows
            .iter()
            .map(|row| unseal_entry(account, period, unsigned(row.get(0)), row.get(1)));
        entries.collect()
    }

    fn by_key(
        &mut self,
        account: &str,
        periods: RangeInclusive<u64>,
        key: &str,
    ) -> Result<Option<Entry>, StoreError> {
        let mut found = self.by_keys(&[Wanted {
            account,
            periods,
            key,
        }])?;
        Ok(found.pop().flatten())
    }

    fn by_keys(&mut self, wanted: &[Wanted<'_>]) -> Result<Vec<Option<Entry>>, StoreError> {
        let accounts: Vec<_> = wanted.iter().map(|one| one.account).collect();
        let firsts: Vec<_> = wanted.iter().map(|one| signed(*one.periods.start())).collect();
        let lasts: Vec<_> = wanted.iter().map(|one| signed(*one.periods.end())).collect();
        let keys: Vec<_> = wanted.iter().map(|one| one.key).collect();
        let parameters: [&(dyn ToSql + Sync); 4] = [&accounts, &firsts, &lasts, &keys];
        let rows = self
            .server
            .ask(async |session| session.client.query(&session.by_keys, &parameters).await)?;
        let mut found = vec![None; wanted.len()];
        for row in rows {
            let (place, period, number): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
            let place = usize::try_from(place - 1).unwrap_or(usize::MAX);
            if let (Some(one), Some(slot)) = (wanted.get(place), found.get_mut(place)) {
                *slot = Some(unseal_entry(
                    one.account,
                    unsigned(period),
                    unsigned(number),
                    row.get(3),
                )?);
            }
        }
        Ok(found)
    }

    fn keys(&mut self) -> Result<Vec<ApiKey>, StoreError> {
        let rows = self
            .server
            .ask(async |session| session.client.query(&session.keys, &[]).await)?;
        rows.iter()
            .map(|row| unseal_json(&[row.get::<_, &str>(0).as_bytes()], row.get(1)))
            .collect()
    }

    fn claim(&mut self, account: &str) -> Result<Claim, StoreError> {
        self.owned.remove(account);
        let seconds = self.lease.as_secs_f64();
        let parameters: [&(dyn ToSql + Sync); 4] = [&account, &self.node, &self.address, &seconds];
        // Between the two questions the owner may have gone: then the first is asked again.
        for _ in 0..3 {
            let row = self
                .server
                .ask(async |session| session.client.query_opt(&session.claim, &parameters).await)?;
            if let Some(row) = row {
                let epoch = unsigned(row.get(0));
                self.owned.insert(account.to_owned(), epoch);
                return Ok(Claim::Owned { epoch });
            }
            let row = self
                .server
                .ask(async |session| session.client.query_opt(&session.owner, &[&account]).await)?;
            if let Some(row) = row {
                return Ok(Claim::Elsewhere { address: row.get(0) });
            }
        }
        Err(StoreError::Unavailable {
            reason: format!("account `{account}` changes its owner again and again"),
        })
    }

    fn owns(&self, account: &str) -> bool {
        self.owned.contains_key(account)
    }

    fn renew(&mut self) -> Result<Vec<String>, StoreError> {
        let due = self
            .renewed
            .is_none_or(|renewed| renewed.elapsed() >= self.interval);
        if !due || self.owned.is_empty() {
            return Ok(Vec::new());
        }
        // A lease lasts from the moment at which the server reads its clock, which is later.
        let now = Instant::now();
        let (accounts, epochs) = columns(&self.owned);
        let seconds = self.lease.as_secs_f64();
        let parameters: [&(dyn ToSql + Sync); 3] = [&accounts, &epochs, &seconds];
        let rows = self
            .server
            .ask(async |session| session.client.query(&session.renew, &parameters).await)?;
        let renewed: BTreeSet<&str> = rows.iter().map(|row| row.get(0)).collect();
        let lost: Vec<_> = self
            .owned
            .keys()
            .filter(|account| !renewed.contains(account.as_str()))
            .cloned()
            .collect();
        self.owned.retain(|account, _| renewed.contains(account.as_str()));
        self.renewed = Some(now);
        Ok(lost)
    }

    fn release(&mut self) -> Result<(), StoreError> {
        let (accounts, epochs) = columns(&self.owned);
        let parameters: [&(dyn ToSql + Sync); 2] = [&accounts, &epochs];
        self.server
            .ask(async |session| session.client.execute(&session.release, &parameters).await)?;
        self.owned.clear();
        Ok(())
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        // The database has the last word on epochs; here it is only whether there is one for every account.
        batch.fenced(|_, epoch| i64::try_from(epoch).is_ok())?;
        let rows = Rows::new(batch)?;
        let (claimed, epochs) = columns(&batch.epochs);
        let parameters: [&(dyn ToSql + Sync); 11] = [
            &claimed,
            &epochs,
            &rows.accounts,
            &rows.periods,
            &rows.numbers,
            &rows.keys,
            &rows.entries,
            &rows.kinds,
            &rows.names,
            &rows.bodies,
            &rows.befores,
        ];
        let outcome = self
            .server
            .ask(async |session| session.client.execute(&session.commit, &parameters).await);
        if let Err(StoreError::Fenced { account }) = &outcome {
            self.owned.remove(account);
        }
        outcome.map(drop)
    }
}

/// A batch in columns: the entries, and the other changes in their order.
#[derive(Default)]
struct Rows<'a> {
    accounts: Vec<&'a str>,
    periods: Vec<i64>,
    numbers: Vec<i64>,
    keys: Vec<Option<&'a str>>,
    entries: Vec<Vec<u8>>,
    kinds: Vec<&'static str>,
    names: Vec<&'a str>,
    bodies: Vec<Vec<u8>>,
    befores: Vec<i64>,
}

impl<'a> Rows<'a> {
    fn new(batch: &'a Batch) -> Result<Self, StoreError> {
        let mut rows = Self::default();
        for write in &batch.writes {
            match write {
                Write::Append { account, entry } => rows.append(account, entry)?,
                Write::Account(record) => {
                    let name = record.spec.name.as_str();
                    rows.other("account", name, seal_json(&[name.as_bytes()], record)?, 0);
                }
                Write::File { digest, bytes } => {
                    rows.other("file", digest, seal(&[digest.as_bytes()], bytes), 0);
                }
                Write::Key(key) => {
                    rows.other("key", &key.id, seal_json(&[key.id.as_bytes()], key)?, 0);
                }
                Write::RevokeKey { id } => rows.other("revoke", id, Vec::new(), 0),
                Write::Forget { account, before } => {
                    rows.other("forget", account, Vec::new(), signed(*before));
                }
            }
        }
        Ok(rows)
    }

    fn append(&mut self, account: &'a str, entry: &'a Entry) -> Result<(), StoreError> {
        let (Ok(period), Ok(number)) = (i64::try_from(entry.period), i64::try_from(entry.number)) else {
            return Err(StoreError::Damaged {
                reason: format!(
                    "{account} {}-{}: expected numbers below 2^63",
                    entry.period, entry.number
                ),
            });
        };
        self.entries.push(seal_entry(account, entry)?);
        self.accounts.push(account);
        self.periods.push(period);
        self.numbers.push(number);
        self.keys
            .push(entry.request.as_ref().map(|request| request.key.as_str()));
        Ok(())
    }

    fn other(&mut self, kind: &'static str, name: &'a str, body: Vec<u8>, before: i64) {
        self.kinds.push(kind);
        self.names.push(name);
        self.bodies.push(body);
        self.befores.push(before);
    }
}
