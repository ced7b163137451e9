//! Floats as whole numbers: every finite `f64` is a multiple of 2^-1074, so that sums of them have no rounding.

use num_bigint::BigInt;

/// `value` in units of 2^-1074; nothing for an infinity or NaN.
pub(crate) fn units(value: f64) -> Option<BigInt> {
    if !value.is_finite() {
        return None;
    }
    let bits = value.to_bits();
    let exponent = (bits >> 52) & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
    let magnitude = match exponent {
        0 => BigInt::from(fraction),
        _ => BigInt::from(fraction + (1 << 52)) << (exponent - 1),
    };
    Some(if value < 0.0 { -magnitude } else { magnitude })
}

/// Whether `value` is the greatest float that is not above the exact number: what rounding down must give.
pub(crate) fn is_rounded_down(value: f64, exact: &BigInt) -> bool {
    let above = units(value.next_up());
    units(value).is_some_and(|units| units <= *exact) && above.is_none_or(|above| *exact < above)
}

/// About how much a number of units is, for people.
pub(crate) fn about(units: &BigInt) -> f64 {
    // Enough bits for a float, and in two steps, since 2^1074 is none.
    let bits = units.bits().saturating_sub(64);
    let leading: f64 = (units >> bits).to_string().parse().unwrap_or(f64::NAN);
    leading * 2.0_f64.powi(i32::try_from(bits).unwrap_or(i32::MAX) - 537) * 2.0_f64.powi(-537)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_tenths_is_exact() {
        let tenth = units(0.1).unwrap();
        let sum: BigInt = (0..10).map(|_| tenth.clone()).sum();
        // 0.1 is a little more than a tenth, and ten of them are not one.
        assert!(sum > units(1.0).unwrap());
        assert_eq!(units(5e-324).unwrap(), BigInt::from(1));
        assert_eq!(units(-1.0).unwrap(), -units(1.0).unwrap());
        assert_eq!(units(f64::NAN), None);
        assert_eq!(about(&(units(0.75).unwrap() * 3)), 2.25);
    }

    #[test]
    fn only_the_nearest_float_below_is_rounded_down() {
        let exact = units(1.0).unwrap() - 1;
        assert!(is_rounded_down(1.0_f64.next_down(), &exact));
        assert!(!is_rounded_down(1.0, &exact));
        assert!(!is_rounded_down(0.5, &exact));
        assert!(is_rounded_down(1.0, &units(1.0).unwrap()));
    }
}
