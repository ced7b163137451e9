//! Accounts, entries and batches to write.

use std::collections::BTreeMap;

use laau_serve::store::{AccountRecord, Batch, Claim, Store, Write};
use laau_serve::{AccountSpec, ApiKey, Entry, Event, KeyedRequest, PolicySource, Scope};

pub(super) fn record(name: &str, period: u64) -> AccountRecord {
    AccountRecord {
        spec: AccountSpec {
            name: name.to_owned(),
            problem: None,
            policy: PolicySource::Named {
                name: "equal".to_owned(),
                parameters: BTreeMap::from([("rate".to_owned(), vec![0.1, 1e-300])]),
            },
            guard: None,
            budgets: vec![10.0, 0.3],
            horizon: Some(20),
            period: None,
            rollover: true,
        },
        files: BTreeMap::from([("model.json".to_owned(), "0f".repeat(32))]),
        period: Some(period),
        closed: false,
        created: 1_700_000_000_000,
    }
}

/// An entry with the answer to its key.
pub(super) fn entry(period: u64, number: u64, key: &str) -> Entry {
    Entry {
        period,
        number,
        event: Event::Decided {
            at: 1_700_000_000_000 + number,
            context: vec![0.1 + number as f64, -0.0],
            action: vec![1.0 / 3.0, f64::MIN_POSITIVE],
        },
        request: Some(KeyedRequest {
            key: key.to_owned(),
            digest: "ab".repeat(32),
            status: 200,
            answer: format!("{{\"decision\":\"{period}-{number}\",\"action\":[0.3333333333333333]}}"),
        }),
    }
}

pub(super) fn append(account: &str, entry: Entry) -> Write {
    Write::Append {
        account: account.to_owned(),
        entry,
    }
}

pub(super) fn api_key(id: &str) -> ApiKey {
    ApiKey {
        id: id.to_owned(),
        hash: "cd".repeat(32),
        scope: Scope::Decide,
        account: Some("a".to_owned()),
        created: 5,
    }
}

/// A batch under the epochs that the store gives for these accounts.
pub(super) fn batch(store: &mut dyn Store, accounts: &[&str], writes: Vec<Write>) -> Batch {
    let claimed = accounts.iter().map(|account| {
        let claim = store.claim(account).expect("the store answers");
        let Claim::Owned { epoch } = claim else {
            panic!("expected to own {account}, found {claim:?}");
        };
        ((*account).to_owned(), epoch)
    });
    Batch {
        epochs: claimed.collect(),
        writes,
    }
}

/// Claims the accounts and writes.
pub(super) fn write(store: &mut dyn Store, accounts: &[&str], writes: Vec<Write>) {
    let batch = batch(store, accounts, writes);
    store.commit(&batch).expect("the store takes the batch");
}

/// All numbers of a period.
pub(super) fn numbers(store: &mut dyn Store, account: &str, period: u64) -> Vec<u64> {
    let entries = store
        .entries(account, period, 0, usize::MAX)
        .expect("the store answers");
    entries.iter().map(|entry| entry.number).collect()
}
