//! The output functions, for vectors and, with [`pulp::Scalar`], for one number. They are accurate to 2e-15, of singles to 4e-7.

use std::f64::consts::{LN_2, LOG2_E};

use pulp::Simd;

use crate::lanes::{Doubles, Lanes, Singles};

/// A polynomial's first two terms: `low + high x`.
#[inline(always)]
fn pair<S: Lanes>(simd: S, x: S::Vector, low: f64, high: f64) -> S::Vector {
    simd.mul_add(x, simd.constant(high), simd.constant(low))
}

/// `e^x` for `−708 ≤ x ≤ 709`.
#[inline(always)]
pub(crate) fn exp_f64<S: Simd>(simd: S, x: S::f64s) -> S::f64s {
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
    let pair = |low, high| pair(Doubles(simd), r, low, high);
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

/// `e^x` for `−87 ≤ x ≤ 88`, in the same way.
#[inline(always)]
pub(crate) fn exp_f32<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // 1.5 · 2^23.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts, the first with 15 trailing zeros.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let splat = |value: f32| simd.splat_f32s(value);
    let madd = |a, b, c| simd.mul_add_e_f32s(a, b, c);
    let shifted = madd(x, splat(std::f32::consts::LOG2_E), splat(ROUND));
    let n = simd.sub_f32s(shifted, splat(ROUND));
    let r = madd(n, splat(-LN_2_LOW), madd(n, splat(-LN_2_HIGH), x));
    // Degree 7: the remainder is below 6e-9.
    let r2 = simd.mul_f32s(r, r);
    let r4 = simd.mul_f32s(r2, r2);
    let pair = |low, high| pair(Singles(simd), r, low, high);
    let low = madd(r2, pair(1.0 / 2.0, 1.0 / 6.0), simd.add_f32s(splat(1.0), r));
    let high = madd(
        r2,
        pair(1.0 / 720.0, 1.0 / 5_040.0),
        pair(1.0 / 24.0, 1.0 / 120.0),
    );
    let value = madd(r4, high, low);
    let exponent = simd.mul_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(1 << 23));
    simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(value), exponent))
}

/// `1/3 + q/5 + q²/7 + …` to `q⁸/19`: `2 artanh(s)` is then `2 s (1 + q tail)` with `q = s²`, and what is left out is below 3e-17.
#[inline(always)]
pub(crate) fn artanh_tail_f64<S: Simd>(simd: S, q: S::f64s) -> S::f64s {
    let madd = |a, b, c| simd.mul_add_e_f64s(a, b, c);
    let q2 = simd.mul_f64s(q, q);
    let q4 = simd.mul_f64s(q2, q2);
    let pair = |low, high| pair(Doubles(simd), q, low, high);
    let low = madd(q2, pair(1.0 / 7.0, 1.0 / 9.0), pair(1.0 / 3.0, 1.0 / 5.0));
    let middle = madd(q2, pair(1.0 / 15.0, 1.0 / 17.0), pair(1.0 / 11.0, 1.0 / 13.0));
    madd(q4, madd(q4, simd.splat_f64s(1.0 / 19.0), middle), low)
}

/// The same to `q³/9`: what is left out is below 3e-9.
#[inline(always)]
pub(crate) fn artanh_tail_f32<S: Simd>(simd: S, q: S::f32s) -> S::f32s {
    let pair = |low, high| pair(Singles(simd), q, low, high);
    simd.mul_add_e_f32s(
        simd.mul_f32s(q, q),
        pair(1.0 / 7.0, 1.0 / 9.0),
        pair(1.0 / 3.0, 1.0 / 5.0),
    )
}

