//! The convex layer and its derivatives: `min_x l(x,c) + λᵀg(x,c)` subject to `g(x,c) ≤ b` and the box.

use std::fmt;

use crate::closed_form::ClosedForm;
use crate::error::{Error, expect_length};
use crate::problem::{Dimensions, Problem, SmoothProblem};

/// Inputs of one solve: a context, and per budget a multiplier and what is available (the remainder less the reserve).
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The context `c`.
    pub context: &'a [f64],
    /// The multipliers `λ ≥ 0`.
    pub multiplier: &'a [f64],
    /// The budgets `b` that this step may use.
    pub available: &'a [f64],
}

/// Several queries, row after row.
#[derive(Debug, Clone, Copy)]
pub struct Queries<'a> {
    /// `rows × context`.
    pub contexts: &'a [f64],
    /// `rows × M`.
    pub multipliers: &'a [f64],
    /// `rows × M`.
    pub available: &'a [f64],
}

impl<'a> Queries<'a> {
    /// One of the queries.
    #[must_use]
    pub fn row(&self, row: usize, dimensions: Dimensions) -> Query<'a> {
        let Dimensions { budgets, context, .. } = dimensions;
        Query {
            context: &self.contexts[row * context..][..context],
            multiplier: &self.multipliers[row * budgets..][..budgets],
            available: &self.available[row * budgets..][..budgets],
        }
    }
}

/// Which input of a query is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The context.
    Context,
    /// The multiplier.
    Multiplier,
    /// What is available of each budget.
    Available,
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Context => "context",
            Self::Multiplier => "multiplier",
            Self::Available => "available",
        })
    }
}

/// How a query ended. Whatever it says, the action is finite and inside the box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Status {
    /// The KKT conditions hold to the solver's tolerance, and the usage is at most what is available, exactly.
    Solved {
        /// Iterations taken; 0 for a closed form.
        iterations: u32,
        /// The largest violation of a KKT condition, relative to the scale of its terms.
        residual: f64,
    },
    /// Even the lower corner of the box uses more than what remains; the action is that corner.
    Infeasible {
        /// The first budget that falls short.
        budget: usize,
        /// By how much.
        shortfall: f64,
    },
    /// The solver stopped short of its tolerance; the action is feasible all the same.
    NotConverged {
        /// Iterations taken.
        iterations: u32,
        /// The residual reached.
        residual: f64,
    },
    /// An input was NaN or infinite, or a multiplier negative; the action is the lower corner.
    Invalid {
        /// Which input.
        input: Input,
        /// The position in it.
        index: usize,
        /// The value.
        value: f64,
    },
}

impl Status {
    /// Whether the query was solved.
    #[must_use]
    pub fn is_solved(&self) -> bool {
        matches!(self, Self::Solved { .. })
    }

    /// Whether the action can be paid: the query was solved, or the solver stopped short of its tolerance.
    #[must_use]
    pub fn is_feasible(&self) -> bool {
        matches!(self, Self::Solved { .. } | Self::NotConverged { .. })
    }

    /// The one rule for every policy and every training: a feasible action is played, and one that is short of its
    /// tolerance is counted (its gradient is [`Exactness::Approximate`]); anything else is an error.
    ///
    /// # Errors
    /// [`Error::Unsolved`] for a query without a feasible action.
    pub fn expect_feasible(self, step: usize) -> Result<(), Error> {
        if self.is_feasible() {
            Ok(())
        } else {
            Err(Error::Unsolved { step, status: self })
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Solved { iterations, residual } => {
                write!(f, "solved in {iterations} iterations, residual {residual:.1e}")
            }
            Self::Infeasible { budget, shortfall } => {
                write!(f, "infeasible: budget {budget} falls short by {shortfall}")
            }
            Self::NotConverged { iterations, residual } => {
                write!(
                    f,
                    "not converged after {iterations} iterations, residual {residual:.1e}"
                )
            }
            Self::Invalid { input, index, value } => write!(f, "invalid {input}[{index}]: {value}"),
        }
    }
}

