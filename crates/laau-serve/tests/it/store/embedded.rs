//! The embedded store's file: refused with a word when it is not ours, not whole or not free.

use std::fs;
use std::path::{Path, PathBuf};

use laau_serve::store::{Embedded, Store, StoreError, Write};

use super::Place;
use super::sample::{api_key, append, batch, entry, numbers, record, write};

/// A folder with one store.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("store")
    }

    fn journal(&self) -> PathBuf {
        self.0.path().join("store.journal")
    }

    /// What a kill leaves of a store that is open.
    fn files(&self) -> [Vec<u8>; 2] {
        [self.path(), self.journal()].map(|path| fs::read(path).expect("it is there"))
    }

    /// The store after a kill.
    fn revive(&self, [store, journal]: [&[u8]; 2]) -> Result<Embedded, StoreError> {
        fs::write(self.journal(), journal).expect("the folder can be written");
        self.with(store)
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
        "expected a store of format 2, found a redb file of another program"
    );
}

/// Writes the format into a store that is closed.
fn set_format(folder: &Folder, format: u64) {
    let db = redb::Database::create(folder.path()).expect("opens");
    let meta = redb::TableDefinition::<&str, &[u8]>::new("laau-serve");
    let transaction = db.begin_write().expect("begins");
    // The checksum is over the length of the key, the key and the value.
    let value = format.to_le_bytes();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&6_u64.to_le_bytes());
    hasher.update(b"format");
    hasher.update(&value);
    let sealed = [&hasher.finalize().to_le_bytes()[..], &value].concat();
    let mut table = transaction.open_table(meta).expect("opens");
    table.insert("format", &*sealed).expect("inserts");
    if format < 2 {
        // They came with the journal.
        table.remove("generation").expect("removes");
        table.remove("journal").expect("removes");
    }
    drop(table);
    transaction.commit().expect("commits");
}

#[test]
fn a_store_of_another_version_is_refused() {
    let folder = Folder::new();
    drop(folder.open());
    set_format(&folder, 3);
    let error = refusal(Embedded::open(folder.path()));
    assert_eq!(error.to_string(), "expected a store of format 2, found format 3");
}

