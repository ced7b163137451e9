use super::{expect, expect_context, expect_magnitude, spread_diagonal};
use std::collections::BTreeMap;

use super::parameters;
use crate::error::Error;
use crate::fit::Parameter;
use crate::problem::{Dimensions, Problem, SmoothProblem, Structure, validate_problem};

/// Data-centre power provisioning: servers `x_i` for workloads `c_i`, under budgets of energy and of carbon.
///
/// ```text
///     delay cost   Σ_i c_i / (x_i − c_i)                 (as in a queue of load c_i and capacity x_i)
///     energy       Σ_i e_i x_i
///     carbon       k Σ_i e_i x_i                         k: the grid's carbon intensity now
/// ```
///
/// Context: `c_1 … c_d, k` with `c_i` at most [`PowerProvisioning::most_load`] and `k` at most
/// [`PowerProvisioning::most_intensity`]. Two budgets: energy, carbon.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerProvisioning {
    energy: Vec<f64>,
    most_load: f64,
    most_intensity: f64,
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl PowerProvisioning {
    /// Interactive and batch load of up to 1 each, energy of 1 and 0.8 a server, intensities up to 1.
    #[must_use]
    pub fn two_loads() -> Self {
        Self {
            energy: vec![1.0, 0.8],
            most_load: 1.0,
            most_intensity: 1.0,
            lower: vec![1.1; 2],
            upper: vec![6.0; 2],
        }
    }

    /// One workload per entry of `energy`.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`] unless energies and intensity are positive and `most_load < lower ≤ upper`.
    pub fn new(
        energy: Vec<f64>,
        most_load: f64,
        most_intensity: f64,
        lower: f64,
        upper: f64,
    ) -> Result<Self, Error> {
        let d = energy.len();
        let problem = Self {
            energy,
            most_load,
            most_intensity,
            lower: vec![lower; d],
            upper: vec![upper; d],
        };
        validate_problem(&problem)?;
        let positive = |v: f64| v > 0.0 && v.is_finite();
        expect(&problem, problem.energy.iter().all(|e| positive(*e)), || {
            "expected positive energies".to_owned()
        })?;
        expect(&problem, positive(most_intensity), || {
            format!("expected a positive intensity, found {most_intensity}")
        })?;
        expect(&problem, positive(most_load) && most_load < lower, || {
            format!(
                "expected a positive largest load below the least number of servers {lower}, found {most_load}"
            )
        })?;
        expect_magnitude(&problem, "bounds", [&lower, &upper])?;
        expect_magnitude(&problem, "energies", &problem.energy)?;
        expect_magnitude(
            &problem,
            "a largest load and intensity",
            [&most_load, &most_intensity],
        )?;
        expect_magnitude(&problem, "a gap between load and servers", [&(lower - most_load)])?;
        Ok(problem)
    }

    /// The largest load of a context.
    #[must_use]
    pub fn most_load(&self) -> f64 {
        self.most_load
    }

    /// The largest carbon intensity of a context.
    #[must_use]
    pub fn most_intensity(&self) -> f64 {
        self.most_intensity
    }

    fn energy_of(&self, action: &[f64]) -> f64 {
        action.iter().zip(&self.energy).map(|(x, e)| e * x).sum()
    }

    /// The derivative of a marginal cost in the load `c` of its action.
    fn mixed(x: f64, c: f64) -> f64 {
        -(x + c) / (x - c).powi(3)
    }
}

impl Problem for PowerProvisioning {
    fn name(&self) -> &'static str {
        "power"
    }

    fn dimensions(&self) -> Dimensions {
        let d = self.energy.len();
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
        action.iter().zip(context).map(|(x, c)| c / (x - c)).sum()
    }

    fn usage(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        out[0] = self.energy_of(action);
        out[1] = context[action.len()] * out[0];
    }

    fn least_usage(&self, out: &mut [f64]) {
        out[0] = self.energy_of(&self.lower);
        out[1] = self.most_intensity * out[0];
    }

    fn parameters(&self) -> BTreeMap<String, Parameter> {
        parameters([
            ("lower", self.lower[0].into()),
            ("upper", self.upper[0].into()),
            ("energy", Parameter::Numbers(self.energy.clone())),
            ("most-load", self.most_load.into()),
            ("most-intensity", self.most_intensity.into()),
        ])
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        expect_context(context)?;
        let d = self.energy.len();
        if let Some(index) = context[..d].iter().position(|c| *c > self.most_load) {
            let expected = "a load of at most the problem's largest load";
            return Err(Error::OutsideDomain {
                what: "context",
                index,
                value: context[index],
                expected,
            });
        }
        if context[d] > self.most_intensity {
            let expected = "an intensity of at most the problem's largest intensity";
            return Err(Error::OutsideDomain {
                what: "context",
                index: d,
                value: context[d],
                expected,
            });
        }
        Ok(())
    }
}

impl SmoothProblem for PowerProvisioning {
    fn cost_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        for ((out, x), c) in out.iter_mut().zip(action).zip(context) {
            *out = -c / ((x - c) * (x - c));
        }
    }

    fn usage_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        let (energy, carbon) = out.split_at_mut(action.len());
        for ((energy, carbon), e) in energy.iter_mut().zip(carbon).zip(&self.energy) {
            *energy = *e;
            *carbon = context[action.len()] * e;
        }
    }

    fn lagrangian_hessian(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        spread_diagonal(action.len(), out, |diagonal| {
            self.lagrangian_hessian_diagonal(action, context, weights, diagonal);
        });
    }

    fn lagrangian_hessian_diagonal(&self, action: &[f64], context: &[f64], _: &[f64], out: &mut [f64]) {
        for ((out, x), c) in out.iter_mut().zip(action).zip(context) {
            *out = 2.0 * c / (x - c).powi(3);
        }
    }

    fn cost_context_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for ((out, x), c) in out.iter_mut().zip(action).zip(context) {
            *out = x / ((x - c) * (x - c));
        }
    }

    fn usage_context_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        out[2 * context.len() - 1] = self.energy_of(action);
    }

    fn lagrangian_mixed(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        let d = action.len();
        out.fill(0.0);
        for (i, row) in out.chunks_exact_mut(context.len()).enumerate() {
            row[i] = Self::mixed(action[i], context[i]);
            row[d] = weights[1] * self.energy[i];
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
        out[d] = 0.0;
        for i in 0..d {
            out[i] = 0.0 - by_action[i] * Self::mixed(action[i], context[i]);
            out[d] -= by_action[i] * (weights[1] * self.energy[i]);
        }
        out[d] -= by_usage[1] * self.energy_of(action);
    }

    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: true,
        }
    }
}
