//! Damaged store files: the service refuses to start, says 503, or gives back what was written; never anything else.
//!
//! One exception: a commit is synced once, so that damage to the last one in the journal of a killed service looks like a commit that
//! the kill cut off, and is taken back as that.
//!
//! A panic of the library that reads the file is no fault here if the service survives it and says that the store is damaged.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::history::Asked;
use crate::http::{Client, Request};
use crate::server::{Node, PATIENCE, make_key};

/// How a damaged store was taken.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) refused: usize,
    pub(super) unavailable: usize,
    pub(super) served: usize,
    /// Killed, then damaged in its last commit, which looks like one that the kill has cut off.
    pub(super) last_lost: usize,
}

/// Decisions in the store that is damaged.
const DECISIONS: u64 = 60;

/// Damages a store so many times, and starts the service on it.
pub(super) async fn run(laau: &Path, cases: u64, seed: u64) -> anyhow::Result<Found> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.redb");
    let store = path.display().to_string();
    let secret = make_key(laau, &store, "admin", None)?;
    let mut node = Node::new(laau, &store, folder.path(), "store")?;
    node.up().await?;
    write(&node, &secret).await?;
    // Killed, and then ended in order: a store has both forms, with a journal and without.
    node.kill()?;
    let journal = folder.path().join("store.redb.journal");
    let killed = [std::fs::read(&path)?, std::fs::read(&journal)?];
    node.up().await?;
    let response = Client::new(node.address, PATIENCE).send(&log(&secret)).await?;
    ensure!(response.status == 200, "{} {}", response.status, response.text());
    let written = response.json();
    node.signal(Signal::TERM)?;
    ensure!(
        node.end(PATIENCE).await?.is_some_and(|status| status.success()),
        "SIGTERM: {}",
        node.last_words()
    );
    let ended = std::fs::read(&path)?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut found = Found::default();
    for number in 0..cases {
        let was_killed = random.random_bool(0.5);
        if was_killed {
            let mut files = killed.clone();
            let which = random.random_range(0..files.len());
            files[which] = damage(&killed[which], &mut random);
            std::fs::write(&path, &files[0])?;
            std::fs::write(&journal, &files[1])?;
        } else {
            std::fs::write(&path, damage(&ended, &mut random))?;
            let _ = std::fs::remove_file(&journal);
        }
        let told = || format!("damaged store {number}, seed {seed}, killed before: {was_killed}");
        one(&mut node, &secret, &written, was_killed, &mut found)
            .await
            .with_context(told)?;
    }
    Ok(found)
}

/// An account with some decisions.
async fn write(node: &Node, secret: &str) -> anyhow::Result<()> {
    let mut client = Client::new(node.address, PATIENCE);
    let spec = json!({"name": "kept", "policy": {"name": "mw"}, "budgets": [50.0], "horizon": 100,
                      "problem": {"name": "weighted-fairness", "lower": 0.1}});
    let mut requests = vec![Request::post("/v1/accounts", spec.to_string()).by(secret)];
    for number in 0..DECISIONS {
        let asked = Asked::Decide {
            context: vec![number as f64 / DECISIONS as f64],
        };
        requests.push(crate::clients::request(
            "kept",
            &format!("kept-{number}"),
            &asked,
            secret,
        ));
    }
    for request in requests {
        let response = client.send(&request).await?;
        ensure!(response.status < 300, "{} {}", response.status, response.text());
    }
    Ok(())
}

fn log(secret: &str) -> Request {
    Request::get("/v1/accounts/kept/periods/0/entries").by(secret)
}

