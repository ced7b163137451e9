use std::f64::consts::LN_2;

use super::{expect, expect_context, expect_magnitude, spread_diagonal};
use std::collections::BTreeMap;

use super::parameters;
use crate::error::Error;
use crate::fit::Parameter;
use crate::problem::{Dimensions, Problem, SmoothProblem, Structure, validate_problem};

/// Rates over fading sub-channels (the paper's Appendix B.2): energy is used at a strictly convex rate, spectrum at a
/// linear one.
///
/// ```text
///     utility    q Σ_i ln(1 + x_i)                        x_i: rate on sub-channel i, q: the user's priority
///     energy     Σ_i (2^{x_i / w} − 1) / h_i              h_i: channel gain (Shannon's power for a rate), w: bandwidth
///     spectrum   Σ_i x_i
/// ```
///
/// Context: `q, h_1 … h_d`. Two budgets: energy, spectrum. Box `[0, most]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Wireless {
    bandwidth: f64,
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl Wireless {
    /// Three sub-channels of unit bandwidth, rates up to 4.
    #[must_use]
    pub fn three_channels() -> Self {
        Self {
            bandwidth: 1.0,
            lower: vec![0.0; 3],
            upper: vec![4.0; 3],
        }
    }

    /// Any number of sub-channels.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`] unless the bandwidth is positive, the largest rate is not negative and their ratio is at most 100.
    pub fn new(channels: usize, bandwidth: f64, most: f64) -> Result<Self, Error> {
        let problem = Self {
            bandwidth,
            lower: vec![0.0; channels],
            upper: vec![most; channels],
        };
        validate_problem(&problem)?;
        expect(&problem, bandwidth > 0.0 && most / bandwidth <= 100.0, || {
            format!(
                "expected a positive bandwidth of at least a hundredth of the largest rate, found {bandwidth}"
            )
        })?;
        // An infinite bandwidth would make energy free, and the action not unique.
        expect_magnitude(&problem, "a bandwidth and a largest rate", [&bandwidth, &most])?;
        Ok(problem)
    }

    /// `2^{x/w}`.
    fn power(&self, rate: f64) -> f64 {
        (rate / self.bandwidth).exp2()
    }

    /// The derivative of a channel's power in its gain `h`.
    fn power_per_gain(&self, rate: f64, h: f64) -> f64 {
        -(LN_2 / self.bandwidth * rate).exp_m1() / (h * h)
    }

    /// The derivative of that in the rate, times the price of power.
    fn mixed(&self, rate: f64, h: f64, price: f64) -> f64 {
        -price * LN_2 / self.bandwidth * self.power(rate) / (h * h)
    }
}

impl Problem for Wireless {
    fn name(&self) -> &'static str {
        "wireless"
    }

    fn dimensions(&self) -> Dimensions {
        let d = self.lower.len();
        Dimensions {
            actions: d,
            budgets: 2,
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
        -context[0] * action.iter().map(|x| x.ln_1p()).sum::<f64>()
    }

    fn usage(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        let scale = LN_2 / self.bandwidth;
        out[0] = action
            .iter()
            .zip(&context[1..])
            .map(|(x, h)| (scale * x).exp_m1() / h)
            .sum();
        out[1] = action.iter().sum();
    }

    fn least_usage(&self, out: &mut [f64]) {
        out.fill(0.0);
    }

    fn parameters(&self) -> BTreeMap<String, Parameter> {
        parameters([
            ("upper", self.upper[0].into()),
            ("actions", self.upper.len().into()),
            ("bandwidth", self.bandwidth.into()),
        ])
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        expect_context(context)?;
        match context[1..].iter().position(|h| *h < 1e-9) {
            Some(i) => Err(Error::OutsideDomain {
                what: "context",
                index: i + 1,
                value: context[i + 1],
                expected: "a channel gain of at least 1e-9",
            }),
            None => Ok(()),
        }
    }
}

impl SmoothProblem for Wireless {
    fn cost_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        for (out, x) in out.iter_mut().zip(action) {
            *out = -context[0] / (1.0 + x);
        }
    }

    fn usage_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        let (energy, spectrum) = out.split_at_mut(action.len());
        for ((out, x), h) in energy.iter_mut().zip(action).zip(&context[1..]) {
            *out = LN_2 / self.bandwidth * self.power(*x) / h;
        }
        spectrum.fill(1.0);
    }

    fn lagrangian_hessian(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        spread_diagonal(action.len(), out, |diagonal| {
            self.lagrangian_hessian_diagonal(action, context, weights, diagonal);
        });
    }

    fn lagrangian_hessian_diagonal(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        let scale = LN_2 / self.bandwidth;
        for ((out, x), h) in out.iter_mut().zip(action).zip(&context[1..]) {
            *out = context[0] / ((1.0 + x) * (1.0 + x)) + weights[0] * scale * scale * self.power(*x) / h;
        }
    }

    fn cost_context_gradient(&self, action: &[f64], _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        out[0] = -action.iter().map(|x| x.ln_1p()).sum::<f64>();
    }

    fn usage_context_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (i, (x, h)) in action.iter().zip(&context[1..]).enumerate() {
            out[i + 1] = self.power_per_gain(*x, *h);
        }
    }

    fn lagrangian_mixed(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (i, row) in out.chunks_exact_mut(context.len()).enumerate() {
            row[0] = -1.0 / (1.0 + action[i]);
            row[i + 1] = self.mixed(action[i], context[i + 1], weights[0]);
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
        out[0] = 0.0;
        for i in 0..action.len() {
            let (x, h, factor) = (action[i], context[i + 1], by_action[i]);
            out[0] -= factor * (-1.0 / (1.0 + x));
            out[i + 1] =
                0.0 - factor * self.mixed(x, h, weights[0]) - by_usage[0] * self.power_per_gain(x, h);
        }
    }

    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: false,
        }
    }
}
