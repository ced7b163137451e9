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
    /// Episodes that were made for another problem.
    #[error("the episodes were made for problem `{made_for}`, not for `{problem}`")]
    OtherProblem {
        /// The problem they were made for.
        made_for: String,
        /// The problem they were to be played with.
        problem: String,
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
    /// Nothing where at least one is needed.
    #[error("expected at least one {what}, found none")]
    Empty {
        /// What is missing.
        what: &'static str,
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
    #[error("budget {budget} is {given}, below {least}, the least that {horizon} steps use")]
    BudgetTooSmall {
        /// Which budget.
        budget: usize,
        /// Its value.
        given: f64,
        /// The least feasible budget.
        least: f64,
        /// The horizon.
        horizon: usize,
    },
    /// A spend beyond what is available.
    #[error("budget {budget}: {asked} asked, {available} available")]
    Overspend {
        /// Which budget.
        budget: usize,
        /// The usage that was asked for.
        asked: f64,
        /// What is available, rounded down.
        available: f64,
    },
    /// A settlement of more than was held.
    #[error("budget {budget}: {asked} settled, {held} held")]
    AboveHold {
        /// Which budget.
        budget: usize,
        /// The usage that was to be settled.
        asked: f64,
        /// What the hold has of it.
        held: f64,
    },
    /// A hold that was never made.
    #[error("no hold {hold} was made")]
    UnknownHold {
        /// The hold that was asked for.
        hold: crate::HoldId,
    },
    /// A hold that was settled or released before.
    #[error("hold {hold} is closed: it was settled or released before")]
    HoldClosed {
        /// The hold that was asked for.
        hold: crate::HoldId,
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
    /// A policy that did not take part.
    #[error("no online policy `{policy}` took part")]
    UnknownPolicy {
        /// The name that was asked for.
        policy: String,
    },
    /// A stored policy that cannot be read back.
    #[error("the stored policy cannot be read: {reason}")]
    Document {
        /// What is wrong with it.
        reason: String,
    },
    /// A reading that cannot become a context.
    #[error("the reading cannot become a context: {reason}")]
    Reading {
        /// Why not.
        reason: String,
    },
    /// The system refused a thread.
    #[error("no thread can be started: {reason}")]
    Thread {
        /// The system's reason.
        reason: String,
    },
    /// A task that lacks the projector its policy needs.
    #[error("expected a projector for {actions} actions (`Task::with_projector`), found none")]
    NoProjector {
        /// The number of actions.
        actions: usize,
    },
    /// An option of a policy outside its range.
    #[error("policy `{policy}`: expected {expected} for option `{option}`, found {value}")]
    InvalidOption {
        /// The policy's name.
        policy: &'static str,
        /// The option's name.
        option: &'static str,
        /// The range.
        expected: &'static str,
        /// The value that was given.
        value: f64,
    },
    /// An iteration that stopped short of its tolerance.
    #[error(
        "policy `{policy}`: {what} stopped after {iterations} iterations at {residual:.1e}, expected at most {tolerance:.1e}"
    )]
    NotConverged {
        /// The policy's name.
        policy: &'static str,
        /// What was iterated.
        what: &'static str,
        /// Iterations taken.
        iterations: usize,
        /// The residual or gap reached.
        residual: f64,
        /// The tolerance.
        tolerance: f64,
    },
    /// A layer that could not be solved while a policy was deciding.
    #[error("step {step}: the layer was not solved: {status}")]
    Unsolved {
        /// The step.
        step: usize,
        /// The solver's outcome.
        status: crate::solver::Status,
    },
    /// A context after the last step.
    #[error("the episode is over: all {horizon} steps are decided")]
    EpisodeOver {
        /// The horizon.
        horizon: usize,
    },
    /// What is granted only past the last step, asked for before.
    #[error("the episode is not over: {steps_left} steps are still to be decided")]
    EpisodeOpen {
        /// The steps that are left.
        steps_left: usize,
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
    /// Any other error of a policy.
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

    pub(crate) fn in_episode(self, episode: usize) -> Self {
        Self::InEpisode {
            episode,
            reason: Box::new(self),
        }
    }
}

/// Checks one option of a policy.
///
/// # Errors
/// [`Error::InvalidOption`] unless it is good.
pub fn expect_option(
    good: bool,
    policy: &'static str,
    option: &'static str,
    expected: &'static str,
    value: f64,
) -> Result<(), Error> {
    if good {
        Ok(())
    } else {
        Err(Error::InvalidOption {
            policy,
            option,
            expected,
            value,
        })
    }
}

/// Checks that a slice has the expected length.
///
/// # Errors
/// [`Error::WrongLength`] unless it has.
pub fn expect_length<T>(what: &'static str, slice: &[T], expected: usize) -> Result<(), Error> {
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
///
/// # Errors
/// [`Error::NotFinite`] for the first that is not.
pub fn expect_finite(what: &'static str, slice: &[f64]) -> Result<(), Error> {
    match slice.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(index) => Err(Error::NotFinite {
            what,
            index,
            value: slice[index],
        }),
    }
}
