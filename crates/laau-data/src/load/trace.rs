//! The interface of a trace: series of readings in time, visited in batches.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, invalid};
use crate::load::text::Texts;
use crate::load::time::TimeUnit;

/// A trace that can be read repeatedly from start to end.
///
/// Implement it to add a format: [`crate::import`] and [`crate::inspect_trace`] take any trace.
pub trait Trace: Send + Sync {
    /// The values of one reading, in order.
    fn values(&self) -> Vec<ValueColumn>;

    /// The name of the time column, for messages.
    fn time_column(&self) -> &str;

    /// The distance in time between two readings of a series.
    fn step(&self) -> Step;

    /// What was understood of the files, as names and words, for whoever checks that.
    fn describe(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// A time as a user writes it.
    fn show_time(&self, time: i64) -> String {
        time.to_string()
    }

    /// What the times count, given the first and the last; none if that is not known, and a duration says nothing.
    ///
    /// Without a word of the format they are times since 1970, if they can be, in the unit that their magnitude says.
    fn time_unit(&self, first: i64, last: i64) -> Option<TimeUnit> {
        TimeUnit::since_1970(first, last)
    }

    /// Visits all readings, batch by batch. The order depends neither on threads nor on the order of the paths, and is the
    /// same in every call.
    ///
    /// # Errors
    /// Bad input, with file, row and column; and any error of `visit`.
    fn read(&self, order: Order, visit: &mut dyn FnMut(&Readings) -> Result<(), Error>) -> Result<(), Error>;
}

/// One value of a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueColumn {
    /// Its column.
    pub name: String,
    /// Whether it is a property of the series, already in [0, 1], and not a measurement to be normalised.
    pub fixed: bool,
}

impl ValueColumn {
    pub(crate) fn new(name: impl Into<String>, fixed: bool) -> Self {
        let name = name.into();
        Self { name, fixed }
    }
}

/// The distance in time between two readings of a series. A multiple of it is a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The first distance in the trace; a distance that is not a multiple of it is an error.
    Inferred,
    /// A known distance.
    Known {
        /// The distance.
        step: i64,
        /// Handling of a distance that is not a multiple of it.
        irregular: Irregular,
    },
}

/// Handling of a distance in time that is not a multiple of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Irregular {
    /// Refuse the trace.
    Error,
    /// Treat it as a gap, and count it.
    Gap,
}

/// The order in which readings are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Times ascend within each series.
    Series,
    /// Times ascend over the whole trace.
    Time,
}

/// A batch of readings. Readings of one series that follow each other form a run.
#[derive(Debug, Clone)]
pub struct Readings {
    file: Arc<Path>,
    width: usize,
    /// The series of every run.
    series: Texts,
    runs: Runs,
    times: Vec<i64>,
    values: Vec<f64>,
    dropped: Dropped,
}

/// Where the runs of a batch are.
#[derive(Debug, Clone)]
enum Runs {
    /// Every reading is a run, in a row of its own from this one on.
    Rows(u64),
    /// The row of each run, and the number of readings up to its end.
    Listed(Vec<(u64, usize)>),
}

/// Rows that a trace excluded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Dropped {
    /// Excluded by a filter.
    pub filtered: u64,
    /// Of a series that the table of series does not list.
    pub unlisted: u64,
}

/// Consecutive readings of one series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The series.
    pub(crate) series: &'a str,
    /// The row of the file.
    pub(crate) row: u64,
    /// The times of its readings.
    pub(crate) times: &'a [i64],
    /// The values of its readings, reading × value.
    pub(crate) values: &'a [f64],
}

impl Readings {
    /// An empty batch from a file, with `width` values per reading.
    #[must_use]
    pub fn new(file: &Path, width: usize) -> Self {
        Self::shared(Arc::from(file), width)
    }

    pub(crate) fn shared(file: Arc<Path>, width: usize) -> Self {
        Self {
            file,
            width,
            series: Texts::default(),
            runs: Runs::Listed(Vec::new()),
            times: Vec::new(),
            values: Vec::new(),
            dropped: Dropped::default(),
        }
    }

    /// The readings of consecutive rows, one each, with the values of a row in `columns`.
    pub(crate) fn of_rows(
        file: Arc<Path>,
        first_row: u64,
        series: Texts,
        times: Vec<i64>,
        mut columns: Vec<Vec<f64>>,
    ) -> Self {
        let (rows, width) = (times.len(), columns.len());
        let values = if width == 1 {
            std::mem::take(&mut columns[0])
        } else {
            let row = |row| columns.iter().map(move |column: &Vec<f64>| column[row]);
            (0..rows).flat_map(row).collect()
        };
        Self {
            file,
            width,
            series,
            runs: Runs::Rows(first_row),
            times,
            values,
            dropped: Dropped::default(),
        }
    }

    /// Begins a run of readings of one series, at a row of the file.
    pub fn begin(&mut self, series: &str, row: u64) {
        self.series.push(series);
        let readings = self.times.len();
        self.listed().push((row, readings));
    }

    /// Appends a reading to the run.
    ///
    /// # Panics
    /// Before the first [`Readings::begin`], or if the number of values is not the width of the batch.
    pub fn push(&mut self, time: i64, values: &[f64]) {
        assert_eq!(values.len(), self.width, "values per reading");
        self.times.push(time);
        self.values.extend_from_slice(values);
        self.listed().last_mut().expect("a run was begun").1 += 1;
    }

    fn listed(&mut self) -> &mut Vec<(u64, usize)> {
        match &mut self.runs {
            Runs::Listed(runs) => runs,
            Runs::Rows(_) => unreachable!("a batch of rows is complete"),
        }
    }

    /// Counts excluded rows.
    pub fn drop_rows(&mut self, dropped: Dropped) {
        self.dropped.filtered += dropped.filtered;
        self.dropped.unlisted += dropped.unlisted;
    }

