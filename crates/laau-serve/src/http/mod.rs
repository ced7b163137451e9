//! The authority over HTTP: JSON in, JSON out, problem documents for what is refused.

mod access;
mod accounts;
mod body;
mod changes;
mod connection;
mod events;
mod health;
mod key_routes;
mod openapi;
mod page;
mod problem;
mod rate;
mod routes;
mod server;
mod service;
mod tls;

pub use access::Access;
pub use accounts::{AccountList, EntryList};
pub use changes::SkipRequest;
pub use health::Health;
pub use key_routes::{KeyList, KeyRequest, KeyView, MadeKey};
pub(crate) use openapi::problem_schema;
pub use problem::Problem;
pub use server::Server;
pub use service::HttpOptions;
pub use tls::{Tls, TlsError};
