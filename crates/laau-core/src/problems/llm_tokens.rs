use std::collections::BTreeMap;

use super::{expect, expect_context, expect_magnitude, parameters, spread_diagonal};
use crate::error::Error;
use crate::fit::Parameter;
use crate::problem::{Dimensions, Problem, SmoothProblem, Structure, validate_problem};

/// Tokens of a language model, granted to classes of requests under budgets of tokens and of spend.
///
/// ```text
///     utility   Σ_i a_i ln(1 + κ x_i / (a_i + ε)) / ln(1 + κ)      a_i: tokens that class i asks for
///     tokens    Σ_i x_i
///     spend     Σ_i (p_in s_i + p_out (1 − s_i)) x_i                s_i: the share of prompt tokens in what class i asks for
/// ```
///
/// Tokens are in thousands. Context: `a_1 … a_d, s_1 … s_d` with shares of at most 1. Two budgets: tokens, spend. A class that
/// asks for nothing gains nothing, whatever it is granted; `ε` keeps the formula smooth there.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmTokens {
    kappa: f64,
    input_price: f64,
    output_price: f64,
    lower: Vec<f64>,
    upper: Vec<f64>,
}

/// `ε` in thousands of tokens: a tenth of a short request.
const SOFTENING: f64 = 0.1;

impl LlmTokens {
    /// Two classes (short and long outputs), output three times as dear as input, `κ = 9`: half of what is asked for is worth
    /// three quarters of all of it.
    #[must_use]
    pub fn two_classes() -> Self {
        Self {
            kappa: 9.0,
            input_price: 1.0,
            output_price: 3.0,
            lower: vec![0.0; 2],
            upper: vec![20.0; 2],
        }
    }

    /// So many classes of requests.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`] unless `κ`, both prices and `upper` are positive.
    pub fn new(
        classes: usize,
        kappa: f64,
        input_price: f64,
        output_price: f64,
        upper: f64,
    ) -> Result<Self, Error> {
        let problem = Self {
            kappa,
            input_price,
            output_price,
            lower: vec![0.0; classes],
            upper: vec![upper; classes],
        };
        validate_problem(&problem)?;
        for (what, value) in [
            ("curvature kappa", kappa),
            ("input price", input_price),
            ("output price", output_price),
            ("largest grant", upper),
        ] {
            expect(&problem, value > 0.0 && value.is_finite(), || {
                format!("expected a positive {what}, found {value}")
            })?;
        }
        expect_magnitude(&problem, "bounds", [&upper])?;
        expect_magnitude(
            &problem,
            "a curvature and prices",
            [&kappa, &input_price, &output_price],
        )?;
        Ok(problem)
    }

    /// The price of a thousand tokens with a share of prompt tokens.
    fn price(&self, share: f64) -> f64 {
        self.input_price * share + self.output_price * (1.0 - share)
    }

    /// `κ / ln(1 + κ)`: the slope of the utility where nothing is granted yet, for a large demand.
    fn slope(&self) -> f64 {
        self.kappa / self.kappa.ln_1p()
    }

    /// The derivative of a marginal cost in the tokens that its class asks for.
    fn mixed(&self, x: f64, asked: f64) -> f64 {
        let (granted, sum) = (self.kappa * x, asked + SOFTENING + self.kappa * x);
        -self.slope() * (SOFTENING + granted) / (sum * sum)
    }
}

impl Problem for LlmTokens {
    fn name(&self) -> &'static str {
        "llm-tokens"
    }

    fn dimensions(&self) -> Dimensions {
        let d = self.lower.len();
        Dimensions {
            actions: d,
            budgets: 2,
            context: 2 * d,
        }
    }

    fn lower(&self) -> &[f64] {
        &self.lower
    }

    fn upper(&self) -> &[f64] {
        &self.upper
    }

    fn cost(&self, action: &[f64], context: &[f64]) -> f64 {
        let gain: f64 = action
            .iter()
            .zip(context)
            .map(|(x, a)| a * (self.kappa * x / (a + SOFTENING)).ln_1p())
            .sum();
        -gain / self.kappa.ln_1p()
    }

    fn usage(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        let shares = &context[action.len()..];
        out[0] = action.iter().sum();
        out[1] = action.iter().zip(shares).map(|(x, s)| self.price(*s) * x).sum();
    }

    fn least_usage(&self, out: &mut [f64]) {
        out.fill(0.0);
    }

    fn parameters(&self) -> BTreeMap<String, Parameter> {
        parameters([
            ("upper", self.upper[0].into()),
            ("kappa", self.kappa.into()),
            ("input-price", self.input_price.into()),
            ("output-price", self.output_price.into()),
        ])
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        expect_context(context)?;
        let d = self.lower.len();
        match context[d..].iter().position(|share| *share > 1.0) {
            Some(index) => Err(Error::OutsideDomain {
                what: "context",
                index: d + index,
                value: context[d + index],
                expected: "a share of prompt tokens of at most 1",
            }),
            None => Ok(()),
        }
    }
}

