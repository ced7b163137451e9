//! From episodes to a guarded policy.

use std::fmt;
use std::sync::Arc;

use super::{Form, Guarded, GuardedDocument, expect_level};
use crate::error::Error;
use crate::fit::{Document, Fit, FitObserver, FitSets, Fitted};
use crate::policy::Policy;
use crate::task::Task;

/// The policy whose gain a guard promises a share of.
#[derive(Clone)]
pub enum Incumbent {
    /// One that is fitted on the episodes of the advice.
    Fit(Arc<dyn Fit>),
    /// One that is ready: what runs today, fitted on what it was fitted on.
    Ready {
        /// The policy.
        policy: Arc<dyn Policy>,
        /// Its form that can be stored, if it has one.
        document: Option<Document>,
    },
}

impl Incumbent {
    /// A policy that is ready.
    #[must_use]
    pub fn ready(policy: Arc<dyn Policy>) -> Self {
        Self::Ready {
            policy,
            document: None,
        }
    }
}

impl Fit for Incumbent {
    fn fit(
        &self,
        task: &Task,
        sets: FitSets<'_>,
        seed: u64,
        observer: &mut dyn FitObserver,
    ) -> Result<Fitted, Error> {
        match self {
            Self::Fit(fit) => fit.fit(task, sets, seed, observer),
            Self::Ready { policy, document } => {
                Ok(Fitted::new(Arc::clone(policy)).with_document(document.clone()))
            }
        }
    }

    fn is_seeded(&self) -> bool {
        match self {
            Self::Fit(fit) => fit.is_seeded(),
            Self::Ready { .. } => false,
        }
    }
}

impl fmt::Debug for Incumbent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fit(_) => f.write_str("Fit(..)"),
            Self::Ready { policy, .. } => f.debug_tuple("Ready").field(&policy.name()).finish(),
        }
    }
}

/// Whether it is the very same one.
impl PartialEq for Incumbent {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fit(ours), Self::Fit(theirs)) => Arc::ptr_eq(ours, theirs),
            (Self::Ready { policy: ours, .. }, Self::Ready { policy: theirs, .. }) => {
                Arc::ptr_eq(ours, theirs)
            }
            (Self::Fit(_), Self::Ready { .. }) | (Self::Ready { .. }, Self::Fit(_)) => false,
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
        let incumbent = self.incumbent.fit(task, sets, seed, observer)?;
        let advice = self.advice.fit(task, sets, seed, observer)?;
        Fitted::guarded(task, &advice, &incumbent, self.level, self.form)
    }

    fn is_seeded(&self) -> bool {
        self.incumbent.is_seeded() || self.advice.is_seeded()
    }
}

impl Fitted {
    /// A fitted policy behind a guard; nothing is fitted again.
    ///
    /// # Errors
    /// [`Error::NotApplicable`] for an offline optimum, which sees the future; [`Error::InvalidOption`] unless the level is in
    /// `[0, 1]`.
    pub fn guarded(
        task: &Task,
        advice: &Self,
        incumbent: &Self,
        level: f64,
        form: Form,
    ) -> Result<Self, Error> {
        let (advised, beside) = (advice.player.online()?, incumbent.player.online()?);
        let (name, guard) = (advised.name().to_owned(), beside.name().to_owned());
        let problem = Arc::clone(&task.problem) as Arc<_>;
        let guarded = Guarded::new(name, advised, beside, problem, level)?.in_form(form, task);
        let stored = |fitted: &Self| {
            let document = fitted.document.as_ref()?;
            Some((document.kind.to_owned(), document.bytes.clone()))
        };
        let document = stored(advice)
            .zip(stored(incumbent))
            .map(|(advice, incumbent)| GuardedDocument {
                level,
                form,
                advice,
                incumbent,
            });
        let mut fitted = Self::new(guarded).with_document(document.map(|document| document.to_document()));
        fitted.parameters.clone_from(&advice.parameters);
        fitted.gradients = advice.gradients;
        Ok(fitted.with("guard", &*guard).with("guard_level", level))
    }
}
