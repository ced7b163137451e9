//! The problems that come with the crate.
//!
//! | problem | actions `d` | budgets `M` | usage | Hessian |
//! |---|---|---|---|---|
//! | [`WeightedFairness`] | 1 | 1 | linear | diagonal |
//! | [`LogUtility`] | any | any | linear | diagonal |
//! | [`VmAllocation`] | any (4) | the same | linear | dense |
//! | [`Wireless`] | any (3) | 2 | strictly convex and linear | diagonal |
//! | [`Trading`] | 1 | 1 | linear | diagonal |
//! | [`PowerProvisioning`] | any (2) | 2 | linear, varying with the context | diagonal |
//! | [`LlmTokens`] | any (2) | 2 | linear, varying with the context | diagonal |

mod llm_tokens;
mod log_utility;
mod logarithm;
mod power;
mod trading;
mod vm_allocation;
mod weighted_fairness;
mod wireless;

pub use llm_tokens::LlmTokens;
pub use log_utility::LogUtility;
pub use power::PowerProvisioning;
pub use trading::Trading;
pub use vm_allocation::VmAllocation;
pub use weighted_fairness::WeightedFairness;
pub use wireless::Wireless;

use std::collections::BTreeMap;

use crate::error::Error;
use crate::fit::Parameter;
use crate::problem::Problem;

/// Refuses a parameter with a reason.
fn expect(problem: &dyn Problem, holds: bool, reason: impl FnOnce() -> String) -> Result<(), Error> {
    if holds {
        Ok(())
    } else {
        Err(Error::InvalidProblem {
            problem: problem.name().to_owned(),
            reason: reason(),
        })
    }
}

/// `A x` of a row-major matrix. Every sum is in order, which is what its last bit follows from; four of them side by side, because each
/// waits for itself.
fn multiply(matrix: &[f64], x: &[f64], out: &mut [f64]) {
    let mut blocks = matrix.chunks_exact(4 * x.len());
    let (of_blocks, of_rest) = out.as_chunks_mut::<4>();
    for (block, out) in (&mut blocks).zip(of_blocks) {
        *out = row_sums(block, x);
    }
    let rest = blocks.remainder();
    match of_rest {
        [a, b, c] => [*a, *b, *c] = row_sums(rest, x),
        [a, b] => [*a, *b] = row_sums(rest, x),
        [a] => [*a] = row_sums(rest, x),
        _ => {}
    }
}

#[inline]
fn row_sums<const K: usize>(rows: &[f64], x: &[f64]) -> [f64; K] {
    let d = x.len();
    let rows: [&[f64]; K] = std::array::from_fn(|k| &rows[k * d..][..d]);
    let mut sums = [0.0; K];
    for i in 0..d {
        for k in 0..K {
            sums[k] += rows[k][i] * x[i];
        }
    }
    sums
}

/// The largest bound, parameter and context entry, and one over the smallest positive bound and parameter.
///
/// Costs, usages and their derivatives multiply up to five of them: within the range they are finite all over the box.
pub const LARGEST: f64 = 1e60;

/// Refuses bounds and parameters that are neither zero nor of a magnitude between 1e-60 and 1e60.
fn expect_magnitude<'a>(
    problem: &dyn Problem,
    what: &str,
    values: impl IntoIterator<Item = &'a f64>,
) -> Result<(), Error> {
    let outside = |v: &&f64| **v != 0.0 && !(1.0 / LARGEST..=LARGEST).contains(&v.abs());
    match values.into_iter().find(outside) {
        Some(value) => Err(Error::InvalidProblem {
            problem: problem.name().to_owned(),
            reason: format!("expected {what} of a magnitude between 1e-60 and 1e60, found {value}"),
        }),
        None => Ok(()),
    }
}

/// Refuses a context with an entry that is negative or beyond what stays finite.
fn expect_context(context: &[f64]) -> Result<(), Error> {
    match context.iter().position(|c| !(0.0..=LARGEST).contains(c)) {
        Some(index) if context[index] < 0.0 => Err(Error::Negative {
            what: "context",
            index,
            value: context[index],
        }),
        Some(index) => Err(Error::OutsideDomain {
            what: "context",
            index,
            value: context[index],
            expected: "a value of at most 1e60",
        }),
        None => Ok(()),
    }
}
/// Named parameters.
fn parameters<const N: usize>(named: [(&str, Parameter); N]) -> BTreeMap<String, Parameter> {
    named.map(|(name, value)| (name.to_owned(), value)).into()
}

/// One number where all are the same.
fn same(values: &[f64]) -> Parameter {
    match values {
        [first, rest @ ..] if rest.iter().all(|value| value == first) => Parameter::Number(*first),
        several => Parameter::Numbers(several.to_vec()),
    }
}

/// Writes a diagonal into a matrix of `d` rows, for problems whose Hessian is one.
fn spread_diagonal(d: usize, out: &mut [f64], write: impl FnOnce(&mut [f64])) {
    out.fill(0.0);
    write(&mut out[..d]);
    for i in 1..d {
        out[i * d + i] = std::mem::take(&mut out[i]);
    }
}
