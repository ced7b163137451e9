//! What one core could do at best.

use std::hint::black_box;

use pulp::{Arch, Simd, WithSimd};

/// Does multiply-adds on registers alone, and gives the number of floating-point operations; each round is a few dozen.
#[must_use]
pub fn peak_operations(rounds: u32) -> u64 {
    let (operations, sum) = Arch::new().dispatch(Peak { rounds });
    black_box(sum);
    operations
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
