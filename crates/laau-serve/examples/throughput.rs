//! Durable decisions a second through the authority, without HTTP: tasks that each wait for their answer before they ask again.
//!
//! ```sh
//! cargo run --release -p laau-serve --example throughput -- [SECONDS] [ACCOUNTSxTASKS…]
//! ```

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use laau_serve::store::Embedded;
use laau_serve::{AccountSpec, Authority, AuthorityOptions, DecisionRequest, Metrics, PolicySource};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(3.0), |text| text.parse())?;
    let mut cases = Vec::new();
    for case in arguments {
        let (accounts, tasks) = case
            .split_once('x')
            .ok_or("expected ACCOUNTSxTASKS, for example 1x16")?;
        cases.push((accounts.parse()?, tasks.parse()?));
    }
    if cases.is_empty() {
        cases = vec![(1, 1), (1, 16), (1_000, 16), (1, 64), (1_000, 64), (1, 256)];
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("store.laau");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut table = vec!["accounts  tasks  decisions/s  p50 ms  p99 ms  decisions/commit\n".to_owned()];
    for (accounts, tasks) in cases {
        let store = Embedded::open(&file)?;
        let metrics = Arc::new(Metrics::default());
        let options = AuthorityOptions {
            metrics: Some(Arc::clone(&metrics)),
            ..AuthorityOptions::default()
        };
        let (authority, running) = Authority::start(Box::new(store), options)?;
        let run = format!("{accounts}-{tasks}");
        let measured = runtime.block_on(measure(&authority, &run, accounts, tasks, seconds));
        drop(authority);
        running.stop()?;
        let commits = commits_of(&metrics);
        let (mut latencies, elapsed) = measured?;
        latencies.sort_unstable();
        let at = |share: usize| latencies[(latencies.len() - 1) * share / 100].as_secs_f64() * 1e3;
        table.push(format!(
            "{accounts:8}  {tasks:5}  {:11.0}  {:6.2}  {:6.2}  {:16.1}\n",
            latencies.len() as f64 / elapsed.as_secs_f64(),
            at(50),
            at(99),
            latencies.len() as f64 / commits,
        ));
        std::fs::remove_file(&file)?;
    }
    std::io::stdout().write_all(table.concat().as_bytes())?;
    Ok(())
}

/// The number of commits.
fn commits_of(metrics: &Metrics) -> f64 {
    let text = metrics.render(&[]);
    let lines = text.lines();
    lines
        .filter_map(|line| line.strip_prefix("laau_store_commit_seconds_count "))
        .find_map(|count| count.parse().ok())
        .unwrap_or(f64::NAN)
}

/// The latency of every decision, and the time they took together.
async fn measure(
    authority: &Authority,
    run: &str,
    accounts: usize,
    tasks: usize,
    seconds: f64,
) -> Result<(Vec<Duration>, Duration), Failure> {
    for account in 0..accounts {
        let spec = AccountSpec {
            name: format!("a{account}"),
            problem: None,
            policy: PolicySource::Named {
                name: "mw".to_owned(),
                parameters: std::collections::BTreeMap::new(),
            },
            guard: None,
            budgets: vec![2e7],
            horizon: Some(1_000_000),
            period: None,
            rollover: false,
        };
        authority.create(spec).await?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (authority, stop, run) = (authority.clone(), Arc::clone(&stop), run.to_owned());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let number = latencies.len();
                    let account = format!("a{}", (task * 7_919 + number * 31) % accounts);
                    let request = DecisionRequest { context: vec![0.5] };
                    let asked = Instant::now();
                    authority
                        .decide(&account, &format!("{run}-{task}-{number}"), request)
                        .await?;
                    latencies.push(asked.elapsed());
                }
                Ok::<_, laau_serve::Error>(latencies)
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    stop.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    for task in running {
        all.extend(task.await??);
    }
    Ok((all, began.elapsed()))
}
