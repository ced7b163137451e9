//! Integration tests of laau-core.

mod dual;
mod ledger;
mod problems;
mod rollout;
mod unrolled;
