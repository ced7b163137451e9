//! The Azure Functions trace of 2019: invocations per minute, one row per function and day.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Cell, Error, invalid};
use crate::load::block::{Block, Format, Kind, Layout, Wanted, column_names, fold_blocks, missing_column};
use crate::load::cells::Csv;
use crate::load::stream::{Convert, stream};
use crate::load::text::Texts;
use crate::load::time::TimeUnit;
use crate::load::trace::{Dropped, Irregular, Order, Readings, Step, Trace, ValueColumn, expand};

/// Files of the Azure Functions trace.
///
/// | field | default | purpose |
/// |---|---|---|
/// | `invocations` | | files or globs, `invocations_per_function_md.anon.d*.csv`, plain or gzip, in any order |
/// | `durations` | none | `function_durations_percentiles.anon.d*.csv`: appends the function's mean duration to each context |
/// | `memory` | none | `app_memory_percentiles.anon.d*.csv`: appends the app's mean allocated memory to each context |
///
/// Durations and memory are means over the days that list them, divided by the maximum. A function that they do not
/// list is dropped, and its rows are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct AzureFunctionsOptions {
    /// Files or globs of the invocations.
    pub invocations: Vec<String>,
    /// Files or globs of the durations.
    pub durations: Vec<String>,
    /// Files or globs of the memory.
    pub memory: Vec<String>,
}

/// The Azure Functions trace: a series is a function (`owner/app/function`), a reading its invocations in one minute, and
/// the time counts minutes from the first minute of day 1.
///
/// Episodes of consecutive minutes are read row by row. Interleaved ones need all functions of a minute at once, so a whole
/// day is held in memory, four bytes a reading.
#[derive(Debug)]
pub struct AzureFunctions {
    /// Files by their days, from 1.
    days: Vec<(i64, PathBuf, Layout)>,
    wanted: Vec<Wanted>,
    properties: Vec<Arc<Property>>,
}

/// A property of functions: the columns of its key, and its share of the greatest.
#[derive(Debug)]
struct Property {
    name: &'static str,
    /// Columns of the key: owner and app, or owner, app and function.
    key: usize,
    shares: HashMap<Box<str>, f64>,
}

const KEY: [&str; 4] = ["HashOwner", "HashApp", "HashFunction", "Trigger"];
const MINUTES: usize = 1440;

impl AzureFunctions {
    /// Finds the files of all days, checks their headers, and reads durations and memory.
    ///
    /// # Errors
    /// A missing or empty file, one whose name has no day, a missing column, a bad cell of durations or memory.
    pub fn open(options: &AzureFunctionsOptions) -> Result<Self, Error> {
        let mut names: Vec<String> = KEY.map(str::to_owned).to_vec();
        names.extend((1..=MINUTES).map(|minute| minute.to_string()));
        let mut days = Vec::new();
        for file in expand(&options.invocations)? {
            let layout = header(&file)?;
            if let Some(missing) = names.iter().find(|name| !layout.names.contains(name)) {
                return Err(missing_column(&file, missing, &layout.names));
            }
            days.push((day(&file)?, file, layout));
        }
        days.sort_by_key(|(day, _, _)| *day);
        let mut properties = Vec::new();
        for (name, files, key, column) in [
            ("duration", &options.durations, 3, "Average"),
            ("memory", &options.memory, 2, "AverageAllocatedMb"),
        ] {
            if !files.is_empty() {
                properties.push(Arc::new(Property::read(name, files, key, column)?));
            }
        }
        let wanted = names
            .into_iter()
            .enumerate()
            .filter(|(column, _)| *column != 3)
            .map(|(column, name)| (name, if column < 3 { Kind::Text } else { Kind::Integer }))
            .collect();
        Ok(Self {
            days,
            wanted,
            properties,
        })
    }

    /// Turns a block into readings, one run of a day's minutes for each row.
    fn convert(&self, day: i64) -> Arc<Convert> {
        let width = 1 + self.properties.len();
        let properties = self.properties.clone();
        Arc::new(move |file, block| {
            let mut readings = Readings::shared(Arc::clone(file), width);
            let mut values = vec![0.0; width];
            let mut dropped = Dropped::default();
            for index in 0..block.rows {
                let name = key(&block, index, 3);
                let mut shares = properties.iter().zip(&mut values[1..]);
                if shares.all(|(property, value)| property.look_up(&block, index, value)) {
                    readings.begin(&name, block.first_row + index as u64);
                    for minute in 0..MINUTES {
                        values[0] = count(file, &block, index, minute)?.into();
                        readings.push(time(day, minute), &values);
                    }
                } else {
                    dropped.unlisted += MINUTES as u64;
                }
            }
            readings.drop_rows(dropped);
            Ok(readings)
        })
    }

    /// Visits the readings of a day minute by minute, after reading the whole day.
    fn read_by_time(
        &self,
        day: i64,
        file: &(PathBuf, Layout),
        visit: &mut dyn FnMut(&Readings) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let width = 1 + self.properties.len();
        let (mut names, mut rows, mut shares) = (Texts::default(), Vec::new(), Vec::new());
        let (mut counts, mut dropped): (Vec<u32>, _) = (Vec::new(), Dropped::default());
        let files = std::slice::from_ref(file);
        stream(files, &self.wanted, &self.convert(day), &mut |readings| {
            dropped.unlisted += readings.dropped().unlisted;
            for run in readings.runs() {
                names.push(run.series);
                rows.push(run.row);
                shares.extend_from_slice(&run.values[1..width]);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "they were counts of 32 bits"
                )]
                counts.extend(run.values.iter().step_by(width).map(|count| *count as u32));
            }
            Ok(())
        })?;
        let mut values = vec![0.0; width];
        for minute in 0..MINUTES {
            let mut readings = Readings::new(&file.0, width);
            readings.drop_rows(std::mem::take(&mut dropped));
            for index in 0..names.len() {
                values[0] = f64::from(counts[index * MINUTES + minute]);
                values[1..].copy_from_slice(&shares[index * (width - 1)..][..width - 1]);
                readings.begin(names.get(index), rows[index]);
                readings.push(time(day, minute), &values);
            }
            visit(&readings)?;
        }
        Ok(())
    }
}

