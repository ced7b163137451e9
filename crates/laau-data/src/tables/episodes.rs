//! The episodes table, the exchange format of episodes, as Parquet or CSV.
//!
//! | column | holds |
//! |---|---|
//! | `episode` | the episode's number, u32, ascending |
//! | `step` | the step, u32, from 0 |
//! | `context`, or `context_0`, `context_1`, … | the context of the step |
//! | `budget`, or `budget_0`, `budget_1`, … | the budgets, the same on every row of an episode |
//!
//! Rows are sorted by episode, then by step; all episodes have the same number of steps. Further columns are ignored.
//!
//! A Parquet file that is written here carries metadata; CSV has no place for it, and files of other programs need none.
//!
//! | metadata | holds |
//! |---|---|
//! | `laau.scaling` | how readings became contexts, as JSON, for episodes that were made of readings |
//! | `laau.problem` | the name of the problem that synthetic episodes were made for |
//! | `laau.digest` | SHA-256 of the file, which is checked before anything is decoded |

use std::path::{Path, PathBuf};

use laau_core::{Episodes, Scaling};
use polars::prelude::{Column, DataFrame, ParquetReader, PolarsError, SerReader as _};

use super::{io, seal, unwritable, write_frame};
use crate::error::{Cell, Error, invalid};
use crate::load::block::{Block, Format, Kind, Wanted, fold_blocks, missing_column};
use crate::load::cells::Csv;
use crate::load::decoder::{DAMAGED, Panicked, decode};
use crate::load::table::{find_layout, is_parquet};

/// Reads an episodes table: Parquet by the endings `.parquet` and `.pq`, else CSV, plain or gzip.
///
/// # Errors
/// A file that cannot be read or that does not match its digest, a missing column, a bad cell, missing steps,
/// differing budgets, rows out of order.
pub fn read_episodes(path: &Path) -> Result<Episodes, Error> {
    std::fs::metadata(path).map_err(|source| io(path, source))?;
    if is_parquet(path) {
        seal::check(path)?;
    }
    let layout = find_layout(path, true)?;
    let contexts = numbered(path, "context", &layout.names)?;
    let budgets = numbered(path, "budget", &layout.names)?;
    let mut wanted: Vec<Wanted> = Vec::with_capacity(2 + contexts.len() + budgets.len());
    for name in ["episode", "step"] {
        if !layout.names.iter().any(|found| found == name) {
            return Err(missing_column(path, name, &layout.names));
        }
        wanted.push((name.to_owned(), Kind::Integer));
    }
    wanted.extend(
        contexts
            .iter()
            .chain(&budgets)
            .map(|name| (name.clone(), Kind::Number)),
    );
    let reader = Reader {
        file: path.to_path_buf(),
        width: contexts.len(),
        budget_names: budgets,
        ..Reader::default()
    };
    let episodes =
        fold_blocks(path, &layout, &wanted, reader, |reader, block| reader.add(&block))?.finish()?;
    match layout.format {
        Format::Parquet => with_metadata(path, episodes),
        Format::Csv(_) => Ok(episodes),
    }
}

/// Writes an episodes table: Parquet by the endings `.parquet` and `.pq`, CSV by `.csv`. The file appears complete or not
/// at all.
///
/// # Errors
/// Any other ending, or a file that cannot be written.
pub fn write_episodes(path: &Path, episodes: &Episodes) -> Result<(), Error> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let format = match ending.to_ascii_lowercase().as_str() {
        "parquet" | "pq" => Format::Parquet,
        "csv" => Format::Csv(Csv {
            header: true,
            separator: b',',
            quoted: true,
        }),
        _ => {
            return Err(invalid(
                "path",
                format!(
                    "expected an ending .parquet, .pq or .csv, found `{}`",
                    path.display()
                ),
            ));
        }
    };
    let mut frame = frame(episodes).map_err(|error| unwritable(path, &error))?;
    let mut metadata = Vec::new();
    if let Some(scaling) = episodes.scaling() {
        let text = serde_json::to_string(scaling).map_err(|error| invalid("scaling", error.to_string()))?;
        metadata.push((SCALING.to_owned(), text));
    }
    metadata.extend(
        episodes
            .problem()
            .map(|name| (PROBLEM.to_owned(), name.to_owned())),
    );
    metadata.push((seal::NAME.to_owned(), seal::PLACEHOLDER.to_owned()));
    write_frame(path, format, &mut frame, metadata)
}

