//! Tuning of dual mirror descent on a validation set.

use std::collections::BTreeMap;

use laau_core::{
    Episodes, Error, Fit, FitObserver, FitSets, Fitted, Policy, Task, expect_option, utilities_of,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{DualDescent, DualDescentParameters, Mirror, PriceScale, Start, price_scale};
use crate::Stored;
use crate::avg_lt::AvgLtOptions;
use crate::shared::{ShadowPrice, ShadowPriceOptions, Steps};

/// How dual mirror descent is tuned: a coarse logarithmic grid of step size and first multiplier, then a compass search
/// around its best point with ever smaller strides. Deterministic; of equals the first is kept.
///
/// Prices are measured in the average multiplier of the training set and usage in the share `B/N`, so that the grids
/// have no dimension, whatever the units of costs and budgets are.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `mirror` | `euclidean` | `dgd` or `mw` | |
/// | `cold_start` | `false` | starts at 0 (`mw`: at 1, in the units of the problem) and tunes the step size alone | |
/// | `smallest_step_size`, `largest_step_size` | 1/32, 8 | the grid of `η √N`, by factors of 2 | positive |
/// | `smallest_start`, `largest_start` | 1/8, 4 | the grid of the first multiplier over the average one, by factors of 2 | positive |
/// | `refinements` | 4 | how often the stride is halved | at most 20 |
/// | `most_episodes` | 500 | validation episodes used, evenly spread over the set | at least 1 |
/// | `average` | [`AvgLtOptions::default`] | finds the average multiplier | see there |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DualDescentOptions {
    /// Which policy.
    pub mirror: Mirror,
    /// Whether the first multiplier is 0 (`mw`: 1) instead of tuned.
    pub cold_start: bool,
    /// The lower end of the grid of step sizes.
    pub smallest_step_size: f64,
    /// The upper end of the grid of step sizes.
    pub largest_step_size: f64,
    /// The lower end of the grid of first multipliers.
    pub smallest_start: f64,
    /// The upper end of the grid of first multipliers.
    pub largest_start: f64,
    /// How often the stride is halved.
    pub refinements: usize,
    /// Validation episodes used.
    pub most_episodes: usize,
    /// Finds the average multiplier.
    pub average: AvgLtOptions,
}

impl Default for DualDescentOptions {
    fn default() -> Self {
        Self {
            mirror: Mirror::Euclidean,
            cold_start: false,
            smallest_step_size: 1.0 / 32.0,
            largest_step_size: 8.0,
            smallest_start: 1.0 / 8.0,
            largest_start: 4.0,
            refinements: 4,
            most_episodes: 500,
            average: AvgLtOptions::default(),
        }
    }
}

impl DualDescentOptions {
    /// The options of one mirror, everything else at its default.
    #[must_use]
    pub fn new(mirror: Mirror) -> Self {
        Self {
            mirror,
            ..Self::default()
        }
    }

    /// Dual gradient descent.
    #[must_use]
    pub fn dgd() -> Self {
        Self::new(Mirror::Euclidean)
    }

    /// Multiplicative weights.
    #[must_use]
    pub fn mw() -> Self {
        Self::new(Mirror::Entropic)
    }
}

/// Tunes on the validation set; the training set gives the price scale.
///
/// Reported: `step-size` (`η √N`), `start` in units of `price-scale`, which is one per budget, and the `validation_utility` reached.
impl Fit for DualDescentOptions {
    fn fit(&self, task: &Task, sets: FitSets<'_>, _: u64, _: &mut dyn FitObserver) -> Result<Fitted, Error> {
        let FitSets { train, validation } = sets;
        self.check()?;
        task.check_episodes("training episode", train)?;
        task.check_episodes("validation episode", validation)?;
        let scale = self.scale(task, train)?;
        let stride = validation.len().div_ceil(self.most_episodes);
        let picked: Vec<usize> = (0..validation.len()).step_by(stride).collect();
        let validation = validation.select(&picked);

        let parameters = |at: Exponents| DualDescentParameters {
            step_size: at.0.exp2(),
            start: match (self.cold_start, self.mirror) {
                (false, _) => Start::Scaled(at.1.exp2()),
                (true, Mirror::Entropic) => Start::At(vec![1.0; scale.len()]),
                (true, Mirror::Euclidean) => Start::Scaled(0.0),
            },
            scale: PriceScale::Given(scale.clone()),
        };
        let race = Race::new(task, &validation)?;
        let (best, utility) = self.search(|at, best| {
            let policy = DualDescent::new(task, self.mirror, parameters(at))?;
            Ok(race.run(&policy, best)?.utility)
        })?;
        let best = parameters(best);
        let start: Vec<f64> = match &best.start {
            Start::Scaled(multiple) => vec![*multiple],
            Start::At(prices) => prices
                .iter()
                .zip(&scale)
                .map(|(price, scale)| price / scale)
                .collect(),
        };
        let step_size = best.step_size;
        let policy = DualDescent::new(task, self.mirror, best.clone())?;
        let stored = Stored::DualDescent {
            mirror: self.mirror,
            parameters: best,
        };
        Ok(Fitted::new(policy)
            .with_document(stored.document())
            .with("step-size", step_size)
            .with("start", &start[..])
            .with("price-scale", &scale[..])
            .with("validation_utility", utility))
    }
}