    /// The file these readings are from.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Number of readings.
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Excluded rows.
    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// The runs in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        (0..self.series.len()).map(|index| {
            let (row, start, end) = match &self.runs {
                Runs::Rows(first) => (first + index as u64, index, index + 1),
                Runs::Listed(runs) => {
                    let start = if index == 0 { 0 } else { runs[index - 1].1 };
                    (runs[index].0, start, runs[index].1)
                }
            };
            Run {
                series: self.series.get(index),
                row,
                times: &self.times[start..end],
                values: &self.values[start * self.width..end * self.width],
            }
        })
    }
}

/// The files that match paths and globs, without duplicates, in order of their names.
///
/// # Errors
/// [`Error::NoFile`] for a path or glob without a match, [`Error::Invalid`] for a broken glob.
pub fn expand(patterns: &[String]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for pattern in patterns {
        let before = files.len();
        if let Some(file) = named(pattern)? {
            files.push(file);
            continue;
        }
        refuse_unreadable_names(pattern)?;
        let matches =
            glob::glob(pattern).map_err(|error| invalid("glob", format!("`{pattern}`: {error}")))?;
        for file in matches {
            let file = file.map_err(|error| Error::Io {
                file: error.path().to_path_buf(),
                source: error.into(),
            })?;
            if file.is_file() {
                files.push(file);
            }
        }
        if files.len() == before {
            return Err(Error::NoFile {
                pattern: pattern.clone(),
            });
        }
    }
    if files.is_empty() {
        return Err(invalid("paths", "expected at least one file"));
    }
    files.sort_by_key(|file| natural(file));
    // One file may be named in several ways.
    let mut known = BTreeSet::new();
    files.retain(|file| known.insert(file.canonicalize().unwrap_or_else(|_| file.clone())));
    Ok(files)
}

/// The file that a pattern names as it is, if it does.
///
/// # Errors
/// Something else of that name, or a folder that cannot be searched.
fn named(pattern: &str) -> Result<Option<PathBuf>, Error> {
    let file = PathBuf::from(pattern);
    let found = match file.metadata() {
        Ok(found) if found.is_file() => return Ok(Some(file)),
        Ok(found) if found.is_dir() => {
            format!("a folder: name the files in it, for example '{pattern}/*.csv'")
        }
        Ok(_) => "a pipe or a device: write it to a file first, since it is read more than once".to_owned(),
        Err(source) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Error::Io { file, source });
        }
        Err(_) => return Ok(None),
    };
    Err(Error::OtherKind {
        file,
        expected: "a file",
        found,
    })
}

/// Refuses a pattern that means a file whose name is not UTF-8: a glob passes over it, and its readings would be missing.
fn refuse_unreadable_names(pattern: &str) -> Result<(), Error> {
    let (folder, name) = match pattern.rsplit_once('/') {
        Some((folder, name)) => (format!("{folder}/"), name),
        None => (".".to_owned(), pattern),
    };
    let (Ok(folders), Ok(name)) = (glob::glob(&folder), glob::Pattern::new(name)) else {
        return Ok(());
    };
    for entry in folders
        .flatten()
        .filter_map(|folder| folder.read_dir().ok())
        .flatten()
    {
        // What cannot be listed cannot be read either, and that says why.
        let Ok(entry) = entry else { continue };
        let found = entry.file_name();
        if found.to_str().is_none() && name.matches(&found.to_string_lossy()) && entry.path().is_file() {
            return Err(Error::OtherKind {
                file: entry.path(),
                expected: "a name in UTF-8",
                found: format!("another, which `{pattern}` passes over: rename the file"),
            });
        }
    }
    Ok(())
}

/// A key that sorts `part-10` behind `part-9`: digits count as numbers.
fn natural(path: &Path) -> (Vec<(String, u128)>, PathBuf) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut parts = Vec::new();
    let mut rest: &str = &name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[text..]
            .find(|c: char| !c.is_ascii_digit())
            .map_or(rest.len(), |n| text + n);
        parts.push((
            rest[..text].to_owned(),
            rest[text..digits].parse().unwrap_or_default(),
        ));
        rest = &rest[digits..];
    }
    (parts, path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_back_its_runs() {
        let mut readings = Readings::new(Path::new("a.csv"), 2);
        readings.begin("x", 1);
        readings.push(0, &[0.1, 0.2]);
        readings.push(5, &[0.3, 0.4]);
        readings.begin("y", 2);
        readings.push(0, &[0.5, 0.6]);
        let runs: Vec<_> = readings
            .runs()
            .map(|run| (run.series, run.row, run.times, run.values))
            .collect();
        assert_eq!(
            runs,
            [
                ("x", 1, &[0, 5][..], &[0.1, 0.2, 0.3, 0.4][..]),
                ("y", 2, &[0][..], &[0.5, 0.6][..])
            ]
        );
    }

    #[test]
    fn files_are_sorted_by_the_numbers_in_their_names() {
        let mut names = ["file-10-of-12", "file-9-of-12", "file-2-of-12", "a"].map(Path::new);
        names.sort_by_key(|name| natural(name));
        assert_eq!(
            names,
            ["a", "file-2-of-12", "file-9-of-12", "file-10-of-12"].map(Path::new)
        );
    }

    #[test]
    fn a_pattern_that_names_nothing_is_refused() {
        let missing = expand(&["no/such/file-*.csv".to_owned()]).unwrap_err();
        assert_eq!(missing.to_string(), "no file matches `no/such/file-*.csv`");
        let broken = expand(&["a[".to_owned()]).unwrap_err();
        assert!(broken.to_string().starts_with("invalid glob: `a[`: "), "{broken}");
    }
}
