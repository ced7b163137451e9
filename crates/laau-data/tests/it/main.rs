//! The integration tests of laau-data.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod azure_functions;
mod azure_sample;
mod azure_vm;
mod bad_input;
mod bounds;
mod by_time;
mod csv;
mod determinism;
mod episodes_table;
mod files;
mod kinds;
mod left_out;
mod parquet;
mod properties;
mod scaling;
mod seal;
mod table;
mod times;
mod windows;
