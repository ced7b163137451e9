//! Searches in bytes, eight at a time.

/// A word of ones, one in each byte.
pub(crate) const ONES: u64 = u64::from_ne_bytes([1; 8]);
/// The highest bit of each byte of a word.
pub(crate) const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);

/// The highest bits of the bytes that are zero. The lowest is right; above it, where a zero byte borrows, others may be set too.
pub(crate) fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

/// The place of the first of two bytes, from a place on, eight bytes at a time.
pub(crate) fn find_either(bytes: &[u8], from: usize, a: u8, b: u8) -> Option<usize> {
    let (all_a, all_b) = (ONES * u64::from(a), ONES * u64::from(b));
    let mut at = from;
    while let Some((word, _)) = bytes.get(at..).and_then(|rest| rest.split_first_chunk()) {
        let word = u64::from_le_bytes(*word);
        let hits = zero_bytes(word ^ all_a) | zero_bytes(word ^ all_b);
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    let hit = rest.iter().position(|byte| *byte == a || *byte == b);
    hit.map(|length| at + length)
}

/// Passes on the places of two bytes, in order. All in 64 bytes are marked before the first is taken: a search that begins where the
/// last one ended has to wait for it.
pub(crate) fn find_all(bytes: &[u8], a: u8, b: u8, mut each: impl FnMut(usize)) {
    let (blocks, rest) = bytes.as_chunks::<64>();
    for (number, block) in blocks.iter().enumerate() {
        // A loop that compilers turn into comparisons of whole vectors.
        let mut marks = [0_u8; 64];
        for (mark, byte) in marks.iter_mut().zip(block) {
            *mark = u8::from(*byte == a) | u8::from(*byte == b);
        }
        let mut hits = 0;
        for (place, word) in marks.as_chunks().0.iter().enumerate() {
            // The product moves the eight marks into the highest byte.
            let word = u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080);
            hits |= (word >> 56) << (8 * place);
        }
        while hits != 0 {
            each(64 * number + hits.trailing_zeros() as usize);
            hits &= hits - 1;
        }
    }
    let behind = bytes.len() - rest.len();
    for (place, byte) in rest.iter().enumerate() {
        if *byte == a || *byte == b {
            each(behind + place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_at_every_place() {
        for length in 0..140 {
            for at in 0..length {
                let mut bytes = vec![b'-'; length];
                bytes[at] = b',';
                let mut places = Vec::new();
                find_all(&bytes, b'\n', b',', |place| places.push(place));
                assert_eq!(places, [at]);
                let from_here = (0..=at).map(|from| find_either(&bytes, from, b',', b'\n'));
                assert!(from_here.into_iter().all(|found| found == Some(at)));
                assert_eq!(find_either(&bytes, at + 1, b'\n', b','), None);
            }
        }
        let high = [0x80, 0x2d, 0x8b, 0xff, 0x00, 0x0b, 0x0a, 0x2c, 0x0a, 0x0b, 0x2d];
        assert_eq!(find_either(&high, 0, b',', b'\n'), Some(6));
        let mut places = Vec::new();
        find_all(&high.repeat(12), b',', b'\n', |place| places.push(place));
        let expected: Vec<_> = (0..12)
            .flat_map(|again| [6, 7, 8].map(|at| 11 * again + at))
            .collect();
        assert_eq!(places, expected);
    }
}
