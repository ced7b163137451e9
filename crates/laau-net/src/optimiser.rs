//! Gradient steps on a flat slice of weights.

use laau_core::numerics::adam::Adam;
use pulp::Arch;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A rule that turns gradients into steps.
///
/// | variant | default | purpose | range |
/// |---|---|---|---|
/// | `Sgd` | | `θ ← θ − η g` | |
/// | `Adam.first_decay` | 0.9 | decay of the mean of gradients | `[0, 1)` |
/// | `Adam.second_decay` | 0.999 | decay of the mean of squared gradients | `[0, 1)` |
/// | `Adam.epsilon` | 1e-8 | keeps the division from zero | `> 0` |
///
/// Adam corrects both means for their start at zero, and has no weight decay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Optimiser {
    /// Plain stochastic gradient descent.
    Sgd,
    /// Adam.
    Adam {
        /// Decay of the mean of gradients.
        #[serde(default = "first_decay")]
        first_decay: f64,
        /// Decay of the mean of squared gradients.
        #[serde(default = "second_decay")]
        second_decay: f64,
        /// What is added to the root of the squared mean.
        #[serde(default = "epsilon")]
        epsilon: f64,
    },
}

fn first_decay() -> f64 {
    0.9
}

fn second_decay() -> f64 {
    0.999
}

fn epsilon() -> f64 {
    1e-8
}

impl Default for Optimiser {
    fn default() -> Self {
        Self::adam()
    }
}

impl Optimiser {
    /// Adam with its usual constants.
    #[must_use]
    pub fn adam() -> Self {
        Self::Adam {
            first_decay: first_decay(),
            second_decay: second_decay(),
            epsilon: epsilon(),
        }
    }

    /// The name in tables and files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Adam { .. } => "adam",
        }
    }

    /// Checks the ranges of the table above.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] that names the constant.
    pub fn check(&self) -> Result<(), Error> {
        let Self::Adam {
            first_decay,
            second_decay,
            epsilon,
        } = *self
        else {
            return Ok(());
        };
        for (field, decay) in [
            ("optimiser.first_decay", first_decay),
            ("optimiser.second_decay", second_decay),
        ] {
            if !(0.0..1.0).contains(&decay) {
                return Err(Error::InvalidSetting {
                    field,
                    reason: format!("expected a decay in [0, 1), found {decay}"),
                });
            }
        }
        if !(epsilon.is_finite() && epsilon > 0.0) {
            return Err(Error::InvalidSetting {
                field: "optimiser.epsilon",
                reason: format!("expected a positive number, found {epsilon}"),
            });
        }
        Ok(())
    }
}

/// An optimiser at work: its rule and its memory. It allocates once, when it is made.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimiserState {
    rule: Optimiser,
    steps: u64,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl OptimiserState {
    /// A fresh optimiser for `parameters` weights.
    #[must_use]
    pub fn new(rule: Optimiser, parameters: usize) -> Self {
        let moments = match rule {
            Optimiser::Sgd => 0,
            Optimiser::Adam { .. } => parameters,
        };
        Self {
            rule,
            steps: 0,
            first: vec![0.0; moments],
            second: vec![0.0; moments],
        }
    }

    /// An optimiser as it was, from what [`OptimiserState::rule`], [`OptimiserState::steps`] and
    /// [`OptimiserState::moments`] gave.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] when the moments do not fit each other or the rule.
    pub fn restore(rule: Optimiser, steps: u64, first: Vec<f64>, second: Vec<f64>) -> Result<Self, Error> {
        if first.len() != second.len() || (rule == Optimiser::Sgd && !first.is_empty()) {
            return Err(Error::InvalidSetting {
                field: "optimiser",
                reason: format!(
                    "expected moments that fit `{}`, found {} and {}",
                    rule.name(),
                    first.len(),
                    second.len()
                ),
            });
        }
        Ok(Self {
            rule,
            steps,
            first,
            second,
        })
    }

    /// The rule.
    #[must_use]
    pub fn rule(&self) -> Optimiser {
        self.rule
    }

    /// Steps taken so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The means of gradients and of squared gradients; empty for SGD.
    #[must_use]
    pub fn moments(&self) -> (&[f64], &[f64]) {
        (&self.first, &self.second)
    }

    /// Moves the weights one step along the gradient.
    ///
    /// # Panics
    /// When the slices are not as long as the optimiser was made for.
    pub fn step(&mut self, parameters: &mut [f64], gradient: &[f64], learning_rate: f64) {
        assert_eq!(parameters.len(), gradient.len(), "one gradient per weight");
        self.steps += 1;
        match self.rule {
            Optimiser::Sgd => Arch::new().dispatch(|| sgd(parameters, gradient, learning_rate)),
            Optimiser::Adam {
                first_decay,
                second_decay,
                epsilon,
            } => {
                assert_eq!(parameters.len(), self.first.len(), "as many weights as moments");
                let adam = Adam {
                    first_decay,
                    second_decay,
                    epsilon,
                };
                let (steps, moments) = (self.steps, (&mut self.first[..], &mut self.second[..]));
                Arch::new().dispatch(|| adam.step(steps, moments, parameters, gradient, learning_rate));
            }
        }
    }
}

