#![doc = include_str!("../README.md")]

mod error;
mod setting;

pub use error::Error;
pub use setting::{Fitted, Setting};
