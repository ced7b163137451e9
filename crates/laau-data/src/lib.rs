#![doc = include_str!("../README.md")]

mod azure_functions;
mod azure_vm;
mod block;
mod episodes_table;
mod error;
mod import;
mod inspect;
mod interleaved;
mod options;
mod random;
mod select;
mod series;
pub mod shift;
mod statistics;
mod stream;
pub mod synthetic;
mod table;
mod text;
mod trace;
pub mod tsne;
mod vm_table;
mod walk;
pub mod wasserstein;
mod windows;

pub use azure_functions::{AzureFunctions, AzureFunctionsOptions};
pub use azure_vm::{AzureVm, AzureVmOptions, CpuReading};
pub use episodes_table::{read_episodes, write_episodes};
pub use error::{Cell, Error};
pub use import::{ImportReport, Imported, import};
pub use inspect::{EpisodesStatistics, TraceStatistics, inspect_episodes, inspect_trace};
pub use options::{Construction, EpisodeOptions, Normalisation, OutOfRange, Split};
pub use statistics::{QUANTILE_SAMPLE, QUANTILES, ValueStatistics};
pub use table::{Table, TableOptions};
pub use trace::{Dropped, Irregular, Order, Readings, Run, Step, Trace, ValueColumn};
pub use vm_table::{VmProperty, VmTableOptions};
pub use walk::TraceCounts;
