//! `naive`: what a team writes in an afternoon, a service that reads what remains, checks it, and writes; same load, same checker.
//!
//! It is here to overspend. If it does not, the load proves nothing about anybody.

mod service;
mod store;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::Args;
use tokio::time::sleep;

use crate::check::{Kind, check};
use crate::clients::Repertoire;
use crate::cluster::Cluster;
use crate::crash::{finish, make_accounts, start};
use crate::world::{World, one_hot_account};
use crate::{StoreKind, say, skipped};

/// What `naive` is asked.
#[derive(Args)]
pub(crate) struct NaiveArgs {
    /// Where the rival keeps its accounts.
    #[arg(long, value_enum, default_value_t = StoreKind::Embedded)]
    store: StoreKind,
    /// Clients.
    #[arg(long, default_value_t = 24)]
    clients: u64,
    /// Seconds of load.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// The seed of the clients.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the load on the rival; succeeds if the checker finds it guilty of overspending.
pub(crate) async fn run(arguments: &NaiveArgs) -> anyhow::Result<()> {
    say(&format!(
        "naive: check, then spend; store {:?}, seed {}",
        arguments.store, arguments.seed
    ));
    let folder = tempfile::tempdir()?;
    let cluster = match arguments.store {
        StoreKind::Embedded => None,
        StoreKind::Postgres => match Cluster::start()? {
            None => return skipped("serve naive --store postgres", "PostgreSQL is not installed"),
            cluster => cluster,
        },
    };
    let store: Arc<dyn store::Store> = match &cluster {
        None => Arc::new(store::Redb::new(&folder.path().join("naive.redb"))?),
        Some(cluster) => Arc::new(tokio::task::block_in_place(|| {
            store::Postgres::new(&cluster.url())
        })?),
    };
    let address = service::start(store).await?;
    let world = Arc::new(World::new(
        vec![address],
        String::new(),
        arguments.seed,
        one_hot_account(),
    ));
    make_accounts(&world).await?;
    let tasks = start(&world, arguments.clients, Repertoire::Naive);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(arguments.seconds) {
        sleep(Duration::from_millis(50)).await;
    }
    finish(&world, tasks).await?;
    let (counts, faults) = world.with_history(|history| check(history));
    say(&format!("  checked: {counts}"));
    ensure!(counts.decisions > 0, "nothing happened");
    let overspent: Vec<_> = faults
        .iter()
        .filter(|fault| fault.kind == Kind::Overspent)
        .collect();
    match overspent.first() {
        Some(fault) => {
            let times = overspent.len();
            say(&format!(
                "  the rival overspent, as it must: {times} lines above a budget; the first: {fault}"
            ));
            Ok(())
        }
        None => bail!("the rival did not overspend: this load would not find a service that does"),
    }
}
