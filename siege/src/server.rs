//! The real binary, started, killed and stopped as an operator, or a bad day, would.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::http::{Client, Request};

/// How long a node may take until it answers: a store is rebuilt within that, on a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A node of the service.
pub(crate) struct Node {
    laau: PathBuf,
    arguments: Vec<String>,
    pub(crate) address: SocketAddr,
    /// What it prints, of all its lives.
    pub(crate) log: PathBuf,
    /// Whether it prints all it can.
    all_logs: bool,
    child: Option<Child>,
}

impl Node {
    /// A node on a free port of the loopback; it is not started yet.
    pub(crate) fn new(laau: &Path, store: &str, folder: &Path, name: &str) -> anyhow::Result<Self> {
        let address = free_address()?;
        let mut arguments: Vec<String> = ["serve", "--store", store, "--listen"].map(str::to_owned).into();
        arguments.push(address.to_string());
        Ok(Self {
            laau: laau.to_owned(),
            arguments,
            address,
            log: folder.join(format!("{name}.log")),
            all_logs: false,
            child: None,
        })
    }

    /// With further arguments.
    pub(crate) fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments
            .extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// With a log of everything, so that a secret that is ever printed is found.
    pub(crate) fn with_all_logs(mut self) -> Self {
        self.all_logs = true;
        self
    }

    /// Starts it; [`Node::ready`] waits for it.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "the node runs already");
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut command = Command::new(&self.laau);
        if self.all_logs {
            command.env("RUST_LOG", "trace");
        }
        let child = command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {}", self.laau.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until it answers `/readyz`.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut client = Client::new(self.address, Duration::from_secs(5));
        loop {
            if let Ok(response) = client.send(&Request::get("/readyz")).await
                && response.status == 200
            {
                return Ok(());
            }
            if let Some(status) = self.exited()? {
                bail!("the node ended ({status}): {}", self.last_words());
            }
            ensure!(
                began.elapsed() < PATIENCE,
                "the node is not ready: {}",
                self.last_words()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn up(&mut self) -> anyhow::Result<()> {
        self.start()?;
        self.ready().await
    }

    /// How it ended, if it did.
    pub(crate) fn exited(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        match &mut self.child {
            None => Ok(None),
            Some(child) => Ok(child.try_wait()?),
        }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Sends a signal, if it runs.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        kill_process(id.context("the node does not run")?, signal)?;
        Ok(())
    }

    /// SIGKILL, and the end of the process.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Waits for the end of a node that ends by itself, and kills one that does not.
    pub(crate) async fn end(&mut self, patience: Duration) -> anyhow::Result<Option<ExitStatus>> {
        let began = Instant::now();
        while began.elapsed() < patience {
            if let Some(status) = self.exited()? {
                self.child = None;
                return Ok(Some(status));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.kill()?;
        Ok(None)
    }

    /// All it printed.
    pub(crate) fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The end of what it printed.
    pub(crate) fn last_words(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Fails if any of its lives ended in a panic.
    pub(crate) fn check_panics(&self) -> anyhow::Result<()> {
        let output = self.output();
        let panic = output.lines().find(|line| line.contains("panicked at"));
        match panic {
            None => Ok(()),
            Some(line) => bail!("the node panicked: {line}"),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// A port that is free now; what listens on it next is ours with good luck, and fails loudly without.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Makes an API key beside the service: `laau serve key`.
pub(crate) fn make_key(
    laau: &Path,
    store: &str,
    scope: &str,
    account: Option<&str>,
) -> anyhow::Result<String> {
    let mut command = Command::new(laau);
    command.args(["serve", "key", "--store", store, "--scope", scope]);
    if let Some(account) = account {
        command.args(["--account", account]);
    }
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", laau.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let secret = text.split_whitespace().find(|word| word.starts_with("laau_"));
    secret.map(str::to_owned).with_context(|| {
        format!(
            "no key was made: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}
