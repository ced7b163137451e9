//! The output functions, for vectors and, with [`pulp::Scalar`], for single numbers. They are accurate to 2e-15.

use std::f64::consts::{LN_2, LOG2_E};

use pulp::Simd;

/// A polynomial's first two terms: `low + high x`.
#[inline(always)]
fn pair<S: Simd>(simd: S, x: S::f64s, low: f64, high: f64) -> S::f64s {
    simd.mul_add_e_f64s(x, simd.splat_f64s(high), simd.splat_f64s(low))
}

/// `e^x` for `−708 ≤ x ≤ 709`.
#[inline(always)]
fn exp_inside<S: Simd>(simd: S, x: S::f64s) -> S::f64s {
    // 1.5 · 2^52: adding it rounds to an integer, which then stands in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    // ln 2 in two parts; the first has 21 trailing zeros, so that its product with an exponent is exact.
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let splat = |value: f64| simd.splat_f64s(value);
    let madd = |a, b, c| simd.mul_add_e_f64s(a, b, c);
    let shifted = madd(x, splat(LOG2_E), splat(ROUND));
    let n = simd.sub_f64s(shifted, splat(ROUND));
    let r = madd(n, splat(-LN_2_LOW), madd(n, splat(-LN_2_HIGH), x));
    // The Taylor polynomial of degree 13 on |r| ≤ ln 2 / 2, where its remainder is below 5e-18.
    let r2 = simd.mul_f64s(r, r);
    let r4 = simd.mul_f64s(r2, r2);
    let pair = |low, high| pair(simd, r, low, high);
    let low = madd(r2, pair(1.0 / 2.0, 1.0 / 6.0), simd.add_f64s(splat(1.0), r));
    let middle = madd(
        r2,
        pair(1.0 / 720.0, 1.0 / 5_040.0),
        pair(1.0 / 24.0, 1.0 / 120.0),
    );
    let high = madd(
        r2,
        pair(1.0 / 3_628_800.0, 1.0 / 39_916_800.0),
        pair(1.0 / 40_320.0, 1.0 / 362_880.0),
    );
    let top = pair(1.0 / 479_001_600.0, 1.0 / 6_227_020_800.0);
    let value = madd(r4, madd(r4, madd(r4, top, high), middle), low);
    // The low bits hold n (in two's complement); moved to the exponent they add to it.
    let exponent = simd.mul_u64s(simd.transmute_u64s_f64s(shifted), simd.splat_u64s(1 << 52));
    simd.transmute_f64s_u64s(simd.add_u64s(simd.transmute_u64s_f64s(value), exponent))
}

/// `e^z` with `z` held within `±largest` (at most 708), and its derivative: zero where `z` is held.
#[inline(always)]
pub(crate) fn held_exp<S: Simd>(simd: S, z: S::f64s, largest: f64) -> (S::f64s, S::f64s) {
    // In this order, a NaN is held too, and put back below.
    let held = simd.max_f64s(
        simd.min_f64s(z, simd.splat_f64s(largest)),
        simd.splat_f64s(-largest),
    );
    let value = exp_inside(simd, held);
    let inside = simd.equal_f64s(held, z);
    let slope = simd.select_f64s(inside, value, simd.splat_f64s(0.0));
    (keep_nan(simd, z, value), slope)
}

/// `ln(1 + e^z)` and its derivative. Both are zero below −708.
#[inline(always)]
pub(crate) fn softplus<S: Simd>(simd: S, z: S::f64s) -> (S::f64s, S::f64s) {
    let splat = |value: f64| simd.splat_f64s(value);
    let madd = |a, b, c| simd.mul_add_e_f64s(a, b, c);
    let (zero, one, two) = (splat(0.0), splat(1.0), splat(2.0));
    let size = simd.abs_f64s(z);
    let inside = simd.less_than_f64s(size, splat(708.0));
    let e = exp_inside(simd, simd.neg_f64s(simd.min_f64s(size, splat(708.0))));
    let e = simd.select_f64s(inside, e, zero);
    // 1 + e is 1 + f, or 2 (1 + f), with |f| ≤ √2 − 1 and no rounding.
    let large = simd.greater_than_f64s(e, splat(0.414_213_562_373_095_1));
    let half = simd.mul_f64s(splat(0.5), simd.sub_f64s(e, one));
    let f = simd.select_f64s(large, half, e);
    // One division for s = f / (2 + f) and the derivative.
    let (two_f, one_e) = (simd.add_f64s(two, f), simd.add_f64s(one, e));
    let inverse = simd.div_f64s(one, simd.mul_f64s(two_f, one_e));
    let s = simd.mul_f64s(simd.mul_f64s(f, one_e), inverse);
    let positive = simd.greater_than_f64s(z, zero);
    let slope = simd.mul_f64s(simd.select_f64s(positive, one, e), simd.mul_f64s(two_f, inverse));
    // ln(1 + f) = 2 artanh(s) = 2 s (1 + q/3 + q²/5 + …), to q⁹: the remainder is below 3e-17.
    let q = simd.mul_f64s(s, s);
    let q2 = simd.mul_f64s(q, q);
    let q4 = simd.mul_f64s(q2, q2);
    let pair = |low, high| pair(simd, q, low, high);
    let low = madd(q2, pair(1.0 / 7.0, 1.0 / 9.0), pair(1.0 / 3.0, 1.0 / 5.0));
    let middle = madd(q2, pair(1.0 / 15.0, 1.0 / 17.0), pair(1.0 / 11.0, 1.0 / 13.0));
    let tail = madd(q4, madd(q4, splat(1.0 / 19.0), middle), low);
    let s2 = simd.add_f64s(s, s);
    let logarithm = madd(s2, simd.mul_f64s(q, tail), s2);
    let above = simd.max_f64s(z, zero);
    let above = simd.add_f64s(above, simd.select_f64s(large, splat(LN_2), zero));
    (keep_nan(simd, z, simd.add_f64s(logarithm, above)), slope)
}

