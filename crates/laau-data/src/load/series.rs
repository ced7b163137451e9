//! Numbers for the series of a trace, and stable hashes of them.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::load::text::Texts;

/// Gives every series a number, in the order of their first readings.
#[derive(Debug, Default)]
pub(crate) struct SeriesIndex {
    names: Texts,
    hashes: Vec<u64>,
    /// The number of the first series with a hash.
    numbers: HashMap<u64, u32, BuildHasherDefault<WordHasher>>,
    /// The numbers of further series with its hash.
    further: BTreeMap<Box<str>, u32>,
    /// The number that was asked for last.
    last: usize,
}

impl SeriesIndex {
    /// The number of a series.
    pub(crate) fn number(&mut self, series: &str) -> usize {
        // Rows stay with a series, or go through the series in the same order at every time. This saves most look-ups.
        let next = if self.last + 1 < self.len() {
            self.last + 1
        } else {
            0
        };
        self.last = [next, self.last]
            .into_iter()
            .find(|&guess| guess < self.len() && self.names.get(guess) == series)
            .unwrap_or_else(|| self.look_up(series));
        self.last
    }

    fn look_up(&mut self, series: &str) -> usize {
        let hash = hash_text(series);
        let found = match self.numbers.get(&hash) {
            Some(&number) if self.names.get(number as usize) != series => self.further.get(series).copied(),
            found => found.copied(),
        };
        if let Some(number) = found {
            return number as usize;
        }
        let number = self.len();
        let stored = u32::try_from(number).expect("fewer than 2^32 series");
        self.names.push(series);
        self.hashes.push(hash);
        if *self.numbers.entry(hash).or_insert(stored) != stored {
            self.further.insert(series.into(), stored);
        }
        number
    }

    /// Number of series.
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// The names of all series, in the order of their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|number| self.names.get(number))
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
    let mut add = |word: u64| {
        state = (state.rotate_left(5) ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        state ^= state >> 32;
    };
    let (words, rest) = bytes.as_chunks();
    for word in words {
        add(u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        add(rest
            .iter()
            .rev()
            .fold(0, |word, byte| (word << 8) | u64::from(*byte)));
    }
    state
}

/// A hasher of numbers that are hashes already.
#[derive(Debug, Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = absorb(self.0, bytes);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
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
        assert_eq!(index.names().collect::<Vec<_>>(), ["b", "a", "c"]);
    }

    #[test]
    fn series_of_one_hash_have_numbers_of_their_own() {
        let mut index = SeriesIndex::default();
        index.number("a");
        // As if "b" and "c" had the hash of "a".
        for name in ["b", "c"] {
            index.numbers.insert(hash_text(name), 0);
        }
        assert_eq!(
            ["b", "c", "a", "c", "b"].map(|s| index.number(s)),
            [1, 2, 0, 2, 1]
        );
        assert_eq!(index.further.len(), 2);
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
