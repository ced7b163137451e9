//! Episodes with several weights and budgets, for `laau_core::problems::LogUtility`.

use laau_core::problems::LogUtility;
use laau_core::{Dimensions, Episodes, Problem};

use super::episodes::{check, draw_budgets};
use super::{GenerateOptions, Workload};
use crate::error::{Error, expect};
use crate::options::Construction;
use crate::random::{Purpose, below, stream, uniform};

/// A log-utility problem and its episodes.
///
/// | option | default | purpose | range |
/// |---|---|---|---|
/// | `actions` | 4 | actions `d`, and weights in each context | ≥ 1 |
/// | `budgets` | 2 | budgets `M` | ≥ 1 |
/// | `density` | 0.7 | the chance that an action uses a resource | 0 to 1 |
/// | `bounds` | (1, 40) | box of every action | 0 < lower ≤ upper |
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct LogUtilityOptions {
    /// Number of actions, and of weights in each context.
    pub actions: usize,
    /// Number of budgets.
    pub budgets: usize,
    /// The chance that an action uses a resource.
    pub density: f64,
    /// The box of every action.
    pub bounds: (f64, f64),
}

impl Default for LogUtilityOptions {
    fn default() -> Self {
        Self {
            actions: 4,
            budgets: 2,
            density: 0.7,
            bounds: (1.0, 40.0),
        }
    }
}

impl Workload {
    /// Generates a log-utility problem and episodes for it.
    ///
    /// The usage matrix depends on the seed alone, so all parts have the same problem. Each action uses each resource with
    /// the chance `density`, by an amount uniform on `[0.5, 1.5)`; an action that uses none, or a resource that no action uses,
    /// is given one more. Weight `i` of a step is the reading of the `i`-th of `d` VMs: consecutive readings of the same
    /// VMs along an episode, or each step other VMs at the same time (`construction`). Budget `m` of an episode is uniform
    /// on `[lo, hi) · N · Σ_i A_mi`: what the actions may take on average is between `lo` and `hi`, as in the paper's
    /// problem, which is the case of one action and one budget but for the size of `A`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an option outside its range, [`Error::Core`] for a box that the problem refuses.
    pub fn generate_log_utility(
        &self,
        problem: &LogUtilityOptions,
        options: &GenerateOptions,
    ) -> Result<(LogUtility, Episodes), Error> {
        check(options)?;
        let &LogUtilityOptions {
            actions,
            budgets,
            density,
            bounds: (lower, upper),
        } = problem;
        expect("number of actions", actions as f64, actions > 0, "at least 1")?;
        expect("number of budgets", budgets as f64, budgets > 0, "at least 1")?;
        expect(
            "density",
            density,
            (0.0..=1.0).contains(&density),
            "a value from 0 to 1",
        )?;

        let matrix = usage_matrix(problem, options.seed);
        let problem = LogUtility::new(actions, budgets, matrix, lower, upper)?;
        let episodes = self.generate_weights(&problem, options)?;
        Ok((problem, episodes))
    }

    /// Generates episodes for a given log-utility problem, with weights and budgets as
    /// [`Workload::generate_log_utility`] draws them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an option outside its range.
    pub fn generate_weights(
        &self,
        problem: &LogUtility,
        options: &GenerateOptions,
    ) -> Result<Episodes, Error> {
        check(options)?;
        let Dimensions { actions, budgets, .. } = problem.dimensions();
        let (low, high) = options.budget;
        let ranges: Vec<(f64, f64)> = problem
            .matrix()
            .chunks_exact(actions)
            .map(|row| row.iter().sum::<f64>())
            .map(|size| (size * low, size * high))
            .collect();
        Ok(Episodes::new(
            options.horizon,
            actions,
            budgets,
            self.weights(actions, options)?,
            draw_budgets(options, &ranges),
        )?)
    }

    /// The weights, episode × step × action.
    fn weights(&self, actions: usize, options: &GenerateOptions) -> Result<Vec<f64>, Error> {
        if options.construction == Construction::Interleaved {
            // The VMs that a long episode meets one after the other come `actions` at a time.
            let long = self.generate(&GenerateOptions {
                horizon: options.horizon * actions,
                ..*options
            })?;
            return Ok(long.contexts().to_vec());
        }
        // Each action has a run of episodes, hence VMs, of its own.
        let run = options.episodes.div_ceil(options.episodes_per_vm) * options.episodes_per_vm;
        let scalar = self.generate(&GenerateOptions {
            episodes: run * actions,
            ..*options
        })?;
        let mut weights = Vec::with_capacity(options.episodes * options.horizon * actions);
        for episode in 0..options.episodes {
            for step in 0..options.horizon {
                weights.extend((0..actions).map(|i| scalar.get(i * run + episode).context(step)[0]));
            }
        }
        Ok(weights)
    }
}

