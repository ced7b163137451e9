//! Verdicts on differences between policies, with their uncertainty.
//!
//! A difference is paired: both policies play the same test episodes, trained with the same seed. Its interval is over seeds, then
//! series (VM, drive, day, stock), then episodes, because episodes of one series are alike and a seed is one draw of data,
//! weights and shuffles.
//!
//! With `D_s` the difference of seed `s`, `D̄` their mean over `S` seeds and `SE` its standard error, the interval is `D̄ ± c · SE`.
//!
//! Student's quantile is the least `c`, with one degree of freedom less than there are seeds, or series if they are fewer. A bootstrap
//! over three or ten seeds alone is too sure of itself: the plain percentile interval of ten seeds covers about 90 % instead of
//! 95 %, of three about 70 % (`cargo test -p laau-core coverage -- --nocapture` prints them).
//!
//! * Seeds that have series of their own are independent, and `SE` is from the spread of the `D_s`. If it is larger, `c` is the quantile
//!   of `|t*|`, `t* = (D̄* − D̄) / SE*`, over draws of seeds, series and episodes. `SE*` counts as no less than what the spread of as many
//!   normal seeds falls short of in one of eighty draws (of ten seeds, half of `SE`). That leaves the quantile of such seeds alone; but
//!   where one seed of ten is far away, a third of the draws miss it, and have a spread that says nothing of `D̄`. A quantile that
//!   fewer than ten draws lie beyond is continued from one that ten do, by the ratio of Student's quantiles.
//! * Seeds that share series (splits of one trace) have differences that move together, which their spread does not see. Then `SE²` is
//!   the spread of the `D_s` and what is shared: the variance by series less that by pairs of seed and series, as for errors that are
//!   clustered in two ways (Cameron, Gelbach, Miller 2011), each by leaving series out one by one. More seeds do not lower what is shared.
//!
//! A claim is one or several such differences, each with the sign that makes it positive if the claim is true:
//!
//! | verdict | rule |
//! |---|---|
//! | holds | the 95 % interval of *every* difference is above zero. No correction is needed: the chance that all are above by luck is less than that of one |
//! | does not hold | the interval of *some* difference is below zero, at 95 % corrected for their number (Bonferroni) |
//! | undecided | neither; with the number of seeds that would decide it, if the difference is what it seems |

mod bootstrap;
#[cfg(any(test, feature = "conformance"))]
pub mod planted;
mod student;

pub use bootstrap::{Bootstrap, Measure, Resampled, SeedSample};
pub use student::student_quantile;

use std::fmt;

/// The chance of a wrong verdict that is accepted.
const LEVEL: f64 = 0.05;

/// A difference below it, in hundredths of OPT or of a budget, is one of rounding and has no sign: two policies that do the same
/// differ by the order of their sums.
const ROUNDING: f64 = 1e-9;

/// Draws that a quantile of `|t*|` must leave beyond it.
const LEAST_BEYOND: f64 = 10.0;

/// What a claim is found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every difference is on the claim's side.
    Holds,
    /// Some difference is on the other side.
    DoesNotHold,
    /// The data do not say.
    Undecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::Undecided => "undecided",
        })
    }
}

/// A difference with what its intervals are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The mean over seeds.
    pub estimate: f64,
    /// Its standard error, from the spread over seeds and from the series that they share; infinite for one seed.
    pub standard_error: f64,
    /// One difference per seed, in the order of the sample.
    pub per_seed: Vec<f64>,
    /// Degrees of freedom: seeds, or series if they are fewer, less one.
    degrees: usize,
    /// Of the squared standard error, what seeds share.
    shared: f64,
    /// `|t*|` of all draws, ascending; none if seeds share series, or are alone known.
    statistics: Vec<f64>,
}

