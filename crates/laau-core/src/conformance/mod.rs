//! One test suite per trait, for implementations in this workspace and outside of it.
//!
//! Call a suite from a test; it panics with a message that names the broken property. All draws are seeded.
//!
//! ```
//! use laau_core::{conformance, problems::WeightedFairness};
//! use rand::RngExt;
//!
//! conformance::problem(&WeightedFairness::paper(), |rng, context| context[0] = rng.random_range(0.01..1.0));
//! ```
#![expect(
    clippy::missing_panics_doc,
    reason = "a suite exists to panic where the contract is broken"
)]

mod multiplier;
mod policy;
mod problem;
mod skipped;
mod solver;

pub use multiplier::multiplier;
pub use policy::policy;
pub use problem::problem;
pub use skipped::skipped;
pub use solver::step_solver;

use std::convert::Infallible;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::differences::central_differences;
use crate::problem::{Dimensions, Problem};

const SEED: u64 = 0x1aa0;

fn generator() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(SEED)
}

/// An action strictly inside the box.
fn draw_action(problem: &dyn Problem, rng: &mut ChaCha8Rng, action: &mut [f64]) {
    for ((x, lower), upper) in action.iter_mut().zip(problem.lower()).zip(problem.upper()) {
        *x = lower + rng.random_range(0.02..0.98) * (upper - lower);
    }
}

/// The usage of an action.
fn usage_of(problem: &dyn Problem, action: &[f64], context: &[f64]) -> Vec<f64> {
    let mut usage = vec![0.0; problem.dimensions().budgets];
    problem.usage(action, context, &mut usage);
    usage
}

/// The derivatives of a vector function in one variable, and how well each is known.
fn central_difference(
    point: &mut [f64],
    index: usize,
    step: f64,
    f: &mut dyn FnMut(&[f64]) -> Vec<f64>,
) -> Vec<(f64, f64)> {
    let origin = point[index];
    let slopes = central_differences(origin, step, &mut |x| {
        point[index] = x;
        Ok::<_, Infallible>(f(point))
    });
    point[index] = origin;
    let Ok(slopes) = slopes;
    slopes.iter().map(|slope| (slope.slope, slope.drift)).collect()
}

fn assert_dimensions(problem: &dyn Problem) -> Dimensions {
    if let Err(error) = crate::problem::validate_problem(problem) {
        panic!("{error}");
    }
    problem.dimensions()
}
