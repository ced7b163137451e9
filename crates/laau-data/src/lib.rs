#![doc = include_str!("../README.md")]

mod datasets;
mod error;
mod inspect;
mod load;
mod random;
pub mod shift;
pub mod synthetic;
mod tables;
mod windows;

pub use datasets::{Dataset, DatasetOptions};
pub use error::{Cell, CellFault, Error};
pub use inspect::{
    ColumnFigures, EpisodesStatistics, QUANTILES, TableFigures, TraceStatistics, ValueStatistics,
    inspect_episodes, inspect_table, inspect_trace, table_columns,
};
pub use load::{
    AzureFunctions, AzureFunctionsOptions, AzureVm, AzureVmOptions, CpuReading, Dropped, Irregular, Order,
    Readings, Step, Table, TableOptions, TimeUnit, Trace, TraceCounts, ValueColumn, VmProperty,
    VmTableOptions, expand,
};
pub use shift::{tsne, wasserstein};
pub use tables::{TableColumn, Values, read_episodes, write_episodes, write_table, write_table_in_blocks};
pub use windows::{
    Construction, EpisodeOptions, Gap, ImportReport, Imported, Normalisation, OutOfRange, Split, SplitBy,
    import,
};
