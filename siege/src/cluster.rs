//! A PostgreSQL of our own in a temporary folder.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

/// A cluster that runs until it is dropped.
pub(crate) struct Cluster {
    programs: PathBuf,
    folder: TempDir,
    pub(crate) port: u16,
}

impl Cluster {
    /// Makes a cluster and starts it; nothing where PostgreSQL is not installed.
    pub(crate) fn start() -> anyhow::Result<Option<Self>> {
        let Some(programs) = programs() else {
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let cluster = Self {
            programs,
            folder,
            port,
        };
        if rustix::process::getuid().is_root() {
            run(Command::new("chown").arg("postgres").arg(cluster.folder.path()))?;
        }
        let data = cluster.data();
        run(cluster
            .program("initdb")
            .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
            .arg(&data))?;
        cluster.control("start", &[])?;
        Ok(Some(cluster))
    }

    /// The address for clients, with a database that is there.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Ends it without a word to anybody, and starts it again: recovery from its log.
    pub(crate) fn restart_immediately(&self) -> anyhow::Result<()> {
        self.control("restart", &["-m", "immediate"])
    }

    /// Runs a file of SQL.
    pub(crate) fn sql(&self, text: &str) -> anyhow::Result<()> {
        let port = self.port.to_string();
        run(self.program("psql").args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-p",
            &port,
            "-c",
            text,
        ]))
    }

    /// A program of the installation, by the user who may run it.
    pub(crate) fn program(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = if rustix::process::getuid().is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        command.current_dir(self.folder.path());
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn control(&self, what: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={}",
            self.port,
            self.folder.path().display()
        );
        run(self
            .program("pg_ctl")
            .args([what, "-w", "-t", "120", "-o", &options, "-l"])
            .arg(self.folder.path().join("log"))
            .arg("-D")
            .arg(self.data())
            .args(arguments))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.control("stop", &["-m", "immediate"]);
    }
}

/// The folder of `initdb`, `pg_ctl` and `pgbench`: that of the newest version.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| {
            let version = version.ok()?;
            Some((
                version.file_name().to_str()?.parse().ok()?,
                version.path().join("bin"),
            ))
        })
        .filter(|(_, folder)| folder.join("initdb").exists())
        .collect();
    versions.sort();
    let on_path = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path).find(|folder: &PathBuf| Path::new(folder).join("initdb").exists())
    });
    versions.pop().map(|(_, folder)| folder).or(on_path)
}

/// Runs a command to its end, which must be a good one.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    // Not piped: what it leaves behind (a server) would keep a pipe open for ever.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
