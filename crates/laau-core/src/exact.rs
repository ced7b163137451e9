//! Exact arithmetic for the ledger.
#![expect(
    clippy::cast_possible_truncation,
    reason = "wide integers are cut into limbs, and mantissas of 53 bits out of them"
)]

/// A product of a float and a count, exact: `mantissa · 2^(shift − 1074)`.
///
/// Every finite `f64` is a whole number of 2^-1074, the smallest subnormal, with a mantissa of 53 bits; a count has 64
/// bits. So the mantissa of the product has at most 117 bits, and nothing can underflow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    mantissa: u128,
    shift: u32,
}

impl Product {
    /// `value · count` of a finite, non-negative float.
    pub(crate) fn new(value: f64, count: usize) -> Self {
        let (mantissa, shift) = split(value);
        Self {
            mantissa: u128::from(mantissa) * count as u128,
            shift,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// The smallest float that is not below the product; infinite beyond the largest float.
    ///
    /// A float is below the product if and only if it is below this.
    pub(crate) fn ceiling(self) -> f64 {
        if self.is_zero() {
            return 0.0;
        }
        let length = self.shift + (u128::BITS - self.mantissa.leading_zeros());
        let unit = length.max(MANTISSA) - MANTISSA;
        if unit <= self.shift {
            return compose((self.mantissa << (self.shift - unit)) as u64, unit);
        }
        let dropped = unit - self.shift;
        let kept = self.mantissa >> dropped;
        let inexact = kept << dropped != self.mantissa;
        compose(kept as u64 + u64::from(inexact), unit)
    }

    /// The product in limbs, the least significant first, and the position of the first.
    fn limbs(self) -> ([u64; 3], usize) {
        let offset = self.shift % u64::BITS;
        let (low, high) = (self.mantissa as u64, (self.mantissa >> u64::BITS) as u64);
        // Shifted in two steps, since a shift by all 64 bits is none.
        let carried = |limb: u64| limb >> 1 >> (u64::BITS - 1 - offset);
        (
            [low << offset, carried(low) | (high << offset), carried(high)],
            (self.shift / u64::BITS) as usize,
        )
    }
}

/// Significant bits of a float.
pub(crate) const MANTISSA: u32 = f64::MANTISSA_DIGITS;

/// The magnitude of a finite float as `mantissa · 2^(shift − 1074)`.
pub(crate) fn split(value: f64) -> (u64, u32) {
    let bits = value.abs().to_bits();
    let fraction = bits & ((1 << (MANTISSA - 1)) - 1);
    // The exponents 0 (subnormal) and 1 have the same unit.
    match (bits >> (MANTISSA - 1)) as u32 {
        0 => (fraction, 0),
        exponent => (fraction | (1 << (MANTISSA - 1)), exponent - 1),
    }
}

/// `mantissa · 2^(unit − 1074)` for a mantissa of at most 53 bits, or 2^53 after a carry; only `unit = 0` may go with
/// fewer than 53. Infinite beyond the largest float.
pub(crate) fn compose(mantissa: u64, unit: u32) -> f64 {
    // The largest float has the unit 2045. The leading bit of the mantissa adds one to the exponent, which is why the
    // unit 0 gives subnormal and normal numbers alike, and why a carry moves on to the next power of two.
    const LARGEST_UNIT: u32 = 2045;
    if unit > LARGEST_UNIT {
        f64::INFINITY
    } else {
        f64::from_bits(mantissa + (u64::from(unit) << (MANTISSA - 1)))
    }
}

/// A non-negative real number, exactly: a whole number of 2^-1074 in binary.
///
/// Floats lie below 2^1024, so that they need 2,098 bits, and products with a 64-bit count 2,162. Both fit in 34 limbs of
/// 64 bits: the size is fixed, whatever is added or taken away and however often. A subtraction touches the three
/// limbs of what is subtracted and those that a borrow runs through; an addition likewise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exact {
    /// The least significant first.
    limbs: [u64; Self::LIMBS],
    /// The position of the highest limb that is not zero, or 0.
    top: usize,
}

impl Exact {
    const LIMBS: usize = 34;

