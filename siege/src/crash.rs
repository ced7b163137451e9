//! `crash`: a load of clients, and a service that is killed at random moments.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::process::Signal;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::check::check;
use crate::clients::{Asker, Repertoire, client, harvest_newest, keeper};
use crate::cluster::Cluster;
use crate::http::{Client, Request};
use crate::plant::plant_all;
use crate::server::{Node, PATIENCE, make_key};
use crate::world::{World, accounts};
use crate::{StoreKind, say, skipped};

/// What `crash` is asked.
#[derive(Args)]
pub(crate) struct CrashArgs {
    /// How many times something is killed, stopped or restarted.
    #[arg(long, default_value_t = 5)]
    kills: usize,
    /// Where the service keeps its accounts.
    #[arg(long, value_enum, default_value_t = StoreKind::Embedded)]
    store: StoreKind,
    /// Clients.
    #[arg(long, default_value_t = 24)]
    clients: u64,
    /// The seed of clients and faults; a new one each time if not given.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the siege.
pub(crate) async fn run(arguments: &CrashArgs, laau: &Path) -> anyhow::Result<()> {
    let seed = arguments.seed.unwrap_or_else(rand_seed);
    say(&format!(
        "crash: {} kills, store {:?}, seed {seed}",
        arguments.kills, arguments.store
    ));
    let folder = tempfile::tempdir()?;
    let cluster = match arguments.store {
        StoreKind::Embedded => None,
        StoreKind::Postgres => match Cluster::start()? {
            None => return skipped("serve crash --store postgres", "PostgreSQL is not installed"),
            cluster => cluster,
        },
    };
    let store = match &cluster {
        None => folder.path().join("store.redb").display().to_string(),
        Some(cluster) => cluster.url(),
    };
    let secret = make_key(laau, &store, "admin", None)?;
    let mut nodes = Vec::new();
    for name in if cluster.is_some() {
        &["one", "two"][..]
    } else {
        &["one"]
    } {
        let mut node = Node::new(laau, &store, folder.path(), name)?;
        if cluster.is_some() {
            let address = format!("http://{}", node.address);
            // The shortest lease there is: a siege waits for its end many times.
            node = node.with(&["--advertise", &address, "--lease", "2"]);
        }
        node.up().await?;
        nodes.push(node);
    }
    let addresses = nodes.iter().map(|node| node.address).collect();
    let world = Arc::new(World::new(addresses, secret, seed, accounts()));
    make_accounts(&world).await?;
    let tasks = start(&world, arguments.clients, Repertoire::Full);
    let began = Instant::now();
    let mut siege = Siege {
        world: Arc::clone(&world),
        nodes,
        cluster,
        random: ChaCha8Rng::seed_from_u64(seed),
        done: Done::default(),
    };
    for number in 1..=arguments.kills {
        siege.strike(number).await?;
        if number % 10 == 0 || number == arguments.kills {
            let answers = world.with_history(|history| history.answers.len());
            say(&format!(
                "  {number} of {}: {answers} answers, {:.0} s",
                arguments.kills,
                began.elapsed().as_secs_f64()
            ));
        }
        siege.give_up_early()?;
    }
    sleep(Duration::from_millis(300)).await;
    finish(&world, tasks).await?;
    for node in &siege.nodes {
        node.check_panics()?;
    }
    say(&format!("  {}", siege.done));
    siege.expect_every_kind(arguments.kills)?;
    judge(&world)
}

/// A seed that differs from run to run.
fn rand_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_secs() % 1_000_000)
}

/// Makes the accounts.
pub(crate) async fn make_accounts(world: &World) -> anyhow::Result<()> {
    let mut client = Client::new(world.nodes[0], PATIENCE);
    for account in &world.accounts {
        let request = Request::post("/v1/accounts", account.spec.to_string()).by(&world.secret);
        let response = client.send(&request).await?;
        ensure!(
            matches!(response.status, 200 | 201),
            "account {}: {} {}",
            account.name,
            response.status,
            response.text()
        );
    }
    Ok(())
}

