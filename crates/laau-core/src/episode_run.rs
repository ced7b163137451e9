//! The driver of an episode.

use crate::error::{Error, expect_finite, expect_length};
use crate::exact::Product;
use crate::hold::HoldId;
use crate::ledger::{self, Ledger};
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
///
/// Where the usage of a step is known only later, [`Step::hold`] pays what was planned, and [`EpisodeRun::settle`] or
/// [`EpisodeRun::release`] returns the rest, in any order and however many steps later: every step is decided with what is
/// really left by then. Where the number of steps is only an estimate, [`EpisodeRun::skip`] returns the reserve of steps that
/// pass unused, and [`EpisodeRun::grant`] serves those beyond it.
///
/// A run is rebuilt by the calls that succeeded, in their order: the same contexts, actions and settlements give the same
/// holds, and the same budgets to the last bit.
///
/// ```
/// use laau_core::{EpisodeRun, problems::WeightedFairness};
///
/// let problem = WeightedFairness::paper();
/// let mut run = EpisodeRun::new(&problem, 3, &[10.0])?;
/// let first = run.reveal(&[0.3])?.hold(&[6.0])?;
/// let second = run.reveal(&[0.8])?.hold(&[3.0])?;
/// run.settle(first, &[2.5])?; // less was used than planned
/// let step = run.reveal(&[0.5])?;
/// assert_eq!(step.observation().available, [4.5]);
/// step.pay(&[4.0])?;
/// run.release(second)?; // what was planned did not happen
/// assert_eq!(run.remaining(), [3.5]);
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
    usage: Box<[f64]>,
    /// The usage of an action that is not yet paid.
    planned: Box<[f64]>,
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
        let mut least = vec![0.0; m];
        problem.least_usage(&mut least);
        check_budgets(&least, horizon, budgets)?;
        Ok(Self {
            problem,
            ledger: Ledger::new(budgets)?,
            budgets: budgets.to_vec(),
            contexts: Vec::with_capacity(horizon.saturating_mul(context).min(MOST_CONTEXTS_AT_ONCE)),
            context_len: context,
            horizon,
            step: 0,
            least,
            available: vec![0.0; m],
            usage: vec![0.0; m].into(),
            planned: vec![0.0; m].into(),
        })
    }

    /// Opens another episode of the same problem in the memory of this one, as [`EpisodeRun::new`] does.
    ///
    /// ```
    /// use laau_core::{EpisodeRun, problems::WeightedFairness};
    ///
    /// let problem = WeightedFairness::paper();
    /// let mut run = EpisodeRun::new(&problem, 2, &[10.0])?;
    /// run.reveal(&[0.3])?.pay(&[7.0])?;
    /// run.reopen(3, &[20.0])?;
    /// assert_eq!((run.step(), run.horizon(), run.remaining()), (0, 3, &[20.0][..]));
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`EpisodeRun::new`]: nothing has then changed.
    pub fn reopen(&mut self, horizon: usize, budgets: &[f64]) -> Result<(), Error> {
        check_budgets(&self.least, horizon, budgets)?;
        self.ledger.reopen(budgets)?;
        self.budgets.copy_from_slice(budgets);
        self.contexts.clear();
        self.horizon = horizon;
        self.step = 0;
        self.usage.fill(0.0);
        Ok(())
    }

    /// The current step, from 0; the horizon when the episode is over.
    #[must_use]
    pub fn step(&self) -> usize {
        self.step
    }

    /// The number of steps, those that were skipped not counted.
    ///
    /// ```
    /// use laau_core::{EpisodeRun, problems::WeightedFairness};
    ///
    /// let problem = WeightedFairness::paper();
    /// let mut run = EpisodeRun::new(&problem, 5, &[10.0])?;
    /// run.skip(2)?;
    /// assert_eq!(run.horizon(), 3);
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    #[must_use]
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// Whether all steps have been taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.step == self.horizon
    }

    /// What remains of each budget, rounded down; what is held does not remain.
    #[must_use]
    pub fn remaining(&self) -> &[f64] {
        self.ledger.remaining()
    }

    /// What the step that was paid or held last used of each budget.
    #[must_use]
    pub fn usage(&self) -> &[f64] {
        &self.usage
    }

    /// Checks whether [`EpisodeRun::reveal`] would take a context.
    ///
    /// # Errors
    /// As there.
    pub fn check(&self, context: &[f64]) -> Result<(), Error> {
        self.check_values(context)?;
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

    /// Lets steps pass that nobody used: the episode is so many steps shorter, and their reserve is available to those
    /// to come.
    ///
    /// A step without a context cannot be shown to a policy. It observes the same step as before, of a smaller horizon.
    ///
    /// ```
    /// use laau_core::{EpisodeRun, problems::WeightedFairness};
    ///
    /// let problem = WeightedFairness::paper();
    /// let mut run = EpisodeRun::new(&problem, 5, &[10.0])?;
    /// assert_eq!(run.reveal(&[0.3])?.observation().available, [6.0]); // each of the others needs at least 1
    /// run.skip(3)?;
    /// let step = run.reveal(&[0.3])?;
    /// assert_eq!(step.observation().available, [9.0]);
    /// assert_eq!((step.observation().step, step.observation().horizon), (0, 2));
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::EpisodeOver`] when fewer steps are left: nothing has then changed.
    pub fn skip(&mut self, steps: usize) -> Result<(), Error> {
        if steps > self.horizon - self.step {
            return Err(Error::EpisodeOver {
                horizon: self.horizon,
            });
        }
        self.horizon -= steps;
        Ok(())
    }

    /// Holds the lower corner of the box in a context that comes after the last step, while the budgets last.
    ///
    /// No policy decides it and no step is counted: nothing was set aside for it, so that it gets the least there is. What
    /// it holds is [`EpisodeRun::usage`].
    ///
    /// ```
    /// use laau_core::{EpisodeRun, Error, problems::WeightedFairness};
    ///
    /// let problem = WeightedFairness::paper(); // a step uses at least 1
    /// let mut run = EpisodeRun::new(&problem, 1, &[10.0])?;
    /// let hold = run.reveal(&[0.3])?.hold(&[8.5])?;
    /// run.grant(&[0.4])?;
    /// assert!(matches!(run.grant(&[0.4]), Err(Error::Overspend { available: 0.5, .. })));
    /// run.settle(hold, &[6.0])?;
    /// run.grant(&[0.4])?;
    /// assert_eq!(run.remaining(), [2.0]);
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::EpisodeOpen`] while steps are left; [`Error::Overspend`] when the budgets do not cover it; for a context that is
    /// refused as [`EpisodeRun::reveal`]. Nothing has then changed.
    pub fn grant(&mut self, context: &[f64]) -> Result<HoldId, Error> {
        self.check_values(context)?;
        if !self.is_over() {
            return Err(Error::EpisodeOpen {
                steps_left: self.horizon - self.step,
            });
        }
        self.problem
            .usage(self.problem.lower(), context, &mut self.planned);
        let hold = self.ledger.hold(&self.planned)?;
        std::mem::swap(&mut self.usage, &mut self.planned);
        Ok(hold)
    }

    /// Settles a hold of this episode by the usage that really happened: the exact difference returns to the budgets.
    ///
    /// It may come after later steps were decided, and after the last.
    ///
    /// ```
    /// use laau_core::{EpisodeRun, problems::WeightedFairness};
    ///
    /// let problem = WeightedFairness::paper();
    /// let mut run = EpisodeRun::new(&problem, 1, &[10.0])?;
    /// let hold = run.reveal(&[0.3])?.hold(&[7.0])?;
    /// run.settle(hold, &[0.5])?; // it may be less than the least that was planned
    /// assert_eq!(run.remaining(), [9.5]);
    /// assert!(run.settle(hold, &[0.5]).is_err()); // once
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Ledger::settle`]: nothing has then changed.
    pub fn settle(&mut self, hold: HoldId, usage: &[f64]) -> Result<(), Error> {
        self.ledger.settle(hold, usage)
    }

    /// Returns a whole hold of this episode to the budgets. The step stays taken.
    ///
    /// ```
    /// use laau_core::{EpisodeRun, problems::WeightedFairness};
    ///
    /// let problem = WeightedFairness::paper();
    /// let mut run = EpisodeRun::new(&problem, 2, &[10.0])?;
    /// let hold = run.reveal(&[0.3])?.hold(&[7.0])?;
    /// run.release(hold)?;
    /// assert_eq!((run.step(), run.remaining()), (1, &[10.0][..]));
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Ledger::release`]: nothing has then changed.
    pub fn release(&mut self, hold: HoldId) -> Result<(), Error> {
        self.ledger.release(hold)
    }

    /// The books of this episode: what remains, and the open holds.
    ///
    /// ```
    /// use laau_core::{EpisodeRun, problems::WeightedFairness};
    ///
    /// let problem = WeightedFairness::paper();
    /// let mut run = EpisodeRun::new(&problem, 2, &[10.0])?;
    /// let hold = run.reveal(&[0.3])?.hold(&[7.0])?;
    /// assert_eq!(run.ledger().held(hold)?, [7.0]);
    /// assert_eq!(run.ledger().holds().count(), 1);
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Checks a context, whatever the step.
    fn check_values(&self, context: &[f64]) -> Result<(), Error> {
        expect_length("context", context, self.context_len)?;
        expect_finite("context", context)?;
        self.problem.check_context(context)
    }
}

