//! Which series go to which set, and which episodes of a set are taken.

use std::collections::BinaryHeap;

use super::options::{EpisodeOptions, Split};
use super::periods::{Periods, SplitBy};
use crate::error::{Error, invalid};
use crate::load::series::{SeriesIndex, mix};

/// A candidate for an episode. The order is by priority, a seeded hash, so that the first `k` of any set of candidates
/// are a fair sample of it that does not depend on the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) priority: u64,
    /// Ties are broken by the series and the position in it.
    pub(crate) series: usize,
    pub(crate) position: i64,
    /// Where its readings are in the pool.
    slot: usize,
}

/// Keeps the candidates of least priority, and their readings, or what else there is of a width.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    capacity: usize,
    width: usize,
    heap: BinaryHeap<Candidate>,
    readings: Vec<T>,
    offered: u64,
}

impl<T: Copy> Pool<T> {
    /// A pool for `capacity` candidates of `width` numbers each.
    pub(crate) fn new(capacity: usize, width: usize) -> Self {
        Self {
            capacity,
            width,
            heap: BinaryHeap::new(),
            readings: Vec::new(),
            offered: 0,
        }
    }

    /// Offers a candidate; it is kept as long as it is among the best.
    ///
    /// # Errors
    /// More candidates than there is memory for.
    pub(crate) fn offer(
        &mut self,
        priority: u64,
        series: usize,
        position: i64,
        readings: &[T],
    ) -> Result<(), Error> {
        debug_assert_eq!(readings.len(), self.width, "readings of a candidate");
        self.offered += 1;
        let mut candidate = Candidate {
            priority,
            series,
            position,
            slot: self.heap.len(),
        };
        if self.heap.len() < self.capacity {
            self.readings
                .try_reserve(readings.len())
                .map_err(|_| self.refuse())?;
            self.readings.extend_from_slice(readings);
            self.heap.push(candidate);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && (priority, series, position) < (worst.priority, worst.series, worst.position)
        {
            candidate.slot = worst.slot;
            self.readings[candidate.slot * self.width..][..self.width].copy_from_slice(readings);
            *worst = candidate;
        }
        Ok(())
    }

    #[cold]
    fn refuse(&self) -> Error {
        invalid(
            "split",
            format!(
                "expected episodes that fit into memory, found no room for more than {} of {} candidates: ask for fewer or shorter \
                 ones",
                self.heap.len(),
                self.capacity
            ),
        )
    }

    /// Whether every candidate that was offered is still here.
    pub(crate) fn is_complete(&self) -> bool {
        self.offered == self.heap.len() as u64
    }

    /// The candidates that are kept, best first.
    pub(crate) fn into_sorted(self) -> (Vec<Candidate>, Kept<T>) {
        (
            self.heap.into_sorted_vec(),
            Kept {
                width: self.width,
                readings: self.readings,
            },
        )
    }
}

/// The readings of the candidates of a pool.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    width: usize,
    readings: Vec<T>,
}

impl<T> Kept<T> {
    pub(crate) fn of(&self, candidate: &Candidate) -> &[T] {
        &self.readings[candidate.slot * self.width..][..self.width]
    }
}

/// Which set a reading belongs to.
#[derive(Debug)]
pub(crate) struct Assignment {
    owners: Vec<Owner>,
    periods: Periods,
}

/// Who may have the readings of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// One set.
    Set(usize),
    /// The set in whose period they are.
    Any,
}

impl Assignment {
    /// The set of a reading.
    pub(crate) fn set(&self, series: usize, time: i64) -> Option<usize> {
        let period = self.periods.of(time)?;
        match *self.owners.get(series)? {
            Owner::Nobody => None,
            Owner::Any => Some(period),
            Owner::Set(set) => (self.periods.0.is_none() || set == period).then_some(set),
        }
    }

    /// Number of series in each set.
    pub(crate) fn series_per_set(&self, counts: &[[usize; 3]]) -> [u64; 3] {
        let of = |set| {
            let series = self.owners.iter().zip(counts);
            series
                .filter(|(owner, counts)| self.has_any(**owner, counts, set))
                .count() as u64
        };
        [of(0), of(1), of(2)]
    }

