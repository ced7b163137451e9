//! The policies against independent truth, against each other, and at the edges.

mod average;
mod cone;
mod descent;
mod guarantee;
mod optimum;
mod policies;
mod strong;
mod workload;
