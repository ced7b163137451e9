//! The audit itself is right: its certificates against another solver, its checks against wrong answers.

mod certificates;
