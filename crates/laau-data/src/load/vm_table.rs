//! The table of virtual machines of the Azure VM trace: category, cores and memory of each.
//!
//! The filters are not part of the polars scan: a reading of an excluded machine and one of an unlisted machine are counted
//! apart, and an open bucket such as `>24` is not a number that polars can cast.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Cell, Error};
use crate::load::block::{Format, Kind, Layout, fold_blocks};
use crate::load::cells::Csv;
use crate::load::trace::expand;

/// Uses of `vmtable.csv`: a filter of machines, and further entries of the contexts.
///
/// | field | default | purpose |
/// |---|---|---|
/// | `path` | | the file, 11 columns, no header, plain or gzip |
/// | `categories` | all | only machines of these categories: `Interactive`, `Delay-insensitive`, `Unknown` |
/// | `cores`, `memory` | all | only machines in this range, both ends included |
/// | `contexts` | none | properties to append to each context, divided by the maximum of the table |
///
/// In the second version of the trace cores and memory are buckets. An open bucket such as `>24` is in a range only if the
/// range has no upper end, or an infinite one, and a lower end of at most 24; in a context it counts as twice its bound.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct VmTableOptions {
    /// The file.
    pub path: String,
    /// Categories to include; all if empty.
    pub categories: Vec<String>,
    /// Minimum and maximum number of cores.
    pub cores: (Option<f64>, Option<f64>),
    /// Minimum and maximum memory, in GB.
    pub memory: (Option<f64>, Option<f64>),
    /// Properties to append to each context.
    pub contexts: Vec<VmProperty>,
}

/// A property of a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VmProperty {
    /// Its cores.
    Cores,
    /// Its memory.
    Memory,
}

impl VmProperty {
    /// Its name in a context.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::Memory => "memory",
        }
    }
}

/// The machines of the table: `None` for a machine that the filter excludes.
#[derive(Debug, Default)]
pub(crate) struct VmTable {
    machines: HashMap<Box<str>, Option<Size>>,
    greatest: Size,
}

/// Cores and memory, as numbers in a context.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Size {
    cores: f64,
    memory: f64,
}

/// Whether the table lists a machine, and whether the filter includes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listed {
    Taken,
    Filtered,
    Unlisted,
}

const COLUMNS: [&str; 11] = [
    "vmid",
    "subscriptionid",
    "deploymentid",
    "vmcreated",
    "vmdeleted",
    "maxcpu",
    "avgcpu",
    "p95maxcpu",
    "vmcategory",
    "vmcorecount",
    "vmmemory",
];

impl VmTable {
    /// Reads the table.
    ///
    /// # Errors
    /// Bad input, with file, row and column.
    pub(crate) fn read(options: &VmTableOptions) -> Result<Self, Error> {
        let layout = Layout {
            names: COLUMNS.map(str::to_owned).to_vec(),
            format: Format::Csv(Csv {
                header: false,
                separator: b',',
                quoted: false,
            }),
        };
        let wanted = ["vmid", "vmcategory", "vmcorecount", "vmmemory"].map(|n| (n.to_owned(), Kind::Text));
        let mut table = Self::default();
        for file in expand(std::slice::from_ref(&options.path))? {
            let (name, options) = (file.clone(), options.clone());
            table = fold_blocks(&file, &layout, &wanted, table, move |table, block| {
                for index in 0..block.rows {
                    let row = block.first_row + index as u64;
                    let cells = std::array::from_fn(|column| block.text(column).get(index));
                    table.add(&options, &name, row, cells)?;
                }
                Ok(())
            })?;
        }
        Ok(table)
    }

