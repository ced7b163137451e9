//! The integration tests of laau-serve, in one binary.

mod store;