impl Trace for AzureFunctions {
    fn values(&self) -> Vec<ValueColumn> {
        let properties = self.properties.iter();
        let shares = properties.map(|property| ValueColumn::new(property.name, true));
        let mut values = vec![ValueColumn::new("invocations", false)];
        values.extend(shares);
        values
    }

    fn time_column(&self) -> &'static str {
        "HashFunction"
    }

    fn time_unit(&self, _: i64, _: i64) -> Option<TimeUnit> {
        Some(TimeUnit::Minute)
    }

    fn step(&self) -> Step {
        Step::Known {
            step: 1,
            irregular: Irregular::Gap,
        }
    }

    fn read(&self, order: Order, visit: &mut dyn FnMut(&Readings) -> Result<(), Error>) -> Result<(), Error> {
        for (day, path, layout) in &self.days {
            let file = (path.clone(), layout.clone());
            match order {
                Order::Series => stream(&[file], &self.wanted, &self.convert(*day), visit)?,
                Order::Time => self.read_by_time(*day, &file, visit)?,
            }
        }
        Ok(())
    }
}

impl Property {
    fn read(
        name: &'static str,
        patterns: &[String],
        key_columns: usize,
        column: &str,
    ) -> Result<Self, Error> {
        // Summed here in the order of the rows: a streaming group-by promises no order of summation, and contexts must
        // have the same bits in every run.
        let mut sums = HashMap::<Box<str>, (f64, f64)>::new();
        for file in expand(patterns)? {
            let layout = header(&file)?;
            let mut wanted: Vec<Wanted> = KEY[..key_columns]
                .iter()
                .map(|key| ((*key).to_owned(), Kind::Text))
                .collect();
            wanted.push((column.to_owned(), Kind::Number));
            if let Some((missing, _)) = wanted.iter().find(|(name, _)| !layout.names.contains(name)) {
                return Err(missing_column(&file, missing, &layout.names));
            }
            let (name, column) = (file.clone(), column.to_owned());
            sums = fold_blocks(&file, &layout, &wanted, sums, move |sums, block| {
                for index in 0..block.rows {
                    let value = block.numbers(key_columns)[index];
                    if value < 0.0 {
                        return Err(Error::OutOfRange {
                            cell: Cell::new(&name, block.first_row + index as u64, column.as_str()),
                            value,
                            lower: 0.0,
                            upper: f64::INFINITY,
                        });
                    }
                    let sum = sums.entry(key(&block, index, key_columns).into()).or_default();
                    *sum = (sum.0 + value, sum.1 + 1.0);
                }
                Ok(())
            })?;
        }
        let greatest = sums.values().map(|(sum, days)| sum / days).fold(0.0, f64::max);
        let share = |(key, (sum, days)): (Box<str>, (f64, f64))| {
            let share = if greatest > 0.0 {
                sum / days / greatest
            } else {
                0.0
            };
            (key, share)
        };
        Ok(Self {
            name,
            key: key_columns,
            shares: sums.into_iter().map(share).collect(),
        })
    }

    fn look_up(&self, block: &Block, index: usize, value: &mut f64) -> bool {
        match self.shares.get(key(block, index, self.key).as_str()) {
            Some(share) => {
                *value = *share;
                true
            }
            None => false,
        }
    }
}

/// The invocations in one minute.
fn count(file: &Path, block: &Block, index: usize, minute: usize) -> Result<u32, Error> {
    let value = block.integers(3 + minute)[index];
    u32::try_from(value).map_err(|_| {
        Cell::new(file, block.first_row + index as u64, (minute + 1).to_string())
            .refuse("a count from 0 to 4294967295", value.to_string())
    })
}

/// The first columns of a row as one name.
fn key(block: &Block, index: usize, columns: usize) -> String {
    let mut key = String::new();
    for column in 0..columns {
        if column > 0 {
            key.push('/');
        }
        key.push_str(block.text(column).get(index));
    }
    key
}

fn time(day: i64, minute: usize) -> i64 {
    (day - 1) * MINUTES.cast_signed() as i64 + minute.cast_signed() as i64
}

fn header(file: &Path) -> Result<Layout, Error> {
    let format = Format::Csv(Csv {
        header: true,
        separator: b',',
        quoted: false,
    });
    Ok(Layout {
        names: column_names(file, format)?,
        format,
    })
}

/// The day in a file's name, `….d07.csv`.
fn day(file: &Path) -> Result<i64, Error> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let day = name
        .split('.')
        .rev()
        .find_map(|part| part.strip_prefix('d')?.parse().ok());
    match day {
        Some(day) if (1..=10_000).contains(&day) => Ok(day),
        _ => Err(invalid(
            "file name",
            format!("expected a day such as `.d07.` in `{}`", file.display()),
        )),
    }
}