/// `e^z` with `z` held within `±largest` (at most [`Lanes::LARGEST_EXPONENT`]), and its derivative: zero where `z` is held.
#[inline(always)]
pub(crate) fn held_exp<S: Lanes>(simd: S, z: S::Vector, largest: f64) -> (S::Vector, S::Vector) {
    // In this order, a NaN is held too, and put back below.
    let held = simd.max(simd.min(z, simd.constant(largest)), simd.constant(-largest));
    let value = simd.exp(held);
    let inside = simd.equal(held, z);
    let slope = simd.select(inside, value, simd.constant(0.0));
    (keep_nan(simd, z, value), slope)
}

/// `ln(1 + e^z)` and its derivative. Both are zero below −[`Lanes::LARGEST_EXPONENT`].
#[inline(always)]
pub(crate) fn softplus<S: Lanes>(simd: S, z: S::Vector) -> (S::Vector, S::Vector) {
    let splat = |value: f64| simd.constant(value);
    let madd = |a, b, c| simd.mul_add(a, b, c);
    let (zero, one, two) = (splat(0.0), splat(1.0), splat(2.0));
    let size = simd.abs(z);
    let largest = splat(S::LARGEST_EXPONENT);
    let inside = simd.less_than(size, largest);
    let e = simd.exp(simd.neg(simd.min(size, largest)));
    let e = simd.select(inside, e, zero);
    // 1 + e is 1 + f, or 2 (1 + f), with |f| ≤ √2 − 1 and no rounding.
    let large = simd.greater_than(e, splat(0.414_213_562_373_095_1));
    let half = simd.mul(splat(0.5), simd.sub(e, one));
    let f = simd.select(large, half, e);
    // One division for s = f / (2 + f) and the derivative.
    let (two_f, one_e) = (simd.add(two, f), simd.add(one, e));
    let inverse = simd.div(one, simd.mul(two_f, one_e));
    let s = simd.mul(simd.mul(f, one_e), inverse);
    let positive = simd.greater_than(z, zero);
    let slope = simd.mul(simd.select(positive, one, e), simd.mul(two_f, inverse));
    // ln(1 + f) = 2 artanh(s) = 2 s (1 + q/3 + q²/5 + …).
    let q = simd.mul(s, s);
    let tail = simd.artanh_tail(q);
    let s2 = simd.add(s, s);
    let logarithm = madd(s2, simd.mul(q, tail), s2);
    let above = simd.max(z, zero);
    let above = simd.add(above, simd.select(large, splat(LN_2), zero));
    (keep_nan(simd, z, simd.add(logarithm, above)), slope)
}

