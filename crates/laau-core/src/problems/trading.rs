use super::{expect, expect_context, expect_magnitude};
use std::collections::BTreeMap;

use super::parameters;
use crate::error::Error;
use crate::fit::Parameter;
use crate::problem::{Dimensions, Problem, SmoothProblem, Structure, validate_problem};

/// One-way trading, or the sale of an inventory: sell `x` at price `p` for a revenue of `p x − (κ/2) x²`, at most the
/// inventory over all steps.
///
/// Context: `p`. Usage: `x`. Box `[0, most]`. The impact `κ > 0` makes the revenue strictly concave.
#[derive(Debug, Clone, PartialEq)]
pub struct Trading {
    impact: f64,
    lower: [f64; 1],
    upper: [f64; 1],
}

impl Trading {
    /// Sales of up to 10 a step with an impact of 0.05 a unit.
    #[must_use]
    pub fn inventory() -> Self {
        Self {
            impact: 0.05,
            lower: [0.0],
            upper: [10.0],
        }
    }

    /// Another impact and another largest sale.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`] unless the impact is positive and the largest sale is not negative.
    pub fn new(impact: f64, most: f64) -> Result<Self, Error> {
        let problem = Self {
            impact,
            lower: [0.0],
            upper: [most],
        };
        validate_problem(&problem)?;
        expect(&problem, impact > 0.0 && impact.is_finite(), || {
            format!("expected a positive impact, found {impact}")
        })?;
        expect_magnitude(&problem, "an impact and a largest sale", [&impact, &most])?;
        Ok(problem)
    }
}

impl Problem for Trading {
    fn name(&self) -> &'static str {
        "trading"
    }

    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 1,
            budgets: 1,
            context: 1,
        }
    }

    fn lower(&self) -> &[f64] {
        &self.lower
    }

    fn upper(&self) -> &[f64] {
        &self.upper
    }

    fn cost(&self, action: &[f64], context: &[f64]) -> f64 {
        let x = action[0];
        (0.5 * self.impact * x - context[0]) * x
    }

    fn usage(&self, action: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = action[0];
    }

    fn least_usage(&self, out: &mut [f64]) {
        out[0] = 0.0;
    }

    fn parameters(&self) -> BTreeMap<String, Parameter> {
        parameters([("upper", self.upper[0].into()), ("impact", self.impact.into())])
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        expect_context(context)
    }
}

impl SmoothProblem for Trading {
    fn cost_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        out[0] = self.impact * action[0] - context[0];
    }

    fn usage_jacobian(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = 1.0;
    }

    fn lagrangian_hessian(&self, _: &[f64], _: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = self.impact;
    }

    fn lagrangian_hessian_diagonal(&self, _: &[f64], _: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = self.impact;
    }

    fn cost_context_gradient(&self, action: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = -action[0];
    }

    fn usage_context_jacobian(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = 0.0;
    }

    fn lagrangian_mixed(&self, _: &[f64], _: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = -1.0;
    }

    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: true,
        }
    }
}
