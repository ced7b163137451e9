use super::logarithm::ln_normal;
use super::{expect, expect_context, expect_magnitude};
use crate::error::Error;
use crate::problem::{Dimensions, Problem, SmoothProblem, Structure, validate_problem};

/// The paper's problem (Section 7): give job `t` of weight `c` the resource `x`, for a utility of `c ln x`.
///
/// One action, one budget, usage `x`, box `[lower, upper]` with `lower > 0`.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedFairness {
    lower: [f64; 1],
    upper: [f64; 1],
}

impl WeightedFairness {
    /// The problem's name.
    pub const NAME: &'static str = "weighted-fairness";

    /// The box of the paper, `[1, 40]`.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            lower: [1.0],
            upper: [40.0],
        }
    }

    /// Another box.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`] unless `0 < lower ≤ upper`.
    pub fn new(lower: f64, upper: f64) -> Result<Self, Error> {
        let problem = Self {
            lower: [lower],
            upper: [upper],
        };
        validate_problem(&problem)?;
        expect(&problem, lower > 0.0, || {
            format!("expected a positive lower bound, found {lower}")
        })?;
        expect_magnitude(&problem, "bounds", [&lower, &upper])?;
        Ok(problem)
    }

    /// The cost of an action that is a positive, normal number, without calls: a loop over it vectorises.
    #[expect(
        clippy::inline_always,
        reason = "compiled with the caller's instruction set, wherever its loop is"
    )]
    #[inline(always)]
    #[must_use]
    pub fn cost_of_normal(action: f64, context: f64) -> f64 {
        -context * ln_normal(action)
    }
}

impl Problem for WeightedFairness {
    fn name(&self) -> &'static str {
        Self::NAME
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
        -context[0] * action[0].ln()
    }

    fn usage(&self, action: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = action[0];
    }

    fn least_usage(&self, out: &mut [f64]) {
        out[0] = self.lower[0];
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        expect_context(context)
    }

    fn cost_batch(&self, actions: &[f64], contexts: &[f64], costs: &mut [f64]) {
        let mut irregular = 0_u64;
        for ((cost, x), c) in costs.iter_mut().zip(actions).zip(contexts) {
            *cost = Self::cost_of_normal(*x, *c);
            irregular |= u64::from(!(*x >= f64::MIN_POSITIVE && *x < f64::INFINITY));
        }
        if irregular != 0 {
            for ((cost, x), c) in costs.iter_mut().zip(actions).zip(contexts) {
                *cost = -c * x.ln();
            }
        }
    }

    fn usage_batch(&self, actions: &[f64], _: &[f64], usages: &mut [f64]) {
        usages.copy_from_slice(actions);
    }
}

impl SmoothProblem for WeightedFairness {
    fn cost_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        out[0] = -context[0] / action[0];
    }

    fn usage_jacobian(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = 1.0;
    }

    fn lagrangian_hessian(&self, action: &[f64], context: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = context[0] / (action[0] * action[0]);
    }

    fn lagrangian_hessian_diagonal(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        self.lagrangian_hessian(action, context, weights, out);
    }

    fn cost_context_gradient(&self, action: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = -action[0].ln();
    }

    fn usage_context_jacobian(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = 0.0;
    }

    fn lagrangian_mixed(&self, action: &[f64], _: &[f64], _: &[f64], out: &mut [f64]) {
        out[0] = -1.0 / action[0];
    }

    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: true,
        }
    }

    fn step_pullback_batch(
        &self,
        actions: &[f64],
        contexts: &[f64],
        prices: &[f64],
        scale: f64,
        _: &mut Vec<f64>,
        out: &mut [f64],
    ) {
        for (((out, x), c), price) in out.iter_mut().zip(actions).zip(contexts).zip(prices) {
            *out = -scale * c / x - price;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_without_a_logarithm_is_refused() {
        assert_eq!(
            WeightedFairness::new(0.0, 40.0).unwrap_err().to_string(),
            "invalid problem `weighted-fairness`: expected a positive lower bound, found 0"
        );
        assert!(WeightedFairness::new(3.0, 3.0).is_ok());
        assert!(WeightedFairness::new(3.0, 2.0).is_err());
        assert!(WeightedFairness::new(1.0, f64::INFINITY).is_err());
    }
}