/// Where a solver writes its answer to one query.
#[derive(Debug)]
pub struct SolutionMut<'a> {
    /// The action `x`, `d` values.
    pub action: &'a mut [f64],
    /// The duals `μ` of the budgets, `M` values.
    pub duals: &'a mut [f64],
    /// The duals of the lower bounds, `d` values.
    pub lower_duals: &'a mut [f64],
    /// The duals of the upper bounds, `d` values.
    pub upper_duals: &'a mut [f64],
    /// How it ended.
    pub status: &'a mut Status,
}

/// What a solver answered to one query.
#[derive(Debug, Clone, Copy)]
pub struct SolutionRef<'a> {
    /// The action `x`.
    pub action: &'a [f64],
    /// The duals `μ` of the budgets.
    pub duals: &'a [f64],
    /// The duals of the lower bounds.
    pub lower_duals: &'a [f64],
    /// The duals of the upper bounds.
    pub upper_duals: &'a [f64],
    /// How it ended.
    pub status: Status,
}

/// The answers to a number of queries, in flat tables that are allocated once.
#[derive(Debug, Clone)]
pub struct Solutions {
    dimensions: Dimensions,
    actions: Vec<f64>,
    duals: Vec<f64>,
    lower_duals: Vec<f64>,
    upper_duals: Vec<f64>,
    statuses: Vec<Status>,
}

impl Solutions {
    /// Room for `rows` answers.
    #[must_use]
    pub fn new(dimensions: Dimensions, rows: usize) -> Self {
        let Dimensions { actions, budgets, .. } = dimensions;
        Self {
            dimensions,
            actions: vec![0.0; rows * actions],
            duals: vec![0.0; rows * budgets],
            lower_duals: vec![0.0; rows * actions],
            upper_duals: vec![0.0; rows * actions],
            statuses: vec![
                Status::NotConverged {
                    iterations: 0,
                    residual: f64::INFINITY
                };
                rows
            ],
        }
    }

    /// The sizes these answers were made for.
    #[must_use]
    pub fn dimensions(&self) -> Dimensions {
        self.dimensions
    }

    /// Number of answers.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.statuses.len()
    }

    /// All actions, `rows × d`.
    #[must_use]
    pub fn actions(&self) -> &[f64] {
        &self.actions
    }

    /// All outcomes.
    #[must_use]
    pub fn statuses(&self) -> &[Status] {
        &self.statuses
    }

    /// Everything at once, to write batched closed forms: actions, duals, lower duals, upper duals, statuses.
    pub fn columns_mut(&mut self) -> SolutionColumns<'_> {
        SolutionColumns {
            actions: &mut self.actions,
            duals: &mut self.duals,
            lower_duals: &mut self.lower_duals,
            upper_duals: &mut self.upper_duals,
            statuses: &mut self.statuses,
        }
    }

    /// One answer.
    #[must_use]
    pub fn row(&self, row: usize) -> SolutionRef<'_> {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.dimensions;
        SolutionRef {
            action: &self.actions[row * d..][..d],
            duals: &self.duals[row * m..][..m],
            lower_duals: &self.lower_duals[row * d..][..d],
            upper_duals: &self.upper_duals[row * d..][..d],
            status: self.statuses[row],
        }
    }

    /// One answer, to be written.
    pub fn row_mut(&mut self, row: usize) -> SolutionMut<'_> {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.dimensions;
        SolutionMut {
            action: &mut self.actions[row * d..][..d],
            duals: &mut self.duals[row * m..][..m],
            lower_duals: &mut self.lower_duals[row * d..][..d],
            upper_duals: &mut self.upper_duals[row * d..][..d],
            status: &mut self.statuses[row],
        }
    }
}

/// The tables of [`Solutions`], all writable at once.
#[derive(Debug)]
pub struct SolutionColumns<'a> {
    /// `rows × d`.
    pub actions: &'a mut [f64],
    /// `rows × M`.
    pub duals: &'a mut [f64],
    /// `rows × d`.
    pub lower_duals: &'a mut [f64],
    /// `rows × d`.
    pub upper_duals: &'a mut [f64],
    /// `rows`.
    pub statuses: &'a mut [Status],
}

/// Solves the convex layer. A solver owns its workspace: after construction it does not allocate.
pub trait StepSolver: Send + Sync {
    /// The problem it solves.
    fn problem(&self) -> &dyn SmoothProblem;