/// The name of the scaling in the metadata.
const SCALING: &str = "laau.scaling";
/// The name of the problem in the metadata.
const PROBLEM: &str = "laau.problem";

/// The episodes of a Parquet file with what it says of them.
fn with_metadata(path: &Path, episodes: Episodes) -> Result<Episodes, Error> {
    let broken = |reason: String| Error::Unreadable {
        file: path.to_path_buf(),
        rows: 0,
        reason,
    };
    let file = std::fs::File::open(path).map_err(|source| io(path, source))?;
    let metadata = decode(|| {
        let mut reader = ParquetReader::new(file);
        reader
            .get_metadata()
            .map(|found| found.key_value_metadata().clone())
    })
    .map_err(|Panicked| broken(DAMAGED.to_owned()))?
    .map_err(|error| broken(error.to_string()))?;
    let entries = metadata.unwrap_or_default();
    let find = |key: &str| entries.iter().find(|entry| entry.key == key)?.value.as_deref();
    let episodes = match find(PROBLEM) {
        Some(problem) => episodes.made_for(problem),
        None => episodes,
    };
    let Some(text) = find(SCALING) else {
        return Ok(episodes);
    };
    let scaling: Scaling =
        serde_json::from_str(text).map_err(|error| broken(format!("{SCALING}: {error}")))?;
    Ok(episodes.with_scaling(scaling)?)
}

fn frame(episodes: &Episodes) -> Result<DataFrame, PolarsError> {
    let (horizon, width, resources) = (episodes.horizon(), episodes.context_len(), episodes.budget_len());
    let number = |value: usize| {
        u32::try_from(value)
            .map_err(|_| PolarsError::ComputeError("more episodes or steps than a u32 can count".into()))
    };
    let (last_episode, last_step) = (number(episodes.len())?, number(horizon)?);
    let ids: Vec<u32> = (0..last_episode)
        .flat_map(|episode| std::iter::repeat_n(episode, horizon))
        .collect();
    let rows = ids.len();
    let steps: Vec<u32> = (0..last_episode).flat_map(|_| 0..last_step).collect();
    let mut columns = vec![
        Column::new("episode".into(), ids),
        Column::new("step".into(), steps),
    ];
    for (column, name) in names("context", width).into_iter().enumerate() {
        let values: Vec<f64> = episodes
            .contexts()
            .iter()
            .skip(column)
            .step_by(width)
            .copied()
            .collect();
        columns.push(Column::new(name.into(), values));
    }
    for (resource, name) in names("budget", resources).into_iter().enumerate() {
        let values: Vec<f64> = episodes
            .iter()
            .flat_map(|episode| std::iter::repeat_n(episode.budgets()[resource], horizon))
            .collect();
        columns.push(Column::new(name.into(), values));
    }
    DataFrame::new(rows, columns)
}

/// `name`, or `name_0`, `name_1`, … if there are several.
fn names(name: &str, count: usize) -> Vec<String> {
    if count == 1 {
        return vec![name.to_owned()];
    }
    (0..count).map(|number| format!("{name}_{number}")).collect()
}

