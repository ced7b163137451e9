//! Readings to episodes: the VM and the time that each step reads.

use std::sync::Arc;

use laau_core::{Episodes, Sets};
use rayon::prelude::*;

use super::Workload;
use super::vm::Vm;
use crate::error::{Error, at_least_one, expect, non_negative};
use crate::random::{Purpose, below, stream, uniform};
use crate::windows::options::{Construction, Split};

/// The set that episodes are for. Under one seed, no two parts share a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// For training.
    #[default]
    Train,
    /// For choosing between trained policies.
    Validation,
    /// For the figures.
    Test,
}

impl Part {
    /// The number of the part's `index`-th VM or other series; each part has 2⁴⁰.
    pub(super) fn numbered(self, index: usize) -> u64 {
        ((self as u64) << 40) | index as u64
    }
}

/// Which episodes to generate.
///
/// | option | default | purpose | range |
/// |---|---|---|---|
/// | `horizon` | 20 | steps of an episode | ≥ 1 |
/// | `episodes` | 5000 | number of episodes | ≥ 1 |
/// | `budget` | (10, 15) | of a [`Workload`]: each budget is uniform on `[lo · horizon, hi · horizon)`; a [`super::ContextProcess`] has its own ranges | 0 ≤ lo ≤ hi |
/// | `seed` | 0 | of VMs, readings and budgets | any |
/// | `construction` | consecutive | which readings form an episode | |
/// | `part` | train | the set; parts share no VM | |
/// | `episodes_per_vm` | 1 | episodes' worth of readings from each VM (or other series) | ≥ 1 |
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct GenerateOptions {
    /// Steps of an episode.
    pub horizon: usize,
    /// Number of episodes.
    pub episodes: usize,
    /// Least and greatest budget, per step.
    pub budget: (f64, f64),
    /// Seed of VMs, readings and budgets.
    pub seed: u64,
    /// Which readings form an episode.
    pub construction: Construction,
    /// The set they are for.
    pub part: Part,
    /// Episodes' worth of readings taken from each VM.
    pub episodes_per_vm: usize,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            horizon: 20,
            episodes: 5000,
            budget: (10.0, 15.0),
            seed: 0,
            construction: Construction::default(),
            part: Part::default(),
            episodes_per_vm: 1,
        }
    }
}

/// Three sets of episodes that share no series, each by `generate`; `options` gives all but their parts and sizes.
///
/// # Errors
/// The first one of `generate`.
pub fn generate_sets(
    split: Split,
    options: &GenerateOptions,
    generate: impl Fn(&GenerateOptions) -> Result<Episodes, Error>,
) -> Result<Sets, Error> {
    let set = |part, episodes| {
        generate(&GenerateOptions {
            episodes,
            part,
            ..*options
        })
    };
    Ok(Sets {
        train: set(Part::Train, split.train)?,
        validation: set(Part::Validation, split.validation)?,
        test: set(Part::Test, split.test)?,
    })
}

impl Workload {
    /// Generates episodes: one context, one budget. A seed gives the same bits for any number of threads.
    ///
    /// *Consecutive:* VM after VM, `episodes_per_vm` windows of each, one after the other.
    /// *Interleaved:* the same VMs and as many readings of each, but time after time: at each time all VMs are distributed to
    /// episodes in a random order, so each step of an episode reads a different VM. (There are at least `horizon` VMs then;
    /// those that do not fill an episode are not used at that time.)
    ///
    /// # Errors
    /// [`Error::Invalid`] for a parameter or option outside its range.
    pub fn generate(&self, options: &GenerateOptions) -> Result<Episodes, Error> {
        self.validate()?;
        check(options)?;
        let GenerateOptions { horizon, seed, .. } = *options;
        let contexts = series_to_contexts(1, options, |vm, len| self.readings(seed, vm, len));
        let budgets = draw_budgets(options, &[options.budget]);
        Ok(Episodes::new(horizon, 1, 1, contexts, budgets)?.with_series(series_names(options))?)
    }

