//! The policies against independent truth, against each other, and at the edges.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic, like the test")]

mod average;
mod comparison;
mod cone;
mod degenerate;
mod descent;
mod each_problem;
mod guarantee;
mod inventories;
mod linear_cost;
mod memory;
mod narrow;
mod network;
mod optimum;
mod policies;
mod resolve;
mod scalar;
mod scales;
mod several_budgets;
mod strong;
mod workload;
