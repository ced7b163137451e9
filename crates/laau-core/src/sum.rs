//! Exact sums of signed products, for the guard.
#![expect(
    clippy::cast_possible_truncation,
    reason = "wide integers are cut into limbs, and mantissas of 53 bits out of them"
)]

use crate::exact::{MANTISSA, compose, split};

/// A real number, exactly: a whole number of 2^-2148 in two's complement.
///
/// Products of two floats are whole numbers of 2^-2148 below 2^2048; with a 64-bit count, and a bit for the sign, they need
/// 4,261 bits. The 68 limbs have room for 2^90 of them, so that no sum ever overflows or is rounded.
#[derive(Clone)]
pub(crate) struct Sum {
    /// The least significant first.
    limbs: [u64; Self::LIMBS],
}

impl Sum {
    const LIMBS: usize = 68;

    /// The bit of 2^-1074, the unit of floats.
    const FLOATS: u32 = 1074;

    pub(crate) fn zero() -> Self {
        Self {
            limbs: [0; Self::LIMBS],
        }
    }

    /// Adds a finite float.
    pub(crate) fn add(&mut self, value: f64) {
        self.add_product(value, 1.0);
    }

    /// Adds the product of two finite floats.
    pub(crate) fn add_product(&mut self, a: f64, b: f64) {
        self.add_shifted(a, b, 0);
    }

    /// Adds a count of products of two finite floats.
    pub(crate) fn add_products(&mut self, count: usize, a: f64, b: f64) {
        for bit in (0..usize::BITS).filter(|bit| count >> bit & 1 == 1) {
            self.add_shifted(a, b, bit);
        }
    }

    /// Adds `a · b · 2^bit`.
    fn add_shifted(&mut self, a: f64, b: f64, bit: u32) {
        let ((a_mantissa, a_shift), (b_mantissa, b_shift)) = (split(a), split(b));
        let mantissa = u128::from(a_mantissa) * u128::from(b_mantissa);
        let shift = a_shift + b_shift + bit;
        let (first, offset) = ((shift / u64::BITS) as usize, shift % u64::BITS);
        let (low, high) = (mantissa as u64, (mantissa >> u64::BITS) as u64);
        // Shifted in two steps, since a shift by all 64 bits is none.
        let carried = |limb: u64| limb >> 1 >> (u64::BITS - 1 - offset);
        let parts = [low << offset, carried(low) | (high << offset), carried(high)];
        let step: fn(u64, u64) -> (u64, bool) = if a.is_sign_negative() == b.is_sign_negative() {
            u64::overflowing_add
        } else {
            u64::overflowing_sub
        };
        let mut carry = false;
        for (limb, part) in self.limbs[first..].iter_mut().zip(parts) {
            let (sum, over) = step(*limb, part);
            let (sum, over_carry) = step(sum, u64::from(carry));
            *limb = sum;
            carry = over || over_carry;
        }
        for limb in &mut self.limbs[first + parts.len()..] {
            if !carry {
                break;
            }
            (*limb, carry) = step(*limb, 1);
        }
    }

    /// The largest float that is not above this number: a float is at most this number if and only if it is at most that.
    /// Beyond the floats, the last of them or negative infinity.
    pub(crate) fn floor(&self) -> f64 {
        if self.is_negative() {
            let mut magnitude = self.clone();
            let mut carry = true;
            for limb in &mut magnitude.limbs {
                (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
            }
            -magnitude.magnitude(true)
        } else {
            self.magnitude(false).min(f64::MAX)
        }
    }

    fn is_negative(&self) -> bool {
        self.limbs[Self::LIMBS - 1] >> (u64::BITS - 1) == 1
    }

    /// A number that is not negative as a float, rounded up or down.
    fn magnitude(&self, up: bool) -> f64 {
        let Some(top) = self.limbs.iter().rposition(|limb| *limb != 0) else {
            return 0.0;
        };
        let length = (top as u32 + 1) * u64::BITS - self.limbs[top].leading_zeros();
        let unit = length.saturating_sub(MANTISSA).max(Self::FLOATS);
        let (whole, part) = ((unit / u64::BITS) as usize, unit % u64::BITS);
        let next = self.limbs.get(whole + 1).copied().unwrap_or(0);
        let window = (self.limbs[whole] >> part) | (next << 1 << (u64::BITS - 1 - part));
        let mantissa = window & ((1 << MANTISSA) - 1);
        let inexact = up
            && (self.limbs[whole] & ((1 << part) - 1) != 0
                || self.limbs[..whole].iter().any(|limb| *limb != 0));
        compose(mantissa + u64::from(inexact), unit - Self::FLOATS)
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;

    use super::*;

    /// The same product as a whole number of 2^-2148, by other means.
    fn exact(a: f64, b: f64) -> BigInt {
        let whole = |value: f64| {
            let (mantissa, shift) = split(value);
            let magnitude = BigInt::from(mantissa) << shift;
            if value < 0.0 { -magnitude } else { magnitude }
        };
        whole(a) * whole(b)
    }

    fn draw(bits: &mut u64) -> f64 {
        loop {
            *bits = bits
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            let value = f64::from_bits(bits.rotate_left(17));
            if value.is_finite() {
                return value;
            }
        }
    }

    #[test]
    fn a_sum_of_products_of_any_scale_is_rounded_down_from_the_exact_one() {
        let mut bits = 7;
        for round in 0..2000 {
            let (mut sum, mut expected) = (Sum::zero(), BigInt::ZERO);
            for _ in 0..8 {
                let (mut a, mut b) = (draw(&mut bits), draw(&mut bits));
                if round % 2 == 0 {
                    // Of one scale, so that sums cancel.
                    (a, b) = (a % 4.0, (b % 4.0).mul_add(1e-16, 1.0));
                }
                let count = (bits >> 60) as usize;
                sum.add_products(count, a, b);
                expected += exact(a, b) * count;
                sum.add(-a);
                expected -= exact(a, 1.0);
                let floor = sum.floor();
                let at = |value: f64| exact(value, 1.0);
                assert!(floor == f64::NEG_INFINITY || at(floor) <= expected, "{floor:e}");
                assert!(
                    floor == f64::MAX || at(floor.next_up().clamp(-f64::MAX, f64::MAX)) > expected,
                    "{floor:e}"
                );
            }
        }
    }

    #[test]
    fn what_is_taken_away_again_leaves_nothing() {
        let mut sum = Sum::zero();
        for value in [1e300, f64::from_bits(1), -0.1, f64::MAX] {
            sum.add_product(value, 0.3);
        }
        for value in [f64::MAX, -0.1, f64::from_bits(1), 1e300] {
            sum.add_product(-value, 0.3);
        }
        assert_eq!(sum.floor(), 0.0);
        sum.add_product(f64::from_bits(1), -f64::from_bits(1));
        assert_eq!(sum.floor(), -f64::from_bits(1));
    }
}
