//! The policies against independent truth, against each other, and at the edges.

mod average;
mod cone;
mod descent;
mod guarantee;
mod network;
mod optimum;
mod policies;
mod resolve;
mod strong;
mod workload;
