//! What a team would write instead, with its own tools: a row in PostgreSQL, a script in Redis; and what a disk gives at most.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::drive::{Measured, Worker, drive};
use super::{ACCOUNTS, CLIENTS, Times};
use crate::cluster::{Cluster, run};

/// What remains is lowered if it covers the amount, and nothing is kept of who spent it.
const UPDATE: &str = "\
UPDATE budget SET remaining = remaining - 0.5 WHERE id = :id AND remaining >= 0.5;
";

/// The same and a log line: the two statements of most services, in one transaction.
const TWO_STATEMENTS: &str = "\
BEGIN;
UPDATE budget SET remaining = remaining - 0.5 WHERE id = :id AND remaining >= 0.5;
INSERT INTO spend (budget, amount) VALUES (:id, 0.5);
END;
";

/// Both in one statement: one round trip, and the row is locked for as short as can be.
const ONE_STATEMENT: &str = "\
WITH spent AS (UPDATE budget SET remaining = remaining - 0.5 WHERE id = :id AND remaining >= 0.5 RETURNING id)
INSERT INTO spend (budget, amount) SELECT id, 0.5 FROM spent;
";

/// So many rows of pgbench: the bare update, then with a log line as two statements and as one; each on the hot row and on all.
pub(super) fn pgbench(
    cluster: &Cluster,
    times: &Times,
    scripts: usize,
) -> anyhow::Result<Vec<(Measured, Measured)>> {
    cluster.sql(&format!(
        "CREATE TABLE budget (id int PRIMARY KEY, remaining double precision NOT NULL);
         CREATE TABLE spend (id bigserial PRIMARY KEY, budget int NOT NULL, amount double precision NOT NULL,
                             at timestamptz NOT NULL DEFAULT now());
         INSERT INTO budget SELECT id, 1e12 FROM generate_series(1, {ACCOUNTS}) id;"
    ))?;
    let folder = tempfile::tempdir()?;
    if rustix::process::getuid().is_root() {
        run(Command::new("chown").arg("postgres").arg(folder.path()))?;
    }
    let one = |rows: u64, script: &str| one_pgbench(cluster, folder.path(), rows, script, times);
    let scripts = [UPDATE, TWO_STATEMENTS, ONE_STATEMENT].into_iter().take(scripts);
    scripts
        .map(|script| Ok((one(1, script)?, one(ACCOUNTS, script)?)))
        .collect()
}

fn one_pgbench(
    cluster: &Cluster,
    folder: &Path,
    rows: u64,
    script: &str,
    times: &Times,
) -> anyhow::Result<Measured> {
    let file = folder.join("script.sql");
    std::fs::write(&file, format!("\\set id random(1, {rows})\n{script}"))?;
    let log = folder.join(format!("log-{rows}-{}", script.len()));
    let seconds = times.measured.as_secs().max(1);
    run(cluster
        .program("pgbench")
        .args([
            "-n",
            "-M",
            "prepared",
            "-j",
            "1",
            "-l",
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
        ])
        .args([
            "-c",
            &CLIENTS.to_string(),
            "-T",
            &seconds.to_string(),
            "-p",
            &cluster.port.to_string(),
        ])
        .arg("--log-prefix")
        .arg(&log)
        .arg("-f")
        .arg(&file)
        .arg("postgres")
        .stderr(Stdio::null()))?;
    let mut micros = Vec::new();
    for found in std::fs::read_dir(folder)? {
        let found = found?.path();
        if found.to_string_lossy().starts_with(&*log.to_string_lossy()) {
            let text = std::fs::read_to_string(&found)?;
            micros.extend(
                text.lines()
                    .filter_map(|line| line.split(' ').nth(2)?.parse::<u32>().ok()),
            );
        }
    }
    Measured::new(micros, Duration::from_secs(seconds))
}

/// Takes from a budget if it covers the amount, and writes a line of a log.
const SCRIPT: &str = "local left = tonumber(redis.call('GET', KEYS[1]) or '1e12') \
                      local amount = tonumber(ARGV[1]) \
                      if left < amount then return 0 end \
                      redis.call('SET', KEYS[1], left - amount) \
                      redis.call('RPUSH', KEYS[1] .. ':log', ARGV[2]) \
                      return 1";

struct Redis {
    child: Child,
    address: SocketAddr,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Redis with a script, every write synced before it is answered; nothing where it is not installed.
pub(super) async fn redis(folder: &Path, times: &Times) -> anyhow::Result<Option<(Measured, Measured)>> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let child = Command::new("redis-server")
        .args([
            "--bind",
            "127.0.0.1",
            "--port",
            &address.port().to_string(),
            "--save",
            "",
        ])
        .args(["--appendonly", "yes", "--appendfsync", "always", "--dir"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else {
        return Ok(None);
    };
    let redis = Redis { child, address };
    let began = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(redis.address).await {
            Ok(stream) => break stream,
            Err(_) if began.elapsed() < Duration::from_secs(20) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => bail!("Redis does not answer: {error}"),
        }
    };
    stream.write_all(&command(&["SCRIPT", "LOAD", SCRIPT])).await?;
    let mut buffer = Vec::new();
    while buffer.len() < 47 {
        ensure!(stream.read_buf(&mut buffer).await? > 0, "Redis took no script");
    }
    let digest = String::from_utf8(buffer[5..45].to_vec())?;
    let measure = async |rows: u64| {
        let mut workers = Vec::new();
        for number in 0..CLIENTS {
            let stream = TcpStream::connect(redis.address).await?.into_std()?;
            workers.push(Spender {
                stream: Some(stream),
                connected: None,
                digest: digest.clone(),
                rows,
                state: number + 1,
            });
        }
        drive(workers, times.warm_up, times.measured)
    };
    Ok(Some((measure(1).await?, measure(ACCOUNTS).await?)))
}

/// A command as Redis reads it.
fn command(words: &[&str]) -> Vec<u8> {
    use std::fmt::Write as _;
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        let _ = write!(text, "${}\r\n{word}\r\n", word.len());
    }
    text.into_bytes()
}

struct Spender {
    /// Until the thread of the driver takes it over.
    stream: Option<std::net::TcpStream>,
    connected: Option<TcpStream>,
    digest: String,
    rows: u64,
    state: u64,
}

impl Worker for Spender {
    async fn once(&mut self) -> anyhow::Result<()> {
        if let Some(stream) = self.stream.take() {
            let stream = TcpStream::from_std(stream)?;
            stream.set_nodelay(true)?;
            self.connected = Some(stream);
        }
        let stream = self.connected.as_mut().context("no connection")?;
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let row = format!("budget-{}", (self.state >> 33) % self.rows);
        let line = format!("{}", self.state);
        stream
            .write_all(&command(&["EVALSHA", &self.digest, "1", &row, "0.5", &line]))
            .await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        ensure!(
            &answer == b":1\r\n",
            "Redis answered {}",
            String::from_utf8_lossy(&answer)
        );
        Ok(())
    }
}

/// What a disk gives one program that does nothing else: a line, and a sync.
pub(super) fn sync(folder: &Path, times: &Times) -> anyhow::Result<Measured> {
    let mut file = std::fs::File::create(folder.join("sync"))?;
    let began = Instant::now();
    let mut micros = Vec::new();
    while began.elapsed() < times.measured {
        let sent = Instant::now();
        file.write_all(&[7; 128])?;
        file.sync_data()?;
        micros.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    Measured::new(micros, began.elapsed())
}
