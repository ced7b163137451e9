//! Empirical distributions of the next context, given what is remembered of an episode.

use laau_core::{Episodes, Error, quantile};

use super::table::MOST_LEVELS;
use crate::shared::Running;

/// How the contexts of an episode follow each other, estimated from a set of episodes.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Chain {
    /// Every context is drawn from one distribution.
    Independent {
        /// The values, each with the same probability.
        atoms: Vec<f64>,
    },
    /// A context depends on the one before.
    Markov {
        /// The values, increasing.
        atoms: Vec<f64>,
        /// The probability of each value after each value, row by row.
        transitions: Vec<f64>,
    },
    /// A context depends on the mean of those before it, in a way that changes from step to step.
    RunningMean {
        /// The running means for which a distribution is kept, increasing.
        means: Vec<f64>,
        /// Number of steps for which there are distributions, the last ones of an episode.
        steps: usize,
        /// Number of steps before them.
        #[serde(default)]
        before: usize,
        /// The values of each distribution, `steps × means × atoms`, each with the same probability.
        atoms: Vec<f64>,
    },
}

/// A possible next context: its value, its probability, and what is then remembered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Branch {
    pub(crate) context: f64,
    pub(crate) probability: f64,
    pub(crate) next: Position,
}

/// A place between two neighbouring states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Position {
    pub(crate) state: usize,
    /// How far towards the next state, in `[0, 1)`.
    pub(crate) fraction: f64,
}

impl Chain {
    /// One distribution for all contexts, in `atoms` parts of equal probability.
    #[must_use]
    pub fn independent(train: &Episodes, atoms: usize) -> Self {
        let mut values = train.contexts().to_vec();
        values.sort_by(f64::total_cmp);
        Self::Independent {
            atoms: parts(&values, atoms),
        }
    }

    /// Transitions between `atoms` parts of equal probability; a part that is rarely left borrows from the whole
    /// distribution, as if that had been seen twice.
    #[must_use]
    pub fn markov(train: &Episodes, atoms: usize) -> Self {
        const BORROWED: f64 = 2.0;
        let mut values = train.contexts().to_vec();
        values.sort_by(f64::total_cmp);
        let mut atoms = parts(&values, atoms);
        atoms.dedup();
        let n = atoms.len();
        let nearest = |c: f64| {
            let Position { state, fraction } = position(&atoms, c);
            state + usize::from(fraction >= 0.5)
        };
        let (mut counts, mut marginal) = (vec![0.0; n * n], vec![0.0; n]);
        for episode in train.iter() {
            let states: Vec<usize> = episode.contexts().iter().map(|c| nearest(*c)).collect();
            for pair in states.windows(2) {
                counts[pair[0] * n + pair[1]] += 1.0;
            }
            for state in states {
                marginal[state] += 1.0 / values.len() as f64;
            }
        }
        for row in counts.chunks_exact_mut(n) {
            let total: f64 = row.iter().sum::<f64>() + BORROWED;
            for (count, share) in row.iter_mut().zip(&marginal) {
                *count = (*count + BORROWED * share) / total;
            }
        }
        Self::Markov {
            atoms,
            transitions: counts,
        }
    }

    /// The distribution of the next context at each step and for each of about `means` running means, in `atoms` parts.
    ///
    /// Of a long episode, the last 256 steps have distributions of their own; the table of the dynamic program ends
    /// there. The running means are quantiles of those of the training set, so that they lie where episodes are. Episodes count by
    /// a Gaussian kernel in the distance of their running mean, measured in steps of that grid.
    #[must_use]
    pub fn running_mean(train: &Episodes, means: usize, atoms: usize) -> Self {
        let (transitions, count) = (train.horizon() - 1, train.len());
        let steps = transitions.min(MOST_LEVELS);
        let before = transitions - steps;
        // Step by step, the running mean of every episode; and of all steps, or as many of them, where the grid goes.
        let mut running = vec![0.0; steps * count];
        let stride = train.horizon().div_ceil(MOST_LEVELS + 1);
        let mut sorted = Vec::with_capacity(train.horizon().div_ceil(stride) * count);
        for (index, episode) in train.iter().enumerate() {
            let mut sum = 0.0;
            for step in 0..train.horizon() {
                sum += episode.context(step)[0];
                let mean = sum / (step + 1) as f64;
                if (before..transitions).contains(&step) {
                    running[(step - before) * count + index] = mean;
                }
                if step % stride == 0 {
                    sorted.push(mean);
                }
            }
        }
        sorted.sort_by(f64::total_cmp);
        let gaps = means.max(2) - 1;
        let mut grid: Vec<f64> = (0..=gaps)
            .map(|i| quantile(&sorted, i as f64 / gaps as f64))
            .collect();
        grid.dedup();
        let mut values = Vec::with_capacity(steps * grid.len() * atoms);
        let mut samples: Vec<(f64, f64)> = Vec::with_capacity(count);
        for step in 0..steps {
            samples.clear();
            for (mean, episode) in running[step * count..].iter().zip(train.iter()) {
                let Position { state, fraction } = position(&grid, *mean);
                samples.push((episode.context(before + step + 1)[0], state as f64 + fraction));
            }
            samples.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let width = bandwidth(&samples).max(LEAST_WIDTH);
            for centre in 0..grid.len() {
                weighted_parts(&samples, centre as f64, width, atoms, &mut values);
            }
        }
        Self::RunningMean {
            means: grid,
            steps,
            before,
            atoms: values,
        }
    }