impl Difference {
    /// Of measures of one or several samples of the same seeds: `of` gets the measures of one seed, a slice per sample.
    /// Nothing if the samples are of different seeds.
    #[must_use]
    pub fn between(samples: &[&Resampled], of: impl Fn(&[&[f64]]) -> f64) -> Option<Self> {
        let first = samples.first()?;
        let same = |other: &&Resampled| {
            other.seeds == first.seeds
                && (other.without.is_some()
                    || first.without.is_some()
                    || other.draws.len() / other.measures == first.draws.len() / first.measures)
        };
        if !samples.iter().all(same) {
            return None;
        }
        let count = first.seeds.len();
        let value = |draws: bool, position: usize| {
            let rows: Vec<&[f64]> = samples
                .iter()
                .map(|sample| {
                    let table = if draws { &sample.draws } else { &sample.observed };
                    &table[position * sample.measures..][..sample.measures]
                })
                .collect();
            of(&rows)
        };
        let per_seed: Vec<f64> = (0..count).map(|seed| value(false, seed)).collect();
        let (estimate, of_seeds) = mean_and_error(&per_seed);
        let series = samples.iter().map(|sample| sample.series).min().unwrap_or(0);
        let degrees = count.min(series).saturating_sub(1);
        if samples.iter().any(|sample| sample.without.is_some()) {
            let shared = shared_variance(samples, &per_seed, &of);
            return Some(Self {
                estimate,
                standard_error: (of_seeds * of_seeds + shared).sqrt(),
                per_seed,
                degrees,
                shared,
                statistics: Vec::new(),
            });
        }
        let least_error = least_spread(count) * of_seeds;
        let replicates = first.draws.len() / first.measures / count;
        let mut statistics: Vec<f64> = (0..replicates)
            // One seed drawn over and over has no spread to judge by.
            .filter(|replicate| first.different[*replicate] > 1)
            .map(|replicate| {
                let slots: Vec<f64> = (0..count)
                    .map(|slot| value(true, replicate * count + slot))
                    .collect();
                mean_and_error(&slots)
            })
            .filter(|(_, error)| *error > 0.0 && error.is_finite())
            .map(|(mean, error)| ((mean - estimate) / error.max(least_error)).abs())
            .collect();
        statistics.sort_by(f64::total_cmp);
        Some(Self {
            estimate,
            standard_error: of_seeds,
            per_seed,
            degrees,
            shared: 0.0,
            statistics,
        })
    }

    /// Of one number per seed, where single episodes are not known: Student's interval over seeds.
    #[must_use]
    pub fn of_seeds(per_seed: Vec<f64>) -> Self {
        let (estimate, standard_error) = mean_and_error(&per_seed);
        Self {
            estimate,
            standard_error,
            degrees: per_seed.len().saturating_sub(1),
            per_seed,
            shared: 0.0,
            statistics: Vec::new(),
        }
    }

    /// The same with a constant added, for a claim about more than the sign.
    #[must_use]
    pub fn plus(mut self, constant: f64) -> Self {
        self.estimate += constant;
        self.per_seed.iter_mut().for_each(|value| *value += constant);
        self
    }

    /// The interval that holds the difference but for a chance `outside`.
    #[must_use]
    pub fn interval(&self, outside: f64) -> (f64, f64) {
        let reach = match self.standard_error {
            0.0 => ROUNDING,
            error => (self.factor(outside) * error).max(ROUNDING),
        };
        (self.estimate - reach, self.estimate + reach)
    }

    /// The interval at 95 %.
    #[must_use]
    pub fn at_95(&self) -> (f64, f64) {
        self.interval(LEVEL)
    }

    /// How many seeds like these would put zero outside of the interval, if the difference is what it seems; none if more than a
    /// thousand.
    #[must_use]
    pub fn seeds_to_decide(&self, outside: f64) -> Option<usize> {
        let count = self.per_seed.len();
        if count < 2 || self.degrees == 0 || !self.standard_error.is_finite() {
            return None;
        }
        // The spread over seeds falls with their number; what they share does not, nor what the bootstrap adds to Student's interval.
        let of_one = (self.standard_error * self.standard_error - self.shared) * count as f64;
        let excess = self.factor(outside) / student_quantile(self.degrees, 1.0 - 0.5 * outside);
        (count + 1..=1000).find(|&seeds| {
            let error = (of_one / seeds as f64 + self.shared).sqrt();
            excess * student_quantile(seeds - 1, 1.0 - 0.5 * outside) * error < self.estimate.abs()
        })
    }

