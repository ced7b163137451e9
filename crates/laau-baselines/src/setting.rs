//! What every policy is built from, and what a fit gives back.

use std::collections::BTreeMap;
use std::sync::Arc;

use laau_core::{Differentiate, Episodes, Policy, Problem, Rollout, SmoothProblem, StepSolver, rollout_all};

use crate::error::Error;

/// What every policy is built from: the problem, a layer for it, and a projector for those that need one.
#[derive(Clone)]
pub struct Setting {
    /// The problem.
    pub problem: Arc<dyn SmoothProblem>,
    /// A layer that solves the problem's steps; every agent takes a fork of it.
    pub solver: Box<dyn Differentiate>,
    /// A layer for [`laau_core::Nearest`] of the problem: the Euclidean projection onto what can be paid.
    pub projector: Option<Box<dyn Differentiate>>,
}

impl Setting {
    /// A problem and a layer for it.
    #[must_use]
    pub fn new(problem: Arc<dyn SmoothProblem>, solver: Box<dyn Differentiate>) -> Self {
        Self {
            problem,
            solver,
            projector: None,
        }
    }

    /// Adds a layer for [`laau_core::Nearest`] of the problem. A network that outputs several actions needs it.
    ///
    /// # Errors
    /// [`laau_core::Error::WrongLength`] when the layer is for a problem of other sizes.
    pub fn with_projector(mut self, projector: Box<dyn Differentiate>) -> Result<Self, laau_core::Error> {
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
                return Err(laau_core::Error::WrongLength {
                    what,
                    expected,
                    found,
                });
            }
        }
        self.projector = Some(projector);
        Ok(self)
    }

    /// The projector, for a policy with several actions; one action needs none.
    pub(crate) fn expect_projector(&self, policy: &'static str) -> Result<Option<&dyn Differentiate>, Error> {
        let actions = self.problem.dimensions().actions;
        match &self.projector {
            _ if actions == 1 => Ok(None),
            Some(projector) => Ok(Some(&**projector)),
            None => Err(Error::NoProjector { policy, actions }),
        }
    }

    /// The problem without its derivatives, as the driver and the projection want it.
    #[must_use]
    pub fn plain(&self) -> Arc<dyn Problem> {
        Arc::<dyn SmoothProblem>::clone(&self.problem)
    }

    /// Checks that a policy can be fitted on a set of episodes: there are some, and the problem can be played on them.
    ///
    /// # Errors
    /// [`Error::NoEpisodes`] at the seam, or what [`Episodes::check`] finds.
    pub fn check_episodes(
        &self,
        policy: &'static str,
        set: &'static str,
        episodes: &Episodes,
    ) -> Result<(), laau_core::Error> {
        if episodes.is_empty() {
            return Err(Error::NoEpisodes { policy, set }.into());
        }
        episodes.check(&*self.problem)
    }

    /// The mean utility per step of a policy on a set of episodes: what tuning maximises.
    ///
    /// # Errors
    /// When the problem cannot be played on the episodes.
    pub fn mean_utility(&self, policy: &dyn Policy, episodes: &Episodes) -> Result<f64, laau_core::Error> {
        let rollouts = rollout_all(&*self.problem, policy, episodes)?;
        Ok(rollouts.iter().map(Rollout::utility).sum::<f64>() / rollouts.len().max(1) as f64)
    }
}

/// A policy that has been fitted or tuned, and what was found (η, `λ_1`, π, …) for the report.
pub struct Fitted {
    /// The policy, ready to play.
    pub policy: Box<dyn Policy>,
    /// What was found, by name.
    pub parameters: BTreeMap<String, f64>,
}

impl Fitted {
    /// A policy with nothing to report.
    #[must_use]
    pub fn new(policy: impl Policy + 'static) -> Self {
        Self {
            policy: Box::new(policy),
            parameters: BTreeMap::new(),
        }
    }

    /// Adds one figure to the report.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: f64) -> Self {
        self.parameters.insert(name.into(), value);
        self
    }

    /// Adds one figure per entry: `name` for a single one, `name_0`, `name_1`, … for several.
    #[must_use]
    pub fn with_each(mut self, name: &str, values: &[f64]) -> Self {
        if let [value] = values {
            return self.with(name, *value);
        }
        for (index, value) in values.iter().enumerate() {
            self = self.with(format!("{name}_{index}"), *value);
        }
        self
    }
}
