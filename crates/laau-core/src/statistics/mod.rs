//! Verdicts on differences between policies, with their uncertainty.
//!
//! A difference is paired: both policies play the same test episodes, trained with the same seed. Its interval is
//! a studentised hierarchical bootstrap over seeds, then series (VM, drive, day, stock), then episodes, because episodes of
//! one series are alike and a seed is one draw of data, weights and shuffles.
//!
//! With `D_s` the difference of seed `s`, `D̄` their mean over `S` seeds and `SE` its standard error from the spread of the `D_s`,
//! the interval is `D̄ ± c · SE`. The factor `c` is the larger of two:
//!
//! * the quantile of `|t*|`, `t* = (D̄* − D̄) / SE*`, over draws of seeds, series and episodes. Seeds that share series (splits
//!   of one trace) have differences that move together, which `SE` does not see and `t*` does. `SE*` draws the spread within seeds
//!   once more and is a little too large then; `S / (S − 1)` makes up for it, as planted effects show;
//! * Student's quantile with one degree of freedom less than there are seeds, or series if they are fewer. A bootstrap
//!   over three or ten seeds alone is too sure of itself: the plain percentile interval of ten seeds covers about 90 % instead of
//!   95 %, of three about 70 % (`cargo test -p laau-core coverage -- --nocapture` prints them).
//!
//! A claim is one or several such differences, each with the sign that makes it positive if the claim is true:
//!
//! | verdict | rule |
//! |---|---|
//! | holds | the 95 % interval of *every* difference is above zero. No correction is needed: the chance that all are above by luck is less than that of one |
//! | does not hold | the interval of *some* difference is below zero, at 95 % corrected for their number (Bonferroni) |
//! | undecided | neither; with the number of seeds that would decide it, if the difference is what it seems |

mod bootstrap;
mod student;

pub use bootstrap::{Bootstrap, Measure, Resampled, SeedSample};
pub use student::student_quantile;

use std::fmt;

/// The chance of a wrong verdict that is accepted.
const LEVEL: f64 = 0.05;

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
    /// Its standard error, from the spread over seeds; infinite for one seed.
    pub standard_error: f64,
    /// One difference per seed, in the order of the sample.
    pub per_seed: Vec<f64>,
    /// Degrees of freedom: seeds, or series if they are fewer, less one.
    degrees: usize,
    /// `|t*|` of all draws, ascending; none if seeds alone are known.
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
                && other.draws.len() / other.measures == first.draws.len() / first.measures
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
        let (estimate, standard_error) = mean_and_error(&per_seed);
        let replicates = first.draws.len() / first.measures / count;
        let drawn: Vec<(f64, f64)> = (0..replicates)
            // One seed drawn over and over has no spread to judge by.
            .filter(|replicate| first.different[*replicate] > 1)
            .map(|replicate| {
                let slots: Vec<f64> = (0..count)
                    .map(|slot| value(true, replicate * count + slot))
                    .collect();
                mean_and_error(&slots)
            })
            .filter(|(_, error)| *error > 0.0 && error.is_finite())
            .collect();
        let widened = if samples.iter().any(|sample| sample.shares_series) {
            count as f64 / (count as f64 - 1.0).max(1.0)
        } else {
            1.0
        };
        let mut statistics: Vec<f64> = drawn
            .iter()
            .map(|(mean, error)| widened * ((mean - estimate) / error).abs())
            .collect();
        statistics.sort_by(f64::total_cmp);
        let series = samples.iter().map(|sample| sample.series).min().unwrap_or(0);
        Some(Self {
            estimate,
            standard_error,
            per_seed,
            degrees: count.min(series).saturating_sub(1),
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
        if self.standard_error == 0.0 {
            return (self.estimate, self.estimate);
        }
        let reach = self.factor(outside) * self.standard_error;
        (self.estimate - reach, self.estimate + reach)
    }

    /// The interval at 95 %.
    #[must_use]
    pub fn at_95(&self) -> (f64, f64) {
        self.interval(LEVEL)
    }

    /// How many seeds like these would decide the sign, if the difference is what it seems; none if more than a thousand.
    #[must_use]
    pub fn seeds_to_decide(&self) -> Option<usize> {
        let count = self.per_seed.len();
        if count < 2 || self.degrees == 0 || !self.standard_error.is_finite() {
            return None;
        }
        let deviation = self.standard_error * (count as f64).sqrt();
        // What the bootstrap adds to Student's interval stays with more seeds.
        let excess = self.factor(LEVEL) / student_quantile(self.degrees, 1.0 - 0.5 * LEVEL);
        (2..=1000).find(|&seeds| {
            let reach = excess * student_quantile(seeds - 1, 1.0 - 0.5 * LEVEL) * deviation;
            reach / (seeds as f64).sqrt() < self.estimate.abs()
        })
    }

    fn factor(&self, outside: f64) -> f64 {
        let student = student_quantile(self.degrees, 1.0 - 0.5 * outside);
        // As many draws may be beyond as the chance is of all of them.
        let may_be_beyond = outside * self.statistics.len() as f64;
        let drawn = (self.statistics.iter().rev().enumerate())
            .take_while(|(beyond, _)| *beyond as f64 <= may_be_beyond)
            .last()
            .map(|(_, statistic)| *statistic);
        drawn.map_or(student, |drawn| drawn.max(student))
    }
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