    /// Checks that the tables fit each other and hold numbers.
    ///
    /// # Errors
    /// [`Error::Policy`] that says what is wrong.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |reason: String| {
            Err(Error::Policy {
                policy: super::NAME.to_owned(),
                reason,
            })
        };
        let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
        let increasing = |values: &[f64]| values.windows(2).all(|pair| pair[0] <= pair[1]);
        match self {
            Self::Independent { atoms } if atoms.is_empty() || !finite(atoms) => {
                wrong("expected at least one finite atom".to_owned())
            }
            Self::Markov { atoms, transitions }
                if atoms.is_empty()
                    || !finite(atoms)
                    || !increasing(atoms)
                    || transitions.len() != atoms.len() * atoms.len()
                    || transitions.iter().any(|p| !(*p >= 0.0 && *p <= 1.0)) =>
            {
                wrong(format!(
                    "expected increasing atoms and a probability for each pair, found {} and {}",
                    atoms.len(),
                    transitions.len()
                ))
            }
            Self::RunningMean {
                means, steps, atoms, ..
            } if means.is_empty()
                || !finite(means)
                || !finite(atoms)
                || !increasing(means)
                || (*steps > 0 && (atoms.is_empty() || atoms.len() % (steps * means.len()) != 0)) =>
            {
                wrong(format!(
                    "expected atoms for {steps} steps and {} increasing means, found {}",
                    means.len(),
                    atoms.len()
                ))
            }
            _ => Ok(()),
        }
    }

    /// Number of states.
    pub(crate) fn states(&self) -> usize {
        match self {
            Self::Independent { .. } => 1,
            Self::Markov { atoms, .. } => atoms.len(),
            Self::RunningMean { means, .. } => means.len(),
        }
    }

    /// The possible next contexts in a state with `left` steps to come.
    pub(crate) fn branches(&self, left: usize, state: usize, out: &mut Vec<Branch>) {
        out.clear();
        match self {
            Self::Independent { atoms } => out.extend(atoms.iter().map(|&context| Branch {
                context,
                probability: 1.0 / atoms.len() as f64,
                next: Position {
                    state: 0,
                    fraction: 0.0,
                },
            })),
            Self::Markov { atoms, transitions } => {
                let row = &transitions[state * atoms.len()..][..atoms.len()];
                let branch = |(next, (&context, &probability))| Branch {
                    context,
                    probability,
                    next: Position {
                        state: next,
                        fraction: 0.0,
                    },
                };
                out.extend(atoms.iter().zip(row).enumerate().map(branch));
            }
            Self::RunningMean {
                means,
                steps,
                before,
                atoms,
            } => {
                // With `left` of `steps` to come, `before + steps + 1 − left` contexts have been seen.
                let step = steps.saturating_sub(left);
                let count = atoms.len() / (steps * means.len());
                let seen = (before + step + 1) as f64;
                for &context in &atoms[(step * means.len() + state) * count..][..count] {
                    let mean = (seen * means[state] + context) / (seen + 1.0);
                    out.push(Branch {
                        context,
                        probability: 1.0 / count as f64,
                        next: position(means, mean),
                    });
                }
            }
        }
    }

    /// What is remembered after the contexts so far.
    pub(crate) fn locate(&self, history: &Running) -> Position {
        match self {
            Self::Independent { .. } => Position {
                state: 0,
                fraction: 0.0,
            },
            Self::Markov { atoms, .. } => position(atoms, history.last),
            Self::RunningMean { means, .. } => position(means, history.sum / history.count),
        }
    }
}

/// Where a value lies among increasing ones; beyond the ends, at the end.
fn position(values: &[f64], value: f64) -> Position {
    let above = values.partition_point(|v| *v <= value);
    if above == 0 {
        return Position {
            state: 0,
            fraction: 0.0,
        };
    }
    if above == values.len() {
        return Position {
            state: above - 1,
            fraction: 0.0,
        };
    }
    let (low, high) = (values[above - 1], values[above]);
    Position {
        state: above - 1,
        fraction: (value - low) / (high - low),
    }
}

