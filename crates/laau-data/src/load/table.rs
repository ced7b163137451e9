//! Any table with a column for the series, one for the time and one or more for the values.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Cell, CellFault, Error, invalid, printable};
use crate::load::block::{Format, Kind, Layout, Wanted, column_names, find_names, missing_column};
use crate::load::cells::Csv;
use crate::load::parquet::times_of_type;
use crate::load::stream::{Convert, Timed, first_block, sort_by_first_time, stream};
use crate::load::text::Texts;
use crate::load::time::{TimeUnit, Times, is_date_in_digits, stamp};
use crate::load::trace::{Irregular, Order, Readings, Step, Trace, ValueColumn, expand};

/// Files of a table and the roles of its columns.
///
/// | field | default | purpose |
/// |---|---|---|
/// | `paths` | | files or globs: Parquet by the endings `.parquet` and `.pq`, else CSV, plain or gzip, separated by commas, semicolons or tabs |
/// | `header` | true | whether CSV files begin with a header; without one, columns are named `1`, `2`, … |
/// | `series` | `series` | the column that names the series; empty if the table is one series |
/// | `time` | `time` | the column of times: whole numbers, or ISO 8601 and the dates and times of Parquet, which become seconds since 1970 |
/// | `values` | `value` | the columns of values |
/// | `step` | the first distance seen | distance in time of two readings of a series |
/// | `irregular` | error | handling of a distance that is not a multiple of a given step: error or gap |
/// | `sort` | false | sort by time in memory, for tables in another order; the table must fit in memory |
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TableOptions {
    /// Files or globs.
    pub paths: Vec<String>,
    /// Whether CSV files begin with a header.
    pub header: bool,
    /// The column that names the series; empty if the table is one series.
    pub series: String,
    /// The column of times.
    pub time: String,
    /// The columns of values.
    pub values: Vec<String>,
    /// Distance in time of two readings of a series.
    pub step: Option<i64>,
    /// Handling of a distance that is not a multiple of a given step.
    pub irregular: Irregular,
    /// Whether to sort by time, in memory.
    pub sort: bool,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            header: true,
            series: "series".to_owned(),
            time: "time".to_owned(),
            values: vec!["value".to_owned()],
            step: None,
            irregular: Irregular::Error,
            sort: false,
        }
    }
}

/// The name of the series of a table that is one.
const ONE_SERIES: &str = "all";

/// A table of readings, in one or more files that are read in the order of their first times.
#[derive(Debug)]
pub struct Table {
    files: Vec<(PathBuf, Layout)>,
    wanted: Vec<Wanted>,
    options: TableOptions,
    /// How the times are written, in all rows of all files.
    times: Times,
}

impl Table {
    /// Finds and sorts the files, and checks their columns.
    ///
    /// # Errors
    /// A missing or empty file, a missing column, a bad first row.
    pub fn open(options: TableOptions) -> Result<Self, Error> {
        if options.values.is_empty() {
            return Err(invalid("values", "expected at least one value column"));
        }
        let mut wanted = vec![(options.time.clone(), Kind::Time(Times::Unknown))];
        wanted.extend(options.values.iter().map(|name| (name.clone(), Kind::Number)));
        if !options.series.is_empty() {
            wanted.push((options.series.clone(), Kind::Text));
        }
        let mut names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some([name, ..]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(invalid(
                "columns",
                format!("expected different columns, found `{name}` twice"),
            ));
        }
        let mut files = Vec::new();
        for file in expand(&options.paths)? {
            let layout = find_layout(&file, options.header)?;
            for (name, _) in &wanted {
                // Those without a name may be many, and none of them is meant more than another.
                match layout.names.iter().filter(|found| *found == name).count() {
                    0 => return Err(missing_column(&file, name, &layout.names)),
                    1 => {}
                    _ => {
                        let column = name.clone();
                        return Err(Error::DuplicateColumn { file, column });
                    }
                }
            }
            files.push((file, layout));
        }
        // Of the file that comes first by its name: times of two kinds have no order.
        let times = first_times(&files[0], &wanted)?;
        wanted[0].1 = Kind::Time(times);
        let files = sort_by_first_time(files, &wanted, 0)?;
        // Whoever knows their step knows what they count.
        if times == Times::Numbers && options.step.is_none() {
            check_numbers(&files, &options.time)?;
        }
        Ok(Self {
            files: files.into_iter().map(|(_, file)| file).collect(),
            wanted,
            options,
            times,
        })
    }
}

/// How the first time of a file is written, which is in the first of the wanted columns.
fn first_times(file: &(PathBuf, Layout), wanted: &[Wanted]) -> Result<Times, Error> {
    if file.1.format == Format::Parquet
        && let Some(times) = times_of_type(&file.0, &wanted[0].0)?
    {
        return Ok(times);
    }
    let mut wanted = wanted.to_vec();
    wanted[0].1 = Kind::Text;
    let first = first_block(file, &wanted)?;
    Ok(first.map_or(Times::Unknown, |block| Times::of(block.text(0).get(0))))
}

/// Refuses numbers that are times of two kinds, or none, as the first of each file shows; files are in the order of these.
///
/// # Errors
/// A date without dashes, times since 1970 in another unit than those of the file before.
fn check_numbers(files: &[Timed], time: &str) -> Result<(), Error> {
    let refuse = |(file, layout): &(PathBuf, Layout), fault, expected, found: String| {
        let row = 1 + u64::from(matches!(layout.format, Format::Csv(csv) if csv.header));
        let found = format!("{found} (if that is a count, give its step)");
        Err(Cell::new(file, row, time).refuse_for(fault, expected, found))
    };
    let mut before = None;
    for (first, file) in files {
        if is_date_in_digits(*first) {
            let (expected, found) = ("a date with dashes, such as 2024-01-31", format!("`{first}`"));
            return refuse(file, CellFault::DateInDigits, expected, found);
        }
        let Some(unit) = TimeUnit::since_1970(*first, *first) else {
            continue;
        };
        let (known, of) = *before.get_or_insert((unit, &file.0));
        if unit != known {
            let found = format!(
                "{} in {} and {}: `{first}`",
                known.name(),
                of.display(),
                unit.name()
            );
            return refuse(file, CellFault::MixedTimes, "times since 1970 in one unit", found);
        }
    }
    Ok(())
}