    /// Adds the machine of one row: its name, category, cores and memory.
    fn add(
        &mut self,
        options: &VmTableOptions,
        file: &Path,
        row: u64,
        [id, category, cores, memory]: [&str; 4],
    ) -> Result<(), Error> {
        if id.is_empty() {
            return Err(Cell::new(file, row, "vmid").refuse_empty("the name of a machine"));
        }
        let cores = Bucket::parse(file, row, "vmcorecount", cores)?;
        let memory = Bucket::parse(file, row, "vmmemory", memory)?;
        let size = Size {
            cores: cores.number(),
            memory: memory.number(),
        };
        self.greatest = Size {
            cores: self.greatest.cores.max(size.cores),
            memory: self.greatest.memory.max(size.memory),
        };
        let taken = (options.categories.is_empty() || options.categories.iter().any(|c| c == category))
            && cores.is_in(options.cores)
            && memory.is_in(options.memory);
        if self.machines.insert(id.into(), taken.then_some(size)).is_some() {
            return Err(Cell::new(file, row, "vmid").refuse("each machine once", format!("`{id}` again")));
        }
        Ok(())
    }

    /// Looks a machine up and appends its properties, in [0, 1].
    pub(crate) fn look_up(&self, id: &str, properties: &[VmProperty], values: &mut Vec<f64>) -> Listed {
        match self.machines.get(id) {
            None => Listed::Unlisted,
            Some(None) => Listed::Filtered,
            Some(Some(size)) => {
                values.extend(properties.iter().map(|property| match property {
                    VmProperty::Cores => share(size.cores, self.greatest.cores),
                    VmProperty::Memory => share(size.memory, self.greatest.memory),
                }));
                Listed::Taken
            }
        }
    }
}

fn share(value: f64, greatest: f64) -> f64 {
    if greatest > 0.0 { value / greatest } else { 0.0 }
}

/// A size: a number, or all above one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bucket {
    Exactly(f64),
    Above(f64),
}

impl Bucket {
    fn parse(file: &Path, row: u64, column: &str, text: &str) -> Result<Self, Error> {
        let trimmed = text.trim();
        let (above, number) = match trimmed.strip_prefix('>') {
            Some(rest) => (true, rest.trim()),
            None => (false, trimmed),
        };
        match number.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(if above {
                Self::Above(value)
            } else {
                Self::Exactly(value)
            }),
            _ => Err(Cell::new(file, row, column).refuse(
                "a size such as 4, 1.75 or >24",
                if text.is_empty() {
                    "nothing".to_owned()
                } else {
                    format!("`{text}`")
                },
            )),
        }
    }

    fn number(self) -> f64 {
        match self {
            Self::Exactly(value) => value,
            Self::Above(value) => 2.0 * value,
        }
    }

    fn is_in(self, (least, greatest): (Option<f64>, Option<f64>)) -> bool {
        match self {
            Self::Exactly(value) => {
                least.is_none_or(|least| least <= value) && greatest.is_none_or(|greatest| value <= greatest)
            }
            Self::Above(value) => {
                greatest.is_none_or(|greatest| greatest == f64::INFINITY)
                    && least.is_none_or(|least| least <= value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(text: &str) -> Result<Bucket, String> {
        Bucket::parse(Path::new("vmtable.csv"), 7, "vmmemory", text).map_err(|e| e.to_string())
    }

    #[test]
    fn sizes_are_numbers_or_open_buckets() {
        assert_eq!(bucket("1.75"), Ok(Bucket::Exactly(1.75)));
        assert_eq!(bucket(">24"), Ok(Bucket::Above(24.0)));
        assert_eq!(bucket(">24").unwrap().number(), 48.0);
        for (text, found) in [
            ("", "nothing"),
            (">", "`>`"),
            ("<4", "`<4`"),
            ("-1", "`-1`"),
            ("NaN", "`NaN`"),
        ] {
            assert_eq!(
                bucket(text),
                Err(format!(
                    "vmtable.csv, row 7, column `vmmemory`: expected a size such as 4, 1.75 or >24, found {found}"
                ))
            );
        }
    }

    #[test]
    fn an_open_bucket_is_in_a_range_without_an_upper_end() {
        let open = Bucket::Above(24.0);
        assert!(open.is_in((None, None)) && open.is_in((Some(24.0), Some(f64::INFINITY))));
        assert!(!open.is_in((Some(25.0), None)) && !open.is_in((None, Some(1e9))));
        let four = Bucket::Exactly(4.0);
        assert!(four.is_in((Some(4.0), Some(4.0))) && !four.is_in((Some(4.5), None)));
    }
}
