#![doc = include_str!("../README.md")]

mod azure_vm;
mod block;
mod error;
mod import;
mod interleaved;
mod options;
mod select;
mod series;
mod stream;
mod table;
mod text;
mod trace;
mod vm_table;
mod walk;
mod windows;

pub use azure_vm::{AzureVm, AzureVmOptions, CpuReading};
pub use error::{Cell, Error};
pub use import::{ImportReport, Imported, import};
pub use options::{Construction, EpisodeOptions, Normalisation, OutOfRange, Split};
pub use table::{Table, TableOptions};
pub use trace::{Dropped, Irregular, Order, Readings, Run, Step, Trace, ValueColumn};
pub use vm_table::{VmProperty, VmTableOptions};
pub use walk::TraceCounts;