/// The value, or `z` where `z` is not a number.
#[inline(always)]
fn keep_nan<S: Lanes>(simd: S, z: S::Vector, value: S::Vector) -> S::Vector {
    simd.select(simd.equal(z, z), value, z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Real;
    use pulp::{Arch, Scalar, WithSimd};
    use std::marker::PhantomData;

    /// Which function to try.
    #[derive(Clone, Copy)]
    enum Function {
        Exp,
        HeldExp,
        Softplus,
    }

    /// A function of all numbers, with the instruction set of this machine.
    struct Apply<'a, T>(Function, &'a [f64], PhantomData<T>);

    impl<T: Real> WithSimd for Apply<'_, T> {
        type Output = Vec<(f64, f64)>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            let simd = T::lanes(simd);
            let mut pairs = Vec::new();
            for &x in self.1 {
                let z = simd.constant(x);
                let (value, slope) = match self.0 {
                    Function::Exp => (simd.exp(z), z),
                    Function::HeldExp => held_exp(simd, z, 30.0),
                    Function::Softplus => softplus(simd, z),
                };
                let mut room = vec![T::default(); T::Lanes::<S>::COUNT];
                let mut first = |vector| {
                    T::Lanes::<S>::vectors_mut(&mut room)[0] = vector;
                    room[0].double()
                };
                pairs.push((first(value), first(slope)));
            }
            pairs
        }
    }

    /// Value and slope at each number, for the machine's instruction set and for single numbers.
    fn apply<T: Real>(function: Function, numbers: &[f64]) -> Vec<(f64, (f64, f64))> {
        let both = [
            Arch::new().dispatch(Apply(function, numbers, PhantomData::<T>)),
            Apply(function, numbers, PhantomData::<T>).with_simd(Scalar::new()),
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

    /// Hundredths from one number to another, as singles, so that both precisions are asked for the same.
    fn hundredths(first: i16, last: i16) -> Vec<f64> {
        (i32::from(first) * 100..=i32::from(last) * 100)
            .map(|i| f32::of(f64::from(i) * 1e-2).double())
            .collect()
    }

    #[test]
    fn the_exponential_agrees_with_the_standard_library_over_its_range() {
        let mut numbers = hundredths(-708, 709);
        numbers.extend([0.0, -0.0, 1e-300, -1e-17, 1e-9, f64::MIN_POSITIVE]);
        for (x, (value, _)) in apply::<f64>(Function::Exp, &numbers) {
            check("exp", x, value, x.exp(), 1e-15);
        }
        for (x, (value, _)) in apply::<f32>(Function::Exp, &hundredths(-87, 88)) {
            check("exp", x, value, x.exp(), 2e-7);
        }
    }

    fn stops_at_its_ends<T: Real>(tolerance: f64) {
        for (x, (value, slope)) in apply::<T>(Function::HeldExp, &[1.5, -29.5, 30.0, -30.0]) {
            check("exp", x, value, x.exp(), tolerance);
            assert_eq!(value, slope);
        }
        for (x, (value, slope)) in apply::<T>(Function::HeldExp, &[30.5, 800.0, 1e300, f64::INFINITY]) {
            check("exp", x, value, 30.0_f64.exp(), tolerance);
            assert_eq!(slope, 0.0);
        }
        for (x, (value, slope)) in apply::<T>(Function::HeldExp, &[-30.5, -1e300, f64::NEG_INFINITY]) {
            check("exp", x, value, (-30.0_f64).exp(), tolerance);
            assert_eq!(slope, 0.0);
        }
        for (_, (value, _)) in apply::<T>(Function::HeldExp, &[f64::NAN]) {
            assert!(value.is_nan());
        }
    }

    #[test]
    fn the_held_exponential_stops_at_its_ends() {
        stops_at_its_ends::<f64>(1e-15);
        stops_at_its_ends::<f32>(2e-7);
    }

    fn softplus_holds<T: Real>(numbers: &[f64], tolerance: f64) {
        for (z, (value, slope)) in apply::<T>(Function::Softplus, numbers) {
            let expected = z.max(0.0) + (-z.abs()).exp().ln_1p();
            check("softplus", z, value, expected, tolerance);
            check("sigmoid", z, slope, 1.0 / (1.0 + (-z).exp()), tolerance);
        }
        for (z, (value, slope)) in apply::<T>(Function::Softplus, &[1e30, 800.0, f64::INFINITY]) {
            check("softplus", z, value, z, tolerance);
            assert_eq!(slope, 1.0);
        }
        for (_, result) in apply::<T>(Function::Softplus, &[-1e300, -800.0, f64::NEG_INFINITY]) {
            assert_eq!(result, (0.0, 0.0));
        }
        for (_, (value, _)) in apply::<T>(Function::Softplus, &[f64::NAN]) {
            assert!(value.is_nan());
        }
    }

    #[test]
    fn softplus_and_its_derivative_hold_from_end_to_end() {
        let mut numbers: Vec<f64> = (-141_400..=160_000).map(|i| f64::from(i) * 5e-3).collect();
        numbers.extend([0.0, -0.0, 1e-300, -1e-300, 1e-9, -1e-9]);
        softplus_holds::<f64>(&numbers, 2e-15);
        assert_eq!(apply::<f64>(Function::Softplus, &[1e300])[0].1, (1e300, 1.0));
        let mut numbers = hundredths(-86, 800);
        numbers.extend([1e-9, -1e-9].map(|x| f32::of(x).double()));
        softplus_holds::<f32>(&numbers, 4e-7);
    }
}
