//! A store with a test beside it, which sees every call first and may refuse it.

use std::ops::RangeInclusive;

use laau_serve::store::{AccountRecord, Batch, Claim, Store, StoreError, Wanted};
use laau_serve::{ApiKey, Entry};

/// A call that a watch may want to tell from the others.
pub(crate) enum Call<'a> {
    /// Of entries, by the keys of their requests.
    Lookup,
    /// Of the API keys.
    Keys,
    Commit(&'a Batch),
    Other,
}

/// What a test has to say about the calls of a store.
pub(crate) trait Watch: Send {
    /// Before a call reaches the store. A refused call does not.
    fn before(&mut self, _: Call<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// After a batch was written.
    fn committed(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The address of the node that owns every account, if that is not this one.
    fn owner(&self) -> Option<String> {
        None
    }
}

/// A store and its watch.
pub(crate) struct Watched<S, W>(pub(crate) S, pub(crate) W);

impl<S: Store, W: Watch> Store for Watched<S, W> {
    fn accounts(&mut self) -> Result<Vec<String>, StoreError> {
        self.1.before(Call::Other)?;
        self.0.accounts()
    }

    fn account(&mut self, name: &str) -> Result<Option<AccountRecord>, StoreError> {
        self.1.before(Call::Other)?;
        self.0.account(name)
    }

    fn file(&mut self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.1.before(Call::Other)?;
        self.0.file(digest)
    }

    fn entries(
        &mut self,
        account: &str,
        period: u64,
        from: u64,
        most: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.1.before(Call::Other)?;
        self.0.entries(account, period, from, most)
    }

    fn by_key(
        &mut self,
        account: &str,
        periods: RangeInclusive<u64>,
        key: &str,
    ) -> Result<Option<Entry>, StoreError> {
        self.1.before(Call::Lookup)?;
        self.0.by_key(account, periods, key)
    }

    fn by_keys(&mut self, wanted: &[Wanted<'_>]) -> Result<Vec<Option<Entry>>, StoreError> {
        self.1.before(Call::Lookup)?;
        self.0.by_keys(wanted)
    }

    fn keys(&mut self) -> Result<Vec<ApiKey>, StoreError> {
        self.1.before(Call::Keys)?;
        self.0.keys()
    }

    fn claim(&mut self, account: &str) -> Result<Claim, StoreError> {
        self.1.before(Call::Other)?;
        match self.1.owner() {
            Some(address) => Ok(Claim::Elsewhere { address }),
            None => self.0.claim(account),
        }
    }

    fn owns(&self, account: &str) -> bool {
        self.1.owner().is_none() && self.0.owns(account)
    }

    fn renew(&mut self) -> Result<Vec<String>, StoreError> {
        self.1.before(Call::Other)?;
        self.0.renew()
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.1.before(Call::Other)?;
        self.0.release()
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.1.before(Call::Commit(batch))?;
        self.0.commit(batch)?;
        self.1.committed()
    }
}
