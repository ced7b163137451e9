//! The integration tests of laau-serve, in one binary.

mod example;
mod page;
mod place;
mod store;
