//! How long one account keeps all others of its node waiting: while it decides, by its size, and while it is rebuilt, by the
//! number of decisions in its log.
//!
//! ```sh
//! cargo run --release -p laau-serve --example waiting -- [DECISIONS] [ACTIONSxBUDGETS…]
//! ```

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use laau_serve::store::Embedded;
use laau_serve::{AccountSpec, Authority, AuthorityOptions, DecisionRequest, Running};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Decisions that are measured for each size; the first, which makes what later ones use again, is not.
const DECISIONS: usize = 21;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let decisions = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let mut sizes = Vec::new();
    for size in arguments {
        let (actions, budgets) = size
            .split_once('x')
            .ok_or("expected ACTIONSxBUDGETS, for example 8x3")?;
        sizes.push((actions.parse()?, budgets.parse()?));
    }
    if sizes.is_empty() {
        sizes = vec![(1, 1), (8, 3), (64, 1), (16, 16), (64, 8), (64, 64), (1024, 4)];
    }
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "actions  budgets  policy      made ms  decision ms  slowest ms"
    )?;
    for (actions, budgets) in sizes {
        for policy in ["mw", "ce", "cr-pursuit", "guarded"] {
            let file = folder.path().join("sizes.laau");
            let (authority, running) = start(&file)?;
            let (made, mut times) =
                runtime.block_on(decide(&authority, &account(policy, actions, budgets, 1_000)?))?;
            times.sort_unstable();
            let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
            writeln!(
                out,
                "{actions:7}  {budgets:7}  {policy:10}  {:7.1}  {:11.2}  {:10.2}",
                milliseconds(made),
                milliseconds(median),
                milliseconds(slowest)
            )?;
            drop(authority);
            running.stop()?;
            std::fs::remove_file(&file)?;
        }
    }
    writeln!(out, "\npolicy      decisions  rebuilt s")?;
    for policy in ["mw", "guarded"] {
        let file = folder.path().join("rebuilt.laau");
        let (authority, running) = start(&file)?;
        runtime.block_on(fill(&authority, account(policy, 1, 1, decisions)?, decisions))?;
        drop(authority);
        running.stop()?;
        let (authority, running) = start(&file)?;
        let asked = Instant::now();
        let view = runtime.block_on(authority.account("a"))?;
        let rebuilt = asked.elapsed();
        let steps = view.period.map_or(0, |period| period.step);
        writeln!(out, "{policy:10}  {steps:9}  {:9.2}", rebuilt.as_secs_f64())?;
        drop(authority);
        running.stop()?;
        std::fs::remove_file(&file)?;
    }
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn start(file: &Path) -> Result<(Authority, Running), Failure> {
    let options = AuthorityOptions {
        largest: usize::MAX,
        ..AuthorityOptions::default()
    };
    Ok(Authority::start(Box::new(Embedded::open(file)?), options)?)
}

/// Logarithmic utilities that share every budget, of which a step can spend three times its least usage.
fn account(policy: &str, actions: usize, budgets: usize, horizon: usize) -> Result<AccountSpec, Failure> {
    let usage: Vec<Vec<f64>> = (0..budgets)
        .map(|row| {
            let entry = |column| 0.5 + ((row * 7 + column * 13) % 10) as f64 / 10.0;
            (0..actions).map(entry).collect()
        })
        .collect();
    let budget = |row: &Vec<f64>| 3.0 * horizon as f64 * row.iter().sum::<f64>();
    let budgets: Vec<f64> = usage.iter().map(budget).collect();
    let mut spec = serde_json::json!({
        "name": "a",
        "problem": {"name": "log-utility", "usage": usage},
        "policy": {"name": policy},
        "budgets": budgets,
        "horizon": horizon,
    });
    if policy == "guarded" {
        spec["policy"] = serde_json::json!({"name": "mw"});
        spec["guard"] = serde_json::json!({"policy": {"name": "equal"}, "level": 0.95});
    }
    Ok(serde_json::from_value(spec)?)
}

fn context(length: usize, number: usize) -> DecisionRequest {
    let value = |place| ((number * 17 + place * 31) % 100) as f64 / 100.0 + 0.05;
    DecisionRequest {
        context: (0..length).map(value).collect(),
    }
}

/// The time to make an account, and that of each decision.
async fn decide(authority: &Authority, spec: &AccountSpec) -> Result<(Duration, Vec<Duration>), Failure> {
    let asked = Instant::now();
    let view = authority.create(spec.clone()).await?;
    let made = asked.elapsed();
    let length = view.context.unwrap_or(0);
    let mut times = Vec::new();
    for number in 0..=DECISIONS {
        let asked = Instant::now();
        let key = number.to_string();
        authority.decide("a", &key, context(length, number)).await?;
        times.push(asked.elapsed());
    }
    times.remove(0);
    Ok((made, times))
}

/// Fills a period with decisions, many at once, so that they share commits.
async fn fill(authority: &Authority, spec: AccountSpec, decisions: usize) -> Result<(), Failure> {
    const TASKS: usize = 256;
    let length = authority.create(spec).await?.context.unwrap_or(0);
    let tasks = (0..TASKS).map(|task| {
        let authority = authority.clone();
        tokio::spawn(async move {
            for number in (task..decisions).step_by(TASKS) {
                let key = number.to_string();
                authority.decide("a", &key, context(length, number)).await?;
            }
            Ok::<_, laau_serve::Error>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}