    /// Generates three sets that share no VM; `options` gives all but their sizes. A set does not depend on the sizes of
    /// the others.
    ///
    /// # Errors
    /// As [`Workload::generate`].
    pub fn generate_split(&self, split: Split, options: &GenerateOptions) -> Result<Sets, Error> {
        generate_sets(split, options, |options| self.generate(options))
    }

    /// The first readings of one VM, without a check of the parameters.
    pub(super) fn readings(&self, seed: u64, vm: u64, len: usize) -> Vec<f64> {
        let mut vm = Vm::new(self, seed, vm);
        (0..len).map(|_| vm.next()).collect()
    }
}

/// The contexts of all episodes, of `width` entries each, from infinite series: `series(number, steps)`.
pub(super) fn series_to_contexts(
    width: usize,
    options: &GenerateOptions,
    series: impl Fn(u64, usize) -> Vec<f64> + Sync,
) -> Vec<f64> {
    let GenerateOptions {
        horizon, episodes, ..
    } = *options;
    let count = episodes.div_ceil(options.episodes_per_vm);
    let table = |count, steps| table(options.part, count, |number| series(number, steps));
    match options.construction {
        Construction::Consecutive => {
            // One VM that has more than all episodes is not read to its end.
            let windows = options.episodes_per_vm.min(episodes);
            let mut contexts = table(count, windows * horizon).concat();
            contexts.truncate(episodes * horizon * width);
            contexts
        }
        Construction::Interleaved => {
            let count = count.max(horizon);
            let times = episodes.div_ceil(count / horizon);
            deal(&table(count, times), width, options)
        }
    }
}

/// The series of each episode: the VM of consecutive steps; of interleaved ones the time, since all VMs of a time are dealt at
/// once. Different seeds have different series.
pub(super) fn series_names(options: &GenerateOptions) -> Vec<Arc<str>> {
    let per_series = match options.construction {
        Construction::Consecutive => options.episodes_per_vm,
        Construction::Interleaved => {
            let vms = options.episodes.div_ceil(options.episodes_per_vm);
            vms.max(options.horizon) / options.horizon
        }
    };
    let mut names: Vec<Arc<str>> = Vec::with_capacity(options.episodes);
    for episode in 0..options.episodes {
        let name = match names.last() {
            Some(last) if episode % per_series != 0 => Arc::clone(last),
            _ => format!("{}:{}", options.seed, episode / per_series).into(),
        };
        names.push(name);
    }
    names
}

/// The first series of a part, one row each.
pub(super) fn table(part: Part, count: usize, series: impl Fn(u64) -> Vec<f64> + Sync) -> Vec<Vec<f64>> {
    (0..count)
        .into_par_iter()
        .map(|index| series(part.numbered(index)))
        .collect()
}

/// Deals the series of each time, in a random order, into episodes.
fn deal(table: &[Vec<f64>], width: usize, options: &GenerateOptions) -> Vec<f64> {
    let wanted = options.episodes * options.horizon * width;
    let dealt_at_once = table.len() / options.horizon * options.horizon;
    let mut contexts = Vec::with_capacity(wanted + dealt_at_once * width);
    let mut order: Vec<usize> = (0..table.len()).collect();
    for time in 0.. {
        if contexts.len() >= wanted {
            break;
        }
        let mut generator = stream(options.seed, Purpose::Dealing, options.part.numbered(time));
        for last in (1..order.len()).rev() {
            order.swap(last, below(&mut generator, last + 1));
        }
        for &row in &order[..dealt_at_once] {
            contexts.extend_from_slice(&table[row][time * width..][..width]);
        }
    }
    contexts.truncate(wanted);
    contexts
}

/// Draws the budgets of all episodes, each uniform between its bounds per step, times the horizon.
pub(super) fn draw_budgets(options: &GenerateOptions, ranges: &[(f64, f64)]) -> Vec<f64> {
    let mut generator = stream(options.seed, Purpose::Budgets, options.part.numbered(0));
    (0..options.episodes)
        .flat_map(|_| ranges)
        .map(|&(low, high)| options.horizon as f64 * (low + (high - low) * uniform(&mut generator)))
        .collect()
}

