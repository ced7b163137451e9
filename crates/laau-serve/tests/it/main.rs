//! The integration tests of laau-serve, in one binary.

mod page;
mod store;
