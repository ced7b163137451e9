//! A small problem with its episodes, on which any policy is fitted in no time: for tests, here and of whatever deploys policies.

use laau_core::{Fit as _, Fitted, Sets, Task};
use laau_data::Split;
use laau_data::synthetic::GenerateOptions;
use laau_net::{Phase, Training};

use super::{PolicyKind, ProblemSpec};

/// Why there is no sample: a mistake in what it is made of.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The default problem, with few episodes of five steps.
pub struct Sample {
    /// The problem.
    pub problem: ProblemSpec,
    /// The problem and its solver.
    pub task: Task,
    /// The episodes.
    pub sets: Sets,
}

impl Sample {
    /// The number of steps of its episodes.
    pub const HORIZON: usize = 5;

    /// Makes it: always the same.
    ///
    /// # Errors
    /// None that is known.
    pub fn new() -> Result<Self, Failure> {
        let problem = ProblemSpec::default();
        let options = GenerateOptions {
            horizon: Self::HORIZON,
            ..GenerateOptions::default()
        };
        let split = Split {
            train: 20,
            validation: 6,
            test: 4,
        };
        Ok(Self {
            task: problem.task()?,
            sets: problem.workload(None, None)?.generate_split(split, &options)?,
            problem,
        })
    }

    /// Fits a policy, a network for two epochs.
    ///
    /// # Errors
    /// As [`laau_core::Fit::fit`].
    pub fn fit(&self, kind: PolicyKind) -> Result<Fitted, laau_core::Error> {
        let training = Training {
            phases: vec![Phase {
                epochs: 2,
                learning_rate: 0.01,
            }],
            ..Training::paper()
        };
        kind.fit(&training)
            .fit(&self.task, self.sets.to_fit(), 1, &mut ())
    }
}
