//! Tables on their way to files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use laau::core::tables::{EPISODE_KEYS, EPISODES_FILE, Row};
use laau::core::{Episodes, PolicyReport, Report};

use crate::failure::{Failure, Hint as _};
use crate::output;

/// Named tables; they are written together at the end, each as a whole.
pub(super) struct Tables {
    folder: PathBuf,
    by_name: BTreeMap<&'static str, csv::Writer<Vec<u8>>>,
    episodes: String,
}

/// Whose single episodes are exported.
pub(super) struct EpisodeKey<'a> {
    pub(super) data: &'a str,
    /// The distance of the training data from the default.
    pub(super) target: f64,
    pub(super) horizon: usize,
    pub(super) seed: u64,
}

impl Tables {
    pub(super) fn new(folder: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| output::cannot_write(folder, &error))?;
        Ok(Self {
            folder: folder.to_owned(),
            by_name: BTreeMap::new(),
            episodes: String::new(),
        })
    }

    /// Adds a row to its table.
    pub(super) fn add<R: Row>(&mut self, row: &R) -> Result<(), Failure> {
        let table = self
            .by_name
            .entry(R::FILE)
            .or_insert_with(|| csv::Writer::from_writer(Vec::new()));
        table
            .serialize(row)
            .hint("this is a mistake in laau itself: please report it")
    }

    /// Adds the test episodes of a report to `episodes.csv`: utility per step of every policy, and what it leaves of the first
    /// budget in percent.
    pub(super) fn add_episodes(&mut self, key: &EpisodeKey<'_>, test: &Episodes, report: &Report) {
        let policies: Vec<&PolicyReport> = report.policies.iter().collect();
        if self.episodes.is_empty() {
            let names = policies.iter().map(|policy| policy.name.clone());
            let left = policies.iter().map(|policy| format!("{} left", policy.name));
            let columns: Vec<String> = EPISODE_KEYS
                .iter()
                .map(|key| (*key).to_owned())
                .chain(names)
                .chain(left)
                .collect();
            self.episodes = columns.join(",") + "\n";
        }
        for (index, episode) in test.iter().enumerate() {
            let series = test.series().map_or("", |series| &series[index]);
            // Writing to a string does not fail.
            let _ = write!(
                self.episodes,
                "{},{},{},{},{series},{index}",
                key.data, key.target, key.horizon, key.seed
            );
            for policy in &policies {
                let _ = write!(
                    self.episodes,
                    ",{}",
                    short(policy.runs[0].results.utilities[index])
                );
            }
            for policy in &policies {
                let left = policy.runs[0].results.remaining_of(index)[0];
                let _ = write!(self.episodes, ",{}", short(100.0 * left / episode.budgets()[0]));
            }
            self.episodes.push('\n');
        }
    }

    /// Writes all tables.
    pub(super) fn save(self) -> Result<(), Failure> {
        for (name, table) in self.by_name {
            let bytes = table
                .into_inner()
                .hint("this is a mistake in laau itself: please report it")?;
            output::write_bytes(&self.folder.join(name), &bytes)?;
        }
        if !self.episodes.is_empty() {
            output::write_bytes(&self.folder.join(EPISODES_FILE), self.episodes.as_bytes())?;
        }
        Ok(())
    }
}

/// A number to nine significant digits: differences between policies are of the fourth.
fn short(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}

/// Puts the tables of several folders together, in their order, each under one heading.
pub(super) fn join(folders: &[PathBuf], to: &Path) -> Result<(), Failure> {
    let mut joined: BTreeMap<std::ffi::OsString, Vec<u8>> = BTreeMap::new();
    for folder in folders {
        let unreadable = |error| Failure::file(folder, &error, "run the same command again");
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let bytes = std::fs::read(&path)
                .map_err(|error| Failure::file(&path, &error, "run the same command again"))?;
            let heading = bytes
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(bytes.len(), |end| end + 1);
            let table = joined
                .entry(path.file_name().unwrap_or_default().to_owned())
                .or_default();
            table.extend_from_slice(if table.is_empty() {
                &bytes
            } else {
                &bytes[heading..]
            });
        }
    }
    for (name, bytes) in joined {
        output::write_bytes(&to.join(name), &bytes)?;
    }
    Ok(())
}
