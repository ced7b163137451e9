#![doc = include_str!("../README.md")]

mod account;
mod answer;
mod authority;
mod entry;
mod error;
pub mod http;
mod keys;
mod metrics;
pub mod store;

pub use account::{AccountSpec, AccountView, GuardSpec, PeriodSpec, PeriodView, PolicySource};
pub use authority::{Answer, Authority, Change, DecisionRequest, Notice, Settlement};
pub use answer::{Decision, Settled};
pub use entry::{ApiKey, DecisionId, Entry, Event, KeyedRequest, Scope};
pub use error::Error;
pub use keys::NewKey;
pub use metrics::Metrics;
