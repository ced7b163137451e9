//! The softplus function without calls, so that a loop over it vectorises.

use std::f64::consts::{LN_2, LOG2_E};

/// `ln(1 + eᶻ)` and its derivative `1 / (1 + e⁻ᶻ)`, both to 2e-15 of their value, from one exponential and one division. Both
/// are zero below −708, and not a number where `z` is not.
///
/// Plain products and sums only: the same bits whatever instructions the caller is compiled for.
#[inline(always)]
#[must_use]
pub fn softplus(z: f64) -> (f64, f64) {
    const FARTHEST: f64 = 708.0;
    let size = z.abs();
    // In this order, a number that is none becomes a finite one, and is put back below.
    let held = if size < FARTHEST { size } else { FARTHEST };
    let e = exp_of_negative(-held);
    let e = if size < FARTHEST { e } else { 0.0 };
    // 1 + e is 1 + f, or 2 (1 + f), with |f| ≤ √2 − 1 and no rounding.
    let large = e > 0.414_213_562_373_095_1;
    let f = if large { 0.5 * (e - 1.0) } else { e };
    // One division for s = f / (2 + f) and the derivative.
    let inverse = 1.0 / ((2.0 + f) * (1.0 + e));
    let s = f * (1.0 + e) * inverse;
    let slope = if z > 0.0 { 1.0 } else { e } * ((2.0 + f) * inverse);
    // ln(1 + f) = 2 artanh(s) = 2 s (1 + q/3 + q²/5 + …), to q⁹: the remainder is below 3e-17.
    let q = s * s;
    let q2 = q * q;
    let q4 = q2 * q2;
    let low = (1.0 / 3.0 + q * (1.0 / 5.0)) + q2 * (1.0 / 7.0 + q * (1.0 / 9.0));
    let middle = (1.0 / 11.0 + q * (1.0 / 13.0)) + q2 * (1.0 / 15.0 + q * (1.0 / 17.0));
    let tail = low + q4 * (middle + q4 * (1.0 / 19.0));
    let logarithm = 2.0 * s + 2.0 * s * (q * tail);
    let above = if z > 0.0 { z } else { 0.0 } + if large { LN_2 } else { 0.0 };
    let known = !z.is_nan();
    (
        if known { logarithm + above } else { z },
        if known { slope } else { z },
    )
}

/// `eˣ` for `−708 ≤ x ≤ 0`.
#[inline(always)]
fn exp_of_negative(x: f64) -> f64 {
    // 1.5 · 2^52: adding it rounds to an integer, which then stands in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    // ln 2 in two parts; the first has 21 trailing zeros, so that its product with an exponent is exact.
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // The Taylor polynomial of degree 13 on |r| ≤ ln 2 / 2, where its remainder is below 5e-18.
    let r2 = r * r;
    let r4 = r2 * r2;
    let low = (1.0 + r) + r2 * (1.0 / 2.0 + r * (1.0 / 6.0));
    let middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5_040.0));
    let high = (1.0 / 40_320.0 + r * (1.0 / 362_880.0)) + r2 * (1.0 / 3_628_800.0 + r * (1.0 / 39_916_800.0));
    let top = 1.0 / 479_001_600.0 + r * (1.0 / 6_227_020_800.0);
    let value = low + r4 * (middle + r4 * (high + r4 * top));
    // The low bits hold n (in two's complement); moved to the exponent they add to it.
    f64::from_bits(value.to_bits().wrapping_add(shifted.to_bits() << 52))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, z: f64, found: f64, expected: f64) {
        assert!(
            (found - expected).abs() <= 2e-15 * expected.abs(),
            "{name}({z:e}) is {found:e}, expected {expected:e}"
        );
    }

    #[test]
    fn it_and_its_derivative_agree_with_the_standard_library_from_end_to_end() {
        let wide = (-141_000..=160_000).map(|i| f64::from(i) * 5e-3);
        let close = (-200_000..=200_000).map(|i| f64::from(i) * 1e-5);
        for z in wide.chain(close).chain([0.0, -0.0, 1e-300, -1e-300, 1e-9, -1e-9]) {
            let (value, slope) = softplus(z);
            check("softplus", z, value, z.max(0.0) + (-z.abs()).exp().ln_1p());
            let e = (-z.abs()).exp();
            check("its slope", z, slope, if z > 0.0 { 1.0 } else { e } / (1.0 + e));
        }
    }

    #[test]
    fn far_out_it_is_its_asymptote_and_of_no_number_none() {
        for z in [800.0, 1e300, f64::INFINITY] {
            assert_eq!(softplus(z), (z, 1.0));
            assert_eq!(softplus(-z), (0.0, 0.0));
        }
        let (value, slope) = softplus(f64::NAN);
        assert!(value.is_nan() && slope.is_nan());
    }
}