    /// The value of a finite, non-negative float.
    pub(crate) fn new(value: f64) -> Self {
        let (parts, first) = Product::new(value, 1).limbs();
        let mut limbs = [0; Self::LIMBS];
        limbs[first..first + parts.len()].copy_from_slice(&parts);
        let mut number = Self {
            limbs,
            top: Self::LIMBS - 1,
        };
        number.lower_top();
        number
    }

    /// Takes away what is not more than this number.
    pub(crate) fn subtract(&mut self, product: Product) {
        let borrow = self.wrapping_subtract(product);
        debug_assert!(!borrow, "more was taken away than there is");
        self.lower_top();
    }

    /// Adds a product; the sum must stay below 2^1102, which every part of a budget does.
    pub(crate) fn add(&mut self, product: Product) {
        let (parts, first) = product.limbs();
        let mut carry = false;
        for (limb, part) in self.limbs[first..].iter_mut().zip(parts) {
            let (sum, over) = limb.overflowing_add(part);
            let (sum, over_carry) = sum.overflowing_add(u64::from(carry));
            *limb = sum;
            carry = over || over_carry;
        }
        let mut end = first + parts.len();
        while carry && end < Self::LIMBS {
            (self.limbs[end], carry) = self.limbs[end].overflowing_add(1);
            end += 1;
        }
        debug_assert!(!carry, "more was added than fits");
        self.top = self.top.max(end - 1);
        self.lower_top();
    }

    /// The largest float that is not above this number less a product; negative infinity below the lowest float.
    pub(crate) fn floor_less(&self, product: Product) -> f64 {
        let mut rest = self.clone();
        if rest.wrapping_subtract(product) {
            rest.negate();
            -rest.ceiling()
        } else {
            rest.lower_top();
            rest.floor()
        }
    }

    /// The largest float that is not above this number: its leading 53 bits.
    pub(crate) fn floor(&self) -> f64 {
        let (mantissa, unit) = self.leading();
        compose(mantissa, unit)
    }

    /// The smallest float that is not below this number.
    fn ceiling(&self) -> f64 {
        let (mantissa, unit) = self.leading();
        let (whole, part) = ((unit / u64::BITS) as usize, unit % u64::BITS);
        let inexact =
            self.limbs[..whole].iter().any(|limb| *limb != 0) || self.limbs[whole] & ((1 << part) - 1) != 0;
        compose(mantissa + u64::from(inexact), unit)
    }

    /// The leading bits, as many as a float has, and their unit.
    fn leading(&self) -> (u64, u32) {
        let zeros = self.limbs[self.top].leading_zeros();
        let length = (self.top as u32 + 1) * u64::BITS - zeros;
        if length <= MANTISSA {
            return (self.limbs[0], 0);
        }
        let below = self.top.checked_sub(1).map_or(0, |i| self.limbs[i]);
        let window = (self.limbs[self.top] << zeros) | (below >> 1 >> (u64::BITS - 1 - zeros));
        (window >> (u64::BITS - MANTISSA), length - MANTISSA)
    }

    /// Subtracts modulo 2^2176; whether that borrowed from beyond.
    fn wrapping_subtract(&mut self, product: Product) -> bool {
        let (parts, first) = product.limbs();
        let mut borrow = false;
        for (limb, part) in self.limbs[first..].iter_mut().zip(parts) {
            let (difference, under) = limb.overflowing_sub(part);
            let (difference, under_borrow) = difference.overflowing_sub(u64::from(borrow));
            *limb = difference;
            borrow = under || under_borrow;
        }
        for limb in &mut self.limbs[first + parts.len()..] {
            if !borrow {
                break;
            }
            (*limb, borrow) = limb.overflowing_sub(1);
        }
        borrow
    }

