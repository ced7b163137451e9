//! What was measured, when, where and at which commit: one line of `bench-history.jsonl` per run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::growth::parse;
use crate::peers::Comparison;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Abbreviated, with a plus if the tree had changes.
    pub(crate) commit: String,
    /// Seconds since 1970.
    pub(crate) time: u64,
    /// `small`, `full`, `counts` or `peers`.
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
}

/// Of each name without its sizes, and of each unit, what the last run of more than a few sizes has measured; of runs on the machine
/// of the last one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures {
    pub(crate) machine: Machine,
    pub(crate) all: Vec<Figure>,
    /// The commits of each unit, oldest last.
    pub(crate) commits: BTreeMap<Measure, Vec<String>>,
}

impl Figures {
    /// Those of a history; nothing, if it has none.
    pub(crate) fn latest(history: &[Record]) -> Option<Self> {
        let is_whole = |record: &&Record| record.set != "small" && !record.figures.is_empty();
        let last = history.iter().rev().find(is_whole)?;
        let mut latest = Self {
            machine: last.machine.clone(),
            all: Vec::new(),
            commits: BTreeMap::new(),
        };
        let mut known: BTreeSet<(&str, Measure)> = BTreeSet::new();
        let here = |record: &&Record| record.machine == last.machine;
        for record in history.iter().rev().filter(is_whole).filter(here) {
            let name = |figure: &Figure| parse(&figure.id).0.len();
            let new = |figure: &&Figure| !known.contains(&(&figure.id[..name(figure)], figure.measure));
            let found: Vec<&Figure> = record.figures.iter().filter(new).collect();
            for figure in found {
                known.insert((&figure.id[..name(figure)], figure.measure));
                latest.all.push(figure.clone());
                let commits = latest.commits.entry(figure.measure).or_default();
                if commits.last() != Some(&record.commit) {
                    commits.push(record.commit.clone());
                }
            }
        }
        Some(latest)
    }

    /// The figure of a name and unit.
    pub(crate) fn figure(&self, id: &str, measure: Measure) -> Option<&Figure> {
        self.all
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
    }

    #[test]
    fn the_latest_figures_are_those_of_the_last_whole_run_of_each_name() {
        use Measure::{Instructions, Latency};
        let record = |commit: &str, set: &str, measured: &[(&str, Measure, f64)]| {
            let mut record = Record::begin(Path::new("."), set);
            record.commit = commit.to_owned();
            record.figures = measured
                .iter()
                .map(|&(id, measure, value)| Figure {
                    id: id.to_owned(),
                    measure,
                    value,
                    low: value,
                    high: value,
                })
                .collect();
            record
        };
        let mut elsewhere = record("elsewhere", "full", &[("c/N=1", Latency, 6.0)]);
        elsewhere.machine.cpu = "another".to_owned();
        let history = [
            record(
                "a",
                "full",
                &[
                    ("a/N=1", Latency, 1.0),
                    ("a/N=2", Latency, 2.0),
                    ("b/N=1", Latency, 3.0),
                ],
            ),
            elsewhere,
            record("b", "full", &[("a/N=1", Latency, 4.0)]),
            record("c", "counts", &[("a/N=1", Instructions, 5.0)]),
            record("d", "small", &[("b/N=1", Latency, 9.0)]),
            record("e", "peers", &[]),
        ];
        let latest = Figures::latest(&history).unwrap();
        let value = |id, measure| latest.figure(id, measure).map(|figure| figure.value);
        assert_eq!(value("a/N=1", Latency), Some(4.0));
        assert_eq!(value("a/N=2", Latency), None, "a size that is measured no more");
        assert_eq!(value("b/N=1", Latency), Some(3.0));
        assert_eq!(value("a/N=1", Instructions), Some(5.0));
        assert_eq!(value("c/N=1", Latency), None);
        assert_eq!(latest.commits[&Latency], ["b", "a"]);
        assert_eq!(latest.commits[&Instructions], ["c"]);
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
