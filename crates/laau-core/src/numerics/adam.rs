//! The Adam optimiser (Kingma and Ba), without weight decay.

/// The constants of Adam; the default is the usual choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// Decay `β₁` of the mean of gradients.
    pub first_decay: f64,
    /// Decay `β₂` of the mean of squared gradients.
    pub second_decay: f64,
    /// Added to the root of the mean of squared gradients.
    pub epsilon: f64,
}

impl Default for Adam {
    fn default() -> Self {
        Self {
            first_decay: 0.9,
            second_decay: 0.999,
            epsilon: 1e-8,
        }
    }
}

impl Adam {
    /// Takes step number `step`, from 1, on all parameters. The caller keeps the moments, which start at zero:
    ///
    /// ```text
    ///     m ← β₁m + (1−β₁)g,   v ← β₂v + (1−β₂)g²,   θ ← θ − η m̂ / (√v̂ + ε)
    /// ```
    ///
    /// with `m̂ = m / (1 − β₁ᵗ)` and `v̂ = v / (1 − β₂ᵗ)`.
    #[expect(clippy::inline_always, reason = "callers compile it for wider vectors")]
    #[inline(always)]
    pub fn step(
        &self,
        step: u64,
        (first, second): (&mut [f64], &mut [f64]),
        parameters: &mut [f64],
        gradient: &[f64],
        learning_rate: f64,
    ) {
        let Self {
            first_decay: beta_1,
            second_decay: beta_2,
            epsilon,
        } = *self;
        let rate = learning_rate / (1.0 - beta_1.powf(step as f64));
        let second_correction = 1.0 / (1.0 - beta_2.powf(step as f64));
        for (((theta, m), v), g) in parameters.iter_mut().zip(first).zip(second).zip(gradient) {
            *m = beta_1 * *m + (1.0 - beta_1) * g;
            *v = beta_2 * *v + (1.0 - beta_2) * g * g;
            *theta -= rate * *m / ((*v * second_correction).sqrt() + epsilon);
        }
    }
}
