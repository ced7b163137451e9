//! From episodes to a policy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::episode::Episodes;
use crate::error::Error;
use crate::hindsight::Hindsight;
use crate::policy::{GradientCounts, Policy};
use crate::rollout::{Rollout, hindsight_range, rollout_range};
use crate::task::Task;

/// Episodes to fit, to tune and to test on.
#[derive(Debug, Clone, PartialEq)]
pub struct Sets {
    /// To fit and train on.
    pub train: Episodes,
    /// To tune on.
    pub validation: Episodes,
    /// To compare on; not used by any fit.
    pub test: Episodes,
}

impl Sets {
    /// The sets that a fit may use.
    #[must_use]
    pub fn to_fit(&self) -> FitSets<'_> {
        FitSets {
            train: &self.train,
            validation: &self.validation,
        }
    }
}

/// The part of [`Sets`] that a fit may use.
#[derive(Debug, Clone, Copy)]
pub struct FitSets<'a> {
    /// To fit and train on.
    pub train: &'a Episodes,
    /// To tune on.
    pub validation: &'a Episodes,
}

/// Makes a policy for a task from episodes: LAAU in all its forms, the baselines and the offline optimum.
///
/// A policy that learns nothing ignores the episodes.
pub trait Fit: Send + Sync {
    /// Fits, tunes or trains. The same arguments give the same policy, for any number of threads.
    ///
    /// # Errors
    /// [`Error::NotApplicable`] when the policy is not made for the task; anything that keeps it from fitting.
    fn fit(
        &self,
        task: &Task,
        sets: FitSets<'_>,
        seed: u64,
        observer: &mut dyn FitObserver,
    ) -> Result<Fitted, Error>;

    /// Whether the seed makes a difference.
    fn is_seeded(&self) -> bool {
        false
    }

    /// Whether it gives an offline optimum, the reference for fractions.
    fn is_hindsight(&self) -> bool {
        false
    }
}

impl<F: Fit + ?Sized> Fit for Box<F> {
    fn fit(
        &self,
        task: &Task,
        sets: FitSets<'_>,
        seed: u64,
        observer: &mut dyn FitObserver,
    ) -> Result<Fitted, Error> {
        (**self).fit(task, sets, seed, observer)
    }

    fn is_seeded(&self) -> bool {
        (**self).is_seeded()
    }

    fn is_hindsight(&self) -> bool {
        (**self).is_hindsight()
    }
}

/// A policy that needs no episodes: a function from a task to the policy.
///
/// ```
/// # use laau_core::{Task, Unfitted};
/// # fn example<P: laau_core::Policy + 'static>(my_policy: fn(&Task) -> P) {
/// let fit = Unfitted(move |task: &Task| Ok(my_policy(task)));
/// # let _: Box<dyn laau_core::Fit> = Box::new(fit);
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Unfitted<F>(pub F);

impl<P, F> Fit for Unfitted<F>
where
    P: Policy + 'static,
    F: Fn(&Task) -> Result<P, Error> + Send + Sync,
{
    fn fit(&self, task: &Task, _: FitSets<'_>, _: u64, _: &mut dyn FitObserver) -> Result<Fitted, Error> {
        (self.0)(task).map(Fitted::new)
    }
}

/// Watches a fit. `()` watches nothing.
pub trait FitObserver {
    /// `done` of `of` units of work are done.
    fn progress(&mut self, done: usize, of: usize) {
        let _ = (done, of);
    }

    /// Polled during the fit; `true` ends it with the best result so far.
    fn should_stop(&mut self) -> bool {
        false
    }
}

impl FitObserver for () {}

/// A part of a training schedule: a number of epochs at one learning rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Passes over the training set.
    pub epochs: usize,
    /// The learning rate of the optimiser.
    pub learning_rate: f64,
}

/// A policy that is ready to play.
pub enum Player {
    /// One that decides step by step.
    Online(Arc<dyn Policy>),
    /// One that plans from the whole episode.
    Hindsight(Box<dyn Hindsight>),
}

impl Player {
    /// The policy that decides step by step.
    ///
    /// # Errors
    /// [`Error::NotApplicable`] for an offline optimum, which sees the future.
    pub fn online(&self) -> Result<Arc<dyn Policy>, Error> {
        match self {
            Self::Online(policy) => Ok(Arc::clone(policy)),
            Self::Hindsight(optimum) => Err(Error::NotApplicable {
                policy: optimum.name().to_owned(),
                reason: "a guard takes online policies".to_owned(),
            }),
        }
    }

