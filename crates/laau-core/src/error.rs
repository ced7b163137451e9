//! The errors of this crate.

/// What can be wrong with a problem, an episode or a call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A problem that breaks the contract of [`crate::Problem`].
    #[error("invalid problem `{problem}`: {reason}")]
    InvalidProblem {
        /// The problem's name.
        problem: String,
        /// What was expected and what was found.
        reason: String,
    },
    /// A slice of the wrong length.
    #[error("expected {expected} values for {what}, found {found}")]
    WrongLength {
        /// What the slice holds.
        what: &'static str,
        /// The length that was expected.
        expected: usize,
        /// The length that was found.
        found: usize,
    },
    /// A NaN or infinite value where a finite one belongs.
    #[error("expected a finite value for {what}[{index}], found {value}")]
    NotFinite {
        /// What the slice holds.
        what: &'static str,
        /// The position in it.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A negative value where none belongs.
    #[error("expected a non-negative value for {what}[{index}], found {value}")]
    Negative {
        /// What the slice holds.
        what: &'static str,
        /// The position in it.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A value outside the domain of a problem.
    #[error("expected {expected} for {what}[{index}], found {value}")]
    OutsideDomain {
        /// What the slice holds.
        what: &'static str,
        /// The position in it.
        index: usize,
        /// The value.
        value: f64,
        /// What was expected.
        expected: &'static str,
    },
    /// An episode whose budget cannot pay the lower bound of every step.
    #[error(
        "episode {episode}: budget {budget} of resource {resource} is below {least}, the least that {horizon} steps use"
    )]
    BudgetTooSmall {
        /// The episode's position in its set.
        episode: usize,
        /// The resource.
        resource: usize,
        /// Its budget.
        budget: f64,
        /// The least feasible budget.
        least: f64,
        /// The horizon.
        horizon: usize,
    },
    /// A spend beyond what remains.
    #[error("resource {resource}: {asked} asked, {remaining} remaining")]
    Overspend {
        /// The resource.
        resource: usize,
        /// The usage that was asked for.
        asked: f64,
        /// What remains, rounded down.
        remaining: f64,
    },
    /// An action outside the problem's box.
    #[error("action[{index}] is {value}, outside its box [{lower}, {upper}]")]
    OutsideBox {
        /// The action's position.
        index: usize,
        /// Its value.
        value: f64,
        /// The lower bound.
        lower: f64,
        /// The upper bound.
        upper: f64,
    },
    /// A policy that does not apply to a problem.
    #[error("policy `{policy}` is not applicable: {reason}")]
    NotApplicable {
        /// The policy's name.
        policy: String,
        /// Why.
        reason: String,
    },
    /// A layer that could not be solved while a policy was deciding.
    #[error("step {step}: the layer was not solved: {status}")]
    Unsolved {
        /// The step.
        step: usize,
        /// The solver's outcome.
        status: crate::solver::Status,
    },
    /// A payment for a step whose context was not revealed, or a second one for the same context.
    #[error("step {step}: nothing can be paid before its context is revealed")]
    NoContext {
        /// The step.
        step: usize,
    },
    /// A context or a payment after the last step.
    #[error("the episode is over: all {horizon} steps are paid")]
    EpisodeOver {
        /// The horizon.
        horizon: usize,
    },
    /// What is wrong with one step.
    #[error("step {step}: {reason}")]
    AtStep {
        /// The step.
        step: usize,
        /// What is wrong with it.
        reason: Box<Error>,
    },
    /// What is wrong with one episode of a set.
    #[error("episode {episode}: {reason}")]
    InEpisode {
        /// The episode's position in its set.
        episode: usize,
        /// What is wrong with it.
        reason: Box<Error>,
    },
    /// Anything a policy of another crate needs to say.
    #[error("policy `{policy}`: {reason}")]
    Policy {
        /// The policy's name.
        policy: String,
        /// What happened.
        reason: String,
    },
}

impl Error {
    /// What is wrong, without the episode and the step in which it is.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::AtStep { reason, .. } | Self::InEpisode { reason, .. } => reason.root(),
            other => other,
        }
    }

    pub(crate) fn at_step(self, step: usize) -> Self {
        Self::AtStep {
            step,
            reason: Box::new(self),
        }
    }

    pub(crate) fn in_episode(mut self, of_set: usize) -> Self {
        if let Self::BudgetTooSmall { episode, .. } = &mut self {
            *episode = of_set;
            return self;
        }
        Self::InEpisode {
            episode: of_set,
            reason: Box::new(self),
        }
    }
}

/// Checks that a slice has the expected length.
pub(crate) fn expect_length(what: &'static str, slice: &[f64], expected: usize) -> Result<(), Error> {
    if slice.len() == expected {
        Ok(())
    } else {
        Err(Error::WrongLength {
            what,
            expected,
            found: slice.len(),
        })
    }
}

/// Checks that every value of a slice is finite.
pub(crate) fn expect_finite(what: &'static str, slice: &[f64]) -> Result<(), Error> {
    match slice.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(index) => Err(Error::NotFinite {
            what,
            index,
            value: slice[index],
        }),
    }
}
