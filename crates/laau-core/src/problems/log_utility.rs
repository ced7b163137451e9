use super::{expect_context, expect_magnitude, multiply, spread_diagonal};
use std::collections::BTreeMap;

use super::parameters;
use crate::error::Error;
use crate::fit::Parameter;
use crate::problem::{Dimensions, Problem, SmoothProblem, Structure, validate_problem};

/// Weighted log-utility of `d` actions under `M` linear budgets: cost `−Σ c_i ln x_i`, usage `A x` with `A ≥ 0`.
///
/// The context is the weight of each action.
#[derive(Debug, Clone, PartialEq)]
pub struct LogUtility {
    actions: usize,
    budgets: usize,
    matrix: Vec<f64>,
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl LogUtility {
    /// A problem with the usage matrix `A` (row-major, `budgets × actions`) and the same box for every action.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`] unless `A` is finite, non-negative and of the right size, and `0 < lower ≤ upper`.
    pub fn new(
        actions: usize,
        budgets: usize,
        matrix: Vec<f64>,
        lower: f64,
        upper: f64,
    ) -> Result<Self, Error> {
        let problem = Self {
            actions,
            budgets,
            matrix,
            lower: vec![lower; actions],
            upper: vec![upper; actions],
        };
        let invalid = |reason: String| Error::InvalidProblem {
            problem: problem.name().to_owned(),
            reason,
        };
        if problem.matrix.len() != actions * budgets {
            return Err(invalid(format!(
                "expected a usage matrix of {budgets} × {actions} values, found {}",
                problem.matrix.len()
            )));
        }
        if let Some(value) = problem.matrix.iter().find(|a| !(a.is_finite() && **a >= 0.0)) {
            return Err(invalid(format!(
                "expected finite, non-negative usage, found {value}"
            )));
        }
        if lower <= 0.0 {
            return Err(invalid(format!("expected a positive lower bound, found {lower}")));
        }
        validate_problem(&problem)?;
        expect_magnitude(&problem, "bounds", [&lower, &upper])?;
        expect_magnitude(&problem, "a usage", &problem.matrix)?;
        Ok(problem)
    }

    /// The usage matrix, row-major.
    #[must_use]
    pub fn matrix(&self) -> &[f64] {
        &self.matrix
    }
}

impl Problem for LogUtility {
    fn name(&self) -> &'static str {
        "log-utility"
    }

    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: self.actions,
            budgets: self.budgets,
            context: self.actions,
        }
    }

    fn lower(&self) -> &[f64] {
        &self.lower
    }

    fn upper(&self) -> &[f64] {
        &self.upper
    }

    fn cost(&self, action: &[f64], context: &[f64]) -> f64 {
        -action.iter().zip(context).map(|(x, c)| c * x.ln()).sum::<f64>()
    }

    fn usage(&self, action: &[f64], _: &[f64], out: &mut [f64]) {
        multiply(&self.matrix, action, out);
    }

    fn least_usage(&self, out: &mut [f64]) {
        self.usage(&self.lower, &[], out);
    }

    fn parameters(&self) -> BTreeMap<String, Parameter> {
        parameters([
            ("lower", self.lower[0].into()),
            ("upper", self.upper[0].into()),
            (
                "usage",
                Parameter::Rows(self.matrix.chunks(self.actions).map(<[f64]>::to_vec).collect()),
            ),
        ])
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        expect_context(context)
    }
}

impl SmoothProblem for LogUtility {
    fn cost_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        for ((out, x), c) in out.iter_mut().zip(action).zip(context) {
            *out = -c / x;
        }
    }

    fn usage_jacobian(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out.copy_from_slice(&self.matrix);
    }

    fn lagrangian_hessian(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        spread_diagonal(action.len(), out, |diagonal| {
            self.lagrangian_hessian_diagonal(action, context, weights, diagonal);
        });
    }

    fn lagrangian_hessian_diagonal(&self, action: &[f64], context: &[f64], _: &[f64], out: &mut [f64]) {
        for ((out, x), c) in out.iter_mut().zip(action).zip(context) {
            *out = c / (x * x);
        }
    }

    fn cost_context_gradient(&self, action: &[f64], _: &[f64], out: &mut [f64]) {
        for (out, x) in out.iter_mut().zip(action) {
            *out = -x.ln();
        }
    }

    fn usage_context_jacobian(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
    }

    fn lagrangian_mixed(&self, action: &[f64], _: &[f64], _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (i, x) in action.iter().enumerate() {
            out[i * self.actions + i] = -1.0 / x;
        }
    }

    fn context_pullback(
        &self,
        action: &[f64],
        _: &[f64],
        _: &[f64],
        (by_action, _): (&[f64], &[f64]),
        _: &mut Vec<f64>,
        out: &mut [f64],
    ) {
        for ((out, x), factor) in out.iter_mut().zip(action).zip(by_action) {
            *out = 0.0 - factor * (-1.0 / x);
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
    fn bad_matrices_are_refused() {
        let check = |matrix: &[f64], lower: f64, expected: &str| {
            let error = LogUtility::new(2, 1, matrix.to_vec(), lower, 1.0)
                .unwrap_err()
                .to_string();
            assert_eq!(error, format!("invalid problem `log-utility`: {expected}"));
        };
        check(&[1.0], 0.1, "expected a usage matrix of 1 × 2 values, found 1");
        check(&[1.0, -1.0], 0.1, "expected finite, non-negative usage, found -1");
        check(
            &[1.0, f64::NAN],
            0.1,
            "expected finite, non-negative usage, found NaN",
        );
        check(&[1.0, 1.0], 0.0, "expected a positive lower bound, found 0");
        check(
            &[1.0, 1.0],
            2.0,
            "expected finite bounds with lower <= upper, found [2, 1] for action 0",
        );
    }
}
