//! PostgreSQL: leases, epochs, take-overs, and a server that comes and goes.

use std::time::Duration;

use laau::core::conformance::skipped;
use laau_serve::store::{Claim, Postgres, Store, StoreError, Write};

use super::Place;
use super::sample::{append, batch, entry, numbers, record, write};
use super::server::Server;

/// Longer than any test.
const LONG: Duration = Duration::from_hours(1);

/// A database in the server that the tests share.
pub(crate) struct Database {
    server: &'static Server,
    name: String,
    url: String,
}

impl Database {
    /// A new database; none, and a line in the log of skipped tests, without PostgreSQL.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let Some(server) = Server::shared() else {
            skipped(test, "PostgreSQL is not installed");
            return None;
        };
        // A name has at most 63 bytes.
        let name: String = test.replace("::", "_").chars().take(60).collect();
        let url = server.database(&name);
        Some(Self { server, name, url })
    }

    pub(crate) fn node(&self, name: &str, lease: Duration) -> Postgres {
        let address = format!("http://{name}:7171");
        let node = Postgres::connect(&self.url, name, &address, lease).expect("the server answers");
        // When a test asks for it, not when it is due.
        node.renewing_every(NONE)
    }
}

impl Place for Database {
    fn open(&self) -> Box<dyn Store> {
        Box::new(self.node("a", LONG))
    }
}

/// No time at all: every claim succeeds.
const NONE: Duration = Duration::ZERO;

fn elsewhere(name: &str) -> Claim {
    Claim::Elsewhere {
        address: format!("http://{name}:7171"),
    }
}

fn fenced(outcome: Result<(), StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Fenced { account }) if account == "x")
}

fn is_away<T>(outcome: &Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Unavailable { .. }))
}

#[test]
fn an_account_belongs_to_one_node_at_a_time() {
    let Some(database) = Database::new("one_node") else {
        return;
    };
    let (mut a, mut b) = (database.node("a", LONG), database.node("b", LONG));
    write(
        &mut a,
        &["x"],
        vec![Write::Account(record("x", 0)), append("x", entry(0, 0, "k"))],
    );
    assert_eq!(b.claim("x").expect("answers"), elsewhere("a"));
    assert!(matches!(b.claim("y").expect("answers"), Claim::Owned { .. }));
    assert_eq!(a.claim("y").expect("answers"), elsewhere("b"));
    assert_eq!(b.claim("x").expect("answers"), elsewhere("a"));
    // What everybody may read.
    assert_eq!(numbers(&mut b, "x", 0), [0]);
    assert!(a.renew().expect("answers").is_empty());
    assert!(b.renew().expect("answers").is_empty());
    // Given up, it need not be waited for.
    a.release().expect("answers");
    write(&mut b, &["x"], vec![append("x", entry(0, 1, "l"))]);
    assert_eq!(a.claim("x").expect("answers"), elsewhere("b"));
}

#[test]
fn a_node_that_was_taken_over_from_writes_nothing() {
    let Some(database) = Database::new("taken_over") else {
        return;
    };
    let (mut a, mut b) = (database.node("a", NONE), database.node("b", LONG));
    write(
        &mut a,
        &["x", "z"],
        vec![append("x", entry(0, 0, "k0")), append("z", entry(0, 0, "k0"))],
    );
    // Prepared before the take-over, sent after it.
    let writes = vec![
        append("z", entry(0, 1, "k1")),
        append("x", entry(0, 1, "k1")),
        Write::Account(record("x", 5)),
        Write::File {
            digest: "d".to_owned(),
            bytes: vec![1],
        },
        Write::Forget {
            account: "x".to_owned(),
            before: 1,
        },
    ];
    let late = batch(&mut a, &["x", "z"], writes);
    let taken = batch(&mut b, &["x"], vec![append("x", entry(0, 1, "other"))]);
    assert!(fenced(a.commit(&late)));
    b.commit(&taken).expect("b owns the account");
    assert!(fenced(a.commit(&late)));
    assert_eq!(numbers(&mut b, "z", 0), [0]);
    assert_eq!(
        b.entries("x", 0, 0, 9).expect("answers"),
        [entry(0, 0, "k0"), entry(0, 1, "other")]
    );
    assert_eq!(b.account("x").expect("answers"), None);
    assert_eq!(b.file("d").expect("answers"), None);
    // An epoch that is given anew does not make the old one valid.
    assert_eq!(a.claim("x").expect("answers"), elsewhere("b"));
    b.release().expect("answers");
    assert!(fenced(a.commit(&late)));
    assert!(matches!(a.claim("x").expect("answers"), Claim::Owned { .. }));
    assert!(fenced(a.commit(&late)));
}

