//! The integration tests of laau-serve, in one binary.

mod authority;
mod client;
mod cluster;
mod example;
mod http;
mod page;
mod place;
mod store;
