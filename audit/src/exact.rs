//! Floats as exact integers: every finite `f64` is a multiple of 2^-1074.

use num_bigint::{BigInt, Sign};

/// Bits below the mantissa of the largest float.
const MOST_DROPPED: u64 = 2045;

/// The integer `value · 2^1074`.
#[must_use]
pub fn integer(value: f64) -> BigInt {
    let bits = value.to_bits();
    let exponent = (bits >> 52) & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
    let magnitude = if exponent == 0 {
        BigInt::from(fraction)
    } else {
        BigInt::from(fraction | (1 << 52)) << (exponent - 1)
    };
    if value.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

/// The largest float that is not above `value · 2^-1074`: −∞ below the range of floats. No value may be above it.
#[must_use]
pub fn floor(value: &BigInt) -> f64 {
    let magnitude = value.magnitude();
    let dropped = magnitude.bits().saturating_sub(53);
    let kept = magnitude >> dropped;
    let mantissa = kept.to_u64_digits().first().copied().unwrap_or(0);
    // Bits below 2^53 are exponent and fraction of a float as they are; each dropped bit adds one to the exponent.
    let bits = if dropped == 0 {
        mantissa
    } else {
        mantissa + (dropped << 52)
    };
    let towards_zero = if dropped > MOST_DROPPED {
        f64::INFINITY
    } else {
        f64::from_bits(bits)
    };
    if value.sign() == Sign::Minus {
        let exact = dropped > MOST_DROPPED || (kept << dropped) == *magnitude;
        if exact {
            -towards_zero
        } else {
            (-towards_zero).next_down()
        }
    } else {
        towards_zero
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_come_back_and_sums_are_rounded_down() {
        for value in [
            0.0,
            1.0,
            -1.0,
            0.1,
            5e-324,
            f64::MIN_POSITIVE,
            f64::MAX,
            -3e-310,
            2.5e17,
        ] {
            assert_eq!(floor(&integer(value)), value, "{value:e}");
        }
        assert_eq!(floor(&(integer(-f64::MAX) * 2)), f64::NEG_INFINITY);
        assert_eq!(floor(&(integer(-f64::MAX) - 1)), f64::NEG_INFINITY);
        let sum = integer(1.0) + integer(1e-30);
        assert_eq!(floor(&sum), 1.0);
        assert_eq!(floor(&(integer(1.0) - integer(1e-30))), 1.0_f64.next_down());
        assert_eq!(floor(&(-sum)), (-1.0_f64).next_down());
    }
}