#[test]
fn a_lost_account_is_noticed_when_leases_are_renewed() {
    let Some(database) = Database::new("lost") else {
        return;
    };
    let (mut a, mut b) = (database.node("a", NONE), database.node("b", LONG));
    for account in ["x", "y", "z"] {
        assert!(matches!(a.claim(account).expect("answers"), Claim::Owned { .. }));
    }
    assert!(matches!(b.claim("y").expect("answers"), Claim::Owned { .. }));
    assert_eq!(a.renew().expect("answers"), ["y"]);
    // Told once.
    assert!(a.renew().expect("answers").is_empty());
}

#[test]
fn a_lease_lasts_as_long_as_it_says_and_is_renewed() {
    let Some(database) = Database::new("lasts") else {
        return;
    };
    let (mut a, mut b) = (database.node("a", LONG), database.node("b", LONG));
    let batch = batch(&mut a, &["x"], vec![append("x", entry(0, 0, "k"))]);
    // The database's clock decides, so it is moved.
    let pass = |seconds: u32| {
        let sql = format!("UPDATE laau_serve.lease SET expires = expires - make_interval(secs => {seconds})");
        database.server.sql(&database.name, &sql);
    };
    let left = || {
        let sql = "SELECT expires - clock_timestamp() BETWEEN interval '0' AND interval '1 h' FROM laau_serve.lease";
        database.server.sql(&database.name, sql)
    };
    assert!(a.renew().expect("answers").is_empty());
    assert_eq!(left(), "t\n");
    pass(3600);
    assert_eq!(left(), "f\n");
    // It ended, but nobody came.
    assert!(a.renew().expect("answers").is_empty());
    assert_eq!(left(), "t\n");
    pass(3600);
    a.commit(&batch).expect("nobody took it over");
    assert!(matches!(b.claim("x").expect("answers"), Claim::Owned { .. }));
    assert!(fenced(a.commit(&batch)));
}

#[test]
fn a_node_that_starts_again_has_its_accounts_at_once() {
    let Some(database) = Database::new("starts_again") else {
        return;
    };
    let mut before = database.node("a", LONG);
    let late = batch(&mut before, &["x"], vec![append("x", entry(0, 0, "k"))]);
    let mut after = database.node("a", LONG);
    write(&mut after, &["x"], vec![append("x", entry(0, 0, "l"))]);
    // The process from before may still be about.
    assert!(fenced(before.commit(&late)));
    assert_eq!(after.entries("x", 0, 0, 9).expect("answers"), [entry(0, 0, "l")]);
}

#[test]
fn whoever_takes_over_sees_what_was_under_way() {
    let Some(database) = Database::new("under_way") else {
        return;
    };
    let (mut a, mut b) = (database.node("a", NONE), database.node("b", LONG));
    write(&mut a, &["x"], vec![append("x", entry(0, 0, "k0"))]);
    // A commit that takes its time, with the lock that every commit takes; its entry is a copy of one that is there.
    let slow = "BEGIN; SELECT FROM laau_serve.lease WHERE account = 'x' FOR UPDATE; SELECT pg_sleep(3);
        INSERT INTO laau_serve.entry SELECT account, 7, number, key, body FROM laau_serve.entry; COMMIT";
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| database.server.sql(&database.name, slow));
        let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
        while database.server.sql(&database.name, sleeping) != "1\n" {
            assert!(!slow.is_finished(), "the slow commit was never seen");
        }
        assert!(matches!(b.claim("x").expect("answers"), Claim::Owned { .. }));
        let copies = "SELECT count(*) FROM laau_serve.entry WHERE period = 7";
        assert_eq!(database.server.sql(&database.name, copies), "1\n");
    });
}

#[test]
fn two_nodes_that_race_for_an_account_never_both_commit() {
    let Some(database) = Database::new("race") else {
        return;
    };
    let accounts = ["u", "v", "w", "x", "y"];
    // Every claim takes over, so that each node writes in the other's way.
    let race = |name: &str| {
        let mut node = database.node(name, NONE);
        let mut written = Vec::new();
        let mut refused = 0;
        for round in 0..500_usize {
            let account = accounts[round % accounts.len()];
            let batch = batch(&mut node, &[account], Vec::new());
            let number = node.entries(account, 0, 0, usize::MAX).expect("answers").len() as u64;
            let entry = entry(0, number, &format!("{name}{round}"));
            let batch = laau_serve::store::Batch {
                writes: vec![append(account, entry.clone())],
                ..batch
            };
            match node.commit(&batch) {
                Ok(()) => written.push((account, entry)),
                Err(StoreError::Fenced { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        (written, refused)
    };
    let (a, b) = std::thread::scope(|scope| {
        let a = scope.spawn(|| race("a"));
        let b = scope.spawn(|| race("b"));
        (a.join().expect("no panic"), b.join().expect("no panic"))
    });
    assert!(a.1 + b.1 > 0, "they never met");
    let mut node = database.node("c", NONE);
    let mut all: Vec<_> = a.0.into_iter().chain(b.0).collect();
    all.sort_by_key(|(account, entry)| (*account, entry.number));
    let mut stored = Vec::new();
    for account in accounts {
        let entries = node.entries(account, 0, 0, usize::MAX).expect("answers");
        assert!(
            entries
                .iter()
                .map(|entry| entry.number)
                .eq(0..entries.len() as u64)
        );
        stored.extend(entries.into_iter().map(|entry| (account, entry)));
    }
    assert_eq!(stored, all);
}

#[test]
fn several_nodes_may_make_the_tables_at_once() {
    let Some(database) = Database::new("at_once") else {
        return;
    };
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (database, barrier) = (&database, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let mut node = database.node(&format!("n{number}"), LONG);
                write(
                    &mut node,
                    &[&format!("x{number}")],
                    vec![append(&format!("x{number}"), entry(0, 0, "k"))],
                );
            });
        }
    });
    assert_eq!(
        database
            .server
            .sql(&database.name, "SELECT version FROM laau_serve.format"),
        "1\n"
    );
    assert_eq!(
        database
            .server
            .sql(&database.name, "SELECT count(*) FROM laau_serve.entry"),
        "8\n"
    );
}