    /// The two's complement: the magnitude of a difference that borrowed.
    fn negate(&mut self) {
        let mut carry = true;
        for limb in &mut self.limbs {
            (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
        }
        self.top = Self::LIMBS - 1;
        self.lower_top();
    }

    fn lower_top(&mut self) {
        while self.top > 0 && self.limbs[self.top] == 0 {
            self.top -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: f64 = f64::from_bits(1);

    #[test]
    fn every_float_comes_back() {
        for value in [
            0.0,
            TINY,
            3.0 * TINY,
            f64::MIN_POSITIVE.next_down(),
            f64::MIN_POSITIVE,
            2.0 * f64::MIN_POSITIVE,
            0.1,
            1.0,
            1e16,
            1e300,
            f64::MAX,
        ] {
            assert_eq!(Exact::new(value).floor(), value);
            assert_eq!(Product::new(value, 1).ceiling(), value);
            assert_eq!(Exact::new(value).floor_less(Product::new(value, 1)), 0.0);
            assert_eq!(Exact::new(0.0).floor_less(Product::new(value, 1)), -value);
        }
    }

    #[test]
    fn a_product_is_rounded_up_only_where_it_must_be() {
        let ceiling = |value, count| Product::new(value, count).ceiling();
        assert_eq!(ceiling(0.375, 1 << 50), 0.375 * 2f64.powi(50));
        assert_eq!(ceiling(0.0, usize::MAX), 0.0);
        assert_eq!(ceiling(5.0, 0), 0.0);
        // The float nearest to 0.1 lies above it, so that three of it are more than the nearest float says.
        assert_eq!(ceiling(0.1, 3), 0.300_000_000_000_000_04);
        assert_eq!(ceiling(0.1, 10), 1.0_f64.next_up());
        assert_eq!(ceiling(TINY, 7), 7.0 * TINY);
        assert_eq!(ceiling(f64::MAX, 1), f64::MAX);
        assert_eq!(ceiling(f64::MAX, 2), f64::INFINITY);
        assert_eq!(ceiling(f64::MAX / 4.0, 4), f64::MAX);
        assert_eq!(ceiling(1.0, (1 << 53) + 1), 2f64.powi(53) + 2.0);
        // All mantissa bits carry into the next power of two.
        assert_eq!(ceiling(1.0_f64.next_down(), (1 << 53) - 1), 2f64.powi(53) - 1.0);
        assert_eq!(
            ceiling(2.0_f64.next_down(), usize::MAX),
            2f64.powi(65).next_down()
        );
    }

    #[test]
    fn a_float_covers_a_product_if_and_only_if_it_is_not_below_the_ceiling() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for k in 0..100_000 {
            bits = bits
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            let value = f64::from_bits(bits >> 2);
            let count = (bits.rotate_left(31) >> (k % 64)) as usize;
            let product = Product::new(value, count);
            let ceiling = product.ceiling();
            let covers = |budget: f64| Exact::new(budget).floor_less(product) >= 0.0;
            assert!(ceiling.is_infinite() || covers(ceiling), "{count} × {value:e}");
            assert!(
                ceiling == 0.0 || !covers(ceiling.next_down()),
                "{count} × {value:e}"
            );
        }
    }

    #[test]
    fn what_is_taken_away_and_added_again_leaves_the_same_limbs() {
        for value in [1.0, 0.1, 2f64.powi(64), 2f64.powi(1000), f64::MAX, TINY, 0.0] {
            let whole = Exact::new(value);
            for part in [
                value,
                value * 0.5,
                value / 3.0,
                TINY.min(value),
                value.next_down().max(0.0),
            ] {
                let mut number = whole.clone();
                number.subtract(Product::new(part, 1));
                number.add(Product::new(part, 1));
                assert_eq!(number, whole, "{value:e} less {part:e}");
            }
        }
        // A carry that runs through every limb in between.
        let mut number = Exact::new(2f64.powi(1000));
        number.subtract(Product::new(TINY, 1));
        assert_eq!(number.floor(), 2f64.powi(1000).next_down());
        number.add(Product::new(TINY, 1));
        assert_eq!(number, Exact::new(2f64.powi(1000)));
    }

    #[test]
    fn differences_are_rounded_down_on_both_sides_of_zero() {
        let less = |a: f64, b: f64, count| Exact::new(a).floor_less(Product::new(b, count));
        assert_eq!(less(1.0, TINY, 1), 1.0_f64.next_down());
        assert_eq!(less(TINY, 1.0, 1), -1.0);
        assert_eq!(less(0.0, TINY, 5), -5.0 * TINY);
        assert_eq!(less(1.0, 0.1, 10), -5.551_115_123_125_783e-17);
        assert_eq!(less(1.0, f64::MAX, 1), -f64::MAX);
        assert_eq!(less(1.0, f64::MAX, usize::MAX), f64::NEG_INFINITY);
        assert_eq!(less(f64::MAX, f64::MAX, 2), -f64::MAX);
        assert_eq!(less(f64::MAX, f64::MAX, 1), 0.0);
    }
}