/// Starts clients and keepers.
pub(crate) fn start(world: &Arc<World>, clients: u64, repertoire: Repertoire) -> Vec<JoinHandle<()>> {
    let barrier = Arc::new(Barrier::new(usize::try_from(clients).unwrap_or(1)));
    let clients = (0..clients).map(|number| {
        tokio::spawn(client(
            Arc::clone(world),
            number,
            Arc::clone(&barrier),
            repertoire,
        ))
    });
    let keepers = (0..world.accounts.len()).map(|place| tokio::spawn(keeper(Arc::clone(world), place)));
    clients.chain(keepers).collect()
}

/// Lets the clients finish what they began, and reads the rest of the logs.
pub(crate) async fn finish(world: &Arc<World>, tasks: Vec<JoinHandle<()>>) -> anyhow::Result<()> {
    world.ending.store(true, Ordering::Relaxed);
    for task in tasks {
        let ended = tokio::time::timeout(PATIENCE, task).await;
        ended.context("a client got no answer although the service runs")??;
    }
    let mut asker = Asker::new(world, 2_000_000);
    for account in &world.accounts {
        harvest_newest(&mut asker, account).await;
    }
    Ok(())
}

/// Checks everything that was seen, and the checker with it.
fn judge(world: &World) -> anyhow::Result<()> {
    world.with_history(|history| {
        let (counts, faults) = check(history);
        say(&format!("  checked: {counts}"));
        if !faults.is_empty() {
            for fault in faults.iter().take(20) {
                say(&format!("  FAULT {fault}"));
            }
            bail!("{} faults (seed {})", faults.len(), world.seed);
        }
        ensure!(counts.decisions > 0 && counts.repeated > 0, "nothing happened: {counts}");
        let planted = plant_all(history)?;
        say(&format!(
            "  no faults: every answer is in the log with its bytes, sums are within budgets exactly; {planted} of {planted} \
             planted faults were found"
        ));
        Ok(())
    })
}

/// What was done to the service.
#[derive(Default)]
struct Done {
    killed: usize,
    killed_while_starting: usize,
    taken_over: usize,
    database: usize,
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} SIGKILLs ({} of them while it started), {} SIGSTOPs until another node took over, {} restarts of the database",
            self.killed, self.killed_while_starting, self.taken_over, self.database
        )
    }
}

/// One thing that is done to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strike {
    /// SIGKILL.
    Kill,
    /// SIGKILL, and once more while it starts.
    KillTwice,
    /// SIGSTOP until another node has taken over, then SIGCONT.
    Stop,
    /// The database ends without a shutdown, and starts again.
    RestartDatabase,
}

impl Strike {
    /// The strike of a number, from 1. The first are one of each kind, so that a short run has them all; the others are drawn.
    fn choose(number: usize, has_cluster: bool, random: &mut ChaCha8Rng) -> Self {
        let first: &[Self] = if has_cluster {
            &[Self::Kill, Self::Stop, Self::RestartDatabase, Self::KillTwice]
        } else {
            &[Self::Kill, Self::KillTwice]
        };
        if let Some(strike) = number.checked_sub(1).and_then(|place| first.get(place)) {
            return *strike;
        }
        match random.random_range(0..10) {
            0..3 if has_cluster => Self::Stop,
            3..5 if has_cluster => Self::RestartDatabase,
            5..7 => Self::KillTwice,
            _ => Self::Kill,
        }
    }
}

struct Siege {
    world: Arc<World>,
    nodes: Vec<Node>,
    cluster: Option<Cluster>,
    random: ChaCha8Rng,
    done: Done,
}

impl Siege {
    /// One fault at a random moment, and the recovery from it.
    async fn strike(&mut self, number: usize) -> anyhow::Result<()> {
        let millis = self.random.random_range(20..700);
        sleep(Duration::from_millis(millis)).await;
        let place = self.random.random_range(0..self.nodes.len());
        match Strike::choose(number, self.cluster.is_some(), &mut self.random) {
            Strike::Kill => self.kill(place).await,
            Strike::KillTwice => {
                // It is killed once more while it starts.
                self.nodes[place].kill()?;
                self.nodes[place].start()?;
                let millis = self.random.random_range(0..60);
                sleep(Duration::from_millis(millis)).await;
                self.done.killed_while_starting += 1;
                self.kill(place).await
            }
            Strike::Stop => self.stop_until_taken_over(place).await,
            Strike::RestartDatabase => self.restart_database().await,
        }
    }

