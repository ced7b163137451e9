#![doc = include_str!("../README.md")]

pub mod certificate;
pub mod checks;
pub mod custom;
pub mod draw;
pub mod episodes;
pub mod exact;
pub mod query;
pub mod recipe;
pub mod run;
pub mod shrink;
