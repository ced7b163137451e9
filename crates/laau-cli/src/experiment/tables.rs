//! Tables on their way to files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use laau::core::tables::{EPISODE_KEYS, EPISODES_FILE, Row};
use laau::core::{Episodes, PolicyReport};

use crate::failure::{Failure, Hint as _};
use crate::output;

/// What one cell of an experiment adds to the tables: CSV with its heading, by the name of the file.
pub type Parts = BTreeMap<String, String>;

/// The tables of one cell while its rows are added.
#[derive(Default)]
pub(super) struct Tables {
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
    /// Adds a row to its table.
    pub(super) fn add<R: Row>(&mut self, row: &R) -> Result<(), Failure> {
        let table = self
            .by_name
            .entry(R::FILE)
            .or_insert_with(|| csv::Writer::from_writer(Vec::new()));
        table.serialize(row).hint(MISTAKE)
    }

    /// Adds the test episodes of policies to `episodes.csv`: utility per step of every policy, and what it leaves of the first
    /// budget in percent.
    pub(super) fn add_episodes(&mut self, key: &EpisodeKey<'_>, test: &Episodes, policies: &[PolicyReport]) {
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
            for policy in policies {
                let _ = write!(
                    self.episodes,
                    ",{}",
                    short(policy.runs[0].results.utilities[index])
                );
            }
            for policy in policies {
                let left = policy.runs[0].results.remaining_of(index)[0];
                let _ = write!(self.episodes, ",{}", short(100.0 * left / episode.budgets()[0]));
            }
            self.episodes.push('\n');
        }
    }

    /// The tables as text.
    pub(super) fn finish(self) -> Result<Parts, Failure> {
        let text = |(name, table): (&str, csv::Writer<Vec<u8>>)| {
            let bytes = table.into_inner().hint(MISTAKE)?;
            Ok((name.to_owned(), String::from_utf8(bytes).hint(MISTAKE)?))
        };
        let mut parts: Parts = self
            .by_name
            .into_iter()
            .map(text)
            .collect::<Result<_, Failure>>()?;
        if !self.episodes.is_empty() {
            parts.insert(EPISODES_FILE.to_owned(), self.episodes);
        }
        Ok(parts)
    }
}

pub(super) const MISTAKE: &str = "this is a mistake in laau itself: please report it";

/// A number to nine significant digits: differences between policies are of the fourth.
fn short(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}

/// The tables of all cells, in their order, under one heading each.
pub(super) fn join(cells: impl IntoIterator<Item = Parts>) -> Parts {
    let mut tables = Parts::new();
    for (name, part) in cells.into_iter().flatten() {
        let table = tables.entry(name).or_default();
        let rows = match part.split_once('\n') {
            Some((_, rows)) if !table.is_empty() => rows,
            _ => &part,
        };
        table.push_str(rows);
    }
    tables
}

/// Writes tables into a folder, each as a whole.
pub(super) fn save(folder: &Path, tables: &Parts) -> Result<(), Failure> {
    tables
        .iter()
        .try_for_each(|(name, table)| output::write_bytes(&folder.join(name), table.as_bytes()))
}

/// The file of a cell that holds the digest of its tables.
const SEAL: &str = "digest";

/// Writes the tables of a cell, and their digest.
pub(super) fn save_sealed(folder: &Path, tables: &Parts) -> Result<(), Failure> {
    save(folder, tables)?;
    output::write_bytes(&folder.join(SEAL), digest(tables).as_bytes())
}

/// Reads the tables of a cell; nothing if there are none, or others than were saved.
pub(super) fn read_sealed(folder: &Path) -> Option<Parts> {
    let mut parts = Parts::new();
    for entry in std::fs::read_dir(folder).ok()? {
        let path = entry.ok()?.path();
        let name = path.file_name()?.to_str()?.to_owned();
        parts.insert(name, std::fs::read_to_string(&path).ok()?);
    }
    let found = parts.remove(SEAL)?;
    (found == digest(&parts)).then_some(parts)
}

/// The SHA-256 of names and tables; lengths keep one from passing for the beginning of the next.
fn digest(tables: &Parts) -> String {
    let mut bytes = Vec::new();
    for text in tables.iter().flat_map(|(name, table)| [name, table]) {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    laau::registry::digest(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_tables_have_one_heading_and_the_order_of_the_cells() {
        let part = |name: &str, text: &str| Parts::from([(name.to_owned(), text.to_owned())]);
        let cells = [part("a", "x\n1\n"), part("b", "y\n3\n"), part("a", "x\n2\n")];
        let joined = join(cells);
        assert_eq!((&*joined["a"], &*joined["b"]), ("x\n1\n2\n", "y\n3\n"));
    }
}
