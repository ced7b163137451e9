//! The problem: two functions and a box.

use laau_core::{Dimensions, Error, Number, ProblemFunctions, Structure};

/// An advertiser who buys impressions hour by hour on two channels.
///
/// ```text
///     utility        Σ_i v_i (1 − e^{−x_i})        x_i: thousands of impressions bought on channel i in this hour
///     money          Σ_i p_i x_i                   p_i: the price of a thousand
///     impressions    Σ_i x_i                       what the campaign may show in all
/// ```
///
/// Context: `v_1, v_2, p_1, p_2`, all positive. Budgets: money, impressions.
#[derive(Debug, Clone, Copy)]
pub struct AdPacing;

impl ProblemFunctions for AdPacing {
    fn name(&self) -> &'static str {
        "ad-pacing"
    }

    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 2,
            budgets: 2,
            context: 4,
        }
    }

    fn lower(&self) -> &[f64] {
        &[0.0, 0.0]
    }

    fn upper(&self) -> &[f64] {
        &[5.0, 5.0]
    }

    fn cost<T: Number>(&self, action: &[T], context: &[T]) -> T {
        context[0] * ((-action[0]).exp() - 1.0) + context[1] * ((-action[1]).exp() - 1.0)
    }

    fn usage<T: Number>(&self, action: &[T], context: &[T], out: &mut [T]) {
        out[0] = context[2] * action[0] + context[3] * action[1];
        out[1] = action[0] + action[1];
    }

    /// Who buys nothing uses nothing.
    fn least_usage(&self, out: &mut [f64]) {
        out.fill(0.0);
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        match context.iter().position(|value| *value <= 0.0) {
            None => Ok(()),
            Some(index) => Err(Error::OutsideDomain {
                what: "context",
                index,
                value: context[index],
                expected: "a positive value or price",
            }),
        }
    }

    /// Both are true of the formulas above; `conformance::problem` checks them.
    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: true,
        }
    }
}
