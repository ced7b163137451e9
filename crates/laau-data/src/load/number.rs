//! Numbers in cells.

use crate::load::bytes::{HIGH, ONES, zero_bytes};

/// A finite number.
pub(crate) fn number(cell: &str) -> Option<f64> {
    const POWERS: [f64; 8] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];
    match short_number(cell.as_bytes()) {
        // Both are exact, so the quotient is rounded once, to what the standard library's parser finds.
        Some((digits, behind)) => Some(digits as f64 / POWERS[behind.unwrap_or(0)]),
        None => cell.trim().parse().ok().filter(|value: &f64| value.is_finite()),
    }
}

/// A whole number.
pub(crate) fn integer(cell: &str) -> Option<i64> {
    match short_number(cell.as_bytes()) {
        Some((digits, None)) => Some(digits),
        _ => cell.trim().parse().ok(),
    }
}

/// A number of four to eight bytes, digits with at most one point, which most cells are: its digits, and how many of them are behind
/// the point, if there is one.
///
/// All bytes are taken as one word, so that no jump depends on the length or on the place of the point. A loop over the bytes is
/// slower, since neither can be foretold.
fn short_number(cell: &[u8]) -> Option<(i64, Option<usize>)> {
    const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);
    const POINTS: u64 = u64::from_ne_bytes([b'.'; 8]);
    let mut count = cell.len();
    let (head, tail) = (cell.first_chunk()?, cell.last_chunk()?);
    if count > 8 {
        return None;
    }
    // The last byte of the cell is the highest of the word. Head and tail overlap in bytes that are the same.
    let head = u64::from(u32::from_le_bytes(*head)) << (64 - 8 * count);
    let mut word = head | u64::from(u32::from_le_bytes(*tail)) << 32;
    let mut behind = None;
    let point = zero_bytes(word ^ POINTS);
    if point != 0 {
        // What is before the point moves into its place.
        let up_to_point = point ^ (point - 1);
        word = (word & !up_to_point) | ((word & (up_to_point >> 8)) << 8);
        behind = Some(7 - point.trailing_zeros() as usize / 8);
        count -= 1;
    }
    // Zeros come before the digits.
    word |= ZEROS >> 8 >> (8 * (count - 1));
    let digits = word ^ ZEROS;
    // The sum of 118 and more than 9 has the highest bit of a byte.
    if (digits | digits.wrapping_add(ONES * 118)) & HIGH != 0 {
        return None;
    }
    // The first digit is the lowest byte. Digits become pairs, pairs become fours, fours become the number.
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let number = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    Some((number.cast_signed(), behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers are those of the standard library to the last bit, whatever byte is at whatever place.
    #[test]
    fn a_short_number_is_that_of_the_standard_library() {
        let check = |text: &str| {
            let expected: Option<f64> = text.trim().parse().ok().filter(|value: &f64| value.is_finite());
            assert_eq!(
                number(text).map(f64::to_bits),
                expected.map(f64::to_bits),
                "{text:?}"
            );
            assert_eq!(integer(text), text.trim().parse().ok(), "{text:?}");
        };
        for text in [
            "",
            "0",
            "12.",
            ".5",
            "1e3",
            "-12.25",
            "123456789",
            "1234567.8",
            "....",
            "1..2",
            "\u{661}\u{662}",
        ] {
            check(text);
        }
        for length in 1..=9 {
            for at in 0..length {
                for other in 0..128_u8 {
                    let mut bytes = b"987654321"[..length].to_vec();
                    bytes[at] = other;
                    check(str::from_utf8(&bytes).unwrap());
                    bytes[length / 2] = b'.';
                    check(str::from_utf8(&bytes).unwrap());
                }
            }
        }
        for value in (0..10_000_000).step_by(997) {
            check(&format!("{}.{:04}", value / 10_000, value % 10_000));
            check(&value.to_string());
        }
    }
}