    /// Solves one query. The outcome is in the solution's status.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when a slice does not fit the problem.
    fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), Error>;

    /// Solves one query from an action that is near its answer, such as the answer to almost the same query.
    ///
    /// A solver that cannot start anywhere ignores it. The answer is as good as any other, but its last digits may depend on
    /// where it started, and nothing else: not on what was solved before.
    ///
    /// # Errors
    /// As [`StepSolver::solve`], also when the action does not fit the problem.
    fn solve_near(&mut self, query: Query<'_>, near: &[f64], solution: SolutionMut<'_>) -> Result<(), Error> {
        let _ = near;
        self.solve(query, solution)
    }

    /// Solves several queries; a bad one does not spoil the others.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when a table does not fit the problem.
    fn solve_batch(&mut self, queries: Queries<'_>, solutions: &mut Solutions) -> Result<(), Error> {
        let dimensions = self.problem().dimensions();
        check_queries(queries, dimensions, solutions.rows())?;
        for row in 0..solutions.rows() {
            self.solve(queries.row(row, dimensions), solutions.row_mut(row))?;
        }
        Ok(())
    }
}

/// Whether a gradient is the derivative, or a substitute where there is none (Prop. 2 of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exactness {
    /// The derivative.
    Exact,
    /// A substitute.
    Approximate {
        /// Why there is no derivative.
        reason: Inexact,
    },
}

/// Why a gradient is not exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inexact {
    /// A constraint is active with a zero dual: the solution has a kink here.
    WeaklyActive,
    /// More constraints are active than there are actions.
    TooManyActive,
    /// The gradients of the active constraints are linearly dependent.
    DependentConstraints,
    /// The Hessian of the Lagrangian is singular on the free directions.
    SingularHessian,
    /// The kink was smoothed on request.
    Smoothed,
    /// The query was not solved to the solver's tolerance.
    NotSolved,
}

/// Where a pullback writes its gradients; the context's is computed only if asked for.
#[derive(Debug)]
pub struct GradientMut<'a> {
    /// In the multipliers, `M` values.
    pub multiplier: &'a mut [f64],
    /// In what is available of each budget, `M` values.
    pub available: &'a mut [f64],
    /// In the context.
    pub context: Option<&'a mut [f64]>,
}

/// The gradients of a number of queries, in flat tables that are allocated once.
#[derive(Debug, Clone)]
pub struct Gradients {
    dimensions: Dimensions,
    /// `rows × M`.
    pub multipliers: Vec<f64>,
    /// `rows × M`.
    pub available: Vec<f64>,
    /// `rows × context`, or empty if not asked for.
    pub contexts: Vec<f64>,
    /// `rows`.
    pub exactness: Vec<Exactness>,
}

impl Gradients {
    /// Room for the gradients of `rows` queries, in multipliers and available budgets.
    #[must_use]
    pub fn new(dimensions: Dimensions, rows: usize) -> Self {
        Self {
            dimensions,
            multipliers: vec![0.0; rows * dimensions.budgets],
            available: vec![0.0; rows * dimensions.budgets],
            contexts: Vec::new(),
            exactness: vec![Exactness::Exact; rows],
        }
    }

    /// The same, and in the contexts.
    #[must_use]
    pub fn with_contexts(dimensions: Dimensions, rows: usize) -> Self {
        Self {
            contexts: vec![0.0; rows * dimensions.context],
            ..Self::new(dimensions, rows)
        }
    }

    /// One row, to be written.
    pub fn row_mut(&mut self, row: usize) -> GradientMut<'_> {
        let Dimensions {
            budgets: m, context, ..
        } = self.dimensions;
        GradientMut {
            multiplier: &mut self.multipliers[row * m..][..m],
            available: &mut self.available[row * m..][..m],
            context: (!self.contexts.is_empty()).then(|| &mut self.contexts[row * context..][..context]),
        }
    }
}

/// Differentiates the convex layer through its KKT conditions.
pub trait Differentiate: StepSolver {
    /// The gradient of `upstreamᵀ x` in the query's inputs, at a solution this solver gave for it.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when a slice does not fit the problem.
    fn pullback(
        &mut self,
        query: Query<'_>,
        solution: SolutionRef<'_>,
        upstream: &[f64],
        gradient: GradientMut<'_>,
    ) -> Result<Exactness, Error>;