/// Draws the usage matrix, `budgets × actions`.
fn usage_matrix(problem: &LogUtilityOptions, seed: u64) -> Vec<f64> {
    let &LogUtilityOptions {
        actions,
        budgets,
        density,
        ..
    } = problem;
    let mut generator = stream(seed, Purpose::Usage, 0);
    let mut matrix: Vec<f64> = (0..budgets * actions)
        .map(|_| {
            let (used, amount) = (uniform(&mut generator) < density, 0.5 + uniform(&mut generator));
            if used { amount } else { 0.0 }
        })
        .collect();
    for row in 0..budgets {
        if (0..actions).all(|column| matrix[row * actions + column] == 0.0) {
            let column = below(&mut generator, actions);
            matrix[row * actions + column] = 0.5 + uniform(&mut generator);
        }
    }
    for column in 0..actions {
        if (0..budgets).all(|row| matrix[row * actions + column] == 0.0) {
            let row = below(&mut generator, budgets);
            matrix[row * actions + column] = 0.5 + uniform(&mut generator);
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(construction: Construction) -> GenerateOptions {
        GenerateOptions {
            horizon: 6,
            episodes: 25,
            construction,
            episodes_per_vm: 10,
            ..GenerateOptions::default()
        }
    }

    #[test]
    fn episodes_fit_the_problem_they_come_with() {
        for construction in [Construction::Consecutive, Construction::Interleaved] {
            for (actions, budgets) in [(1, 1), (4, 2), (2, 5), (16, 3)] {
                let sizes = LogUtilityOptions {
                    actions,
                    budgets,
                    density: 0.2,
                    ..LogUtilityOptions::default()
                };
                let (problem, episodes) = Workload::default()
                    .generate_log_utility(&sizes, &options(construction))
                    .unwrap();
                assert_eq!(episodes.len(), 25);
                episodes.check(&problem).unwrap();
                // Every budget is within its bounds, and every action and resource is used.
                let matrix = problem.matrix();
                for (index, budget) in episodes.budgets().iter().enumerate() {
                    let row = &matrix[index % budgets * actions..][..actions];
                    let per_step = budget / 6.0 / row.iter().sum::<f64>();
                    assert!((10.0..15.0).contains(&per_step), "{per_step}");
                }
                for column in 0..actions {
                    assert!((0..budgets).any(|row| matrix[row * actions + column] > 0.0));
                }
                assert_eq!(problem.dimensions().context, actions);
            }
        }
    }

    #[test]
    fn the_problem_is_the_same_for_all_parts_and_the_episodes_are_not() {
        let part = |part| {
            let options = GenerateOptions {
                part,
                ..options(Construction::Consecutive)
            };
            Workload::default()
                .generate_log_utility(&LogUtilityOptions::default(), &options)
                .unwrap()
        };
        let (train, test) = (part(super::super::Part::Train), part(super::super::Part::Test));
        assert_eq!(train.0, test.0);
        assert_ne!(train.1, test.1);
    }

    #[test]
    fn consecutive_weights_are_the_readings_of_one_vm_per_action() {
        let workload = Workload::default();
        let options = options(Construction::Consecutive);
        let sizes = LogUtilityOptions::default();
        let (_, episodes) = workload.generate_log_utility(&sizes, &options).unwrap();
        // 25 episodes at 10 per VM: action i has the VMs 3 i, 3 i + 1, 3 i + 2; episode 12 is the third window of its second.
        for action in 0..4 {
            let series = workload.series(options.seed, 3 * action + 1, 60).unwrap();
            for step in 0..6 {
                let index = usize::try_from(action).unwrap();
                assert_eq!(episodes.get(12).context(step)[index], series[12 + step]);
            }
        }
    }

    #[test]
    fn bad_sizes_are_refused_with_a_word() {
        let check = |sizes: LogUtilityOptions, expected: &str| {
            let error = Workload::default()
                .generate_log_utility(&sizes, &GenerateOptions::default())
                .unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        let sizes = LogUtilityOptions::default();
        check(
            LogUtilityOptions { actions: 0, ..sizes },
            "invalid number of actions: expected at least 1, found 0",
        );
        check(
            LogUtilityOptions {
                density: 1.5,
                ..sizes
            },
            "invalid density: expected a value from 0 to 1, found 1.5",
        );
    }
}