    /// Whether it plays one episode after the other.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        match self {
            Self::Online(policy) => policy.is_sequential(),
            Self::Hindsight(_) => false,
        }
    }

    /// Plays all episodes, in parallel; the result does not depend on the number of threads.
    ///
    /// # Errors
    /// When the problem cannot be played on the episodes, or a plan fails.
    pub fn play(&self, task: &Task, episodes: &Episodes) -> Result<Vec<Rollout>, Error> {
        let mut all = Vec::with_capacity(episodes.len());
        self.play_in_blocks(task, episodes, |rollouts| {
            all.extend(rollouts);
            Ok::<(), Error>(())
        })?;
        Ok(all)
    }

    /// The same, some episodes at a time and in order, so that not all rollouts have to be in memory.
    ///
    /// # Errors
    /// As [`Player::play`], and what `each` returns, as soon as it does.
    pub fn play_in_blocks<E: From<Error>>(
        &self,
        task: &Task,
        episodes: &Episodes,
        mut each: impl FnMut(Vec<Rollout>) -> Result<(), E>,
    ) -> Result<(), E> {
        /// Enough for any number of threads, and a few megabytes.
        const BLOCK: usize = 1024;
        let problem = &*task.problem;
        episodes.check(problem)?;
        for first in (0..episodes.len()).step_by(BLOCK) {
            let range = first..episodes.len().min(first + BLOCK);
            each(match self {
                Self::Online(policy) => rollout_range(problem, &**policy, episodes, range),
                Self::Hindsight(plan) => hindsight_range(problem, &**plan, episodes, range),
            }?)?;
        }
        Ok(())
    }
}

/// The result of a fit: a policy and its parameters.
pub struct Fitted {
    /// The policy, ready to play.
    pub player: Player,
    /// What was fitted or tuned (η, `λ_1`, π, …), by name.
    pub parameters: BTreeMap<String, Parameter>,
    /// Exact and approximate gradients in training, for a policy that was trained.
    pub gradients: Option<GradientCounts>,
    /// The policy in a form that can be stored, if it has one.
    pub document: Option<Document>,
}

/// A fitted policy in a form that can be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// What can read it back.
    pub kind: &'static str,
    /// Its content; only what the kind names understands it.
    pub bytes: Vec<u8>,
}

impl Fitted {
    /// An online policy.
    #[must_use]
    pub fn new(policy: impl Policy + 'static) -> Self {
        Self::with_player(Player::Online(Arc::new(policy)))
    }

    /// An offline optimum.
    #[must_use]
    pub fn hindsight(optimum: Box<dyn Hindsight>) -> Self {
        Self::with_player(Player::Hindsight(optimum))
    }

    fn with_player(player: Player) -> Self {
        Self {
            player,
            parameters: BTreeMap::new(),
            gradients: None,
            document: None,
        }
    }

    /// Adds the form that can be stored.
    #[must_use]
    pub fn with_document(mut self, document: Option<Document>) -> Self {
        self.document = document;
        self
    }

    /// Adds a parameter to the report.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Parameter>) -> Self {
        self.parameters.insert(name.into(), value.into());
        self
    }
}

/// The value of a parameter that was fitted or tuned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A count.
    Count(u64),
    /// A number.
    Number(f64),
    /// Several numbers, for example one per budget.
    Numbers(Vec<f64>),
    /// A matrix, row by row.
    Rows(Vec<Vec<f64>>),
    /// A choice.
    Word(String),
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Numbers(numbers) => {
                let texts: Vec<String> = numbers.iter().map(f64::to_string).collect();
                f.write_str(&texts.join(" "))
            }
            Self::Rows(rows) => {
                let rows = rows.iter().map(|row| Self::Numbers(row.clone()).to_string());
                f.write_str(&rows.collect::<Vec<_>>().join(", "))
            }
            Self::Word(word) => f.write_str(word),
        }
    }
}

impl From<f64> for Parameter {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Parameter {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<&str> for Parameter {
    fn from(word: &str) -> Self {
        Self::Word(word.to_owned())
    }
}

/// One number is a number, several are a list.
impl From<&[f64]> for Parameter {
    fn from(numbers: &[f64]) -> Self {
        match numbers {
            [number] => Self::Number(*number),
            several => Self::Numbers(several.to_vec()),
        }
    }
}