    /// Number of series with candidates for none of the sets.
    pub(crate) fn series_in_none(&self, counts: &[[usize; 3]]) -> u64 {
        let series = self.owners.iter().zip(counts);
        let in_none =
            |(owner, counts): &(&Owner, &[usize; 3])| (0..3).all(|set| !self.has_any(**owner, counts, set));
        series.filter(in_none).count() as u64
    }

    /// Whether a series of an owner, with so many candidates by period, has any for a set.
    fn has_any(&self, owner: Owner, counts: &[usize; 3], set: usize) -> bool {
        match owner {
            Owner::Nobody => false,
            // Without periods, all candidates are in the first.
            Owner::Set(own) => own == set && counts[if self.periods.0.is_some() { set } else { 0 }] > 0,
            Owner::Any => counts[set] > 0,
        }
    }
}

/// Gives every series to one set, such that each set gets its share of the candidates, which are counted by series and
/// period; a series without any goes to nobody. In a split by time alone, every set has every series.
///
/// Series are taken in a seeded order, and each goes to the set that is furthest from its size. Should a set fall short
/// that way, series are taken in order of their size, greatest first, which fills the sets more evenly; or else each of them
/// goes to the set that lacks most.
///
/// # Errors
/// [`Error::TooShort`] when a set cannot be filled.
pub(crate) fn assign(
    index: &SeriesIndex,
    counts: &[[usize; 3]],
    periods: Periods,
    options: &EpisodeOptions,
) -> Result<Assignment, Error> {
    let EpisodeOptions {
        split,
        seed,
        split_by,
        ..
    } = *options;
    let size = |series: usize| counts[series].iter().sum::<usize>();
    if split_by == SplitBy::Time {
        let owner = |series| {
            if size(series) > 0 {
                Owner::Any
            } else {
                Owner::Nobody
            }
        };
        let owners = (0..counts.len()).map(owner).collect();
        return Ok(Assignment { owners, periods });
    }
    // With one period, its candidates are for whichever set gets the series.
    let counts: Vec<[usize; 3]> = match periods.0 {
        None => counts.iter().map(|counts| [counts[0]; 3]).collect(),
        Some(_) => counts.to_vec(),
    };
    let mut order: Vec<usize> = (0..index.len()).filter(|&series| size(series) > 0).collect();
    order.sort_by_cached_key(|&series| (mix(&[seed, SERIES, index.hash(series)]), series));
    let first = deal(&order, &counts, split, least_share);
    if first.shortage(split).is_none() {
        return Ok(first.assignment(periods));
    }
    order.sort_by_key(|&series| std::cmp::Reverse(size(series)));
    let second = deal(&order, &counts, split, least_share);
    let Some(set) = second.shortage(split) else {
        return Ok(second.assignment(periods));
    };
    let third = deal(&order, &counts, split, greatest_lack);
    if third.shortage(split).is_none() {
        return Ok(third.assignment(periods));
    }
    Err(Error::TooShort {
        set: Split::NAMES[set],
        wanted: split.sizes()[set],
        available: second.candidates[set],
        series: second.series[set],
        all_available: (0..counts.len()).map(size).sum(),
        all_series: index.len(),
    })
}

/// The seed's domain of the order of series.
const SERIES: u64 = 1;
/// The seed's domain of the order of candidates.
pub(crate) const CANDIDATES: u64 = 2;
/// The seed's domain of the order within one time.
pub(crate) const TIMES: u64 = 3;

struct Deal {
    owners: Vec<Owner>,
    candidates: [usize; 3],
    series: [usize; 3],
}

impl Deal {
    fn shortage(&self, split: Split) -> Option<usize> {
        (0..3).find(|&set| self.candidates[set] < split.sizes()[set])
    }

    fn assignment(self, periods: Periods) -> Assignment {
        Assignment {
            owners: self.owners,
            periods,
        }
    }
}

/// The set that has the least candidates for its size, compared without division.
fn least_share(sizes: [usize; 3], candidates: [usize; 3]) -> Option<usize> {
    (0..3).filter(|&set| sizes[set] > 0).min_by(|&a, &b| {
        let left = candidates[a] as u128 * sizes[b] as u128;
        left.cmp(&(candidates[b] as u128 * sizes[a] as u128))
    })
}

