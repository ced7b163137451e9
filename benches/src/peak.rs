//! What one core could do at best, and what a minibatch asks of it.

use std::hint::black_box;

use pulp::{Arch, Simd, WithSimd};

/// Does multiply-adds on registers alone, and gives the number of floating-point operations; each round is a few dozen.
#[must_use]
pub fn peak_operations(rounds: u32) -> u64 {
    let (operations, sum) = Arch::new().dispatch(Peak { rounds });
    black_box(sum);
    operations
}

/// The floating-point operations of a minibatch of the paper's network with two hidden layers of some width, that of the problem
/// and of the layer left out: products by weights forward, to deltas and to weight gradients, two operations each.
#[must_use]
pub fn minibatch_operations(horizon: usize, batch: usize, width: usize) -> u64 {
    // Three features, one of which wants a gradient, and one price; the last step has none.
    let forward = 3 * width + width * width + width;
    let backward = width + width * width + width;
    let weights = forward;
    (2 * (horizon - 1) * batch * (forward + backward + weights)) as u64
}

struct Peak {
    rounds: u32,
}

/// Sums that do not wait for each other.
const SUMS: usize = 12;

impl WithSimd for Peak {
    /// The operations done, and a number that depends on all of them.
    type Output = (u64, f64);

    #[expect(
        clippy::inline_always,
        reason = "SIMD dispatch reaches only what is inlined into the dispatched function"
    )]
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let (factor, term) = (simd.splat_f64s(black_box(0.5)), simd.splat_f64s(black_box(1.0)));
        let mut sums = [term; SUMS];
        for _ in 0..self.rounds {
            for sum in &mut sums {
                *sum = simd.mul_add_e_f64s(*sum, factor, term);
            }
        }
        let total = sums.iter().map(|sum| simd.reduce_sum_f64s(*sum)).sum();
        (2 * u64::from(self.rounds) * (SUMS * S::F64_LANES) as u64, total)
    }
}