    fn factor(&self, outside: f64) -> f64 {
        let student = |outside: f64| student_quantile(self.degrees, 1.0 - 0.5 * outside);
        let count = self.statistics.len() as f64;
        // As many draws may be beyond as the chance is of all of them, and few are a poor quantile.
        let drawn_at = outside.max(LEAST_BEYOND / count);
        if self.degrees == 0 || drawn_at >= 1.0 {
            return student(outside);
        }
        let drawn = (self.statistics.iter().rev().enumerate())
            .take_while(|(beyond, _)| *beyond as f64 <= drawn_at * count)
            .last()
            .map_or(0.0, |(_, statistic)| *statistic);
        (drawn / student(drawn_at)).max(1.0) * student(outside)
    }
}

/// The variance of the mean over seeds that is due to series which several of them have: by series, less by pairs of seed and
/// series, both by leaving them out.
fn shared_variance(samples: &[&Resampled], per_seed: &[f64], of: &impl Fn(&[&[f64]]) -> f64) -> f64 {
    let count = per_seed.len() as f64;
    let mut pairs: Vec<(u64, usize)> = samples
        .iter()
        .filter_map(|sample| sample.without.as_ref())
        .flat_map(|without| without.keys().copied())
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    let (mut by_series, mut by_pairs, mut series) = (0.0, 0.0, 0.0_f64);
    for pairs in pairs.chunk_by(|a, b| a.0 == b.0) {
        let mut moved = 0.0;
        for pair in pairs {
            let seed = pair.1;
            let rows: Vec<&[f64]> = samples
                .iter()
                .map(|sample| {
                    let without = sample.without.as_ref().and_then(|without| without.get(pair));
                    without.map_or(
                        &sample.observed[seed * sample.measures..][..sample.measures],
                        |row| &row[..],
                    )
                })
                .collect();
            let change = (of(&rows) - per_seed[seed]) / count;
            by_pairs += change * change;
            moved += change;
        }
        by_series += moved * moved;
        series += 1.0;
    }
    (by_series - by_pairs).max(0.0) * (series - 1.0) / series.max(1.0)
}

/// Decides a claim from differences that are positive where it is true; nothing from none.
#[must_use]
pub fn decide(differences: &[Difference]) -> Option<Verdict> {
    if differences.is_empty() {
        return None;
    }
    let corrected = LEVEL / differences.len() as f64;
    Some(if differences.iter().all(|d| d.at_95().0 > 0.0) {
        Verdict::Holds
    } else if differences.iter().any(|d| d.interval(corrected).1 < 0.0) {
        Verdict::DoesNotHold
    } else {
        Verdict::Undecided
    })
}

/// How many seeds like these would decide a claim that is undecided, if its differences are what they seem; none if more than a
/// thousand.
#[must_use]
pub fn seeds_to_decide(differences: &[Difference]) -> Option<usize> {
    let corrected = LEVEL / differences.len() as f64;
    let mut against = differences.iter().filter(|d| d.estimate < 0.0).peekable();
    // One difference on the other side is enough that the claim does not hold; without any, all must come to be on its side.
    if against.peek().is_some() {
        return against.filter_map(|d| d.seeds_to_decide(corrected)).min();
    }
    let open = differences.iter().filter(|d| d.at_95().0 <= 0.0);
    open.map(|d| d.seeds_to_decide(LEVEL))
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max()
}

/// The spread of normal values over what is expected of it that one of eighty samples is below: Wilson and Hilferty's cube root of
/// chi-square, which is too small for three values and good from five.
fn least_spread(count: usize) -> f64 {
    const ONE_OF_EIGHTY: f64 = -2.24;
    let variance = 2.0 / (9.0 * (count as f64 - 1.0).max(1.0));
    (1.0 - variance + ONE_OF_EIGHTY * variance.sqrt())
        .max(0.0)
        .powf(1.5)
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

#[cfg(test)]
mod tests;
