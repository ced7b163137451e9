#![doc = include_str!("../README.md")]

mod account;
mod answer;
mod authority;
pub mod client;
pub mod demo;
mod entry;
mod error;
pub mod http;
mod keys;
pub mod logs;
mod metrics;
mod serving;
pub mod store;

pub use account::{AccountSpec, AccountView, GuardSpec, PeriodSpec, PeriodView, PolicySource};
pub use authority::{Answer, Authority, Change, DecisionRequest, Notice, Settlement};
pub use answer::{Decision, Settled};
pub use entry::{ApiKey, DecisionId, Entry, Event, KeyedRequest, Scope};
pub use error::Error;
pub use keys::NewKey;
pub use logs::LogFormat;
pub use metrics::Metrics;
pub use serving::{ServeOptions, Serving, StartError, StorePlace};
