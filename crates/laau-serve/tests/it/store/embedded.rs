//! The embedded store's file: refused with a word when it is not ours, not whole or not free.

use std::fs;
use std::path::{Path, PathBuf};

use laau_serve::store::{Embedded, Store, StoreError, Write};

use super::Place;
use super::sample::{api_key, append, entry, numbers, record, write};

/// A folder with one store.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("store")
    }

    fn with(&self, bytes: &[u8]) -> Result<Embedded, StoreError> {
        fs::write(self.path(), bytes).expect("the folder can be written");
        Embedded::open(self.path())
    }
}

impl Place for Folder {
    fn open(&self) -> Box<dyn Store> {
        Box::new(Embedded::open(self.path()).expect("the store opens"))
    }
}

/// Fills a store; gives all that can be read from it.
fn fill(store: &mut Embedded) {
    for period in 0..2 {
        let appends = (0..30).map(|number| append("a", entry(period, number, &format!("{period}k{number}"))));
        let writes = [
            Write::Account(record("a", period)),
            Write::Account(record("b", 0)),
            Write::Key(api_key("k")),
            Write::File {
                digest: "d".to_owned(),
                bytes: vec![7; 9000],
            },
        ];
        write(store, &["a", "b"], writes.into_iter().chain(appends).collect());
    }
}

fn content(store: &mut dyn Store) -> Result<Vec<String>, StoreError> {
    let mut all = vec![format!(
        "{:?} {:?} {:?}",
        store.accounts()?,
        store.keys()?,
        store.file("d")?
    )];
    for account in ["a", "b"] {
        all.push(format!("{:?}", store.account(account)?));
        for period in 0..3 {
            all.push(format!("{:?}", store.entries(account, period, 0, usize::MAX)?));
            for number in 0..31 {
                let key = format!("{period}k{number}");
                all.push(format!("{:?}", store.by_key(account, period..=period, &key)?));
            }
        }
    }
    Ok(all)
}

fn refusal(outcome: Result<Embedded, StoreError>) -> StoreError {
    match outcome {
        Ok(_) => panic!("expected to be refused"),
        Err(error) => error,
    }
}

#[test]
fn a_store_in_use_is_locked() {
    let folder = Folder::new();
    let store = folder.open();
    assert!(matches!(
        refusal(Embedded::open(folder.path())),
        StoreError::Locked
    ));
    drop(store);
    folder.open();
}

#[test]
fn a_file_of_another_program_is_refused_and_not_touched() {
    let folder = Folder::new();
    for bytes in [&b"x"[..], b"redb", b"SQLite format 3\0and more", &[0; 5000]] {
        let error = refusal(folder.with(bytes));
        assert!(
            matches!(&error, StoreError::Version { found, .. } if found == "a file of another program"),
            "{error}"
        );
        assert_eq!(fs::read(folder.path()).expect("it is there"), bytes);
    }
}

#[test]
fn a_redb_file_of_another_program_is_refused() {
    let folder = Folder::new();
    let db = redb::Database::create(folder.path()).expect("a new file");
    let other = redb::TableDefinition::<&str, u64>::new("accounts");
    let transaction = db.begin_write().expect("begins");
    transaction
        .open_table(other)
        .expect("opens")
        .insert("a", 1)
        .expect("inserts");
    transaction.commit().expect("commits");
    drop(db);
    let error = refusal(Embedded::open(folder.path()));
    assert_eq!(
        error.to_string(),
        "expected a store of format 1, found a redb file of another program"
    );
}

#[test]
fn a_store_of_another_version_is_refused() {
    let folder = Folder::new();
    drop(folder.open());
    let db = redb::Database::create(folder.path()).expect("opens");
    let meta = redb::TableDefinition::<&str, &[u8]>::new("laau-serve");
    let transaction = db.begin_write().expect("begins");
    // The checksum is over the length of the key, the key and the value.
    let value = 2_u64.to_le_bytes();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&6_u64.to_le_bytes());
    hasher.update(b"format");
    hasher.update(&value);
    let sealed = [&hasher.finalize().to_le_bytes()[..], &value].concat();
    transaction
        .open_table(meta)
        .expect("opens")
        .insert("format", &*sealed)
        .expect("inserts");
    transaction.commit().expect("commits");
    drop(db);
    let error = refusal(Embedded::open(folder.path()));
    assert_eq!(error.to_string(), "expected a store of format 1, found format 2");
}

#[test]
fn what_is_no_file_or_cannot_be_written_is_refused() {
    let folder = Folder::new();
    let refused = |path: &Path| match refusal(Embedded::open(path)) {
        StoreError::Unavailable { reason } => reason,
        error => panic!("another error: {error:?}"),
    };
    assert!(refused(folder.0.path()).ends_with("expected a file"));
    assert!(refused(&folder.path().join("below/nothing")).contains("below/nothing"));
    assert!(refused(Path::new("")).len() > 1);
    #[cfg(unix)]
    {
        let fifo = folder.0.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.is_ok_and(|status| status.success()));
        assert!(refused(&fifo).ends_with("expected a file"));
        assert!(refused(Path::new("/dev/null")).ends_with("expected a file"));
        // Nobody writes here, root included.
        assert!(refused(Path::new("/proc/version")).contains("/proc/version"));
        assert!(refused(Path::new("/proc/store")).contains("/proc/store"));
    }
}