/// The columns `name`, or `name_0`, `name_1`, …, without a hole.
fn numbered(path: &Path, name: &str, found: &[String]) -> Result<Vec<String>, Error> {
    if found.iter().any(|column| column == name) {
        return Ok(vec![name.to_owned()]);
    }
    let prefix = format!("{name}_");
    let mut numbers: Vec<usize> = found
        .iter()
        .filter_map(|column| column.strip_prefix(&prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    if numbers.is_empty() {
        return Err(missing_column(path, name, found));
    }
    match numbers
        .iter()
        .enumerate()
        .find(|(expected, number)| expected != *number)
    {
        Some((expected, _)) => Err(missing_column(path, &format!("{name}_{expected}"), found)),
        None => Ok((0..numbers.len())
            .map(|number| format!("{name}_{number}"))
            .collect()),
    }
}

/// Collects episodes row by row, so that an error names the row where an episode breaks the layout.
#[derive(Debug, Default)]
struct Reader {
    file: PathBuf,
    width: usize,
    budget_names: Vec<String>,
    /// Steps of the first episode, once it is over.
    horizon: Option<usize>,
    /// The episode that is being read, its steps so far, and its last row.
    current: Option<(u32, usize)>,
    row: u64,
    contexts: Vec<f64>,
    budgets: Vec<f64>,
}

impl Reader {
    fn add(&mut self, block: &Block) -> Result<(), Error> {
        let resources = self.budget_names.len();
        for index in 0..block.rows {
            let row = block.first_row + index as u64;
            let episode = self.natural(row, "episode", block.integers(0)[index])?;
            let step = self.natural(row, "step", block.integers(1)[index])?;
            let begins = match self.current {
                Some((current, _)) if current == episode => false,
                Some((current, steps)) => {
                    if episode < current {
                        let reason = format!("expected ascending episodes, found it after {current}");
                        return Err(self.broken(row, "episode", episode, reason));
                    }
                    self.close(current, steps)?;
                    true
                }
                None => true,
            };
            self.row = row;
            let expected = if begins {
                0
            } else {
                self.current.map_or(0, |(_, steps)| steps)
            };
            if step as usize != expected {
                let reason = format!("expected step {expected}, found {step}");
                return Err(self.broken(row, "step", episode, reason));
            }
            if let Some(horizon) = self.horizon
                && expected >= horizon
            {
                let reason = format!("expected {horizon} steps as in the first episode, found more");
                return Err(self.broken(row, "step", episode, reason));
            }
            self.current = Some((episode, expected + 1));
            self.contexts
                .extend((0..self.width).map(|column| block.numbers(2 + column)[index]));
            for resource in 0..resources {
                let budget = block.numbers(2 + self.width + resource)[index];
                if begins && budget < 0.0 {
                    let reason = format!("expected a budget ≥ 0, found {budget}");
                    return Err(self.broken(row, &self.budget_names[resource], episode, reason));
                }
                if begins {
                    self.budgets.push(budget);
                    continue;
                }
                let first = self.budgets[self.budgets.len() - resources + resource];
                if budget != first {
                    let reason = format!("expected the budget of its first row, {first}, found {budget}");
                    return Err(self.broken(row, &self.budget_names[resource], episode, reason));
                }
            }
        }
        Ok(())
    }

    fn close(&mut self, episode: u32, steps: usize) -> Result<(), Error> {
        let horizon = *self.horizon.get_or_insert(steps);
        if steps == horizon {
            return Ok(());
        }
        let reason = format!("expected {horizon} steps as in the first episode, found {steps}");
        Err(self.broken(self.row, "step", episode, reason))
    }

    fn finish(mut self) -> Result<Episodes, Error> {
        if let Some((episode, steps)) = self.current {
            self.close(episode, steps)?;
        }
        Ok(Episodes::new(
            self.horizon.unwrap_or(0),
            self.width,
            self.budget_names.len(),
            self.contexts,
            self.budgets,
        )?)
    }

    fn natural(&self, row: u64, column: &str, value: i64) -> Result<u32, Error> {
        u32::try_from(value).map_err(|_| {
            Cell::new(&self.file, row, column)
                .refuse("a whole number from 0 to 4294967295", value.to_string())
        })
    }

    fn broken(&self, row: u64, column: &str, episode: u32, reason: String) -> Error {
        Error::BrokenEpisode {
            cell: Cell::new(&self.file, row, column),
            episode,
            reason,
        }
    }
}
