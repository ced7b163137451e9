//! Random processes of contexts for any problem, and the episodes that they generate.

use laau_core::{Episodes, Sets};

use super::episodes::{check, check_range, draw_budgets, series_names, series_to_contexts};
use super::{GenerateOptions, generate_sets};
use crate::error::Error;
use crate::windows::options::Split;

/// A random process of contexts: infinite series (a VM, a user, a market, a site), and budgets that bind.
///
/// *Consecutive* episodes are successive steps of one series. *Interleaved* episodes distribute the series of each time in a
/// random order, so each step of an episode reads a different series.
pub trait ContextProcess: Send + Sync {
    /// Entries of a context.
    fn context_len(&self) -> usize;

    /// Per budget the least and the greatest of a step; a budget of an episode is uniform between, times the horizon.
    fn budgets(&self) -> Vec<(f64, f64)>;

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Error::Invalid`] that names the parameter, what was expected and what was found.
    fn validate(&self) -> Result<(), Error>;

    /// The contexts of the first `len` steps of one series, one after the other. The parameters have been checked.
    fn series(&self, seed: u64, series: u64, len: usize) -> Vec<f64>;

    /// Generates episodes; [`GenerateOptions::budget`] is not used. A seed gives the same bits for any number of threads.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a parameter or option outside its range.
    fn generate(&self, options: &GenerateOptions) -> Result<Episodes, Error> {
        self.validate()?;
        check(options)?;
        let ranges = self.budgets();
        ranges.iter().try_for_each(|range| check_range(*range))?;
        let contexts = series_to_contexts(self.context_len(), options, |series, len| {
            self.series(options.seed, series, len)
        });
        let budgets = draw_budgets(options, &ranges);
        Ok(Episodes::new(
            options.horizon,
            self.context_len(),
            ranges.len(),
            contexts,
            budgets,
        )?
        .with_series(series_names(options))?)
    }

    /// Generates three sets that share no series; a set does not depend on the sizes of the others.
    ///
    /// # Errors
    /// As [`ContextProcess::generate`].
    fn generate_split(&self, split: Split, options: &GenerateOptions) -> Result<Sets, Error> {
        generate_sets(split, options, |options| self.generate(options))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::windows::options::Construction;

    /// Column `entry` of the contexts of some series, one row per series.
    pub(in crate::synthetic) fn column(
        law: &dyn ContextProcess,
        entry: usize,
        series: u64,
        len: usize,
    ) -> Vec<Vec<f64>> {
        let width = law.context_len();
        (0..series)
            .map(|index| {
                let contexts = law.series(1, index, len);
                assert_eq!(contexts.len(), len * width);
                contexts.iter().skip(entry).step_by(width).copied().collect()
            })
            .collect()
    }

    /// The correlation of pairs.
    pub(in crate::synthetic) fn correlation(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let count = pairs.len() as f64;
        let (x, y) = pairs.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
        let (x, y) = (x / count, y / count);
        let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
        for (a, b) in &pairs {
            xx += (a - x) * (a - x);
            yy += (b - y) * (b - y);
            xy += (a - x) * (b - y);
        }
        xy / (xx * yy).sqrt()
    }

    /// The correlation of values that are `lag` steps apart in the same series.
    pub(in crate::synthetic) fn autocorrelation(rows: &[Vec<f64>], lag: usize) -> f64 {
        let apart = |row: &Vec<f64>| -> Vec<(f64, f64)> {
            row.iter().copied().zip(row[lag..].iter().copied()).collect()
        };
        correlation(rows.iter().flat_map(apart))
    }

    /// The mean of all values.
    pub(in crate::synthetic) fn mean(rows: &[Vec<f64>]) -> f64 {
        rows.iter().flatten().sum::<f64>() / rows.iter().map(Vec::len).sum::<usize>() as f64
    }

    /// Checks what holds for every law, and that its bits are those it always had.
    pub(in crate::synthetic) fn check_law(
        law: &dyn ContextProcess,
        problem: &dyn laau_core::Problem,
        pinned: u64,
    ) {
        let bits = |episodes: &Episodes| -> Vec<u64> {
            let values = episodes.contexts().iter().chain(episodes.budgets());
            values.map(|value| value.to_bits()).collect()
        };
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for construction in [Construction::Consecutive, Construction::Interleaved] {
            let options = GenerateOptions {
                horizon: 6,
                episodes: 50,
                construction,
                episodes_per_vm: 4,
                seed: 3,
                ..GenerateOptions::default()
            };
            let episodes = law.generate(&options).unwrap();
            assert_eq!((episodes.len(), episodes.horizon()), (50, 6));
            // They can be played: sizes, domains and reserves fit.
            episodes.check(problem).unwrap();
            let ranges = law.budgets();
            for (index, budget) in episodes.budgets().iter().enumerate() {
                let (low, high) = ranges[index % ranges.len()];
                assert!((low..high).contains(&(budget / 6.0)), "{budget}");
            }
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            let again = pool.install(|| law.generate(&options).unwrap());
            assert_eq!(bits(&again), bits(&episodes));
            let other = law.generate(&GenerateOptions { seed: 4, ..options }).unwrap();
            assert_ne!(bits(&other), bits(&episodes));
            // FNV-1a over the bits.
            for byte in bits(&episodes).iter().flat_map(|bits| bits.to_le_bytes()) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            let sizes = Split {
                train: 20,
                validation: 5,
                test: 9,
            };
            let sets = law.generate_split(sizes, &options).unwrap();
            assert_eq!(
                (sets.train.len(), sets.validation.len(), sets.test.len()),
                (20, 5, 9)
            );
            assert_ne!(sets.train.contexts()[..6], sets.test.contexts()[..6]);
        }
        let long = law.series(3, 7, 40);
        assert_eq!(law.series(3, 7, 10), long[..10 * law.context_len()]);
        // Whoever has to change this changes every figure that was ever computed on the workload.
        assert_eq!(hash, pinned, "{hash:#x}");
    }

    /// Checks that a parameter is refused with these words.
    pub(in crate::synthetic) fn check_refused(law: &dyn ContextProcess, expected: &str) {
        let error = law.generate(&GenerateOptions::default()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
