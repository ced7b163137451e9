//! Exact sums of signed products, for the guard.
#![expect(
    clippy::cast_possible_truncation,
    reason = "wide integers are cut into limbs, and mantissas of 53 bits out of them"
)]

use crate::exact::{MANTISSA, compose, split};

/// A real number, exactly: a whole number of 2^-2148 in two's complement.
///
/// Products of two floats are whole numbers of 2^-2148 below 2^2048; with a 64-bit count, and a bit for the sign, they need
/// 4,261 bits. The 68 limbs have room for 2^90 of them, so that no sum ever overflows or is rounded. Numbers of everyday
/// sizes take five: only a window of limbs is in use.
#[derive(Clone)]
pub(crate) struct Sum {
    /// The least significant first; those outside the window are not looked at.
    limbs: [u64; Self::LIMBS],
    /// The first limb of the window; those below are zero.
    low: usize,
    /// The end of the window, beyond which the sign goes on. Its last limb is 0 or all ones before anything is added.
    high: usize,
}

impl Sum {
    const LIMBS: usize = 68;

    /// The bit of 2^-1074, the unit of floats.
    const FLOATS: u32 = 1074;

    pub(crate) fn zero() -> Self {
        Self {
            limbs: [0; Self::LIMBS],
            low: 0,
            high: 0,
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
        if mantissa == 0 {
            return;
        }
        let shift = a_shift + b_shift + bit;
        let (first, offset) = ((shift / u64::BITS) as usize, shift % u64::BITS);
        let (low, high) = (mantissa as u64, (mantissa >> u64::BITS) as u64);
        // Shifted in two steps, since a shift by all 64 bits is none.
        let carried = |limb: u64| limb >> 1 >> (u64::BITS - 1 - offset);
        let parts = [low << offset, carried(low) | (high << offset), carried(high)];
        self.widen(first, first + parts.len() + 1);
        if a.is_sign_negative() == b.is_sign_negative() {
            self.carry(first, parts, u64::overflowing_add);
        } else {
            self.carry(first, parts, u64::overflowing_sub);
        }
    }

    /// Makes room for a number in the limbs from `first` to `end`, and for a carry out of it.
    fn widen(&mut self, first: usize, end: usize) {
        if self.low == self.high {
            (self.low, self.high) = (first, first);
        }
        if first < self.low {
            self.limbs[first..self.low].fill(0);
            self.low = first;
        }
        let sign = self.sign();
        let is_sign = self.high > self.low && self.limbs[self.high - 1] == sign;
        let end = end.max(self.high + usize::from(!is_sign));
        self.limbs[self.high..end].fill(sign);
        self.high = end;
    }

    /// Adds or subtracts the parts and passes the carry on. The last limb takes it: it was 0 or all ones.
    #[inline]
    fn carry(&mut self, first: usize, parts: [u64; 3], step: impl Fn(u64, u64) -> (u64, bool)) {
        let (mut carry, limbs) = (false, &mut self.limbs[first..self.high]);
        let (near, far) = limbs.split_at_mut(parts.len());
        for (limb, part) in near.iter_mut().zip(parts) {
            let (sum, over) = step(*limb, part);
            let (sum, over_carry) = step(sum, u64::from(carry));
            *limb = sum;
            carry = over || over_carry;
        }
        for limb in far {
            if !carry {
                break;
            }
            (*limb, carry) = step(*limb, 1);
        }
    }

    /// The limb that goes on beyond the window.
    fn sign(&self) -> u64 {
        if self.is_negative() { u64::MAX } else { 0 }
    }

    fn is_negative(&self) -> bool {
        self.high > self.low && self.limbs[self.high - 1] >> (u64::BITS - 1) == 1
    }

    /// The largest float that is not above this number: a float is at most this number if and only if it is at most that.
    /// Beyond the floats, the last of them or negative infinity.
    pub(crate) fn floor(&self) -> f64 {
        if self.is_negative() {
            let mut magnitude = self.clone();
            let mut carry = true;
            for limb in &mut magnitude.limbs[self.low..self.high] {
                (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
            }
            -magnitude.magnitude(true)
        } else {
            self.magnitude(false).min(f64::MAX)
        }
    }

    /// A number that is not negative as a float, rounded up or down.
    fn magnitude(&self, up: bool) -> f64 {
        let window = &self.limbs[self.low..self.high];
        let Some(top) = window.iter().rposition(|limb| *limb != 0) else {
            return 0.0;
        };
        let top = self.low + top;
        let at = |index: usize| {
            if (self.low..self.high).contains(&index) {
                self.limbs[index]
            } else {
                0
            }
        };
        let length = (top as u32 + 1) * u64::BITS - self.limbs[top].leading_zeros();
        let unit = length.saturating_sub(MANTISSA).max(Self::FLOATS);
        let (whole, part) = ((unit / u64::BITS) as usize, unit % u64::BITS);
        let bits = (at(whole) >> part) | (at(whole + 1) << 1 << (u64::BITS - 1 - part));
        let mantissa = bits & ((1 << MANTISSA) - 1);
        let inexact = up
            && (at(whole) & ((1 << part) - 1) != 0
                || (self.low..whole.min(self.high)).any(|i| self.limbs[i] != 0));
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
