//! Episodes from a trace: windows of consecutive readings, or interleaved series.

mod consecutive;
pub(crate) mod import;
mod interleaved;
pub(crate) mod normaliser;
pub(crate) mod options;
mod periods;
mod select;

pub use import::{ImportReport, Imported, import};
pub use options::{Construction, EpisodeOptions, Normalisation, OutOfRange, Split};
pub use periods::{Gap, SplitBy};
