use super::{expect, expect_context, expect_magnitude};
use std::collections::BTreeMap;

use super::{parameters, same};
use crate::error::Error;
use crate::fit::Parameter;
use crate::problem::{Dimensions, Problem, SmoothProblem, Structure, validate_problem};

/// Virtual machines on one server (the paper's Appendix B.1): each job gets a bundle of resources, each with its
/// own capacity.
///
/// A job of weight `w` that needs the resources in the shares `s` (`Σ s_i = 1` by convention) values the bundle
/// `y = Π x_i^{s_i}` with the α-fair utility
///
/// ```text
///     w (y^{1−α} − 1) / (1 − α)          α = 1: w ln y (proportional), α = 2: harmonic, large α: near max-min
/// ```
///
/// The utility is concave where `(1 − α) Σ s_i ≤ 1`: contexts beyond are refused.
///
/// Context: `w, s_1 … s_d`. Usage: the bundle itself, one budget per resource. The bundle couples its resources, so
/// that the Hessian is dense unless `α = 1`.
#[derive(Debug, Clone, PartialEq)]
pub struct VmAllocation {
    alpha: f64,
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl VmAllocation {
    /// CPU, memory, I/O and storage, each between 1 and 40 units a job, with `α = 2`.
    #[must_use]
    pub fn server() -> Self {
        Self {
            alpha: 2.0,
            lower: vec![1.0; 4],
            upper: vec![40.0; 4],
        }
    }

    /// Any number of resources.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`] unless `0 ≤ α ≤ 20` and `0 < lower ≤ upper`.
    pub fn new(alpha: f64, lower: Vec<f64>, upper: Vec<f64>) -> Result<Self, Error> {
        let problem = Self { alpha, lower, upper };
        validate_problem(&problem)?;
        expect(&problem, (0.0..=20.0).contains(&alpha), || {
            format!("expected alpha in [0, 20], found {alpha}")
        })?;
        expect(&problem, problem.lower.iter().all(|l| *l > 0.0), || {
            "expected positive lower bounds".to_owned()
        })?;
        expect_magnitude(&problem, "bounds", problem.lower.iter().chain(&problem.upper))?;
        Ok(problem)
    }

    /// The fairness parameter `α`.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// `ln y = Σ s_i ln x_i`.
    fn log_bundle(action: &[f64], shares: &[f64]) -> f64 {
        action.iter().zip(shares).map(|(x, s)| s * x.ln()).sum()
    }

    /// Refuses shares with which the utility would not be concave: `y^p` is concave if and only if `p Σ s ≤ 1`.
    fn expect_concave_utility(&self, shares: &[f64]) -> Result<(), Error> {
        // Shares that are divided by their sum add up to 1 but for a rounding each, of the division and of the sum.
        let most = 1.0 + 2.0 * shares.len() as f64 * f64::EPSILON;
        let mut sum = 0.0;
        for (i, share) in shares.iter().enumerate() {
            sum += share;
            if (1.0 - self.alpha) * sum > most {
                return Err(Error::OutsideDomain {
                    what: "context",
                    index: i + 1,
                    value: *share,
                    expected: "a share that keeps (1 - alpha) times their sum within 1",
                });
            }
        }
        Ok(())
    }

    /// Refuses shares with which `y^p` is beyond what stays finite at a corner of the box, in cost or in derivatives.
    fn expect_finite_cost(&self, context: &[f64]) -> Result<(), Error> {
        let shares = &context[1..];
        let (largest, share) = (shares.iter().enumerate())
            .fold((0, 0.0), |most, (i, s)| if *s > most.1 { (i, *s) } else { most });
        let finite = [&self.lower, &self.upper].into_iter().all(|corner| {
            let power = ((1.0 - self.alpha) * Self::log_bundle(corner, shares)).exp();
            // The largest entry of a derivative, of any order that is asked for.
            let slope = (1.0 + share) * (1.0 + (1.0 - self.alpha).abs())
                / corner.iter().fold(1.0, |least: f64, x| least.min(*x));
            ((1.0 + context[0]) * power * slope * slope).is_finite()
        });
        if finite {
            Ok(())
        } else {
            Err(Error::OutsideDomain {
                what: "context",
                index: largest + 1,
                value: share,
                expected: "a share for which the utility is finite all over the box",
            })
        }
    }

    /// `(y^{1−α} − 1)/(1 − α)`, which is `ln y` at `α = 1`.
    fn utility(&self, log_bundle: f64) -> f64 {
        let p = 1.0 - self.alpha;
        if p == 0.0 {
            log_bundle
        } else {
            (p * log_bundle).exp_m1() / p
        }
    }
}

impl Problem for VmAllocation {
    fn name(&self) -> &'static str {
        "vm-allocation"
    }