impl DualDescentOptions {
    fn check(&self) -> Result<(), Error> {
        let name = self.mirror.name();
        for (option, value, least) in [
            ("smallest_step_size", self.smallest_step_size, 0.0),
            (
                "largest_step_size",
                self.largest_step_size,
                self.smallest_step_size,
            ),
            ("smallest_start", self.smallest_start, 0.0),
            ("largest_start", self.largest_start, self.smallest_start),
        ] {
            let good = value > 0.0 && value >= least && value.is_finite();
            let expected = "a positive value, the largest not below the smallest";
            expect_option(good, name, option, expected, value)?;
        }
        let refinements = self.refinements as f64;
        expect_option(
            self.refinements <= 20,
            name,
            "refinements",
            "at most 20",
            refinements,
        )?;
        let count = self.most_episodes as f64;
        expect_option(self.most_episodes > 0, name, "most_episodes", "at least 1", count)
    }

    /// The unit of the prices: the average multiplier of the training set. Where no budget has one, none binds on
    /// average, and the mean utility of a share stands in.
    fn scale(&self, task: &Task, train: &Episodes) -> Result<Vec<f64>, Error> {
        let average = self.average.average_multiplier(task, train)?;
        let steps = (train.len() * train.horizon()) as f64;
        let mut share = vec![0.0; train.budget_len()];
        for (index, budget) in train.budgets().iter().enumerate() {
            share[index % train.budget_len()] += budget / steps;
        }
        if let Some(scale) = price_scale(&average, &share) {
            return Ok(scale);
        }
        let problem = &task.problem;
        let upper = problem.upper();
        let worth = train
            .contexts()
            .chunks_exact(train.context_len())
            .map(|context| (problem.cost(upper, context) - problem.cost(problem.lower(), context)).abs())
            .sum::<f64>()
            / steps;
        let worth = if worth > 0.0 { worth } else { 1.0 };
        let unit = |share: &f64| if *share > 0.0 { worth / share } else { 1.0 };
        Ok(share.iter().map(unit).collect())
    }

    /// Maximises a function of the two exponents of 2. It is also told the best value so far, and may answer `None` where it is not
    /// above that.
    fn search(
        &self,
        mut utility: impl FnMut(Exponents, f64) -> Result<Option<f64>, Error>,
    ) -> Result<(Exponents, f64), Error> {
        // Exponents are multiples of 2^-refinements, counted in integers: no point is evaluated twice.
        let unit = (-(self.refinements as f64)).exp2();
        let mut seen: BTreeMap<(i64, i64), f64> = BTreeMap::new();
        let origin = (self.smallest_step_size.log2(), self.smallest_start.log2());
        let mut look = |at: (i64, i64), best: f64| -> Result<f64, Error> {
            if let Some(known) = seen.get(&at) {
                return Ok(*known);
            }
            let exponents = (origin.0 + at.0 as f64 * unit, origin.1 + at.1 as f64 * unit);
            // What is not above the best is not above a better one either.
            let value = utility(exponents, best)?.unwrap_or(f64::NEG_INFINITY);
            seen.insert(at, value);
            Ok(value)
        };
        let mut stride = 1_i64 << self.refinements;
        let mut best = ((0, 0), f64::NEG_INFINITY);
        for i in 0..=doublings(self.smallest_step_size, self.largest_step_size) {
            for j in 0..=doublings(self.smallest_start, self.largest_start) {
                if self.cold_start && j > 0 {
                    break;
                }
                let at = (i * stride, j * stride);
                let value = look(at, best.1)?;
                if value > best.1 {
                    best = (at, value);
                }
            }
        }
        let mut moves = 0;
        while stride > 0 && moves < MOST_MOVES {
            let centre = best.0;
            for (i, j) in COMPASS {
                if self.cold_start && j != 0 {
                    continue;
                }
                let at = (centre.0 + i * stride, centre.1 + j * stride);
                let value = look(at, best.1)?;
                if value > best.1 {
                    best = (at, value);
                }
            }
            if best.0 == centre {
                stride /= 2;
            } else {
                moves += 1;
            }
        }
        let (at, value) = best;
        Ok((
            (origin.0 + at.0 as f64 * unit, origin.1 + at.1 as f64 * unit),
            value,
        ))
    }
}

