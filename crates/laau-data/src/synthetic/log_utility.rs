//! Episodes with several weights and budgets, for `laau_core::problems::LogUtility`.

use laau_core::problems::LogUtility;
use laau_core::{Dimensions, Episodes, Problem};

use super::episodes::{check, draw_budgets};
use super::{GenerateOptions, Workload};
use crate::error::Error;
use crate::windows::options::Construction;

impl Workload {
    /// Generates episodes for a log-utility problem of `d` actions with usage matrix `A`.
    ///
    /// Weight `i` of a step is the reading of the `i`-th of `d` VMs: consecutive readings of the same VMs along an episode,
    /// or different VMs at the same time in each step (`construction`). Budget `m` of an episode is uniform on
    /// `[lo, hi) · N · Σ_i A_mi`, so the average action that a budget allows is between `lo` and `hi`.
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
            // A long episode reads its VMs one after the other; each step takes the next `actions` of them.
            let long = self.generate(&GenerateOptions {
                horizon: options.horizon * actions,
                ..*options
            })?;
            return Ok(long.contexts().to_vec());
        }
        // Each action has its own run of episodes, hence its own VMs.
        // A VM that has more than all episodes is not read to its end.
        let episodes_per_vm = options.episodes_per_vm.min(options.episodes);
        let run = options.episodes.div_ceil(episodes_per_vm) * episodes_per_vm;
        let scalar = self.generate(&GenerateOptions {
            episodes: run * actions,
            episodes_per_vm,
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

    fn problem(actions: usize, budgets: usize) -> LogUtility {
        let matrix = (0..actions * budgets).map(|k| 0.5 + (k % 3) as f64).collect();
        LogUtility::new(actions, budgets, matrix, 1.0, 40.0).unwrap()
    }

    #[test]
    fn episodes_fit_their_problem_and_budgets_its_matrix() {
        for construction in [Construction::Consecutive, Construction::Interleaved] {
            for (actions, budgets) in [(1, 1), (4, 2), (2, 5), (16, 3)] {
                let problem = problem(actions, budgets);
                let episodes = Workload::default()
                    .generate_weights(&problem, &options(construction))
                    .unwrap();
                assert_eq!(episodes.len(), 25);
                episodes.check(&problem).unwrap();
                for (index, budget) in episodes.budgets().iter().enumerate() {
                    let row = &problem.matrix()[index % budgets * actions..][..actions];
                    let per_step = budget / 6.0 / row.iter().sum::<f64>();
                    assert!((10.0..15.0).contains(&per_step), "{per_step}");
                }
            }
        }
    }

    #[test]
    fn more_readings_of_a_vm_than_can_be_counted_are_not_read() {
        let generate = |episodes_per_vm| {
            let options = GenerateOptions {
                episodes_per_vm,
                ..options(Construction::Consecutive)
            };
            let workload = Workload::default();
            let episodes = workload.generate_weights(&problem(3, 1), &options).unwrap();
            episodes.contexts().to_vec()
        };
        assert_eq!(generate(usize::MAX), generate(25));
    }

    #[test]
    fn consecutive_weights_are_the_readings_of_one_vm_per_action() {
        let workload = Workload::default();
        let options = options(Construction::Consecutive);
        let episodes = workload.generate_weights(&problem(4, 2), &options).unwrap();
        // 25 episodes at 10 per VM: action i has the VMs 3 i, 3 i + 1, 3 i + 2; episode 12 is the third window of its second.
        for action in 0..4 {
            let series = workload.series(options.seed, 3 * action + 1, 60).unwrap();
            for step in 0..6 {
                let index = usize::try_from(action).unwrap();
                assert_eq!(episodes.get(12).context(step)[index], series[12 + step]);
            }
        }
    }
}