#[inline(always)]
fn sgd(parameters: &mut [f64], gradient: &[f64], learning_rate: f64) {
    for (parameter, g) in parameters.iter_mut().zip(gradient) {
        *parameter -= learning_rate * g;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_of_adam_is_the_learning_rate_against_the_sign() {
        let mut state = OptimiserState::new(Optimiser::adam(), 3);
        let mut weights = [1.0, 2.0, 3.0];
        state.step(&mut weights, &[1e-3, -7.0, 0.0], 0.1);
        for (weight, expected) in weights.iter().zip([0.9, 2.1, 3.0]) {
            assert!((weight - expected).abs() < 1e-5, "{weight} against {expected}");
        }
    }

    #[test]
    fn adam_agrees_with_its_definition_written_out() {
        let gradients = [0.3, -1.2, 0.05, 2.0, -0.7];
        let (mut m, mut v, mut theta) = (0.0_f64, 0.0_f64, 0.4_f64);
        let mut state = OptimiserState::new(Optimiser::adam(), 1);
        let mut weights = [theta];
        for (t, g) in gradients.into_iter().enumerate() {
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            let power = i32::try_from(t).unwrap() + 1;
            let (m_hat, v_hat) = (m / (1.0 - 0.9_f64.powi(power)), v / (1.0 - 0.999_f64.powi(power)));
            theta -= 0.01 * m_hat / (v_hat.sqrt() + 1e-8);
            state.step(&mut weights, &[g], 0.01);
            assert!((weights[0] - theta).abs() < 1e-14, "step {t}");
        }
        assert_eq!(state.steps(), 5);
    }

    #[test]
    fn sgd_steps_along_the_gradient_and_keeps_no_memory() {
        let mut state = OptimiserState::new(Optimiser::Sgd, 2);
        let mut weights = [1.0, 1.0];
        state.step(&mut weights, &[2.0, -4.0], 0.25);
        assert_eq!(weights, [0.5, 2.0]);
        assert_eq!(state.moments(), (&[][..], &[][..]));
    }

    #[test]
    fn a_restored_optimiser_goes_on_bit_for_bit() {
        let gradient = |t: u32| [f64::from(t).sin(), 1.0 / f64::from(t + 1)];
        let mut whole = OptimiserState::new(Optimiser::adam(), 2);
        let mut weights = [0.1, 0.2];
        let mut halves = (whole.clone(), weights);
        for t in 0..10 {
            whole.step(&mut weights, &gradient(t), 0.01);
            halves.0.step(&mut halves.1, &gradient(t), 0.01);
            let (first, second) = halves.0.moments();
            halves.0 =
                OptimiserState::restore(halves.0.rule(), halves.0.steps(), first.to_vec(), second.to_vec())
                    .unwrap();
        }
        assert_eq!(weights.map(f64::to_bits), halves.1.map(f64::to_bits));
    }

    #[test]
    fn constants_outside_their_range_are_refused_by_name() {
        let Optimiser::Adam { epsilon, .. } = Optimiser::adam() else {
            unreachable!()
        };
        let bad = Optimiser::Adam {
            first_decay: 1.0,
            second_decay: 0.5,
            epsilon,
        };
        assert_eq!(
            bad.check().unwrap_err().to_string(),
            "invalid `optimiser.first_decay`: expected a decay in [0, 1), found 1"
        );
        assert!(OptimiserState::restore(Optimiser::Sgd, 0, vec![0.0], vec![0.0]).is_err());
        assert!(OptimiserState::restore(Optimiser::adam(), 0, vec![0.0], vec![]).is_err());
    }
}
