//! The Azure VM trace, versions 1 and 2.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Cell, Error};
use crate::load::block::{Format, Kind, Layout, Wanted};
use crate::load::cells::Csv;
use crate::load::stream::{Convert, sort_by_first_time, stream};
use crate::load::time::TimeUnit;
use crate::load::trace::{Dropped, Irregular, Order, Readings, Step, Trace, ValueColumn, expand};
use crate::load::vm_table::{Listed, VmTable, VmTableOptions};

/// Files of the Azure VM trace, and the readings to use.
///
/// | field | default | purpose |
/// |---|---|---|
/// | `paths` | | files or globs, `vm_cpu_readings-file-*-of-*.csv.gz`, plain or gzip, in any order |
/// | `reading` | average | the CPU reading used as context |
/// | `irregular` | gap | a distance in time that is not a multiple of 300 s ends a window, or is an error |
/// | `vm_table` | none | the table of machines, for filters and further contexts |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct AzureVmOptions {
    /// Files or globs.
    pub paths: Vec<String>,
    /// The CPU reading used as context.
    pub reading: CpuReading,
    /// Handling of a distance in time that is not a multiple of 300 s.
    pub irregular: Irregular,
    /// The table of machines.
    pub vm_table: Option<VmTableOptions>,
}

impl Default for AzureVmOptions {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            reading: CpuReading::default(),
            irregular: Irregular::Gap,
            vm_table: None,
        }
    }
}

/// One of the CPU readings of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuReading {
    /// Column `mincpu`.
    Minimum,
    /// Column `maxcpu`.
    Maximum,
    /// Column `avgcpu`.
    #[default]
    Average,
}

impl CpuReading {
    fn column(self) -> &'static str {
        match self {
            Self::Minimum => "mincpu",
            Self::Maximum => "maxcpu",
            Self::Average => "avgcpu",
        }
    }
}

/// The Azure VM trace: `timestamp,vmid,mincpu,maxcpu,avgcpu`, no header, percent, seconds in steps of 300.
///
/// Shards are slices of time, so one machine's readings span files. They are read in the order of their first timestamps,
/// independent of the order of the paths. The columns of the two other readings may be empty.
#[derive(Debug)]
pub struct AzureVm {
    files: Vec<(PathBuf, Layout)>,
    wanted: Vec<Wanted>,
    options: AzureVmOptions,
    table: Option<Arc<VmTable>>,
}

const COLUMNS: [&str; 5] = ["timestamp", "vmid", "mincpu", "maxcpu", "avgcpu"];
const SECONDS: i64 = 300;

impl AzureVm {
    /// Finds and sorts the files, and reads the table of machines.
    ///
    /// # Errors
    /// A missing or empty file, a bad first row, a bad table.
    pub fn open(options: AzureVmOptions) -> Result<Self, Error> {
        let layout = Layout {
            names: COLUMNS.map(str::to_owned).to_vec(),
            format: Format::Csv(Csv {
                header: false,
                separator: b',',
                quoted: false,
            }),
        };
        let wanted = vec![
            ("timestamp".to_owned(), Kind::Integer),
            ("vmid".to_owned(), Kind::Text),
            (options.reading.column().to_owned(), Kind::Number),
        ];
        let files = expand(&options.paths)?
            .into_iter()
            .map(|file| (file, layout.clone()))
            .collect();
        let timed = sort_by_first_time(files, &wanted, 0)?;
        let table = options.vm_table.as_ref().map(VmTable::read).transpose()?;
        Ok(Self {
            files: timed.into_iter().map(|(_, file)| file).collect(),
            wanted,
            table: table.map(Arc::new),
            options,
        })
    }
}

impl Trace for AzureVm {
    fn values(&self) -> Vec<ValueColumn> {
        let mut values = vec![ValueColumn::new(self.options.reading.column(), false)];
        let properties = self.options.vm_table.iter().flat_map(|table| &table.contexts);
        values.extend(properties.map(|property| ValueColumn::new(property.name(), true)));
        values
    }

    fn time_column(&self) -> &'static str {
        "timestamp"
    }

    fn time_unit(&self, _: i64, _: i64) -> Option<TimeUnit> {
        Some(TimeUnit::Second)
    }

    fn step(&self) -> Step {
        Step::Known {
            step: SECONDS,
            irregular: self.options.irregular,
        }
    }

    fn read(&self, _: Order, visit: &mut dyn FnMut(&Readings) -> Result<(), Error>) -> Result<(), Error> {
        let width = self.values().len();
        let table = self.table.clone();
        let properties = self
            .options
            .vm_table
            .as_ref()
            .map(|table| table.contexts.clone())
            .unwrap_or_default();
        let convert: Arc<Convert> = Arc::new(move |file, mut block| {
            if let Some(index) = block.text(1).first_empty() {
                let row = block.first_row + index as u64;
                return Err(Cell::new(file, row, "vmid").refuse_empty("the name of a machine"));
            }
            let (times, ids, cpu) = (block.take_integers(0), block.take_text(1), block.take_numbers(2));
            let Some(table) = &table else {
                return Ok(Readings::of_rows(
                    Arc::clone(file),
                    block.first_row,
                    ids,
                    times,
                    vec![cpu],
                ));
            };
            let mut readings = Readings::shared(Arc::clone(file), width);
            let mut values = Vec::with_capacity(width);
            let mut dropped = Dropped::default();
            for index in 0..block.rows {
                let id = ids.get(index);
                values.clear();
                values.push(cpu[index]);
                match table.look_up(id, &properties, &mut values) {
                    Listed::Taken => {
                        readings.begin(id, block.first_row + index as u64);
                        readings.push(times[index], &values);
                    }
                    Listed::Filtered => dropped.filtered += 1,
                    Listed::Unlisted => dropped.unlisted += 1,
                }
            }
            readings.drop_rows(dropped);
            Ok(readings)
        });
        stream(&self.files, &self.wanted, &convert, visit)
    }
}