/// The set that lacks most candidates.
fn greatest_lack(sizes: [usize; 3], candidates: [usize; 3]) -> Option<usize> {
    (0..3)
        .filter(|&set| sizes[set] > 0)
        .max_by_key(|&set| sizes[set].saturating_sub(candidates[set]))
}

fn deal(
    order: &[usize],
    counts: &[[usize; 3]],
    split: Split,
    next: impl Fn([usize; 3], [usize; 3]) -> Option<usize>,
) -> Deal {
    let sizes = split.sizes();
    let mut deal = Deal {
        owners: vec![Owner::Nobody; counts.len()],
        candidates: [0; 3],
        series: [0; 3],
    };
    for &series in order {
        if let Some(set) = next(sizes, deal.candidates) {
            deal.owners[series] = Owner::Set(set);
            deal.candidates[set] += counts[series][set];
            deal.series[set] += 1;
        }
    }
    deal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_keeps_the_best_in_any_order() {
        let offers: Vec<(u64, i64)> = (0..50).map(|i| (mix(&[7, i]), i.cast_signed())).collect();
        let best = |offers: &[(u64, i64)]| {
            let mut pool = Pool::new(10, 1);
            for &(priority, position) in offers {
                pool.offer(priority, 0, position, &[position as f64]).unwrap();
            }
            assert!(!pool.is_complete());
            let (candidates, readings) = pool.into_sorted();
            candidates
                .iter()
                .map(|candidate| (candidate.priority, readings.of(candidate)[0]))
                .collect::<Vec<_>>()
        };
        let forward = best(&offers);
        let mut sorted = offers.clone();
        sorted.sort_unstable();
        let expected: Vec<_> = sorted[..10].iter().map(|&(p, i)| (p, i as f64)).collect();
        assert_eq!(forward, expected);
        assert_eq!(best(&offers.iter().rev().copied().collect::<Vec<_>>()), expected);
    }

    fn by_series(
        index: &SeriesIndex,
        counts: &[[usize; 3]],
        split: Split,
        seed: u64,
    ) -> Result<Assignment, Error> {
        let options = EpisodeOptions {
            split,
            seed,
            ..EpisodeOptions::default()
        };
        assign(index, counts, Periods(None), &options)
    }

    fn index_of(series: usize) -> SeriesIndex {
        let mut index = SeriesIndex::default();
        for number in 0..series {
            index.number(&format!("series {number}"));
        }
        index
    }

    #[test]
    fn series_are_dealt_in_proportion() {
        let index = index_of(100);
        let split = Split::default();
        let counts = [[400, 0, 0]; 100];
        let sets = by_series(&index, &counts, split, 3).unwrap();
        assert_eq!(sets.series_per_set(&counts), [62, 13, 25]);
        assert_ne!(sets.owners, by_series(&index, &counts, split, 4).unwrap().owners);
    }

    #[test]
    fn uneven_series_are_dealt_by_size_if_the_seeded_order_falls_short() {
        let split = Split {
            train: 10,
            validation: 1,
            test: 1,
        };
        for seed in 0..50 {
            let counts = [1, 1, 10, 0].map(|count| [count, 0, 0]);
            let sets = by_series(&index_of(4), &counts, split, seed).unwrap();
            assert_eq!(sets.set(2, 5), Some(0));
            assert_eq!(sets.set(3, 5), None);
        }
    }

    #[test]
    fn few_series_that_just_suffice_are_dealt_by_what_is_lacking() {
        let split = Split {
            train: 10,
            validation: 2,
            test: 5,
        };
        for seed in 0..50 {
            let counts = [2, 10, 5].map(|count| [count, 0, 0]);
            let sets = by_series(&index_of(3), &counts, split, seed).unwrap();
            assert_eq!(
                [0, 1, 2].map(|series| sets.set(series, 0)),
                [Some(1), Some(0), Some(2)]
            );
        }
    }

    #[test]
    fn a_short_trace_is_refused_with_what_there_is() {
        let error = by_series(&index_of(3), &[[400, 0, 0]; 3], Split::default(), 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the trace is too short: 5000 train episodes wanted, 400 available in 1 series \
             (whole trace: 1200 in 3 series)"
        );
    }
}
