//! Seeded draws that give the same bits on every platform and with every version of the generator crates.
//!
//! The bits are those of `ChaCha8`; the step from bits to numbers and every transcendental function (by `libm`, in plain
//! Rust) are implemented here, so that no dependency can change a result silently.

use laau_core::numerics;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The purpose of a random stream: two purposes never share a stream, for any seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The readings of one VM; the index is the VM.
    Readings = 1,
    /// The budgets of one part; the index is the part.
    Budgets = 2,
    /// Which VM an interleaved step reads; the index is the part.
    Dealing = 3,
    /// Noise added to contexts.
    Noise = 4,
    /// Directions of a sliced distance.
    Directions = 5,
    /// The first embedding of a t-SNE.
    Embedding = 6,
    /// The size and needs of one VM; the index is the VM.
    Needs = 8,
    /// The channel of one user; the index is the user.
    Fading = 9,
    /// The prices of one market; the index is the market.
    Prices = 10,
    /// The loads and the grid of one site; the index is the site.
    Site = 11,
    /// The requests to one service; the index is the service.
    Requests = 12,
}

/// The stream of draws of one purpose and index under a seed.
pub(crate) fn stream(seed: u64, purpose: Purpose, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = purpose as u8;
    let mut generator = ChaCha8Rng::from_seed(key);
    generator.set_stream(index);
    generator
}

/// Uniform on `[0, 1)`, a multiple of 2⁻⁵³.
pub(crate) fn uniform(generator: &mut ChaCha8Rng) -> f64 {
    const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
    (generator.next_u64() >> 11) as f64 * UNIT
}

/// Uniform on `0..bound`, for `bound` far below 2⁵³.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the product is in 0..bound"
)]
pub(crate) fn below(generator: &mut ChaCha8Rng, bound: usize) -> usize {
    ((uniform(generator) * bound as f64) as usize).min(bound - 1)
}

/// Two independent standard normal draws.
pub(crate) fn normal_pair(generator: &mut ChaCha8Rng) -> (f64, f64) {
    numerics::normal_pair(1.0 - uniform(generator), uniform(generator))
}

/// One standard normal draw.
pub(crate) fn normal(generator: &mut ChaCha8Rng) -> f64 {
    normal_pair(generator).0
}

/// Standard exponential.
pub(crate) fn exponential(generator: &mut ChaCha8Rng) -> f64 {
    -libm::log(1.0 - uniform(generator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draws_have_the_moments_of_their_laws() {
        let mut generator = stream(1, Purpose::Noise, 0);
        let count = 200_000;
        let (mut first, mut second, mut fourth, mut waiting, mut flat) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for _ in 0..count {
            let z = normal(&mut generator);
            first += z;
            second += z * z;
            fourth += z * z * z * z;
            waiting += exponential(&mut generator);
            flat += uniform(&mut generator);
        }
        // Five standard errors of each mean.
        let near = |sum: f64, expected: f64, deviation: f64| {
            let error = sum / f64::from(count) - expected;
            assert!(error.abs() < 5.0 * deviation / f64::from(count).sqrt(), "{error}");
        };
        near(first, 0.0, 1.0);
        near(second, 1.0, 2f64.sqrt());
        near(fourth, 3.0, 96f64.sqrt());
        near(waiting, 1.0, 1.0);
        near(flat, 0.5, 12f64.sqrt().recip());
    }

    #[test]
    fn streams_differ_in_seed_purpose_and_index() {
        let first = |seed, purpose, index| stream(seed, purpose, index).next_u64();
        let one = first(1, Purpose::Noise, 0);
        assert_eq!(one, first(1, Purpose::Noise, 0));
        assert_ne!(one, first(2, Purpose::Noise, 0));
        assert_ne!(one, first(1, Purpose::Budgets, 0));
        assert_ne!(one, first(1, Purpose::Noise, 1));
    }

    #[test]
    fn every_position_below_a_bound_is_drawn_alike() {
        let mut generator = stream(3, Purpose::Dealing, 0);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[below(&mut generator, 7)] += 1;
        }
        assert!(counts.iter().all(|n| n.abs_diff(10_000) < 500), "{counts:?}");
    }
}