/// Checks that an episode can be played with these budgets when a step uses at least `least`.
fn check_budgets(least: &[f64], horizon: usize, budgets: &[f64]) -> Result<(), Error> {
    expect_length("the budgets", budgets, least.len())?;
    if horizon == 0 {
        return Err(Error::Empty { what: "step" });
    }
    ledger::check_budgets(budgets)?;
    for (budget, (&given, &usage)) in budgets.iter().zip(least).enumerate() {
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
    Ok(())
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

    /// The lower corner of the box.
    pub(crate) fn lower(&self) -> &'a [f64] {
        self.run.problem.lower()
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

    /// Pays an action, all or nothing, whose usage may turn out to be less; gives the hold, to be settled or released.
    ///
    /// What is held is [`EpisodeRun::usage`]. Until it is settled it counts as spent.
    ///
    /// ```
    /// use laau_core::{EpisodeRun, problems::WeightedFairness};
    ///
    /// let problem = WeightedFairness::paper();
    /// let mut run = EpisodeRun::new(&problem, 2, &[10.0])?;
    /// let refused = run.reveal(&[0.3])?.hold(&[9.5]).unwrap_err(); // the reserve of the second step is not available
    /// let hold = refused.step.hold(&[9.0])?;
    /// assert_eq!((run.usage(), run.remaining()), (&[9.0][..], &[1.0][..]));
    /// run.settle(hold, &[4.0])?;
    /// assert_eq!(run.reveal(&[0.8])?.observation().available, [6.0]);
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Step::pay`].
    pub fn hold(self, action: &[f64]) -> Result<HoldId, Refused<'r, 'a>> {
        match self.run.hold(action) {
            Ok(hold) => Ok(hold),
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
        self.plan(action)?;
        self.ledger.spend(&self.planned)?;
        self.advance();
        Ok(())
    }

    fn hold(&mut self, action: &[f64]) -> Result<HoldId, Error> {
        self.plan(action)?;
        let hold = self.ledger.hold(&self.planned)?;
        self.advance();
        Ok(hold)
    }

    /// Takes the step whose plan has been paid.
    fn advance(&mut self) {
        std::mem::swap(&mut self.usage, &mut self.planned);
        self.step += 1;
    }

    /// Plans the usage of an action and checks that this step may have it.
    #[inline]
    fn plan(&mut self, action: &[f64]) -> Result<(), Error> {
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
        self.problem.usage(action, context, &mut self.planned);
        for (budget, (&asked, &available)) in self.planned.iter().zip(&self.available).enumerate() {
            if asked > available {
                return Err(Error::Overspend {
                    budget,
                    asked,
                    available,
                });
            }
        }
        Ok(())
    }
}
