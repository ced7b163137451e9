//! The integration tests of laau-serve, in one binary.

#![expect(clippy::unwrap_used, reason = "a test whose setting fails has failed")]

mod authority;
mod client;
mod cluster;
mod example;
mod http;
mod page;
mod place;
mod store;
mod watched;