/// The value, or `z` where `z` is not a number.
#[inline(always)]
fn keep_nan<S: Simd>(simd: S, z: S::f64s, value: S::f64s) -> S::f64s {
    simd.select_f64s(simd.equal_f64s(z, z), value, z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::{Arch, Scalar, WithSimd};

    /// Which function to try.
    #[derive(Clone, Copy)]
    enum Function {
        Exp,
        HeldExp,
        Softplus,
    }

    /// A function of all numbers, with the instruction set of this machine.
    struct Apply<'a>(Function, &'a [f64]);

    impl WithSimd for Apply<'_> {
        type Output = Vec<(f64, f64)>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            let mut pairs = Vec::new();
            for &x in self.1 {
                let z = simd.splat_f64s(x);
                let (value, slope) = match self.0 {
                    Function::Exp => (exp_inside(simd, z), z),
                    Function::HeldExp => held_exp(simd, z, 30.0),
                    Function::Softplus => softplus(simd, z),
                };
                let first = |vector: S::f64s| pulp::bytemuck::cast_slice::<_, f64>(&[vector])[0];
                pairs.push((first(value), first(slope)));
            }
            pairs
        }
    }

    /// Value and slope at each number, for the machine's instruction set and for single numbers.
    fn apply(function: Function, numbers: &[f64]) -> Vec<(f64, (f64, f64))> {
        let both = [
            Arch::new().dispatch(Apply(function, numbers)),
            Apply(function, numbers).with_simd(Scalar::new()),
        ];
        both.iter()
            .flat_map(|results| numbers.iter().copied().zip(results.iter().copied()))
            .collect()
    }

    fn check(name: &str, x: f64, found: f64, expected: f64, tolerance: f64) {
        let error = (found - expected).abs();
        assert!(
            error <= tolerance * expected.abs() || found == expected,
            "{name}({x:e}) is {found:e}, expected {expected:e}"
        );
    }

    #[test]
    fn the_exponential_agrees_with_the_standard_library_over_its_range() {
        let mut numbers: Vec<f64> = (-70_800..=70_900).map(|i| f64::from(i) * 1e-2).collect();
        numbers.extend([0.0, -0.0, 1e-300, -1e-17, 1e-9, f64::MIN_POSITIVE]);
        for (x, (value, _)) in apply(Function::Exp, &numbers) {
            check("exp", x, value, x.exp(), 1e-15);
        }
    }

    #[test]
    fn the_held_exponential_stops_at_its_ends() {
        for (x, (value, slope)) in apply(Function::HeldExp, &[1.5, -29.5, 30.0, -30.0]) {
            check("exp", x, value, x.exp(), 1e-15);
            assert_eq!(value, slope);
        }
        for (x, (value, slope)) in apply(Function::HeldExp, &[30.5, 800.0, 1e300, f64::INFINITY]) {
            check("exp", x, value, 30.0_f64.exp(), 1e-15);
            assert_eq!(slope, 0.0);
        }
        for (x, (value, slope)) in apply(Function::HeldExp, &[-30.5, -1e300, f64::NEG_INFINITY]) {
            check("exp", x, value, (-30.0_f64).exp(), 1e-15);
            assert_eq!(slope, 0.0);
        }
        for (_, (value, _)) in apply(Function::HeldExp, &[f64::NAN]) {
            assert!(value.is_nan());
        }
    }

    #[test]
    fn softplus_and_its_derivative_hold_from_end_to_end() {
        let mut numbers: Vec<f64> = (-141_400..=160_000).map(|i| f64::from(i) * 5e-3).collect();
        numbers.extend([0.0, -0.0, 1e-300, -1e-300, 1e-9, -1e-9]);
        for (z, (value, slope)) in apply(Function::Softplus, &numbers) {
            let expected = z.max(0.0) + (-z.abs()).exp().ln_1p();
            check("softplus", z, value, expected, 2e-15);
            check("sigmoid", z, slope, 1.0 / (1.0 + (-z).exp()), 2e-15);
        }
        for (z, (value, slope)) in apply(Function::Softplus, &[1e300, 800.0, f64::INFINITY]) {
            assert_eq!((value, slope), (z, 1.0));
        }
        for (_, result) in apply(Function::Softplus, &[-1e300, -800.0, f64::NEG_INFINITY]) {
            assert_eq!(result, (0.0, 0.0));
        }
        for (_, (value, _)) in apply(Function::Softplus, &[f64::NAN]) {
            assert!(value.is_nan());
        }
    }
}
