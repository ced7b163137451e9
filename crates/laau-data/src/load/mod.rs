//! Loading: trace formats, read in batches and checked reading by reading.
//!
//! | module | contents |
//! |---|---|
//! | `trace` | the [`Trace`] trait and batches of readings |
//! | `azure_vm`, `vm_table`, `azure_functions`, `table` | the trace formats |
//! | `block`, `csv`, `text` | one file as blocks of typed columns |
//! | `cells`, `bytes`, `number` | the cells of separated text, and the numbers in them |
//! | `parquet`, `decoder`, `footer` | Parquet, decoded by polars |
//! | `foreign` | files of other kinds, known by their first bytes |
//! | `ahead` | a packed file, read ahead of whoever unpacks it |
//! | `stream` | several files in order, with the next file read ahead |
//! | `checked`, `series` | checks of times and values, numbers for the series |

mod ahead;
mod azure_functions;
mod azure_vm;
pub(crate) mod block;
mod bytes;
pub(crate) mod cells;
pub(crate) mod checked;
mod csv;
pub(crate) mod decoder;
mod footer;
mod foreign;
mod number;
mod pages;
mod parquet;
pub(crate) mod series;
mod stream;
pub(crate) mod table;
mod text;
mod thrift;
mod time;
pub(crate) mod trace;
mod vm_table;

pub use azure_functions::{AzureFunctions, AzureFunctionsOptions};
pub use azure_vm::{AzureVm, AzureVmOptions, CpuReading};
pub use checked::TraceCounts;
pub use table::{Table, TableOptions};
pub use time::TimeUnit;
pub use trace::{Dropped, Irregular, Order, Readings, Step, Trace, ValueColumn, expand};
pub use vm_table::{VmProperty, VmTableOptions};
