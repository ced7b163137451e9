//! `laau serve` itself: one hot account, 1,000 accounts, and memory over many decisions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::drive::{Measured, Worker, drive};
use super::{ACCOUNTS, CLIENTS, Times};
use crate::history::Asked;
use crate::http::{Client, Request};
use crate::say;
use crate::server::{Node, PATIENCE, make_key};

/// Steps of a period while memory is watched.
const STEPS: u64 = 10_000;

/// A service that runs, with accounts.
pub(super) struct Ours {
    node: Node,
    secret: String,
    /// Keys are never used again.
    keys: Arc<AtomicU64>,
}

struct Decider {
    client: Client,
    secret: String,
    keys: Arc<AtomicU64>,
    /// The account is drawn from so many; the first is the hot one.
    accounts: u64,
    state: u64,
}

impl Worker for Decider {
    async fn once(&mut self) -> anyhow::Result<()> {
        let number = self.keys.fetch_add(1, Ordering::Relaxed);
        // A small generator: the draw must cost nothing.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let account = (self.state >> 33) % self.accounts;
        let context = vec![((self.state >> 40) & 0xffff) as f64 / 65536.0];
        let account = format!("account-{account}");
        let key = format!("load-{number}");
        let request = crate::clients::request(&account, &key, &Asked::Decide { context }, &self.secret);
        let response = self.client.send(&request).await?;
        ensure!(response.status == 200, "{}: {}", response.status, response.text());
        Ok(())
    }
}

impl Ours {
    /// Starts the service on a store and makes the accounts.
    pub(super) async fn start(
        laau: &Path,
        store: &str,
        folder: &Path,
        accounts: u64,
        steps: u64,
    ) -> anyhow::Result<Self> {
        let secret = make_key(laau, store, "admin", None)?;
        let mut node = Node::new(laau, store, folder, "load")?;
        node.up().await?;
        let mut client = Client::new(node.address, PATIENCE);
        for number in 0..accounts {
            let spec = json!({
                "name": format!("account-{number}"), "policy": {"name": "mw"},
                "problem": {"name": "weighted-fairness", "lower": 0.1, "upper": 4.0},
                "budgets": [0.5 * steps as f64], "horizon": steps});
            let response = client
                .send(&Request::post("/v1/accounts", spec.to_string()).by(&secret))
                .await?;
            ensure!(response.status < 300, "{}: {}", response.status, response.text());
        }
        Ok(Self {
            node,
            secret,
            keys: Arc::default(),
        })
    }

    fn decider(&self, accounts: u64, number: u64) -> Decider {
        Decider {
            client: Client::new(self.node.address, PATIENCE),
            secret: self.secret.clone(),
            keys: Arc::clone(&self.keys),
            accounts,
            state: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// Decisions on the hot account, or on any of all accounts.
    pub(super) fn measure(&self, accounts: u64, times: &Times) -> anyhow::Result<Measured> {
        let workers = (0..CLIENTS)
            .map(|number| self.decider(accounts, number))
            .collect();
        drive(workers, times.warm_up, times.measured)
    }

    /// The resident memory of the service in MiB.
    fn memory(&self) -> anyhow::Result<f64> {
        let id = self.node.id().context("the service does not run")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 = line
            .and_then(|line| line.split_whitespace().next()?.parse().ok())
            .context("no VmRSS")?;
        Ok(kib / 1024.0)
    }
}

/// The resident memory, in MiB, after each tenth of so many decisions on one account with periods of [`STEPS`] steps.
pub(super) async fn memory(laau: &Path, folder: &Path, decisions: u64) -> anyhow::Result<Vec<(u64, f64)>> {
    let store = folder.join("memory.redb").display().to_string();
    let ours = Ours::start(laau, &store, folder, 1, STEPS).await?;
    let mut samples = Vec::new();
    for tenth in 1..=10 {
        while ours.keys.load(Ordering::Relaxed) < decisions / 10 * tenth {
            next_steps(&ours).await?;
        }
        let sample = (ours.keys.load(Ordering::Relaxed), ours.memory()?);
        say(&format!("  {:>9} decisions: {:.1} MiB", sample.0, sample.1));
        samples.push(sample);
    }
    Ok(samples)
}

/// A period's steps by all clients, and the next period.
async fn next_steps(ours: &Ours) -> anyhow::Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let mut decider = ours.decider(1, number);
        tasks.spawn(async move {
            for _ in 0..STEPS / CLIENTS {
                decider.once().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(one) = tasks.join_next().await {
        one??;
    }
    let mut client = Client::new(ours.node.address, PATIENCE);
    let key = format!("open-{}", ours.keys.load(Ordering::Relaxed));
    let request = crate::clients::request("account-0", &key, &Asked::Open, &ours.secret);
    let response = client.send(&request).await?;
    ensure!(response.status == 200, "{}: {}", response.status, response.text());
    Ok(())
}

/// Our rows on one store.
pub(super) async fn rows(
    laau: &Path,
    store: &str,
    folder: &Path,
    times: &Times,
) -> anyhow::Result<(Measured, Measured)> {
    // More steps than any machine decides in the time.
    let steps = 100_000 * (times.warm_up + times.measured + Duration::from_secs(1)).as_secs();
    let ours = Ours::start(laau, store, folder, ACCOUNTS, steps).await?;
    let hot = ours.measure(1, times)?;
    let spread = ours.measure(ACCOUNTS, times)?;
    ours.node.check_panics()?;
    Ok((hot, spread))
}
