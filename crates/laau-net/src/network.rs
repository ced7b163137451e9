//! The network as a function: initial weights, the forward pass, projections.

use std::f64::consts::LOG2_E;

pub(crate) use laau_core::numerics::mlp::forward;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::lanes::Lanes;
use crate::math;
use crate::spec::{ModelSpec, Network, Output, PriceBase};

impl ModelSpec {
    /// Initial weights: Glorot-uniform matrices, zero biases; for the residual form a last layer of zeros, so that the
    /// untrained model is its base.
    #[must_use]
    pub(crate) fn initial_parameters(&self, seed: u64) -> Vec<f64> {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        let mut parameters = Vec::with_capacity(self.parameter_len());
        let layers = self.layers();
        for (index, (inputs, outputs)) in layers.iter().enumerate() {
            let limit = (6.0 / (inputs + outputs) as f64).sqrt();
            let zero = self.form == PriceBase::Residual && index + 1 == layers.len();
            parameters.extend((0..inputs * outputs).map(|_| {
                let unit: f64 = generator.random();
                if zero { 0.0 } else { limit * (2.0 * unit - 1.0) }
            }));
            parameters.extend(std::iter::repeat_n(0.0, *outputs));
        }
        self.project(&mut parameters);
        parameters
    }

    /// Pulls parameters back into the set that the network's bound allows (Prop. 6.2): the linear model's to the ball
    /// `‖θ‖ ≤ Z`, each layer's matrix of an MLP to a spectral norm of at most the bound, by scaling it.
    ///
    /// # Panics
    /// If there are not [`ModelSpec::parameter_len`] parameters.
    pub fn project(&self, parameters: &mut [f64]) {
        assert_eq!(
            parameters.len(),
            self.parameter_len(),
            "one value per weight and bias"
        );
        match self.network {
            Network::Linear {
                norm_bound: Some(bound),
            } => {
                let norm = parameters.iter().map(|v| v * v).sum::<f64>().sqrt();
                scale_to(parameters, norm, bound);
            }
            Network::Mlp {
                spectral_bound: Some(bound),
                ..
            } => {
                let mut rest = parameters;
                for (inputs, outputs) in self.layers() {
                    let (layer, after) = rest.split_at_mut((inputs + 1) * outputs);
                    let matrix = &mut layer[..inputs * outputs];
                    let norm = spectral_norm(matrix, outputs);
                    scale_to(matrix, norm, bound);
                    rest = after;
                }
            }
            Network::Custom(_)
            | Network::Linear { norm_bound: None }
            | Network::Mlp {
                spectral_bound: None, ..
            } => {}
        }
    }
}

/// Scales values whose norm is above a bound down to it, and a last bit below.
fn scale_to(values: &mut [f64], norm: f64, bound: f64) {
    if norm > bound {
        let factor = bound / norm * (1.0 - 4.0 * f64::EPSILON);
        for value in values {
            *value *= factor;
        }
    }
}

/// The largest singular value of a row-major matrix: Jacobi's rotations on the smaller Gram matrix.
fn spectral_norm(matrix: &[f64], columns: usize) -> f64 {
    let rows = matrix.len() / columns;
    let n = rows.min(columns);
    let at = |i: usize, k: usize| {
        if rows <= columns {
            matrix[i * columns + k]
        } else {
            matrix[k * columns + i]
        }
    };
    let mut gram = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            gram[i * n + j] = (0..rows.max(columns)).map(|k| at(i, k) * at(j, k)).sum();
        }
    }
    largest_eigenvalue(&mut gram, n).max(0.0).sqrt()
}

/// The largest eigenvalue of a symmetric matrix, which is overwritten.
fn largest_eigenvalue(a: &mut [f64], n: usize) -> f64 {
    const SWEEPS: usize = 30;
    for _ in 0..SWEEPS {
        let off: f64 = (0..n * n).filter(|k| k / n != k % n).map(|k| a[k] * a[k]).sum();
        let all: f64 = a.iter().map(|v| v * v).sum();
        // The eigenvalues are off by at most the square root of `off`.
        if off <= f64::EPSILON * f64::EPSILON * all {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                if a[p * n + q] == 0.0 {
                    continue;
                }
                let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for k in 0..n {
                    let (kp, kq) = (a[k * n + p], a[k * n + q]);
                    a[k * n + p] = c * kp - s * kq;
                    a[k * n + q] = s * kp + c * kq;
                }
                for k in 0..n {
                    let (pk, qk) = (a[p * n + k], a[q * n + k]);
                    a[p * n + k] = c * pk - s * qk;
                    a[q * n + k] = s * pk + c * qk;
                }
            }
        }
    }
    (0..n).map(|i| a[i * n + i]).fold(f64::NEG_INFINITY, f64::max)
}

/// `z` of the exponential output is held within this.
const LARGEST_EXPONENT: f64 = 30.0;

