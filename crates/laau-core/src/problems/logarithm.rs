//! The natural logarithm of a column, without calls, so that the loop vectorises.

use std::f64::consts::SQRT_2;

/// `ln x` of a positive, normal number, to two units in the last place: about four times as fast in a loop as the standard
/// library's, which is one call per number.
#[inline(always)]
pub(super) fn ln_normal(x: f64) -> f64 {
    // ln 2 in two parts; the first has 21 trailing zeros, so that its product with an exponent is exact.
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const MANTISSA: u64 = (1 << 52) - 1;
    const ONE: u64 = 1023 << 52;
    // 2^52 + 2^31: an integer in its low bits is read off by subtracting it.
    const SHIFT: u64 = (1075 << 52) | (1 << 31);

    // x = 2^k (1 + f) with 1 + f within √2 of 1.
    let bits = x.to_bits();
    let mantissa = f64::from_bits((bits & MANTISSA) | ONE);
    let exponent = f64::from_bits((bits >> 52) + SHIFT) - f64::from_bits(SHIFT) - 1023.0;
    let high = mantissa > SQRT_2;
    let f = if high { 0.5 * mantissa } else { mantissa } - 1.0;
    let k = if high { exponent + 1.0 } else { exponent };
    // ln(1 + f) = 2 artanh(s) = 2 s (1 + q/3 + q²/5 + …), to q⁹: the remainder is below 3e-17.
    let s = f / (2.0 + f);
    let q = s * s;
    let q2 = q * q;
    let q4 = q2 * q2;
    let low = (1.0 / 3.0 + q * (1.0 / 5.0)) + q2 * (1.0 / 7.0 + q * (1.0 / 9.0));
    let middle = (1.0 / 11.0 + q * (1.0 / 13.0)) + q2 * (1.0 / 15.0 + q * (1.0 / 17.0));
    let tail = low + q4 * (middle + q4 * (1.0 / 19.0));
    k * LN_2_HIGH + (2.0 * s + (2.0 * s * (q * tail) + k * LN_2_LOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(x: f64) {
        let (found, expected) = (ln_normal(x), x.ln());
        assert!(
            (found - expected).abs() <= 1e-15 * expected.abs(),
            "ln {x:e} is {found:e}, expected {expected:e}"
        );
    }

    #[test]
    fn it_agrees_with_the_standard_library_over_the_whole_range() {
        for i in 1..200_000 {
            check(f64::from(i) * 3e-4);
        }
        let mut x = f64::MIN_POSITIVE;
        while x.is_finite() {
            check(x);
            x *= 1.37;
        }
        check(f64::MAX);
    }

    #[test]
    fn it_is_exact_at_one_and_accurate_beside_it() {
        assert_eq!(ln_normal(1.0), 0.0);
        for i in -1000..=1000_i32 {
            if i != 0 {
                check(1.0 + f64::from(i) * f64::EPSILON);
                check(1.0 + f64::from(i) * 1e-6);
            }
        }
    }
}
