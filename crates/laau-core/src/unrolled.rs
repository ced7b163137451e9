//! LAAU's Algorithm 1: price, solve, pay.

use crate::error::Error;
use crate::policy::{Agent, Observation, Policy};
use crate::solver::{Query, Solutions, StepSolver};

/// Prices the budgets: an observation to one non-negative multiplier per budget.
pub trait Multiplier: Send + Sync {
    /// Number of budgets it prices.
    fn budgets(&self) -> usize;

    /// Opens a pricer for one episode.
    fn begin(&self) -> Box<dyn Pricer + '_>;
}

/// The prices of one episode, step by step.
///
/// A pricer keeps scratch memory and running statistics of the contexts it has read, so that a step costs the same at any
/// horizon. Its result depends on the observation alone: it reads the contexts that are new since its last call, and all
/// of them when a step is repeated or another episode begins.
pub trait Pricer: Send {
    /// Writes the price of each budget.
    ///
    /// # Errors
    /// Anything that prevents pricing, for example a context of another length.
    fn price(&mut self, observation: &Observation<'_>, multiplier: &mut [f64]) -> Result<(), Error>;
}

/// The same price at every step.
#[derive(Debug, Clone, PartialEq)]
pub struct Constant(pub Vec<f64>);

impl Multiplier for Constant {
    fn budgets(&self) -> usize {
        self.0.len()
    }

    fn begin(&self) -> Box<dyn Pricer + '_> {
        Box::new(self)
    }
}

impl Pricer for &Constant {
    fn price(&mut self, _: &Observation<'_>, multiplier: &mut [f64]) -> Result<(), Error> {
        multiplier.copy_from_slice(&self.0);
        Ok(())
    }
}

/// The unrolled policy of the paper: a multiplier prices, a layer decides, the driver's ledger pays.
///
/// At the last step the price is zero: what is not used then is lost.
#[derive(Debug, Clone)]
pub struct Unrolled<M, S> {
    name: String,
    multiplier: M,
    solver: S,
    last_step_free: bool,
}

impl<M: Multiplier, S: StepSolver + Clone> Unrolled<M, S> {
    /// A policy from a multiplier and a layer.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when they do not have the same number of budgets.
    pub fn new(name: impl Into<String>, multiplier: M, solver: S) -> Result<Self, Error> {
        let expected = solver.problem().dimensions().budgets;
        if multiplier.budgets() != expected {
            return Err(Error::WrongLength {
                what: "the multiplier",
                expected,
                found: multiplier.budgets(),
            });
        }
        Ok(Self {
            name: name.into(),
            multiplier,
            solver,
            last_step_free: true,
        })
    }

    /// What prices the budgets.
    pub fn multiplier(&self) -> &M {
        &self.multiplier
    }

    /// Keeps the multiplier's price at the last step, too.
    #[must_use]
    pub fn priced_to_the_end(mut self) -> Self {
        self.last_step_free = false;
        self
    }
}

impl<M: Multiplier, S: StepSolver + Clone> Policy for Unrolled<M, S> {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        let dimensions = self.solver.problem().dimensions();
        Box::new(UnrolledAgent {
            pricer: self.multiplier.begin(),
            layer: &self.solver,
            solver: None,
            last_step_free: self.last_step_free,
            prices: vec![0.0; dimensions.budgets],
            solution: Solutions::new(dimensions, 1),
            unconverged: 0,
        })
    }
}

struct UnrolledAgent<'a, S> {
    pricer: Box<dyn Pricer + 'a>,
    layer: &'a S,
    /// A copy of the layer to solve on, from the first decision on: who is asked for prices alone needs none, and a copy costs as
    /// much as a step.
    solver: Option<S>,
    last_step_free: bool,
    prices: Vec<f64>,
    solution: Solutions,
    unconverged: usize,
}

impl<S: StepSolver + Clone> Agent for UnrolledAgent<'_, S> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        self.set_prices(observation)?;
        let query = Query {
            context: observation.context(),
            multiplier: &self.prices,
            available: observation.available,
        };
        let solver = self.solver.get_or_insert_with(|| self.layer.clone());
        solver.solve(query, self.solution.row_mut(0))?;
        let solution = self.solution.row(0);
        action.copy_from_slice(solution.action);
        self.unconverged += usize::from(!solution.status.is_solved());
        solution.status.expect_feasible(observation.step)
    }

    /// A pricer reads another episode from its start, and every answer of a layer is for itself.
    fn restart(&mut self) -> bool {
        self.prices.fill(0.0);
        self.unconverged = 0;
        true
    }

    fn price(&mut self, observation: &Observation<'_>) -> Option<Result<(), Error>> {
        Some(self.set_prices(observation))
    }

    fn unconverged(&self) -> usize {
        self.unconverged
    }

    fn multiplier(&self) -> Option<&[f64]> {
        Some(&self.prices)
    }
}

impl<S> UnrolledAgent<'_, S> {
    fn set_prices(&mut self, observation: &Observation<'_>) -> Result<(), Error> {
        if self.last_step_free && observation.is_last() {
            self.prices.fill(0.0);
            return Ok(());
        }
        self.pricer.price(observation, &mut self.prices)
    }
}
