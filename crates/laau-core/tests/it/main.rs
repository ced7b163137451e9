//! Integration tests of laau-core.

mod autodiff;
mod ledger;
mod problems;
mod rollout;
mod unrolled;
