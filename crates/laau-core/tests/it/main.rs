//! Integration tests of laau-core.

mod autodiff;
mod guard;
mod ledger;
mod problems;
mod rollout;
mod unrolled;
