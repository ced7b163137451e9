//! What only a broken disk shows.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use redb::backends::FileBackend;
use redb::{Builder, StorageBackend};

use super::book::Book;
use super::journal::Journal;
use super::{Embedded, State, tables};
use crate::entry::{Entry, Event};
use crate::store::{Batch, Claim, Store, StoreError, Write};

/// A disk that takes so many more writes and syncs, and then none.
#[derive(Debug)]
struct Failing {
    disk: FileBackend,
    left: Arc<AtomicI64>,
}

impl Failing {
    fn spend(&self) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Ok(());
        }
        Err(io::ErrorKind::StorageFull.into())
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.spend()?;
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.spend()?;
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.spend()?;
        self.disk.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }
}

/// A store on a disk that fails when it is told to.
fn failing(path: PathBuf) -> (Embedded, Arc<AtomicI64>) {
    let left = Arc::new(AtomicI64::new(i64::MAX));
    drop(Embedded::open(&path).expect("a new store"));
    let shared = Arc::clone(&left);
    let opener = move || {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path);
        let failing = |file| Failing {
            disk: FileBackend::new(file).expect("it is free"),
            left: Arc::clone(&shared),
        };
        let opened = Builder::new().create_with_backend(failing(file.expect("it is there")));
        let db = opened.map_err(|error| StoreError::Unavailable {
            reason: error.to_string(),
        })?;
        Book::open(db, Journal::beside(&path), |file| Ok(Box::new(failing(file))))
    };
    (Embedded::new(Box::new(opener)).expect("opens"), left)
}

/// As if the time for which a file rests had passed.
fn rest(store: &mut Embedded) {
    if let State::Failed { at, .. } = &mut store.state {
        *at = Instant::now()
            .checked_sub(super::REST)
            .expect("the machine runs for more than a second");
    }
}

fn appending(store: &mut Embedded, number: u64) -> Result<Batch, StoreError> {
    let Claim::Owned { epoch } = store.claim("a")? else {
        unreachable!("an embedded store owns every account")
    };
    let event = Event::Skipped { steps: 1 };
    let entry = Entry {
        period: 0,
        number,
        event,
        request: None,
    };
    Ok(Batch {
        epochs: BTreeMap::from([("a".to_owned(), epoch)]),
        writes: vec![Write::Append {
            account: "a".to_owned(),
            entry,
        }],
    })
}

#[test]
fn a_full_disk_loses_nothing_and_passes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut store, left) = failing(folder.path().join("store"));
    // Each commit fails at another write, until all of them are reached.
    let (mut stored, mut failures) = (0_u64, 0_usize);
    for budget in 0..60 {
        let batch = appending(&mut store, stored).expect("the disk is not full yet");
        left.store(budget, Ordering::Relaxed);
        let outcome = store.commit(&batch);
        match &outcome {
            Ok(()) => {
                stored += 1;
                // The disk is as full while the database takes the journal over.
                let read = store.entries("a", 0, 0, usize::MAX);
                failures += usize::from(read.is_err());
            }
            Err(StoreError::Unavailable { .. }) => {
                failures += 1;
                // While it is full, and while the file rests.
                assert!(matches!(store.accounts(), Err(StoreError::Unavailable { .. })));
                rest(&mut store);
                assert!(matches!(
                    store.commit(&batch),
                    Err(StoreError::Unavailable { .. })
                ));
            }
            Err(error) => panic!("{error}"),
        }
        left.store(i64::MAX, Ordering::Relaxed);
        rest(&mut store);
        let found = store
            .entries("a", 0, 0, usize::MAX)
            .expect("there is room again")
            .len() as u64;
        // Whether a commit that failed was written is not known before.
        let ambiguous = u64::from(outcome.is_err());
        assert!(
            (stored..=stored + ambiguous).contains(&found),
            "{found} of {stored}"
        );
        stored = found;
    }
    assert!(
        failures > 5 && stored > 5,
        "{failures} failures, {stored} entries"
    );
}

#[test]
fn a_file_that_somebody_else_had_meanwhile_makes_old_epochs_invalid() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store");
    let (mut store, left) = failing(path.clone());
    let batch = appending(&mut store, 0).expect("the disk works");
    left.store(0, Ordering::Relaxed);
    assert!(store.commit(&batch).is_err());
    let mut other = Embedded::open(&path).expect("the file is free");
    let theirs = appending(&mut other, 0).expect("the disk works");
    other.commit(&theirs).expect("the disk works");
    drop(other);
    left.store(i64::MAX, Ordering::Relaxed);
    rest(&mut store);
    assert!(matches!(store.commit(&batch), Err(StoreError::Fenced { account }) if account == "a"));
    let ours = appending(&mut store, 1).expect("the disk works");
    store.commit(&ours).expect("a new epoch");
}

#[test]
fn a_store_that_makes_redb_panic_is_damaged_from_then_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut store = Embedded::open(folder.path().join("store")).expect("opens");
    let outcome: Result<(), _> = store.with(|_| panic!("a page that cannot be"));
    assert!(matches!(outcome, Err(StoreError::Damaged { reason }) if reason == "a page that cannot be"));
    assert!(matches!(store.accounts(), Err(StoreError::Damaged { .. })));
    assert!(matches!(
        store.commit(&Batch::default()),
        Err(StoreError::Damaged { .. })
    ));
}

#[test]
fn what_is_forgotten_is_deleted_in_the_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut store = Embedded::open(folder.path().join("store")).expect("opens");
    let mut batch = appending(&mut store, 0).expect("opens");
    let entry = |number| Entry {
        period: 0,
        number,
        event: Event::Skipped { steps: 1 },
        request: None,
    };
    let append = |number| Write::Append {
        account: "a".to_owned(),
        entry: entry(number),
    };
    batch.writes = (0..1000).map(append).collect();
    store.commit(&batch).expect("the disk works");
    let count = |store: &mut Embedded| store.read(tables::stored).expect("reads");
    assert_eq!(count(&mut store), 1000);
    batch.writes = vec![Write::Forget {
        account: "a".to_owned(),
        before: 1,
    }];
    store.commit(&batch).expect("the disk works");
    let mut counts = vec![count(&mut store)];
    assert!(counts[0] > 500, "a commit deletes a little at a time");
    for _ in 0..5 {
        store.renew().expect("the disk works");
        counts.push(count(&mut store));
    }
    assert_eq!(counts.last(), Some(&0), "{counts:?}");
}
