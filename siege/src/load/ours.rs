//! `laau serve` itself: one hot account, 1,000 accounts, and memory over many decisions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::drive::{Measured, Worker, drive};
use super::wire::Wire;
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
    wire: Wire,
    /// The end of the head, the same for every request.
    rest: String,
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
        // Five digits and a constant length: the head can be written before the body.
        let context = ((self.state >> 40) & 0xffff) + 10_000;
        let rest = &self.rest;
        self.wire.write(format_args!(
            "POST /v1/accounts/account-{account}/decisions HTTP/1.1\r\nidempotency-key: load-{number}\r\n\
             {rest}{{\"context\":[0.{context}]}}"
        ))?;
        self.wire.exchange().await
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
        let rest = format!(
            "host: siege\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.secret,
            "{\"context\":[0.12345]}".len()
        );
        Decider {
            wire: Wire::new(self.node.address),
            rest,
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
        let before = (self.processor_time()?, self.keys.load(Ordering::Relaxed));
        let measured = drive(workers, times.warm_up, times.measured)?;
        let decisions = self.keys.load(Ordering::Relaxed) - before.1;
        // It is less noisy than a rate on a machine that does other things, too.
        say(&format!(
            "    {:.1} µs of processor time a decision in the service",
            (self.processor_time()? - before.0) * 1e6 / decisions as f64
        ));
        Ok(measured)
    }

    /// Seconds that the service has used of all processors, in its own code and in the system's.
    fn processor_time(&self) -> anyhow::Result<f64> {
        let id = self.node.id().context("the service does not run")?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        // Behind the name, which may have spaces: the 12th and 13th fields, in ticks.
        let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |place: usize| fields.get(place)?.parse::<f64>().ok();
        let ticks = ticks(11).zip(ticks(12)).context("no times in stat")?;
        // A hundredth of a second each, whatever the kernel counts in itself.
        Ok((ticks.0 + ticks.1) / 100.0)
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