/// Flips bits, cuts, overwrites a stretch, or swaps two pages.
fn damage(sound: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    let length = bytes.len();
    // Most of a store is free space: half of the damage goes where something is.
    let used: Vec<usize> = (0..length / 4096)
        .filter(|page| {
            sound[page * 4096..(page + 1) * 4096]
                .iter()
                .any(|byte| *byte != 0)
        })
        .collect();
    let place = |random: &mut ChaCha8Rng| {
        if used.is_empty() || random.random_bool(0.3) {
            random.random_range(0..length)
        } else {
            used[random.random_range(0..used.len())] * 4096 + random.random_range(0..4096)
        }
    };
    match random.random_range(0..6) {
        0..3 => {
            for _ in 0..random.random_range(1..9) {
                bytes[place(random)] ^= 1 << random.random_range(0..8);
            }
        }
        3 => bytes.truncate(place(random)),
        4 => {
            let start = place(random);
            let end = (start + random.random_range(1..5000)).min(length);
            let fill: u8 = random.random();
            bytes[start..end].fill(fill);
        }
        _ => {
            let (one, other) = (place(random) / 4096, place(random) / 4096);
            for offset in 0..4096 {
                let (one, other) = (one * 4096 + offset, other * 4096 + offset);
                if one < length && other < length {
                    bytes.swap(one, other);
                }
            }
        }
    }
    bytes
}

async fn one(
    node: &mut Node,
    secret: &str,
    written: &Value,
    was_killed: bool,
    found: &mut Found,
) -> anyhow::Result<()> {
    node.start()?;
    let mut client = Client::new(node.address, Duration::from_secs(20));
    let began = Instant::now();
    loop {
        if let Some(status) = node.exited()? {
            node.end(Duration::from_secs(1)).await?;
            ensure!(
                status.signal().is_none() && status.code() != Some(101),
                "it crashed: {status}: {}",
                node.last_words()
            );
            ensure!(
                !status.success(),
                "it ended as if all were well: {}",
                node.last_words()
            );
            found.refused += 1;
            return Ok(());
        }
        if client
            .send(&Request::get("/healthz"))
            .await
            .is_ok_and(|response| response.status == 200)
        {
            break;
        }
        ensure!(
            began.elapsed() < PATIENCE,
            "it neither starts nor ends: {}",
            node.last_words()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut unavailable = false;
    let mut last_lost = false;
    for request in [
        log(secret),
        Request::get("/v1/accounts/kept").by(secret),
        crate::clients::request("kept", "after", &Asked::Decide { context: vec![0.5] }, secret),
        crate::clients::request(
            "kept",
            "kept-7",
            &Asked::Decide {
                context: vec![7.0 / DECISIONS as f64],
            },
            secret,
        ),
        log(secret),
    ] {
        let Ok(response) = client.send(&request).await else {
            let ended = node.exited()?;
            bail!(
                "no answer to {} {}; ended: {ended:?}: {}",
                request.method,
                request.path,
                node.last_words()
            );
        };
        match response.status {
            200 if request.path.ends_with("/entries") => {
                let (found, written) = (entries(&response.json()), entries(written));
                // The decision after is allowed to follow.
                let kept = written.len() - usize::from(was_killed && !found.starts_with(&written));
                last_lost |= kept < written.len();
                let same = found.starts_with(&written[..kept]);
                ensure!(
                    same,
                    "{} lines of {} are as they were written",
                    common(&found, &written),
                    written.len()
                );
            }
            // What was lost with the key's hash or the account's record is gone, and says so.
            200 | 401 | 404 => {}
            503 => unavailable = true,
            status => bail!(
                "{} {} is answered {status} {}",
                request.method,
                request.path,
                response.text()
            ),
        }
        unavailable |= matches!(response.status, 401 | 404);
    }
    node.kill()?;
    *(match (unavailable, last_lost) {
        (true, _) => &mut found.unavailable,
        (false, true) => &mut found.last_lost,
        (false, false) => &mut found.served,
    }) += 1;
    Ok(())
}

fn entries(log: &Value) -> Vec<Value> {
    log["entries"].as_array().cloned().unwrap_or_default()
}

/// How many lines two logs begin with alike.
fn common(one: &[Value], other: &[Value]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}