    /// Refuses a run that lacks a kind of fault: it would be taken for one that survived it.
    fn expect_every_kind(&self, kills: usize) -> anyhow::Result<()> {
        let Done {
            killed,
            taken_over,
            database,
            ..
        } = self.done;
        let is_whole = self.cluster.is_none() || kills < 3 || (killed > 0 && taken_over > 0 && database > 0);
        ensure!(is_whole, "expected faults of every kind, found {}", self.done);
        Ok(())
    }

    async fn kill(&mut self, place: usize) -> anyhow::Result<()> {
        self.nodes[place].kill()?;
        self.done.killed += 1;
        let millis = self.random.random_range(0..100);
        sleep(Duration::from_millis(millis)).await;
        self.nodes[place].up().await
    }

    async fn restart_database(&mut self) -> anyhow::Result<()> {
        let cluster = self.cluster.as_ref().context("no database")?;
        tokio::task::block_in_place(|| cluster.restart_immediately())?;
        self.done.database += 1;
        for node in &mut self.nodes {
            node.ready().await?;
        }
        Ok(())
    }

    /// SIGSTOP, until the other node has taken over what this one owned; then SIGCONT, and time for its late requests.
    async fn stop_until_taken_over(&mut self, place: usize) -> anyhow::Result<()> {
        let world = Arc::clone(&self.world);
        let _not_calm = world.calm.write().await;
        let (mut place, began) = (place, Instant::now());
        let owned = loop {
            let owned = self.owned(place).await;
            if !owned.is_empty() {
                break owned;
            }
            ensure!(began.elapsed() < PATIENCE, "no node answers for any account");
            place = 1 - place;
        };
        self.nodes[place].signal(Signal::STOP)?;
        let other = 1 - place;
        let began = Instant::now();
        for account in &owned {
            while !owns(&world, self.nodes[other].address, account).await {
                if began.elapsed() > PATIENCE {
                    self.nodes[place].signal(Signal::CONT)?;
                    bail!(
                        "account {account} was not taken over: {}",
                        self.nodes[other].last_words()
                    );
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
        let millis = self.random.random_range(0..300);
        sleep(Duration::from_millis(millis)).await;
        self.nodes[place].signal(Signal::CONT)?;
        // What waited in its sockets is now refused by the epoch; this is the moment the siege is about.
        sleep(Duration::from_millis(1500)).await;
        self.done.taken_over += 1;
        Ok(())
    }

    /// The accounts that a node answers for.
    async fn owned(&self, place: usize) -> Vec<String> {
        let mut owned = Vec::new();
        for account in &self.world.accounts {
            if owns(&self.world, self.nodes[place].address, &account.name).await {
                owned.push(account.name.clone());
            }
        }
        owned
    }

    /// Ends the siege at the first thing that must not be.
    fn give_up_early(&self) -> anyhow::Result<()> {
        let unexpected = self.world.with_history(|history| {
            history
                .unexpected
                .iter()
                .chain(&history.rewritten)
                .next()
                .cloned()
        });
        match unexpected {
            None => Ok(()),
            Some(what) => bail!("{what} (seed {})", self.world.seed),
        }
    }
}

/// Whether a node answers for an account itself.
async fn owns(world: &World, node: std::net::SocketAddr, account: &str) -> bool {
    let mut client = Client::new(node, Duration::from_secs(5));
    let request = Request::get(format!("/v1/accounts/{account}")).by(&world.secret);
    client
        .send(&request)
        .await
        .is_ok_and(|response| response.status == 200)
}

/// The path of the binary, from the command line.
pub(crate) fn binary(path: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    let path = path.context("expected --laau and the path of the binary; cargo xtask serve gives it")?;
    ensure!(path.exists(), "no binary {}", path.display());
    Ok(path.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_strikes_are_one_of_each_kind_whatever_the_seed() {
        use Strike::{Kill, KillTwice, RestartDatabase, Stop};
        for seed in 0..20 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut first =
                |has_cluster| [1, 2, 3, 4].map(|number| Strike::choose(number, has_cluster, &mut random));
            assert_eq!(first(true), [Kill, Stop, RestartDatabase, KillTwice]);
            let alone = first(false);
            assert_eq!(alone[..2], [Kill, KillTwice]);
            assert!(
                alone.iter().all(|strike| [Kill, KillTwice].contains(strike)),
                "{alone:?}"
            );
        }
    }
}