pub(super) fn check(options: &GenerateOptions) -> Result<(), Error> {
    for (what, count) in [
        ("horizon", options.horizon),
        ("number of episodes", options.episodes),
        ("number of episodes per VM", options.episodes_per_vm),
    ] {
        at_least_one(what, count)?;
    }
    let contexts = options.episodes.checked_mul(options.horizon);
    expect(
        "number of steps of all episodes",
        options.episodes as f64 * options.horizon as f64,
        // Series are numbered within a part, in 40 bits; and a run that does not fit into memory fails here, before it begins.
        contexts.is_some_and(|contexts| {
            contexts <= 1 << 40 && Vec::<f64>::new().try_reserve_exact(contexts).is_ok()
        }),
        "as many as memory can hold",
    )?;
    check_range(options.budget)
}

/// Rejects a range of budgets that is not ordered.
pub(super) fn check_range((low, high): (f64, f64)) -> Result<(), Error> {
    non_negative("least budget per step", low)?;
    expect(
        "greatest budget per step",
        high,
        high.is_finite() && high >= low,
        "a finite value, at least the least budget",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn small(construction: Construction) -> GenerateOptions {
        GenerateOptions {
            horizon: 5,
            episodes: 47,
            construction,
            episodes_per_vm: 4,
            ..GenerateOptions::default()
        }
    }

    const BOTH: [Construction; 2] = [Construction::Consecutive, Construction::Interleaved];

    fn bits(episodes: &Episodes) -> Vec<u64> {
        let values = episodes.contexts().iter().chain(episodes.budgets());
        values.map(|value| value.to_bits()).collect()
    }

    #[test]
    fn more_episodes_than_memory_can_hold_are_refused() {
        let workload = Workload::default();
        for (episodes, horizon) in [
            (usize::MAX, 1),
            (usize::MAX, 20),
            (1, usize::MAX),
            (1 << 30, 1 << 20),
        ] {
            for construction in BOTH {
                let options = GenerateOptions {
                    horizon,
                    episodes,
                    ..small(construction)
                };
                let told = workload.generate(&options).unwrap_err().to_string();
                assert!(
                    told.starts_with(
                        "invalid number of steps of all episodes: expected as many as memory can hold"
                    ),
                    "{told}"
                );
            }
        }
    }

    #[test]
    fn a_vm_that_has_more_than_all_episodes_is_not_read_to_its_end() {
        let workload = Workload::default();
        for construction in BOTH {
            let generate = |episodes_per_vm| {
                let options = GenerateOptions {
                    episodes_per_vm,
                    ..small(construction)
                };
                bits(&workload.generate(&options).unwrap())
            };
            assert_eq!(generate(usize::MAX), generate(47));
        }
    }

    #[test]
    fn consecutive_episodes_are_windows_of_one_vm() {
        let workload = Workload::default();
        let episodes = workload.generate(&small(Construction::Consecutive)).unwrap();
        assert_eq!((episodes.len(), episodes.horizon()), (47, 5));
        // Four windows of five readings to a VM: episode 46 is the third window of VM 11.
        let series = workload.series(0, 11, 20).unwrap();
        assert_eq!(episodes.get(46).contexts(), &series[10..15]);
    }

    #[test]
    fn interleaved_episodes_read_another_vm_at_each_step_all_at_one_time() {
        let workload = Workload::default();
        let episodes = workload.generate(&small(Construction::Interleaved)).unwrap();
        assert_eq!(episodes.len(), 47);
        // 12 VMs make two episodes of five at each time.
        for (index, episode) in episodes.iter().enumerate() {
            let time = index / 2;
            let mut vms = BTreeSet::new();
            for context in episode.contexts() {
                let found = (0..12).find(|&vm| workload.series(0, vm, time + 1).unwrap()[time] == *context);
                vms.insert(found.expect("a reading of a VM at this time"));
            }
            assert_eq!(vms.len(), 5);
        }
    }

    #[test]
    fn more_steps_than_vms_bring_more_vms() {
        let options = GenerateOptions {
            horizon: 30,
            episodes: 3,
            ..small(Construction::Interleaved)
        };
        let episodes = Workload::default().generate(&options).unwrap();
        assert_eq!((episodes.len(), episodes.horizon()), (3, 30));
    }

    #[test]
    fn budgets_are_uniform_between_their_bounds() {
        let options = GenerateOptions {
            episodes: 20_000,
            horizon: 2,
            episodes_per_vm: 1000,
            ..GenerateOptions::default()
        };
        let episodes = Workload::default().generate(&options).unwrap();
        let mut per_step: Vec<f64> = episodes.budgets().iter().map(|budget| budget / 2.0).collect();
        per_step.sort_by(f64::total_cmp);
        assert!(per_step[0] >= 10.0 && per_step[19_999] < 15.0);
        // Kolmogorov: 1.95/√n is exceeded once in a thousand.
        let worst = per_step
            .iter()
            .enumerate()
            .fold(0.0, |worst: f64, (rank, value)| {
                worst.max(((value - 10.0) / 5.0 - rank as f64 / 20_000.0).abs())
            });
        assert!(worst < 1.95 / 20_000f64.sqrt(), "{worst}");
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        for construction in BOTH {
            let generate = || bits(&Workload::default().generate(&small(construction)).unwrap());
            let here = generate();
            for threads in [1, 2, 5] {
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .build()
                    .unwrap();
                assert_eq!(pool.install(generate), here);
            }
        }
    }

    #[test]
    fn parts_share_no_vm_and_do_not_depend_on_each_others_size() {
        for construction in BOTH {
            let split = |train| {
                let sizes = Split {
                    train,
                    validation: 12,
                    test: 33,
                };
                Workload::default()
                    .generate_split(sizes, &small(construction))
                    .unwrap()
            };
            let (sets, other) = (split(47), split(60));
            assert_eq!(
                (sets.train.len(), sets.validation.len(), sets.test.len()),
                (47, 12, 33)
            );
            assert_eq!(sets.test, other.test);
            assert_eq!(sets.validation, other.validation);
            // Readings are continuous draws: a shared VM would show as a shared reading.
            let readings =
                |set: &Episodes| -> BTreeSet<u64> { set.contexts().iter().map(|c| c.to_bits()).collect() };
            let (train, validation, test) = (
                readings(&sets.train),
                readings(&sets.validation),
                readings(&sets.test),
            );
            assert!(
                train.is_disjoint(&validation) && train.is_disjoint(&test) && validation.is_disjoint(&test)
            );
            assert_ne!(sets.train.budgets()[0], sets.test.budgets()[0]);
        }
    }

    #[test]
    fn more_episodes_begin_with_the_same_ones() {
        let options = small(Construction::Consecutive);
        let few = Workload::default().generate(&options).unwrap();
        let many = Workload::default()
            .generate(&GenerateOptions {
                episodes: 90,
                ..options
            })
            .unwrap();
        assert_eq!(few, many.select(&(0..47).collect::<Vec<_>>()));
    }

    #[test]
    fn bad_options_are_refused_with_a_word() {
        let check_error = |options: GenerateOptions, expected: &str| {
            let error = Workload::default().generate(&options).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        let options = GenerateOptions::default();
        check_error(
            GenerateOptions {
                horizon: 0,
                ..options
            },
            "invalid horizon: expected at least 1, found 0",
        );
        check_error(
            GenerateOptions {
                episodes: 0,
                ..options
            },
            "invalid number of episodes: expected at least 1, found 0",
        );
        check_error(
            GenerateOptions {
                budget: (15.0, 10.0),
                ..options
            },
            "invalid greatest budget per step: expected a finite value, at least the least budget, found 10",
        );
        check_error(
            GenerateOptions {
                budget: (f64::NAN, 10.0),
                ..options
            },
            "invalid least budget per step: expected a finite value, at least 0, found NaN",
        );
    }
}