/// Plays policies on a set as long as they may still be the best.
///
/// No policy has more utility in an episode than its offline optimum, and that is below the value of any prices of its budgets
/// (weak duality). A policy whose utility so far, with these bounds for the episodes to come, is below the best is not played on.
struct Race<'a> {
    task: &'a Task,
    episodes: &'a Episodes,
    /// For every episode, the sum of the bounds from there on; one more, which is zero.
    rest: Vec<f64>,
    /// What rounding and the layer's tolerance may make of a sum.
    margin: f64,
}

/// What came of a policy in a race.
struct Ran {
    /// The mean utility; `None` when it cannot be above the best.
    utility: Option<f64>,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests count them"))]
    episodes: usize,
}

impl<'a> Race<'a> {
    fn new(task: &'a Task, episodes: &'a Episodes) -> Result<Self, Error> {
        /// Prices need not be the best ones for a bound.
        const CLOSE: ShadowPriceOptions = ShadowPriceOptions {
            tolerance: 1e-3,
            iterations: 8,
            negligible: 1e-13,
        };
        /// Of the sum of all bounds: far above rounding, far below what policies differ by.
        const MARGIN: f64 = 1e-6;
        let horizon = episodes.horizon();
        let copies = vec![1.0; horizon];
        let bounds = (0..episodes.len()).into_par_iter().with_min_len(16).map_init(
            || {
                let prices = ShadowPrice::new(task.solver.clone(), CLOSE);
                (prices, vec![0.0; episodes.budget_len()])
            },
            |(shadow, prices), index| {
                let episode = episodes.get(index);
                let steps = Steps {
                    contexts: episode.contexts(),
                    copies: &copies,
                    cap: episode.budgets(),
                    budget: episode.budgets(),
                };
                shadow.start(steps, prices)?;
                let priced = shadow.find(steps, prices)?;
                let bound = -priced.cost / horizon as f64;
                Ok(if priced.is_bound && bound.is_finite() {
                    bound
                } else {
                    f64::INFINITY
                })
            },
        );
        let bounds = bounds.collect::<Result<Vec<f64>, Error>>()?;
        let margin = MARGIN * bounds.iter().map(|bound| bound.abs()).sum::<f64>();
        let mut rest = vec![0.0; bounds.len() + 1];
        for (index, bound) in bounds.iter().enumerate().rev() {
            rest[index] = rest[index + 1] + bound;
        }
        Ok(Self {
            task,
            episodes,
            rest,
            margin,
        })
    }

    fn run(&self, policy: &dyn Policy, best: f64) -> Result<Ran, Error> {
        /// Episodes that are played before the bounds are looked at again.
        const HEAT: usize = 64;
        let count = self.episodes.len();
        let mut utilities = Vec::with_capacity(count);
        while utilities.len() < count {
            let played = utilities.len();
            let range = played..count.min(played + HEAT);
            utilities.extend(utilities_of(&*self.task.problem, policy, self.episodes, range)?);
            let so_far = utilities.iter().sum::<f64>();
            // False where a bound is infinite.
            if so_far + self.rest[utilities.len()] + self.margin < best * count as f64 {
                return Ok(Ran {
                    utility: None,
                    episodes: utilities.len(),
                });
            }
        }
        Ok(Ran {
            utility: Some(utilities.iter().sum::<f64>() / count as f64),
            episodes: count,
        })
    }
}

