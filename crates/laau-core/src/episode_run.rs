//! The driver of an episode.

use crate::error::{Error, expect_finite, expect_length};
use crate::exact::Product;
use crate::ledger::Ledger;
use crate::policy::Observation;
use crate::problem::{Dimensions, Problem};

/// An episode in progress: [`EpisodeRun::reveal`] takes a context and gives the [`Step`] to decide, [`Step::pay`] pays
/// for it. It drives every rollout and every policy in production.
///
/// The types rule out misuse of the budget: there is no step without a context, and a step is consumed when it is paid.
///
/// ```
/// use laau_core::{EpisodeRun, problems::WeightedFairness};
///
/// let problem = WeightedFairness::paper();
/// let mut run = EpisodeRun::new(&problem, 2, &[10.0])?;
/// let step = run.reveal(&[0.3])?;
/// assert_eq!(step.observation().available, [9.0]); // the second step needs at least 1
/// step.pay(&[7.0])?;
/// let refused = run.reveal(&[0.8])?.pay(&[4.0]).unwrap_err();
/// refused.step.pay(&[3.0])?; // a refusal hands the step back
/// assert!(run.is_over());
/// # Ok::<(), laau_core::Error>(())
/// ```
#[derive(Clone)]
pub struct EpisodeRun<'a> {
    problem: &'a dyn Problem,
    ledger: Ledger,
    budgets: Vec<f64>,
    contexts: Vec<f64>,
    context_len: usize,
    horizon: usize,
    step: usize,
    least: Vec<f64>,
    available: Vec<f64>,
    usage: Vec<f64>,
}

impl<'a> EpisodeRun<'a> {
    /// Opens an episode.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::WrongLength`] or [`Error::BudgetTooSmall`] when the problem cannot be played with these
    /// budgets.
    pub fn new(problem: &'a dyn Problem, horizon: usize, budgets: &[f64]) -> Result<Self, Error> {
        // Longer episodes allocate as their contexts come: the horizon may be only an upper bound.
        const MOST_CONTEXTS_AT_ONCE: usize = 1 << 16;
        let Dimensions {
            budgets: m, context, ..
        } = problem.dimensions();
        expect_length("the budgets", budgets, m)?;
        if horizon == 0 {
            return Err(Error::Empty { what: "step" });
        }
        let ledger = Ledger::new(budgets)?;
        let mut least = vec![0.0; m];
        problem.least_usage(&mut least);
        for (budget, (&given, &usage)) in budgets.iter().zip(&least).enumerate() {
            let least = Product::new(usage, horizon).ceiling();
            if given < least {
                return Err(Error::BudgetTooSmall {
                    budget,
                    given,
                    least,
                    horizon,
                });
            }
        }
        Ok(Self {
            problem,
            ledger,
            budgets: budgets.to_vec(),
            contexts: Vec::with_capacity(horizon.saturating_mul(context).min(MOST_CONTEXTS_AT_ONCE)),
            context_len: context,
            horizon,
            step: 0,
            least,
            available: vec![0.0; m],
            usage: vec![0.0; m],
        })
    }

    /// The current step, from 0; the horizon when the episode is over.
    #[must_use]
    pub fn step(&self) -> usize {
        self.step
    }

    /// Whether all steps have been taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.step == self.horizon
    }

    /// What remains of each budget, rounded down.
    #[must_use]
    pub fn remaining(&self) -> &[f64] {
        self.ledger.remaining()
    }

    /// What the step that was paid last used of each budget.
    #[must_use]
    pub fn usage(&self) -> &[f64] {
        &self.usage
    }

    /// Checks whether [`EpisodeRun::reveal`] would take a context.
    ///
    /// # Errors
    /// As there.
    pub fn check(&self, context: &[f64]) -> Result<(), Error> {
        expect_length("context", context, self.context_len)?;
        expect_finite("context", context)?;
        self.problem.check_context(context)?;
        if self.is_over() {
            return Err(Error::EpisodeOver {
                horizon: self.horizon,
            });
        }
        Ok(())
    }

    /// Takes the context of the current step. A step that was revealed and dropped unpaid may be revealed again.
    ///
    /// # Errors
    /// [`Error::WrongLength`], [`Error::NotFinite`] or the problem's own for a context that is refused, and
    /// [`Error::EpisodeOver`]: nothing has then changed.
    pub fn reveal(&mut self, context: &[f64]) -> Result<Step<'_, 'a>, Error> {
        self.check(context)?;
        self.contexts.truncate(self.step * context.len());
        self.contexts.extend_from_slice(context);
        self.ledger
            .available(&self.least, self.horizon - self.step - 1, &mut self.available);
        Ok(Step { run: self })
    }
}

/// A step whose context is known and which is not yet paid.
pub struct Step<'r, 'a> {
    run: &'r mut EpisodeRun<'a>,
}

impl<'r, 'a> Step<'r, 'a> {
    /// What a policy may observe at this step.
    #[must_use]
    pub fn observation(&self) -> Observation<'_> {
        let run = &*self.run;
        Observation {
            step: run.step,
            horizon: run.horizon,
            contexts: &run.contexts,
            context_len: run.context_len,
            budgets: &run.budgets,
            remaining: run.ledger.remaining(),
            available: &run.available,
        }
    }

    /// Pays an action, all or nothing, and gives its usage.
    ///
    /// # Errors
    /// [`Error::Overspend`] when the action uses more than is available (the reserve is not available);
    /// [`Error::WrongLength`], [`Error::NotFinite`] or [`Error::OutsideBox`] for its values. Nothing is then paid, and the
    /// step comes back with the error.
    pub fn pay(self, action: &[f64]) -> Result<&'r [f64], Refused<'r, 'a>> {
        match self.run.pay(action) {
            Ok(()) => Ok(&self.run.usage),
            Err(error) => Err(Refused { step: self, error }),
        }
    }
}

/// A payment that was refused: why, and the step, still unpaid.
pub struct Refused<'r, 'a> {
    /// The step, to be paid with another action.
    pub step: Step<'r, 'a>,
    /// Why the action was refused.
    pub error: Error,
}

impl std::fmt::Debug for Refused<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl From<Refused<'_, '_>> for Error {
    fn from(refused: Refused<'_, '_>) -> Self {
        refused.error
    }
}

impl EpisodeRun<'_> {
    fn pay(&mut self, action: &[f64]) -> Result<(), Error> {
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        expect_length("action", action, lower.len())?;
        expect_finite("action", action)?;
        for (index, ((&value, &lower), &upper)) in action.iter().zip(lower).zip(upper).enumerate() {
            if value < lower || value > upper {
                return Err(Error::OutsideBox {
                    index,
                    value,
                    lower,
                    upper,
                });
            }
        }
        let context = &self.contexts[self.step * self.context_len..];
        self.problem.usage(action, context, &mut self.usage);
        for (budget, (&asked, &available)) in self.usage.iter().zip(&self.available).enumerate() {
            if asked > available {
                return Err(Error::Overspend {
                    budget,
                    asked,
                    available,
                });
            }
        }
        self.ledger.spend(&self.usage)?;
        self.step += 1;
        Ok(())
    }
}
