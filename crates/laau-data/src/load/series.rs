//! Numbers for the series of a trace, and stable hashes of them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Gives every series a number, in the order of their first readings.
#[derive(Debug, Default)]
pub(crate) struct SeriesIndex {
    numbers: HashMap<Box<str>, u32, BuildHasherDefault<TextHasher>>,
    hashes: Vec<u64>,
}

impl SeriesIndex {
    /// The number of a series.
    pub(crate) fn number(&mut self, series: &str) -> usize {
        if let Some(&number) = self.numbers.get(series) {
            return number as usize;
        }
        let number = self.hashes.len();
        let stored = u32::try_from(number).expect("fewer than 2^32 series");
        self.hashes.push(hash_text(series));
        self.numbers.insert(series.into(), stored);
        number
    }

    /// Number of series.
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Every series, in no particular order: its name and its number.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        self.numbers
            .iter()
            .map(|(name, number)| (&**name, *number as usize))
    }

    /// A hash of a series' name that is the same on every machine.
    pub(crate) fn hash(&self, number: usize) -> u64 {
        self.hashes[number]
    }
}

/// A well mixed number from several: the finaliser of `SplitMix64`, once for each.
pub(crate) fn mix(numbers: &[u64]) -> u64 {
    numbers
        .iter()
        .fold(0x9e37_79b9_7f4a_7c15, |state, number| scramble(state ^ number))
}

fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A hash of a text that is the same on every machine and in every version.
pub(crate) fn hash_text(text: &str) -> u64 {
    scramble(absorb(text.len() as u64, text.as_bytes()))
}

/// Mixes bytes into a state, eight at a time.
fn absorb(mut state: u64, bytes: &[u8]) -> u64 {
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = (state.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        state ^= state >> 32;
    }
    state
}

/// Hashes the names of series for the table above; a trace is not an adversary that aims at its buckets.
#[derive(Debug, Default)]
struct TextHasher(u64);

impl Hasher for TextHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = absorb(self.0, bytes);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_numbered_in_the_order_of_their_first_readings() {
        let mut index = SeriesIndex::default();
        assert_eq!(["b", "a", "b", "c"].map(|s| index.number(s)), [0, 1, 0, 2]);
        assert_eq!(index.len(), 3);
        assert_eq!(index.hash(1), hash_text("a"));
    }

    #[test]
    fn hashes_differ_in_every_byte_and_in_the_length() {
        let texts = [
            "",
            "\0",
            "\0\0",
            "a",
            "b",
            "abcdefgh",
            "abcdefgi",
            "abcdefgh\0",
            "bbcdefgh",
        ];
        let mut hashes: Vec<_> = texts.iter().map(|text| hash_text(text)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), texts.len());
    }

    #[test]
    fn a_hash_never_changes_between_versions() {
        assert_eq!(mix(&[1, 2]), 0x848a_1390_3710_5040);
        assert_eq!(hash_text("abcdefghi"), 0xb8d9_cf9d_28b7_d63a);
    }
}