#[test]
fn an_empty_file_becomes_a_store() {
    let folder = Folder::new();
    let mut store = folder.with(b"").expect("as if it were not there");
    write(&mut store, &["a"], vec![append("a", entry(0, 0, "k"))]);
    drop(store);
    assert_eq!(numbers(&mut *folder.open(), "a", 0), [0]);
    let names: Vec<_> = fs::read_dir(folder.0.path()).expect("a folder").collect();
    assert_eq!(names.len(), 1);
}

/// A file with a fault is refused, each time, or holds what it held before; it never panics.
fn check_damage(folder: &Folder, bytes: &[u8], whole: &[String], what: &str) -> bool {
    let read = |outcome: Result<Embedded, StoreError>| outcome.and_then(|mut store| content(&mut store));
    let first = read(folder.with(bytes));
    let second = read(Embedded::open(folder.path()));
    for outcome in [&first, &second] {
        match outcome {
            Ok(content) => assert!(content == whole, "{what}: the content differs"),
            Err(StoreError::Damaged { .. } | StoreError::Version { .. }) => {}
            Err(error) => panic!("{what}: {error:?}"),
        }
    }
    first.is_err() || second.is_err()
}

#[test]
fn a_damaged_file_is_refused_or_holds_what_it_held() {
    let folder = Folder::new();
    let mut store = Embedded::open(folder.path()).expect("opens");
    fill(&mut store);
    let whole = content(&mut store).expect("reads");
    drop(store);
    let bytes = fs::read(folder.path()).expect("reads");
    assert!(!check_damage(&folder, &bytes, &whole, "unchanged"));
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).expect("31 bits") % below
    };
    // Free space is of no interest.
    let used: Vec<usize> = (0..bytes.len()).filter(|&place| bytes[place] != 0).collect();
    let mut refused = 0;
    for case in 0..120 {
        let place = if case < 40 {
            draw(400)
        } else {
            used[draw(used.len())]
        };
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << draw(8);
        refused += usize::from(check_damage(
            &folder,
            &damaged,
            &whole,
            &format!("a bit of byte {place}"),
        ));
    }
    for _ in 0..15 {
        let length = draw(bytes.len());
        let what = format!("cut to {length} bytes");
        refused += usize::from(check_damage(&folder, &bytes[..length], &whole, &what));
        let start = used[draw(used.len())];
        let end = (start + 1 + draw(5000)).min(bytes.len());
        let mut damaged = bytes.clone();
        damaged[start..end].fill(0);
        let what = format!("zeros from {start} to {end}");
        refused += usize::from(check_damage(&folder, &damaged, &whole, &what));
    }
    assert!(refused > 60, "{refused} of 150 were noticed");
}

#[test]
fn damage_after_a_kill_is_refused_or_takes_back_the_last_commit() {
    let folder = Folder::new();
    let mut store = Embedded::open(folder.path()).expect("opens");
    fill(&mut store);
    let before = content(&mut store).expect("reads");
    let old = fs::read(folder.path()).expect("reads");
    write(&mut store, &["a"], vec![append("a", entry(2, 0, "2k0"))]);
    let whole = content(&mut store).expect("reads");
    assert_ne!(before, whole);
    // What a kill leaves: the file was not closed.
    let bytes = fs::read(folder.path()).expect("reads");
    drop(store);
    let changed: Vec<usize> = (0..bytes.len())
        .filter(|&place| old.get(place) != Some(&bytes[place]))
        .collect();
    let (mut refused, mut taken_back, mut unharmed) = (0, 0, 0);
    for &place in changed.iter().step_by(changed.len() / 150 + 1) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        match folder.with(&damaged).and_then(|mut store| content(&mut store)) {
            Ok(content) if content == whole => unharmed += 1,
            Ok(content) if content == before => taken_back += 1,
            Ok(_) => panic!("byte {place}: neither with the last commit nor without it"),
            Err(StoreError::Damaged { .. } | StoreError::Version { .. }) => refused += 1,
            Err(error) => panic!("byte {place}: {error:?}"),
        }
    }
    // Bytes of free pages differ as well, and harm nobody.
    assert!(
        refused + taken_back > unharmed,
        "{refused} refused, {taken_back} taken back, {unharmed} unharmed"
    );
}

#[test]
fn the_file_stays_of_bounded_size_when_periods_pass() {
    let folder = Folder::new();
    let mut store = Embedded::open(folder.path()).expect("opens");
    let size = || fs::metadata(folder.path()).expect("it is there").len();
    let mut sizes = Vec::new();
    for period in 0..30_u64 {
        for chunk in 0..10 {
            let appends = (chunk * 100..(chunk + 1) * 100)
                .map(|number| append("a", entry(period, number, &format!("{number}"))));
            write(&mut store, &["a"], appends.collect());
        }
        write(
            &mut store,
            &["a"],
            vec![Write::Forget {
                account: "a".to_owned(),
                before: period,
            }],
        );
        sizes.push(size());
    }
    assert!(sizes[29] <= 2 * sizes[4], "{sizes:?}");
    assert_eq!(numbers(&mut store, "a", 29).len(), 1000);
}