    fn dimensions(&self) -> Dimensions {
        let d = self.lower.len();
        Dimensions {
            actions: d,
            budgets: d,
            context: d + 1,
        }
    }

    fn lower(&self) -> &[f64] {
        &self.lower
    }

    fn upper(&self) -> &[f64] {
        &self.upper
    }

    fn cost(&self, action: &[f64], context: &[f64]) -> f64 {
        -context[0] * self.utility(Self::log_bundle(action, &context[1..]))
    }

    fn usage(&self, action: &[f64], _: &[f64], out: &mut [f64]) {
        out.copy_from_slice(action);
    }

    fn least_usage(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.lower);
    }

    fn parameters(&self) -> BTreeMap<String, Parameter> {
        parameters([
            ("lower", same(&self.lower)),
            ("upper", same(&self.upper)),
            ("actions", self.lower.len().into()),
            ("alpha", self.alpha.into()),
        ])
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        expect_context(context)?;
        self.expect_concave_utility(&context[1..])?;
        self.expect_finite_cost(context)
    }
}

impl SmoothProblem for VmAllocation {
    fn cost_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        // ∂l/∂x_i = −w y^{1−α} s_i / x_i
        let (w, s) = (context[0], &context[1..]);
        let power = ((1.0 - self.alpha) * Self::log_bundle(action, s)).exp();
        for ((out, x), s) in out.iter_mut().zip(action).zip(s) {
            *out = -w * power * s / x;
        }
    }

    fn usage_jacobian(&self, action: &[f64], _: &[f64], out: &mut [f64]) {
        let d = action.len();
        out.fill(0.0);
        for i in 0..d {
            out[i * d + i] = 1.0;
        }
    }

    fn lagrangian_hessian(&self, action: &[f64], context: &[f64], _: &[f64], out: &mut [f64]) {
        // ∂²l/∂x_i∂x_j = −w y^{1−α} ((1−α) s_i s_j / (x_i x_j) − [i=j] s_i / x_i²)
        let (w, s) = (context[0], &context[1..]);
        let p = 1.0 - self.alpha;
        let power = (p * Self::log_bundle(action, s)).exp();
        let d = action.len();
        for i in 0..d {
            for j in 0..d {
                let diagonal = if i == j {
                    s[i] / (action[i] * action[i])
                } else {
                    0.0
                };
                out[i * d + j] = -w * power * (p * s[i] * s[j] / (action[i] * action[j]) - diagonal);
            }
        }
    }

    fn cost_context_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        let (w, s) = (context[0], &context[1..]);
        let log_bundle = Self::log_bundle(action, s);
        let power = ((1.0 - self.alpha) * log_bundle).exp();
        out[0] = -self.utility(log_bundle);
        for (out, x) in out[1..].iter_mut().zip(action) {
            *out = -w * power * x.ln();
        }
    }

    fn usage_context_jacobian(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
    }

    fn lagrangian_mixed(&self, action: &[f64], context: &[f64], _: &[f64], out: &mut [f64]) {
        let (w, s) = (context[0], &context[1..]);
        let p = 1.0 - self.alpha;
        let power = (p * Self::log_bundle(action, s)).exp();
        for (i, row) in out.chunks_exact_mut(context.len()).enumerate() {
            row[0] = -power * s[i] / action[i];
            for (j, out) in row[1..].iter_mut().enumerate() {
                let diagonal = if i == j { 1.0 } else { 0.0 };
                *out = -w * power * (p * action[j].ln() * s[i] + diagonal) / action[i];
            }
        }
    }

    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: self.alpha == 1.0 || self.lower.len() == 1,
            affine_usage: true,
        }
    }
}
