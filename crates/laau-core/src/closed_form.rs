//! Scalar layers in closed form: the action and all derivatives in one evaluation.

use crate::error::{Error, expect_length};
use crate::solver::{Exactness, Queries, Query, Status};

/// A layer of a scalar problem (one action, one budget) with a closed form.
///
/// One evaluation gives a step and its derivatives, so that backpropagation through time needs no pullback.
/// [`crate::conformance`] checks that the formulas agree with [`crate::StepSolver::solve`],
/// [`crate::Differentiate::pullback`] and the problem.
pub trait ClosedForm: Send + Sync {
    /// Plays one step of several episodes and linearises each.
    ///
    /// What is written for a row that has no solution is not specified.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when a table does not fit the others.
    fn linearise_batch(&self, queries: Queries<'_>, steps: LinearSteps<'_>) -> Result<Regularity, Error>;

    /// [`crate::Problem::cost_batch`] for actions that [`ClosedForm::linearise_batch`] gave.
    fn cost_batch(&self, actions: &[f64], contexts: &[f64], costs: &mut [f64]);

    /// How exact the derivatives of one query are.
    ///
    /// # Errors
    /// The status of a query that has no solution.
    fn exactness(&self, query: Query<'_>) -> Result<Exactness, Status>;

    /// The step of a query, valid and feasible, whose solution costs more than a limit: the action whose cost is the limit, as
    /// [`crate::CappedLayer`] finds it. None if the budget does not allow it.
    fn at_cost(&self, query: Query<'_>, limit: f64) -> Option<LimitedStep>;
}

/// A step whose action is what a limit on its cost says, whatever its price and its budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitedStep {
    /// The action `x`.
    pub action: f64,
    /// Its usage `g`.
    pub usage: f64,
    /// `∂l/∂x`, whose inverse is the derivative of the action in the limit.
    pub cost_slope: f64,
    /// `∂g/∂x`.
    pub usage_slope: f64,
    /// How exact the derivatives are.
    pub exactness: Exactness,
}

/// Where [`ClosedForm::linearise_batch`] writes; every table has one value per row.
#[derive(Debug)]
pub struct LinearSteps<'a> {
    /// The action `x`.
    pub actions: &'a mut [f64],
    /// Its usage `g`.
    pub usages: &'a mut [f64],
    /// `∂l/∂x`.
    pub cost_slopes: &'a mut [f64],
    /// `∂g/∂x`.
    pub usage_slopes: &'a mut [f64],
    /// `∂x/∂λ`.
    pub multiplier_slopes: &'a mut [f64],
    /// `∂x/∂b`.
    pub remaining_slopes: &'a mut [f64],
}

impl LinearSteps<'_> {
    /// Checks the sizes of all tables.
    ///
    /// # Errors
    /// [`Error::WrongLength`] that names the table.
    pub fn check(&self, rows: usize) -> Result<(), Error> {
        expect_length("actions", self.actions, rows)?;
        expect_length("usages", self.usages, rows)?;
        expect_length("cost slopes", self.cost_slopes, rows)?;
        expect_length("usage slopes", self.usage_slopes, rows)?;
        expect_length("multiplier slopes", self.multiplier_slopes, rows)?;
        expect_length("remaining slopes", self.remaining_slopes, rows)
    }
}

/// How regular a batch of linearised steps is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regularity {
    /// Every row is solved, and its derivatives are exact.
    Regular,
    /// Of at least one row this cannot be said: [`ClosedForm::exactness`] says what each is.
    Irregular,
}
