//! A problem and its step solver.

use std::sync::Arc;

use crate::episode::Episodes;
use crate::error::Error;
use crate::policy::Policy;
use crate::problem::SmoothProblem;
use crate::rollout::utilities;
use crate::solver::{Differentiate, StepSolver as _};

/// A problem and a step solver for it: everything a policy is built from.
#[derive(Clone)]
pub struct Task {
    /// The problem.
    pub problem: Arc<dyn SmoothProblem>,
    /// A solver for the problem's steps; every agent takes a fork of it.
    pub solver: Box<dyn Differentiate>,
    /// A solver for [`crate::Nearest`] of the problem: the Euclidean projection onto what can be paid.
    pub projector: Option<Box<dyn Differentiate>>,
}

impl Task {
    /// A problem and a step solver for it.
    #[must_use]
    pub fn new(problem: Arc<dyn SmoothProblem>, solver: Box<dyn Differentiate>) -> Self {
        Self {
            problem,
            solver,
            projector: None,
        }
    }

    /// Adds a solver for [`crate::Nearest`] of the problem. Policies that output several actions directly need it.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when the solver is for a problem of other sizes.
    pub fn with_projector(mut self, projector: Box<dyn Differentiate>) -> Result<Self, Error> {
        let (ours, theirs) = (self.problem.dimensions(), projector.problem().dimensions());
        for (what, expected, found) in [
            ("the projector's actions", ours.actions, theirs.actions),
            ("the projector's budgets", ours.budgets, theirs.budgets),
            (
                "the projector's context",
                ours.actions + ours.context,
                theirs.context,
            ),
        ] {
            if expected != found {
                return Err(Error::WrongLength {
                    what,
                    expected,
                    found,
                });
            }
        }
        self.projector = Some(projector);
        Ok(self)
    }

    /// The projector, or none for a problem with one action, which needs none.
    ///
    /// # Errors
    /// [`Error::NoProjector`] when there are several actions and no projector.
    pub fn expect_projector(&self) -> Result<Option<&dyn Differentiate>, Error> {
        let actions = self.problem.dimensions().actions;
        match &self.projector {
            _ if actions == 1 => Ok(None),
            Some(projector) => Ok(Some(&**projector)),
            None => Err(Error::NoProjector { actions }),
        }
    }

    /// Checks that there are episodes and that the problem can be played on them; `what` names one of them.
    ///
    /// # Errors
    /// [`Error::Empty`], or what [`Episodes::check`] finds.
    pub fn check_episodes(&self, what: &'static str, episodes: &Episodes) -> Result<(), Error> {
        if episodes.is_empty() {
            return Err(Error::Empty { what });
        }
        episodes.check(&*self.problem)
    }

    /// The mean utility per step of a policy on a set of episodes: what tuning maximises.
    ///
    /// # Errors
    /// When the problem cannot be played on the episodes.
    pub fn mean_utility(&self, policy: &dyn Policy, episodes: &Episodes) -> Result<f64, Error> {
        let utilities = utilities(&*self.problem, policy, episodes)?;
        Ok(utilities.iter().sum::<f64>() / utilities.len().max(1) as f64)
    }
}