impl SmoothProblem for LlmTokens {
    fn cost_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        for ((out, x), a) in out.iter_mut().zip(action).zip(context) {
            *out = -self.slope() * a / (a + SOFTENING + self.kappa * x);
        }
    }

    fn usage_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        let (tokens, spend) = out.split_at_mut(action.len());
        tokens.fill(1.0);
        for (spend, share) in spend.iter_mut().zip(&context[action.len()..]) {
            *spend = self.price(*share);
        }
    }

    fn lagrangian_hessian(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        spread_diagonal(action.len(), out, |diagonal| {
            self.lagrangian_hessian_diagonal(action, context, weights, diagonal);
        });
    }

    fn lagrangian_hessian_diagonal(&self, action: &[f64], context: &[f64], _: &[f64], out: &mut [f64]) {
        for ((out, x), a) in out.iter_mut().zip(action).zip(context) {
            let sum = a + SOFTENING + self.kappa * x;
            *out = self.slope() * self.kappa * a / (sum * sum);
        }
    }

    fn cost_context_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for ((out, x), a) in out.iter_mut().zip(action).zip(context) {
            let (asked, granted) = (a + SOFTENING, self.kappa * x);
            let slope = (granted / asked).ln_1p() - a * granted / (asked * (asked + granted));
            *out = -slope / self.kappa.ln_1p();
        }
    }

    fn usage_context_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        let d = action.len();
        for (out, x) in out[context.len() + d..].iter_mut().zip(action) {
            *out = (self.input_price - self.output_price) * x;
        }
    }

    fn lagrangian_mixed(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        let d = action.len();
        out.fill(0.0);
        for (i, row) in out.chunks_exact_mut(context.len()).enumerate() {
            row[i] = self.mixed(action[i], context[i]);
            row[d + i] = weights[1] * (self.input_price - self.output_price);
        }
    }

    fn context_pullback(
        &self,
        action: &[f64],
        context: &[f64],
        weights: &[f64],
        (by_action, by_usage): (&[f64], &[f64]),
        _: &mut Vec<f64>,
        out: &mut [f64],
    ) {
        let d = action.len();
        let (tokens, inputs) = out.split_at_mut(d);
        let price = self.input_price - self.output_price;
        for i in 0..d {
            tokens[i] = 0.0 - by_action[i] * self.mixed(action[i], context[i]);
            inputs[i] = 0.0 - by_action[i] * (weights[1] * price) - by_usage[1] * (price * action[i]);
        }
    }

    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_and_its_parameters_are_those_of_the_page() {
        let problem = LlmTokens::two_classes();
        let context = [4.0, 2.0, 0.9, 0.7];
        let cost = problem.cost(&[2.0, 1.0], &context);
        let expected =
            -(4.0 * (1.0 + 18.0 / 4.1_f64).ln() + 2.0 * (1.0 + 9.0 / 2.1_f64).ln()) / 10.0_f64.ln();
        assert!((cost - expected).abs() < 1e-12, "{cost} {expected}");
        let mut usage = [0.0; 2];
        problem.usage(&[2.0, 1.0], &context, &mut usage);
        assert_eq!(usage[0], 3.0);
        // Nine tenths at 1 and a tenth at 3; seven tenths at 1 and three at 3.
        assert!((usage[1] - (2.0 * 1.2 + 1.6)).abs() < 1e-12, "{usage:?}");
        assert_eq!(problem.cost(&[5.0, 5.0], &[0.0, 0.0, 0.5, 0.5]), 0.0);
        assert_eq!(problem.upper(), [20.0, 20.0]);
    }

    #[test]
    fn a_share_above_one_and_prices_of_zero_are_refused() {
        let problem = LlmTokens::two_classes();
        assert!(problem.check_context(&[1.0, 1.0, 0.5, 1.1]).is_err());
        assert!(problem.check_context(&[1.0, 0.0, 0.5, 1.0]).is_ok());
        assert!(LlmTokens::new(2, 9.0, 0.0, 3.0, 20.0).is_err());
        assert!(LlmTokens::new(2, -1.0, 1.0, 3.0, 20.0).is_err());
    }
}