/// The means of `count` equal parts of sorted values: they keep the mean of the whole.
fn parts(sorted: &[f64], count: usize) -> Vec<f64> {
    let samples: Vec<(f64, f64)> = sorted.iter().map(|v| (*v, 0.0)).collect();
    let mut out = Vec::with_capacity(count);
    weighted_parts(&samples, 0.0, 1.0, count, &mut out);
    out
}

/// Appends the means of `count` parts of equal weight of samples `(value, place)` sorted by value; a sample counts by the
/// distance of its place from `centre`, the nearest one fully.
///
/// A mean is held between the least and the greatest value of its part: rounding never brings it out of order.
fn weighted_parts(samples: &[(f64, f64)], centre: f64, width: f64, count: usize, out: &mut Vec<f64>) {
    let distance = |place: f64| ((place - centre) / width).powi(2);
    let nearest = samples
        .iter()
        .map(|s| distance(s.1))
        .fold(f64::INFINITY, f64::min);
    let weight = |place: f64| (-0.5 * (distance(place) - nearest)).exp();
    let total: f64 = samples.iter().map(|s| weight(s.1)).sum();
    let size = total / count as f64;
    let (mut filled, mut sum, mut written) = (0.0, 0.0, 0);
    let mut least = samples.first().map_or(0.0, |s| s.0);
    for &(value, place) in samples {
        let mut left = weight(place);
        while filled + left >= size && written < count - 1 {
            let taken = size - filled;
            out.push(((sum + taken * value) / size).clamp(least, value));
            written += 1;
            least = value;
            left -= taken;
            filled = 0.0;
            sum = 0.0;
        }
        filled += left;
        sum += left * value;
    }
    let last = samples.last().map_or(0.0, |s| s.0);
    for _ in written..count {
        out.push(if filled > 0.0 {
            (sum / filled).clamp(least, last)
        } else {
            last
        });
    }
}

/// The narrowest kernel, in steps of the grid.
const LEAST_WIDTH: f64 = 0.5;

/// Silverman's rule for a Gaussian kernel over the places of samples.
fn bandwidth(samples: &[(f64, f64)]) -> f64 {
    let n = samples.len() as f64;
    let mean = samples.iter().map(|s| s.1).sum::<f64>() / n;
    let variance = samples.iter().map(|s| (s.1 - mean).powi(2)).sum::<f64>() / n;
    1.06 * variance.sqrt() * n.powf(-0.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn equal_parts_keep_the_mean_and_the_order() {
        for count in [1, 3, 7, 10, 25] {
            let sorted: Vec<f64> = (0..10).map(|i| f64::from(i * i)).collect();
            let parts = parts(&sorted, count);
            assert_eq!(parts.len(), count);
            assert!((mean(&parts) - mean(&sorted)).abs() < 1e-12, "{parts:?}");
            assert!(parts.windows(2).all(|pair| pair[0] <= pair[1]), "{parts:?}");
        }
    }

    #[test]
    fn parts_of_one_value_are_that_value() {
        for value in [6.711_274_719_540_567, 6.7, 0.1, 1e-300, 1e300] {
            for (copies, count) in [(1, 6), (3, 7), (7, 10)] {
                assert_eq!(parts(&vec![value; copies], count), vec![value; count]);
                let train = Episodes::new(1, 1, 1, vec![value; copies], vec![60.0; copies]).unwrap();
                let chain = Chain::markov(&train, count);
                chain.check().unwrap();
                assert_eq!(chain.states(), 1);
            }
        }
    }

    #[test]
    fn a_place_lies_between_its_neighbours() {
        let values = [0.0, 1.0, 1.0, 3.0];
        for (value, state, fraction) in [
            (-1.0, 0, 0.0),
            (0.25, 0, 0.25),
            (1.0, 2, 0.0),
            (2.0, 2, 0.5),
            (9.0, 3, 0.0),
        ] {
            assert_eq!(position(&values, value), Position { state, fraction }, "{value}");
        }
    }

    #[test]
    fn every_chain_gives_probabilities_and_valid_states() {
        let contexts: Vec<f64> = (0..60).map(|i| f64::from(i * 7 % 11) / 11.0).collect();
        let train = Episodes::new(6, 1, 1, contexts, vec![60.0; 10]).unwrap();
        for chain in [
            Chain::independent(&train, 5),
            Chain::markov(&train, 5),
            Chain::running_mean(&train, 4, 5),
        ] {
            chain.check().unwrap();
            let mut branches = Vec::new();
            for left in 1..6 {
                for state in 0..chain.states() {
                    chain.branches(left, state, &mut branches);
                    let total: f64 = branches.iter().map(|b| b.probability).sum();
                    assert!((total - 1.0).abs() < 1e-12, "{chain:?}");
                    for branch in &branches {
                        let Position { state, fraction } = branch.next;
                        assert!((0.0..1.0).contains(&fraction));
                        assert!(state + usize::from(fraction > 0.0) < chain.states());
                        assert!((0.0..=1.0).contains(&branch.context));
                    }
                }
            }
        }
    }
}
