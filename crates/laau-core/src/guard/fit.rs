//! From episodes to a guarded policy.

use std::fmt;
use std::sync::Arc;

use super::{Form, Guarded, expect_level};
use crate::error::Error;
use crate::fit::{Fit, FitObserver, FitSets, Fitted, Player};
use crate::policy::Policy;
use crate::task::Task;

/// The policy whose gain a guard promises a share of.
#[derive(Clone)]
pub enum Incumbent {
    /// One that is fitted on the episodes of the advice.
    Fit(Arc<dyn Fit>),
    /// One that is ready: what runs today, fitted on what it was fitted on.
    Ready(Arc<dyn Policy>),
}

impl Incumbent {
    /// The policy itself: fitted now, unless it is ready.
    ///
    /// # Errors
    /// Those of the fit, and [`Error::NotApplicable`] for an offline optimum.
    pub fn policy(
        &self,
        task: &Task,
        sets: FitSets<'_>,
        seed: u64,
        observer: &mut dyn FitObserver,
    ) -> Result<Arc<dyn Policy>, Error> {
        match self {
            Self::Ready(policy) => Ok(Arc::clone(policy)),
            Self::Fit(fit) => Ok(Arc::from(online(fit.fit(task, sets, seed, observer)?.player)?)),
        }
    }
}

impl fmt::Debug for Incumbent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fit(_) => f.write_str("Fit(..)"),
            Self::Ready(policy) => f.debug_tuple("Ready").field(&policy.name()).finish(),
        }
    }
}

/// Whether it is the very same one.
impl PartialEq for Incumbent {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fit(ours), Self::Fit(theirs)) => Arc::ptr_eq(ours, theirs),
            (Self::Ready(ours), Self::Ready(theirs)) => Arc::ptr_eq(ours, theirs),
            (Self::Fit(_), Self::Ready(_)) | (Self::Ready(_), Self::Fit(_)) => false,
        }
    }
}

/// Fits advice and, unless it is ready, an incumbent, and puts the one behind a guard of the other.
pub struct Guard {
    advice: Box<dyn Fit>,
    incumbent: Incumbent,
    level: f64,
    form: Form,
}

impl Guard {
    /// A guard in the layer form.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless the level is in `[0, 1]`.
    pub fn new(advice: impl Fit + 'static, incumbent: Incumbent, level: f64) -> Result<Self, Error> {
        expect_level(level)?;
        Ok(Self {
            advice: Box::new(advice),
            incumbent,
            level,
            form: Form::Layer,
        })
    }

    /// Another form.
    #[must_use]
    pub fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }
}

impl Fit for Guard {
    fn fit(
        &self,
        task: &Task,
        sets: FitSets<'_>,
        seed: u64,
        observer: &mut dyn FitObserver,
    ) -> Result<Fitted, Error> {
        let incumbent = self.incumbent.policy(task, sets, seed, observer)?;
        let fitted = self.advice.fit(task, sets, seed, observer)?;
        let name = incumbent.name().to_owned();
        let advice = online(fitted.player)?;
        let guarded = Guarded::new(
            advice.name().to_owned(),
            advice,
            incumbent,
            Arc::clone(&task.problem) as Arc<_>,
            self.level,
        )?;
        let guarded = match self.form {
            Form::Layer => guarded.in_layer(task),
            Form::Segment => guarded,
        };
        let mut result = Fitted::new(guarded)
            .with("guard", &*name)
            .with("guard level", self.level);
        result.parameters.extend(fitted.parameters);
        result.gradients = fitted.gradients;
        Ok(result)
    }

    fn is_seeded(&self) -> bool {
        let incumbent = match &self.incumbent {
            Incumbent::Fit(fit) => fit.is_seeded(),
            Incumbent::Ready(_) => false,
        };
        incumbent || self.advice.is_seeded()
    }
}

/// An offline optimum sees the future; it is neither advice nor an incumbent.
fn online(player: Player) -> Result<Box<dyn Policy>, Error> {
    match player {
        Player::Online(policy) => Ok(policy),
        Player::Hindsight(optimum) => Err(Error::NotApplicable {
            policy: optimum.name().to_owned(),
            reason: "a guard takes online policies".to_owned(),
        }),
    }
}
