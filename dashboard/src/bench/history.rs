//! What was measured, when, where and at which commit: one line of `bench-history.jsonl` per run.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::peers::Comparison;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Abbreviated, with a plus if the tree had changes.
    pub(crate) commit: String,
    /// Seconds since 1970.
    pub(crate) time: u64,
    /// `small`, `full` or `peers`.
    pub(crate) set: String,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// What was measured, in order of name and measure.
    #[serde(default)]
    pub(crate) figures: Vec<Figure>,
    /// The comparison with peers, if it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peers: Option<Comparison>,
}

/// Where a run took place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) cpu: String,
    /// How many threads it runs at once.
    pub(crate) cores: usize,
    /// Operating system and architecture.
    pub(crate) os: String,
    /// The compiler.
    pub(crate) rustc: String,
}

/// One measured number. Names end with the sizes, as in `opt/interior-point/d=4,M=2,N=20`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) id: String,
    /// In which unit.
    pub(crate) measure: Measure,
    /// The median of all samples, or the count.
    pub(crate) value: f64,
    /// The least sample.
    pub(crate) low: f64,
    /// The ninth decile.
    pub(crate) high: f64,
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Measure {
    /// Nanoseconds.
    Latency,
    /// Executed instructions, counted.
    Instructions,
}

impl Measure {
    /// As in exported files.
    pub(crate) fn slug(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Instructions => "instructions",
        }
    }

    /// The unit in words.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Latency => "ns",
            Self::Instructions => "instructions",
        }
    }
}

impl Record {
    /// A record of now and here, with nothing in it.
    pub(crate) fn begin(root: &Path, set: &str) -> Self {
        Self {
            commit: crate::git::commit(root, "+"),
            time: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            set: set.to_owned(),
            machine: Machine::here(),
            figures: Vec::new(),
            peers: None,
        }
    }

    /// Adds the record at the end of a file.
    pub(crate) fn append(&self, path: &Path) -> anyhow::Result<()> {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        writeln!(file, "{}", serde_json::to_string(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// The figure of a name and unit.
    pub(crate) fn figure(&self, id: &str, measure: Measure) -> Option<&Figure> {
        self.figures
            .iter()
            .find(|figure| figure.id == id && figure.measure == measure)
    }
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Self {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        Self {
            cpu: cpu.unwrap_or_else(|| "unknown processor".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            rustc: first_line("rustc", &["--version"]).unwrap_or_else(|| "unknown compiler".to_owned()),
        }
    }
}

/// All records of a file, oldest first; none, if there is no file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Record>> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(Vec::new());
    };
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("{}:{}: not a record", path.display(), index + 1))
        })
        .collect()
}

/// The first line that a program prints, if it runs.
pub(crate) fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output
        .status
        .success()
        .then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        assert_eq!(read(&path).unwrap(), []);
        let mut record = Record::begin(folder.path(), "small");
        record.figures.push(Figure {
            id: "a/b/N=1".to_owned(),
            measure: Measure::Instructions,
            value: 12.0,
            low: 12.0,
            high: 12.0,
        });
        record.append(&path).unwrap();
        record.append(&path).unwrap();
        let records = read(&path).unwrap();
        assert_eq!(records, [record.clone(), record]);
        assert!(records[0].figure("a/b/N=1", Measure::Instructions).is_some());
        assert!(records[0].figure("a/b/N=1", Measure::Latency).is_none());
    }

    #[test]
    fn a_broken_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        std::fs::write(&path, "\n{}\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.ends_with("history.jsonl:2: not a record"), "{error}");
    }
}
