//! Integration tests of laau-core.

mod autodiff;
mod guard;
mod holds;
mod ledger;
mod problems;
mod rollout;
mod unrolled;