/// Whether a file is Parquet, by its ending.
pub(crate) fn is_parquet(file: &Path) -> bool {
    file.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("parquet") || ending.eq_ignore_ascii_case("pq"))
}

/// The format of a file, by its ending, and its columns.
///
/// # Errors
/// A file that cannot be decoded or is empty.
pub(crate) fn find_layout(file: &Path, header: bool) -> Result<Layout, Error> {
    if is_parquet(file) {
        let format = Format::Parquet;
        let names = column_names(file, format)?;
        return Ok(Layout { names, format });
    }
    let (csv, mut names) = find_names(file, header)?;
    if !header {
        names = (1..=names.len()).map(|number| number.to_string()).collect();
    }
    Ok(Layout {
        names,
        format: Format::Csv(csv),
    })
}

impl Trace for Table {
    fn values(&self) -> Vec<ValueColumn> {
        let column = |name| ValueColumn::new(name, false);
        self.options.values.iter().map(column).collect()
    }

    fn time_column(&self) -> &str {
        &self.options.time
    }

    fn step(&self) -> Step {
        match self.options.step {
            None => Step::Inferred,
            Some(step) => Step::Known {
                step,
                irregular: self.options.irregular,
            },
        }
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let TableOptions {
            series, time, values, ..
        } = &self.options;
        let separator = match self.files[0].1.format {
            Format::Csv(Csv { separator: b';', .. }) => "semicolon",
            Format::Csv(Csv { separator: b'\t', .. }) => "tab",
            Format::Csv(_) => "comma",
            Format::Parquet => "none: Parquet",
        };
        let series = if series.is_empty() {
            "none: one series".to_owned()
        } else {
            format!("`{series}`")
        };
        let times = match self.times {
            Times::Stamps => "stamps, as seconds since 1970",
            Times::Zoned => "stamps with a zone, as seconds since 1970",
            Times::Numbers | Times::Unknown => "whole numbers",
        };
        vec![
            ("files", self.files.len().to_string()),
            (
                "columns",
                printable(&self.files[0].1.names.join(", ")).into_owned(),
            ),
            ("separator", separator.to_owned()),
            ("series column", series),
            ("time column", format!("`{time}`, {times}")),
            ("value columns", format!("`{}`", values.join("`, `"))),
        ]
    }

    fn show_time(&self, time: i64) -> String {
        match self.times {
            Times::Zoned => stamp(time),
            // As it is written: without a zone.
            Times::Stamps => stamp(time).trim_end_matches('Z').to_owned(),
            Times::Numbers | Times::Unknown => time.to_string(),
        }
    }

    fn time_unit(&self, first: i64, last: i64) -> Option<TimeUnit> {
        if self.times.are_stamps() {
            Some(TimeUnit::Second)
        } else {
            TimeUnit::since_1970(first, last)
        }
    }

    fn read(&self, _: Order, visit: &mut dyn FnMut(&Readings) -> Result<(), Error>) -> Result<(), Error> {
        let width = self.options.values.len();
        let series = self.options.series.clone();
        let convert: Arc<Convert> = Arc::new(move |file, mut block| {
            let ids: Texts = if series.is_empty() {
                std::iter::repeat_n(ONE_SERIES, block.rows).collect()
            } else {
                block.take_text(1 + width)
            };
            if let Some(index) = ids.first_empty() {
                let row = block.first_row + index as u64;
                return Err(Cell::new(file, row, series.as_str()).refuse_empty("the name of a series"));
            }
            let times = block.take_integers(0);
            let columns = (0..width).map(|column| block.take_numbers(1 + column)).collect();
            Ok(Readings::of_rows(
                Arc::clone(file),
                block.first_row,
                ids,
                times,
                columns,
            ))
        });
        if self.options.sort {
            self.read_sorted(&convert, visit)
        } else {
            stream(&self.files, &self.wanted, &convert, visit)
        }
    }
}

impl Table {
    /// Visits the readings in the order of their times, after reading all of them.
    ///
    /// Sorted here and not by polars, so that an error still names file and row.
    fn read_sorted(
        &self,
        convert: &Arc<Convert>,
        visit: &mut dyn FnMut(&Readings) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut batches = Vec::new();
        stream(&self.files, &self.wanted, convert, &mut |readings| {
            batches.push(readings.clone());
            Ok(())
        })?;
        let mut runs: Vec<_> = batches
            .iter()
            .flat_map(|batch| batch.runs().map(|run| (batch.file(), run)))
            .collect();
        runs.sort_by(|(_, a), (_, b)| (a.times, a.series).cmp(&(b.times, b.series)));
        for rows in runs.chunk_by(|(a, _), (b, _)| a == b) {
            let mut sorted = Readings::new(rows[0].0, self.options.values.len());
            for (_, run) in rows {
                sorted.begin(run.series, run.row);
                for (&time, values) in run
                    .times
                    .iter()
                    .zip(run.values.chunks_exact(self.options.values.len()))
                {
                    sorted.push(time, values);
                }
            }
            visit(&sorted)?;
        }
        Ok(())
    }
}
