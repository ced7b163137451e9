//! The integration tests of laau-data.

mod bad_input;
mod files;
