//! A worker: a program that tells what it can do, and then does it on request. `benches/peers/protocol.py` has the words.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::json;

use super::{Case, Failure};

/// A running worker.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// What a worker told before it was ready.
#[derive(Debug, Default)]
pub(super) struct Announced {
    pub(super) cases: Vec<Case>,
    pub(super) strict: Vec<Played>,
    pub(super) failed: Vec<Failure>,
    pub(super) versions: BTreeMap<String, String>,
}

/// Episodes with strict budgets, as they were played.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Played {
    pub(super) peer: String,
    pub(super) variant: String,
    pub(super) episodes: Vec<PlayedEpisode>,
}

/// One of them.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct PlayedEpisode {
    pub(super) budgets: Vec<f64>,
    /// One list per step.
    pub(super) usages: Vec<Vec<f64>>,
    pub(super) aborted: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Message {
    Case(Case),
    Strict(Played),
    Failed(Failure),
    Ready { versions: BTreeMap<String, String> },
    Samples(Vec<f64>),
}

impl Worker {
    /// Starts a program and listens until it is ready. What it says on standard error goes to a file.
    pub(super) fn start(mut command: Command, log: &Path) -> anyhow::Result<(Self, Announced)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log).with_context(|| format!("cannot write {}", log.display()))?)
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("a worker without an output")?);
        let mut worker = Self {
            child,
            requests,
            answers,
        };
        let mut announced = Announced::default();
        loop {
            match worker.hear().map_err(|error| match last_line(log) {
                Some(line) => error.context(line),
                None => error,
            })? {
                Message::Case(case) => announced.cases.push(case),
                Message::Strict(played) => announced.strict.push(played),
                Message::Failed(failure) => announced.failed.push(failure),
                Message::Ready { versions } => {
                    announced.versions = versions;
                    return Ok((worker, announced));
                }
                Message::Samples(_) => bail!("samples that nobody asked for"),
            }
        }
    }

    /// Has a case repeated for some seconds; gives the seconds of a unit of every repetition.
    pub(super) fn measure(&mut self, case: usize, seconds: f64) -> anyhow::Result<Vec<f64>> {
        let requests = self.requests.as_mut().context("a worker without an input")?;
        writeln!(requests, "{}", json!({ "run": case, "seconds": seconds }))?;
        requests.flush()?;
        match self.hear()? {
            Message::Samples(samples) if !samples.is_empty() => Ok(samples),
            _ => bail!("a worker did not answer with samples"),
        }
    }

    fn hear(&mut self) -> anyhow::Result<Message> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("the worker ended early")
        }
        serde_json::from_str(&line).with_context(|| format!("not a message: {}", line.trim()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The end of its input is the end of a worker.
        self.requests = None;
        let _ = self.child.wait();
    }
}

fn last_line(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    Some(
        text.lines()
            .rev()
            .find(|line| !line.trim().is_empty())?
            .trim()
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> anyhow::Result<(Worker, Announced)> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let folder = tempfile::tempdir()?;
        Worker::start(command, &folder.path().join("log"))
    }

    #[test]
    fn a_worker_announces_and_answers() {
        let script = r#"
            echo '{"case": {"id": 3, "peer": "p", "work": "w", "variant": "v", "precision": "f64", "violation": 0.5}}'
            echo '{"failed": {"peer": "q", "work": "w", "variant": "", "reason": "no such module"}}'
            echo '{"ready": {"versions": {"p": "1.2"}}}'
            read request
            case "$request" in *'"run":3'*) echo '{"samples": [0.25, 0.5]}';; esac"#;
        let (mut worker, announced) = shell(script).unwrap();
        assert_eq!(announced.cases[0].violation, Some(0.5));
        assert_eq!(announced.failed[0].reason, "no such module");
        assert_eq!(announced.versions["p"], "1.2");
        assert_eq!(worker.measure(3, 0.1).unwrap(), [0.25, 0.5]);
    }

    #[test]
    fn why_a_worker_did_not_start_is_told() {
        let error = shell("echo 'ModuleNotFoundError: jax' >&2; exit 1").unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "ModuleNotFoundError: jax: the worker ended early"
        );
    }
}