#[test]
fn tables_of_another_version_or_program_are_refused() {
    let connect = |database: &Database| match Postgres::connect(&database.url, "a", "", LONG) {
        Ok(_) => panic!("expected to be refused"),
        Err(error) => error.to_string(),
    };
    let Some(database) = Database::new("later_version") else {
        return;
    };
    database.node("a", LONG);
    database
        .server
        .sql(&database.name, "INSERT INTO laau_serve.format VALUES (99)");
    assert_eq!(
        connect(&database),
        "expected a store of format 1, found format 99"
    );
    let database = Database::new("another_program").expect("there was one before");
    database.server.sql(
        &database.name,
        "CREATE SCHEMA laau_serve; CREATE TABLE laau_serve.entry ()",
    );
    let found = "expected a store of format 1, found a schema laau_serve of another program";
    assert_eq!(connect(&database), found);
}

#[test]
fn a_row_that_was_changed_by_hand_is_damaged() {
    let Some(database) = Database::new("by_hand") else {
        return;
    };
    let mut node = database.node("a", LONG);
    write(
        &mut node,
        &["x"],
        vec![append("x", entry(0, 0, "k")), Write::Account(record("x", 0))],
    );
    let sql = "UPDATE laau_serve.entry SET body = set_byte(body, 40, get_byte(body, 40) # 1);
        UPDATE laau_serve.account SET name = 'y'";
    database.server.sql(&database.name, sql);
    assert!(matches!(
        node.entries("x", 0, 0, 1),
        Err(StoreError::Damaged { .. })
    ));
    assert!(matches!(
        node.by_key("x", 0..=0, "k"),
        Err(StoreError::Damaged { .. })
    ));
    assert!(matches!(node.account("y"), Err(StoreError::Damaged { .. })));
    assert_eq!(node.account("x").expect("answers"), None);
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_away() {
    for url in [
        "",
        "nonsense",
        "postgres://nobody@127.0.0.1:1/none",
        "postgres://nobody@%2Fnowhere/none",
    ] {
        assert!(is_away(&Postgres::connect(url, "a", "", LONG)));
    }
}

#[test]
fn a_connection_is_encrypted_to_a_server_that_is_trusted_and_to_no_other() {
    let test = "store::postgres::a_connection_is_encrypted_to_a_server_that_is_trusted_and_to_no_other";
    let Some(mut server) = Server::new() else {
        skipped(test, "PostgreSQL is not installed");
        return;
    };
    server.database("sealed");
    let certificate = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (ours, others) = (certificate(), certificate());
    let port = server.encrypt(&ours.cert.pem(), &ours.signing_key.serialize_pem());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, content: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("the folder can be written");
        path.display().to_string()
    };
    let trusted = file("our root.pem", ours.cert.pem()).replace(' ', "%20");
    let stranger = file("other.pem", others.cert.pem());
    let connect = |host: &str, settings: &str| {
        let url = format!("postgres://laau@{host}:{port}/sealed{settings}");
        Postgres::connect(&url, "a", "http://a:7171", LONG).map(|_| ())
    };
    for mode in ["verify-full", "require"] {
        let settings = format!("?sslmode={mode}&sslrootcert={trusted}");
        connect("localhost", &settings).expect("a trusted server");
    }
    for (host, settings, words) in [
        ("localhost", String::new(), "no encryption"),
        ("localhost", "?sslmode=disable".to_owned(), "no encryption"),
        ("localhost", "?sslmode=require".to_owned(), "certificate"),
        (
            "localhost",
            format!("?sslmode=verify-full&sslrootcert={stranger}"),
            "certificate",
        ),
        (
            "127.0.0.1",
            format!("?sslmode=verify-full&sslrootcert={trusted}"),
            "certificate",
        ),
    ] {
        let refused = connect(host, &settings).expect_err("no such connection");
        assert!(
            refused.to_string().contains(words),
            "{host} {settings}: {refused}"
        );
    }
}