    /// The pullback of several queries; `upstream` is `rows × d`.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when a table does not fit the problem.
    fn pullback_batch(
        &mut self,
        queries: Queries<'_>,
        solutions: &Solutions,
        upstream: &[f64],
        gradients: &mut Gradients,
    ) -> Result<(), Error> {
        let dimensions = self.problem().dimensions();
        let d = dimensions.actions;
        check_queries(queries, dimensions, solutions.rows())?;
        expect_length("upstream", upstream, solutions.rows() * d)?;
        for row in 0..solutions.rows() {
            gradients.exactness[row] = self.pullback(
                queries.row(row, dimensions),
                solutions.row(row),
                &upstream[row * d..][..d],
                gradients.row_mut(row),
            )?;
        }
        Ok(())
    }

    /// The layer as a formula, if it is one.
    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        None
    }

    /// An equal solver with a separate workspace, for another thread.
    fn fork(&self) -> Box<dyn Differentiate>;
}

impl Clone for Box<dyn Differentiate> {
    fn clone(&self) -> Self {
        self.fork()
    }
}

impl StepSolver for Box<dyn Differentiate> {
    fn problem(&self) -> &dyn SmoothProblem {
        (**self).problem()
    }

    fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), Error> {
        (**self).solve(query, solution)
    }

    fn solve_near(&mut self, query: Query<'_>, near: &[f64], solution: SolutionMut<'_>) -> Result<(), Error> {
        (**self).solve_near(query, near, solution)
    }

    fn solve_batch(&mut self, queries: Queries<'_>, solutions: &mut Solutions) -> Result<(), Error> {
        (**self).solve_batch(queries, solutions)
    }
}

/// Checks the sizes of a query and its solution.
///
/// # Errors
/// [`Error::WrongLength`] that names the slice.
pub fn check_query(
    query: Query<'_>,
    solution: &SolutionMut<'_>,
    dimensions: Dimensions,
) -> Result<(), Error> {
    check_queries(
        Queries {
            contexts: query.context,
            multipliers: query.multiplier,
            available: query.available,
        },
        dimensions,
        1,
    )?;
    expect_length("action", solution.action, dimensions.actions)?;
    expect_length("duals", solution.duals, dimensions.budgets)?;
    expect_length("lower duals", solution.lower_duals, dimensions.actions)?;
    expect_length("upper duals", solution.upper_duals, dimensions.actions)
}

/// Checks the sizes of a table of queries.
///
/// # Errors
/// [`Error::WrongLength`] that names the table.
pub fn check_queries(queries: Queries<'_>, dimensions: Dimensions, rows: usize) -> Result<(), Error> {
    expect_length("context", queries.contexts, rows * dimensions.context)?;
    expect_length("multiplier", queries.multipliers, rows * dimensions.budgets)?;
    expect_length("available", queries.available, rows * dimensions.budgets)
}

/// Finds the first input of a query that is invalid.
#[must_use]
pub fn invalid_input(query: Query<'_>) -> Option<Status> {
    let find = |input, values: &[f64], bad: fn(&f64) -> bool| {
        values.iter().position(bad).map(|index| Status::Invalid {
            input,
            index,
            value: values[index],
        })
    };
    find(Input::Context, query.context, |v| !v.is_finite())
        .or_else(|| {
            find(Input::Multiplier, query.multiplier, |v| {
                !(v.is_finite() && *v >= 0.0)
            })
        })
        .or_else(|| find(Input::Available, query.available, |v| !v.is_finite()))
}

/// Finds the first budget that even the lower corner of the box overuses.
#[must_use]
pub fn infeasible(problem: &dyn Problem, query: Query<'_>, usage: &mut [f64]) -> Option<Status> {
    problem.usage(problem.lower(), query.context, usage);
    let budget = usage
        .iter()
        .zip(query.available)
        .position(|(used, available)| used > available)?;
    Some(Status::Infeasible {
        budget,
        shortfall: usage[budget] - query.available[budget],
    })
}
