//! Every command and every bad input, through the real binary.

#![expect(clippy::unwrap_used, reason = "a test whose setting fails has failed")]

mod again;
mod compare;
mod crash;
mod data;
mod decide;
mod dry_run;
mod evaluate;
mod experiment;
#[cfg(unix)]
mod fuzz;
mod guard;
#[cfg(unix)]
mod interrupted;
mod journal;
mod kept;
mod learning;
mod matching;
mod memory;
mod model;
mod problems;
mod raw;
mod readme;
mod refused;
#[cfg(all(unix, feature = "serve"))]
mod serve;
mod support;
mod train;
mod tripped;
mod usage;
