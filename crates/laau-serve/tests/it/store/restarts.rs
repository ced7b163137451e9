//! A PostgreSQL that is stopped, killed and started again while nodes write.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use laau::core::conformance::skipped;
use laau_serve::store::{Batch, Claim, Postgres, Store, StoreError};

use super::sample::{append, batch, entry, numbers, write};
use super::server::Server;

fn server(test: &str) -> Option<Server> {
    let server = Server::new();
    if server.is_none() {
        skipped(test, "PostgreSQL is not installed");
    }
    server
}

fn away<T: std::fmt::Debug>(outcome: &Result<T, StoreError>) {
    assert!(
        matches!(outcome, Err(StoreError::Unavailable { .. })),
        "{outcome:?}"
    );
}

/// Asks until there is an answer.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, StoreError>) -> T {
    // A busy machine takes its time to start a server: minutes are allowed, and none are expected.
    for _ in 0..15_000 {
        match ask() {
            Ok(answer) => return answer,
            Err(StoreError::Unavailable { .. }) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the server is there, but not for this node");
}

#[test]
fn every_call_says_that_the_server_is_away_and_works_when_it_is_back() {
    let Some(mut server) = server("every_call_says_that_the_server_is_away_and_works_when_it_is_back") else {
        return;
    };
    let url = server.database("away");
    let mut node = Postgres::connect(&url, "a", "", Duration::from_hours(1)).expect("the server answers");
    write(&mut node, &["x"], vec![append("x", entry(0, 0, "k0"))]);
    let next = batch(&mut node, &["x"], vec![append("x", entry(0, 1, "k1"))]);
    server.stop();
    for _ in 0..2 {
        away(&node.accounts());
        away(&node.account("x"));
        away(&node.file("d"));
        away(&node.entries("x", 0, 0, 1));
        away(&node.by_key("x", 0..=0, "k0"));
        away(&node.keys());
        away(&node.claim("y"));
        away(&node.renew());
        away(&node.release());
        away(&node.commit(&next));
    }
    server.start();
    assert!(patiently(|| node.renew()).is_empty());
    node.commit(&next).expect("its lease outlived the server");
    assert_eq!(numbers(&mut node, "x", 0), [0, 1]);
    // A server that went and came back unnoticed.
    server.stop();
    server.start();
    assert_eq!(patiently(|| node.entries("x", 0, 0, 9)).len(), 2);
}

/// Appends to one account, in turns with another node, until it is told to stop; gives the entries that were acknowledged.
fn work(url: &str, name: &str, done: &AtomicBool, acknowledged: &AtomicU64) -> Vec<laau_serve::Entry> {
    let mut node = patiently(|| Postgres::connect(url, name, "", Duration::ZERO));
    let mut written = Vec::new();
    let mut round = 0;
    while !done.load(Ordering::Relaxed) {
        // As the authority does it: claim, read, write until that fails.
        let Claim::Owned { epoch } = patiently(|| node.claim("x")) else {
            continue;
        };
        let mut next = patiently(|| node.entries("x", 0, 0, usize::MAX)).len() as u64;
        for _ in 0..20 {
            round += 1;
            let entries = [0, 1].map(|i| entry(0, next + i, &format!("{name}{round}-{i}")));
            let batch = Batch {
                epochs: [("x".to_owned(), epoch)].into(),
                writes: entries.iter().map(|entry| append("x", entry.clone())).collect(),
            };
            match node.commit(&batch) {
                Ok(()) => written.extend(entries),
                Err(StoreError::Fenced { .. } | StoreError::Unavailable { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            next += 2;
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
    written
}

#[test]
fn what_is_acknowledged_outlives_kills_and_restarts_of_the_server() {
    let Some(mut server) = server("what_is_acknowledged_outlives_kills_and_restarts_of_the_server") else {
        return;
    };
    let url = server.database("kills");
    let (done, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let written = std::thread::scope(|scope| {
        let work = |name: &'static str| {
            let (url, done, acknowledged) = (&url, &done, &acknowledged);
            scope.spawn(move || work(url, name, done, acknowledged))
        };
        let nodes = [work("a"), work("b")];
        for round in 0..4 {
            let so_far = acknowledged.load(Ordering::Relaxed);
            while acknowledged.load(Ordering::Relaxed) < so_far + 20 {
                assert!(nodes.iter().all(|node| !node.is_finished()), "a node gave up");
                std::thread::sleep(Duration::from_millis(5));
            }
            if round % 3 == 2 {
                server.stop();
            } else {
                server.kill();
            }
            server.start();
        }
        done.store(true, Ordering::Relaxed);
        let written = nodes.map(|node| node.join().expect("no panic"));
        written.into_iter().flatten().collect::<Vec<_>>()
    });
    assert!(written.len() >= 160);
    let mut node = Postgres::connect(&url, "c", "", Duration::ZERO).expect("the server answers");
    let stored = node.entries("x", 0, 0, usize::MAX).expect("answers");
    // Whole batches, without gaps; some that were not acknowledged may be among them.
    assert!(stored.iter().map(|entry| entry.number).eq(0..stored.len() as u64));
    assert!(stored.len() >= written.len());
    for entry in written {
        let place = usize::try_from(entry.number).expect("small");
        assert_eq!(stored[place], entry);
    }
    for pair in stored.chunks(2) {
        let [first, second] = pair else {
            panic!("half a batch: {pair:?}")
        };
        let key = |entry: &laau_serve::Entry| {
            entry
                .request
                .as_ref()
                .map(|request| request.key.clone())
                .unwrap_or_default()
        };
        assert_eq!(key(first).strip_suffix("-0"), key(second).strip_suffix("-1"));
    }
}
