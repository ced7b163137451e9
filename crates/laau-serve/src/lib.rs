#![doc = include_str!("../README.md")]

mod account;
mod answer;
mod authority;
mod clock;
mod deployment;
mod entry;
mod error;
mod period;
pub mod store;

pub use account::{AccountSpec, AccountView, GuardSpec, PeriodSpec, PeriodView, PolicySource};
pub use answer::{Decision, Settled};
pub use authority::{
    Answer, Authority, AuthorityOptions, Change, DecisionRequest, Notice, Running, Settlement,
};
pub use clock::Clock;
pub use entry::{ApiKey, DecisionId, Entry, Event, KeyedRequest, Scope};
pub use error::Error;
