//! The audit itself is right: its certificates against another solver, its checks against wrong answers.
#![expect(clippy::unwrap_used, reason = "a test panics where something is wrong")]

mod certificates;
mod learned;