#[test]
fn a_store_of_the_version_before_is_taken_over() {
    let folder = Folder::new();
    let mut store = Embedded::open(folder.path()).expect("opens");
    fill(&mut store);
    let whole = content(&mut store).expect("reads");
    drop(store);
    set_format(&folder, 1);
    for _ in 0..2 {
        assert_eq!(content(&mut *folder.open()).expect("reads"), whole);
    }
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
fn damage_to_the_last_commit_before_a_kill_is_made_good_or_refused() {
    for lines_after in 0..2 {
        let folder = Folder::new();
        let mut store = Embedded::open(folder.path()).expect("opens");
        fill(&mut store);
        let old = fs::read(folder.path()).expect("reads");
        // Reading moves it from the journal into the database; the journal has it until the next line comes.
        write(&mut store, &["a"], vec![append("a", entry(2, 0, "2k0"))]);
        content(&mut store).expect("reads");
        for number in 1..=lines_after {
            let line = entry(2, number, &format!("2k{number}"));
            write(&mut store, &["a"], vec![append("a", line)]);
        }
        let [new, journal] = folder.files();
        let whole = content(&mut store).expect("reads");
        drop(store);
        let changed: Vec<usize> = (0..new.len())
            .filter(|&place| old.get(place) != Some(&new[place]))
            .collect();
        let mut refused = 0;
        for &place in changed.iter().step_by(changed.len() / 75 + 1) {
            let mut damaged = new.clone();
            damaged[place] ^= 0x10;
            let revived = folder.revive([&damaged, &journal]);
            match revived.and_then(|mut store| content(&mut store)) {
                Ok(content) => assert!(content == whole, "byte {place}: something is gone"),
                Err(StoreError::Damaged { .. } | StoreError::Version { .. }) => refused += 1,
                Err(error) => panic!("byte {place}: {error:?}"),
            }
        }
        assert_eq!(refused > 25, lines_after > 0, "{refused} refused, {lines_after}");
    }
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

/// Commits of one line each that only the journal has.
const LINES: u64 = 9;

/// A store with so many lines in its journal, as a kill leaves it: its files, and what it holds.
fn killed(folder: &Folder, lines: u64) -> ([Vec<u8>; 2], Vec<String>) {
    let mut store = Embedded::open(folder.path()).expect("opens");
    fill(&mut store);
    for number in 0..lines {
        let line = entry(2, number, &format!("2k{number}"));
        write(&mut store, &["a"], vec![append("a", line)]);
    }
    let files = folder.files();
    (files, content(&mut store).expect("reads"))
}

#[test]
fn what_the_journal_holds_is_there_after_a_kill() {
    let folder = Folder::new();
    let (files, whole) = killed(&folder, LINES);
    for _ in 0..2 {
        let mut store = folder.revive([&files[0], &files[1]]).expect("opens");
        assert_eq!(content(&mut store).expect("reads"), whole);
        assert_eq!(numbers(&mut store, "a", 2).len() as u64, LINES);
        // Its lines cannot be written again, before or after they were read.
        let claimed = batch(&mut store, &["a"], vec![append("a", entry(2, 3, "other"))]);
        assert!(matches!(store.commit(&claimed), Err(StoreError::Fenced { .. })));
        let claimed = batch(&mut store, &["a"], vec![append("a", entry(2, LINES, "2k3"))]);
        assert!(matches!(store.commit(&claimed), Err(StoreError::Fenced { .. })));
    }
    assert!(
        !folder.journal().exists(),
        "a store that was closed has no journal"
    );
}

#[test]
fn lines_that_only_the_journal_has_are_not_written_twice() {
    let folder = Folder::new();
    let mut store = Embedded::open(folder.path()).expect("opens");
    write(&mut store, &["a"], vec![append("a", entry(0, 0, "k0"))]);
    for (number, key) in [(0, "k1"), (1, "k0")] {
        let twice = batch(&mut store, &["a"], vec![append("a", entry(0, number, key))]);
        assert!(matches!(store.commit(&twice), Err(StoreError::Fenced { .. })));
    }
    let twice = vec![append("a", entry(0, 1, "k1")), append("a", entry(0, 1, "k2"))];
    let twice = batch(&mut store, &["a"], twice);
    assert!(matches!(store.commit(&twice), Err(StoreError::Fenced { .. })));
    write(&mut store, &["a"], vec![append("a", entry(0, 1, "k1"))]);
    assert_eq!(numbers(&mut store, "a", 0), [0, 1]);
}

#[test]
fn a_damaged_journal_is_refused_or_takes_back_the_last_commit() {
    let folder = Folder::new();
    let (files, whole) = killed(&folder, LINES);
    let (_, before) = killed(&Folder::new(), LINES - 1);
    let used: Vec<usize> = (0..files[1].len())
        .filter(|&place| files[1][place] != 0)
        .collect();
    let mut seed = 7_u64;
    let mut draw = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).expect("31 bits") % below
    };
    let (mut refused, mut taken_back) = (0, 0);
    for case in 0..250 {
        let mut journal = files[1].clone();
        let start = used[draw(used.len())];
        let what = match case % 5 {
            0 => {
                journal.truncate(draw(files[1].len()));
                format!("cut to {}", journal.len())
            }
            1 | 2 => {
                let end = (start + 1 + draw(5000)).min(journal.len());
                journal[start..end].fill(if case % 5 == 1 { 0 } else { 0x5a });
                format!("{start} to {end} overwritten")
            }
            _ => {
                journal[start] ^= 1 << draw(8);
                format!("a bit of byte {start}")
            }
        };
        let revived = folder.revive([&files[0], &journal]);
        match revived.and_then(|mut store| content(&mut store)) {
            Ok(content) if content == whole => {}
            Ok(content) if content == before => taken_back += 1,
            Ok(_) => panic!("{what}: more than the last commit is gone"),
            Err(StoreError::Damaged { .. }) => refused += 1,
            Err(error) => panic!("{what}: {error:?}"),
        }
    }
    assert!(
        refused > 120 && taken_back > 0,
        "{refused} refused, {taken_back} taken back"
    );
}

#[test]
fn a_journal_that_is_not_the_stores_is_refused() {
    let folder = Folder::new();
    let (files, whole) = killed(&folder, LINES);
    let reason = |outcome| match refusal(outcome) {
        StoreError::Damaged { reason } | StoreError::Unavailable { reason } => reason,
        error => panic!("another error: {error:?}"),
    };
    fs::remove_file(folder.journal()).ok();
    assert!(reason(folder.with(&files[0])).ends_with("its journal is missing"));
    // The store goes on; the journal of then has no place beside what came after, nor has the one of now beside what was.
    let mut store = folder.revive([&files[0], &files[1]]).expect("opens");
    write(&mut store, &["a"], vec![append("a", entry(2, LINES, "2k9"))]);
    let later = folder.files();
    drop(store);
    assert!(reason(folder.revive([&files[0], &later[1]])).contains("newer"));
    let mut store = folder
        .revive([&later[0], &files[1]])
        .expect("lines that the database has are passed over");
    assert_eq!(content(&mut store).expect("reads"), whole);
    drop(store);
    // A file of somebody else's is not touched.
    fs::write(folder.journal(), b"mine").expect("writes");
    assert!(reason(Embedded::open(folder.path())).ends_with("found a file of another program"));
    assert_eq!(fs::read(folder.journal()).expect("reads"), b"mine");
}

#[test]
fn many_lines_and_long_ones_pass_through_the_journal() {
    let folder = Folder::new();
    let mut store = Embedded::open(folder.path()).expect("opens");
    for number in 0..600 {
        // One that has no room in the journal at all, now and then.
        let key = format!("k{number}");
        let mut line = entry(0, number, &key);
        if number % 100 == 50 {
            line.event = laau_serve::Event::Granted {
                at: 1,
                context: vec![0.123_456_789; 150_000],
            };
        }
        write(&mut store, &["a"], vec![append("a", line)]);
    }
    let files = folder.files();
    drop(store);
    let mut store = folder.revive([&files[0], &files[1]]).expect("opens");
    assert_eq!(numbers(&mut store, "a", 0), (0..600).collect::<Vec<_>>());
}
