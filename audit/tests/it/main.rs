//! The audit itself is right: its certificates against another solver, its checks against wrong answers.
#![allow(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

mod certificates;