/// The exponents of 2 of step size and start.
type Exponents = (f64, f64);

const MOST_MOVES: usize = 64;
const COMPASS: [(i64, i64); 8] = [
    (1, 0),
    (-1, 0),
    (0, 1),
    (0, -1),
    (1, 1),
    (-1, -1),
    (1, -1),
    (-1, 1),
];

/// How many factors of 2 fit between two values.
fn doublings(smallest: f64, largest: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the logarithm of a finite quotient is small"
    )]
    let count = (largest / smallest).log2().floor() as i64;
    count
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use laau_core::SmoothProblem;
    use laau_core::problems::{LogUtility, Trading, WeightedFairness};
    use laau_kkt::{InteriorPoint, Options};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const HORIZON: usize = 12;

    /// Episodes whose contexts have a level of their own each, with budgets about `share` a step.
    fn episodes(problem: &dyn SmoothProblem, share: f64, count: usize, rng: &mut ChaCha8Rng) -> Episodes {
        let sizes = problem.dimensions();
        let (mut contexts, mut budgets) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let level = rng.random_range(0.2..1.0);
            contexts.extend((0..HORIZON * sizes.context).map(|_| level * rng.random_range(0.3..1.0)));
            budgets.extend((0..sizes.budgets).map(|_| share * HORIZON as f64 * rng.random_range(0.8..1.2)));
        }
        Episodes::new(HORIZON, sizes.context, sizes.budgets, contexts, budgets).unwrap()
    }

    /// Searches with and without bounds; returns the episodes played by both.
    fn compare(
        task: &Task,
        options: &DualDescentOptions,
        train: &Episodes,
        validation: &Episodes,
    ) -> [usize; 2] {
        let scale = options.scale(task, train).unwrap();
        let race = Race::new(task, validation).unwrap();
        let boundless = Race {
            rest: vec![f64::INFINITY; validation.len() + 1],
            ..Race::new(task, validation).unwrap()
        };
        let search = |race: &Race<'_>| {
            let mut played = 0;
            let best = options.search(|at, best| {
                let parameters = DualDescentParameters {
                    step_size: at.0.exp2(),
                    start: Start::Scaled(at.1.exp2()),
                    scale: PriceScale::Given(scale.clone()),
                };
                let policy = DualDescent::new(task, options.mirror, parameters)?;
                let ran = race.run(&policy, best)?;
                if let Some(utility) = ran.utility {
                    let mean = task.mean_utility(&policy, race.episodes)?;
                    assert_eq!(utility.to_bits(), mean.to_bits());
                }
                played += ran.episodes;
                Ok(ran.utility)
            });
            (best.unwrap(), played)
        };
        let ((found, few), (expected, all)) = (search(&race), search(&boundless));
        assert_eq!(found, expected, "{:?}", options.mirror);
        [few, all]
    }

    #[test]
    fn fewer_episodes_find_the_parameters_that_all_of_them_find() {
        let matrix = vec![1.0, 0.5, 0.0, 0.2, 0.7, 1.0];
        let problems: [(Arc<dyn SmoothProblem>, f64, usize); 3] = [
            (Arc::new(WeightedFairness::paper()), 9.0, 320),
            (Arc::new(Trading::inventory()), 3.0, 320),
            (
                Arc::new(LogUtility::new(3, 2, matrix, 0.1, 10.0).unwrap()),
                3.0,
                130,
            ),
        ];
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        for (problem, share, count) in problems {
            let solver = InteriorPoint::new(Arc::clone(&problem), Options::default()).unwrap();
            let task = Task::new(Arc::clone(&problem), Box::new(solver));
            let seeds = if count > 200 { 2 } else { 1 };
            let mut played = [0, 0];
            for _ in 0..seeds {
                let train = episodes(&*problem, share, 60, &mut rng);
                let validation = episodes(&*problem, share, count, &mut rng);
                for options in [DualDescentOptions::dgd(), DualDescentOptions::mw()] {
                    let few_points = DualDescentOptions {
                        refinements: 2,
                        ..options
                    };
                    let counts = compare(&task, &few_points, &train, &validation);
                    played[0] += counts[0];
                    played[1] += counts[1];
                }
            }
            assert!(
                10 * played[0] < 9 * played[1],
                "{}: {played:?} episodes",
                problem.name()
            );
        }
    }
}