impl Output {
    /// The factor of the price for a network output `z`, and its derivative. It is 1 at `z = 0`.
    #[inline(always)]
    pub(crate) fn apply<S: Lanes>(self, simd: S, z: S::Vector) -> (S::Vector, S::Vector) {
        match self {
            Self::Softplus => {
                let unit = simd.constant(LOG2_E);
                let (value, slope) = math::softplus(simd, z);
                (simd.mul(value, unit), simd.mul(slope, unit))
            }
            Self::Exp => math::held_exp(simd, z, LARGEST_EXPONENT),
            Self::Rectified => {
                let (zero, one) = (simd.constant(0.0), simd.constant(1.0));
                let value = simd.add(z, one);
                let is_positive = simd.greater_than(value, zero);
                (
                    simd.select(is_positive, value, zero),
                    simd.select(is_positive, one, zero),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Doubles;
    use laau_core::Dimensions;
    use laau_core::problems::WeightedFairness;
    use pulp::Scalar;

    fn spec(network: Network) -> ModelSpec {
        ModelSpec {
            network,
            ..ModelSpec::paper(&WeightedFairness::paper(), 20)
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_weights_within_glorots_limits() {
        let spec = spec(Network::Mlp {
            hidden: vec![10, 10],
            spectral_bound: None,
        });
        let first = spec.initial_parameters(7);
        assert_eq!(first.len(), 3 * 10 + 10 + 100 + 10 + 10 + 1);
        assert_eq!(first, spec.initial_parameters(7));
        assert_ne!(first, spec.initial_parameters(8));
        let limit = (6.0_f64 / 13.0).sqrt();
        assert!(first[..30].iter().all(|w| w.abs() <= limit));
        assert!(first[..30].iter().any(|w| w.abs() > 0.8 * limit));
        assert!(first[30..40].iter().all(|bias| *bias == 0.0));
    }

    #[test]
    fn a_linear_model_is_projected_to_its_ball() {
        let bounded = spec(Network::Linear {
            norm_bound: Some(2.0),
        });
        let mut inside = vec![0.5; 4];
        bounded.project(&mut inside);
        assert_eq!(inside, [0.5; 4]);
        let mut outside = vec![30.0, -40.0, 0.0, 0.0];
        bounded.project(&mut outside);
        let norm = outside.iter().map(|v| v * v).sum::<f64>().sqrt();
        assert!(norm <= 2.0 && norm > 2.0 - 1e-12, "{norm}");
        assert!((outside[0] / outside[1] + 0.75).abs() < 1e-15);
    }

    #[test]
    fn the_spectral_norm_is_the_largest_stretch() {
        assert!((spectral_norm(&[3.0, 0.0, 0.0, -5.0], 2) - 5.0).abs() < 1e-14);
        assert!((spectral_norm(&[3.0, 4.0], 2) - 5.0).abs() < 1e-14);
        assert!((spectral_norm(&[3.0, 4.0], 1) - 5.0).abs() < 1e-14);
        // [[1,1],[0,1]] has the golden ratio.
        assert!((spectral_norm(&[1.0, 1.0, 0.0, 1.0], 2) - f64::midpoint(1.0, 5.0_f64.sqrt())).abs() < 1e-14);
    }

    #[test]
    fn each_layer_of_an_mlp_is_projected_alone() {
        let bounded = ModelSpec {
            dimensions: Dimensions {
                actions: 3,
                budgets: 2,
                context: 3,
            },
            ..spec(Network::Mlp {
                hidden: vec![7, 5],
                spectral_bound: Some(0.9),
            })
        };
        let mut parameters: Vec<f64> = (0..bounded.parameter_len()).map(|i| (i as f64).sin()).collect();
        let before = parameters.clone();
        bounded.project(&mut parameters);
        let mut start = 0;
        for (inputs, outputs) in bounded.layers() {
            let matrix = start..start + inputs * outputs;
            let norm = spectral_norm(&parameters[matrix.clone()], outputs);
            assert!(norm <= 0.9 && norm > 0.9 - 1e-9, "{norm}");
            let bias = matrix.end..matrix.end + outputs;
            assert_eq!(parameters[bias.clone()], before[bias.clone()]);
            start = bias.end;
        }
    }

    #[test]
    fn outputs_are_one_at_zero_and_never_negative() {
        for output in [Output::Softplus, Output::Exp, Output::Rectified] {
            assert!((output.apply(Doubles(Scalar::new()), 0.0).0 - 1.0).abs() < 1e-15);
            for z in [-1e300, -800.0, -31.0, -1.0, 31.0, 700.0, 1e300] {
                let (value, slope) = output.apply(Doubles(Scalar::new()), z);
                assert!(
                    value >= 0.0 && value.is_finite() && slope >= 0.0,
                    "{output:?} {z}"
                );
            }
        }
    }
}
