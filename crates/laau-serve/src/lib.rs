#![doc = include_str!("../README.md")]

mod account;
mod answer;
mod authority;
pub mod client;
mod clock;
pub mod demo;
mod deployment;
mod entry;
mod error;
pub mod http;
mod keys;
pub mod logs;
mod metrics;
mod period;
mod serving;
pub mod store;

pub use account::{AccountSpec, AccountView, GuardSpec, PeriodSpec, PeriodView, PolicySource};
pub use answer::{Decision, Settled};
pub use authority::{
    Answer, Authority, AuthorityOptions, Change, DecisionRequest, Notice, Running, Settlement,
};
pub use clock::Clock;
pub use entry::{ApiKey, DecisionId, Entry, Event, KeyedRequest, Scope};
pub use error::Error;
pub use keys::NewKey;
pub use logs::LogFormat;
pub use metrics::Metrics;
pub use serving::{ServeOptions, Serving, StartError, StorePlace};
