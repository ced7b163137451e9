//! `load`: durable decisions a second, in one run beside what a team would write instead.

mod drive;
mod ours;
mod page;
mod rivals;
mod wire;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use drive::Measured;

use crate::cluster::Cluster;
use crate::{say, skipped};

/// Clients of every row.
const CLIENTS: u64 = 16;
/// Accounts of the rows that are not hot.
const ACCOUNTS: u64 = 1000;

/// What `load` is asked.
#[derive(Args)]
pub(crate) struct LoadArgs {
    /// Seconds that each row is measured.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The others alone: no service is started, no page is written.
    #[arg(long, conflicts_with = "only")]
    rivals: bool,
    /// These rows alone, in turns with others while something is tuned; no page is written.
    #[arg(long, value_enum, value_name = "ROW")]
    only: Vec<Part>,
    /// Decisions over which memory is watched; 0 for none.
    #[arg(long, default_value_t = 1_000_000)]
    memory: u64,
    /// Write the tables into this page, between its marks.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// How the binary was built, for the page.
    #[arg(long, default_value = "unknown")]
    profile: String,
}

/// What can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Sync,
    Embedded,
    Postgres,
    /// The bare update.
    Update,
    Pgbench,
    Redis,
    Memory,
}

impl LoadArgs {
    fn wants(&self, part: Part) -> bool {
        let ours = matches!(part, Part::Embedded | Part::Postgres | Part::Memory);
        match self.only.as_slice() {
            [] => !(self.rivals && ours),
            only => only.contains(&part) || (part == Part::Update && only.contains(&Part::Pgbench)),
        }
    }
}

/// How long a row takes.
struct Times {
    warm_up: Duration,
    measured: Duration,
}

/// One row: who, on the hot account, on all accounts.
pub(crate) struct Row {
    who: &'static str,
    hot: Measured,
    /// The bare sync has no accounts.
    spread: Option<Measured>,
}

/// Everything that was measured.
pub(crate) struct Found {
    rows: Vec<Row>,
    /// Decisions and MiB.
    memory: Vec<(u64, f64)>,
    profile: String,
}

const EMBEDDED: &str = "laau serve, embedded store";
const POSTGRES: &str = "laau serve, PostgreSQL";
/// The row that targets are judged by.
const UPDATE: &str = "pgbench: `UPDATE … SET remaining = remaining − x WHERE remaining ≥ x`, no log line";
const WITH_INSERT: &str = "pgbench: the same and an `INSERT` of a log line, one transaction";
const ONE_STATEMENT: &str = "pgbench: both as one statement";

/// Measures everything, prints it, and writes the page.
pub(crate) async fn run(arguments: &LoadArgs, laau: &Path) -> anyhow::Result<()> {
    let times = Times {
        warm_up: Duration::from_secs(2),
        measured: Duration::from_secs(arguments.seconds),
    };
    say(&format!(
        "load: {CLIENTS} clients, {} s each row, profile {}",
        arguments.seconds, arguments.profile
    ));
    let folder = tempfile::tempdir()?;
    let mut rows = Vec::new();
    let mut add = |who, (hot, spread): (Measured, Option<Measured>)| {
        say(&format!(
            "  {who}: {}{}",
            page::short(&hot),
            spread.as_ref().map_or(String::new(), |spread| {
                format!("; {ACCOUNTS} accounts: {}", page::short(spread))
            })
        ));
        rows.push(Row { who, hot, spread });
    };
    if arguments.wants(Part::Sync) {
        add(
            "fdatasync of 128 bytes, one program",
            (rivals::sync(folder.path(), &times)?, None),
        );
    }
    if arguments.wants(Part::Embedded) {
        let store = folder.path().join("store.redb").display().to_string();
        let (hot, spread) = ours::rows(laau, &store, folder.path(), &times).await?;
        add(EMBEDDED, (hot, Some(spread)));
    }
    if [Part::Postgres, Part::Update, Part::Pgbench]
        .map(|part| arguments.wants(part))
        .contains(&true)
    {
        match Cluster::start()? {
            None => skipped("serve load: PostgreSQL", "PostgreSQL is not installed")?,
            Some(cluster) => {
                if arguments.wants(Part::Postgres) {
                    let (hot, spread) = ours::rows(laau, &cluster.url(), folder.path(), &times).await?;
                    add(POSTGRES, (hot, Some(spread)));
                }
                if arguments.wants(Part::Update) {
                    let scripts = if arguments.wants(Part::Pgbench) { 3 } else { 1 };
                    let measured = rivals::pgbench(&cluster, &times, scripts)?;
                    for (who, (hot, spread)) in [UPDATE, WITH_INSERT, ONE_STATEMENT].into_iter().zip(measured)
                    {
                        add(who, (hot, Some(spread)));
                    }
                }
            }
        }
    }
    if arguments.wants(Part::Redis) {
        match rivals::redis(folder.path(), &times).await? {
            None => skipped("serve load: Redis", "redis-server is not installed")?,
            Some((hot, spread)) => add("Redis: a Lua script, `appendfsync always`", (hot, Some(spread))),
        }
    }
    let memory = match arguments.memory {
        0 => Vec::new(),
        decisions if arguments.wants(Part::Memory) => ours::memory(laau, folder.path(), decisions).await?,
        _ => Vec::new(),
    };
    let found = Found {
        rows,
        memory,
        profile: arguments.profile.clone(),
    };
    let text = page::tables(&found);
    say(&text);
    if let Some(path) = arguments
        .page
        .as_ref()
        .filter(|_| !arguments.rivals && arguments.only.is_empty())
    {
        page::write(path, &text)?;
        say(&format!("{}", path.display()));
    }
    Ok(())
}
