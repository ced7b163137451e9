//! Derivatives for any step solver.

use laau_core::{
    Differentiate, Error as CoreError, Exactness, GradientMut, Queries, Query, SmoothProblem, SolutionMut,
    SolutionRef, Solutions, StepSolver,
};

use crate::differentiate::Jacobians;
use crate::error::Error;
use crate::options::Options;
use crate::workspace::Workspace;

/// Differentiates the solution of any [`StepSolver`] through the KKT conditions on its active set.
///
/// The wrapped solver decides. Its answer is then refined by Newton steps on the active set that its slacks and duals
/// suggest: to the last digits, to duals that are exactly zero where a constraint is inactive, and to an action that is
/// payable to the last bit. So the solver may stop at 1e-6, and it may leave all duals at zero. An answer that cannot be
/// refined within the tolerance is kept, with its own status; one without a feasible action is passed on as it is.
///
/// ```
/// use std::sync::Arc;
/// use laau_core::problems::WeightedFairness;
/// use laau_core::{Differentiate, Error, Exactness, Gradients, Query, SmoothProblem, SolutionMut, Solutions, Status, StepSolver};
/// use laau_kkt::Kkt;
///
/// /// Minimises `c·(-ln x) + λx` on `x ≤ b` by a grid of a hundred points.
/// #[derive(Clone)]
/// struct Grid(Arc<WeightedFairness>);
///
/// impl StepSolver for Grid {
///     fn problem(&self) -> &dyn SmoothProblem {
///         &*self.0
///     }
///
///     fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), Error> {
///         let cost = |x: f64| query.multiplier[0] * x - query.context[0] * x.ln();
///         let grid = (1..=100).map(|k| query.available[0] * f64::from(k) / 100.0);
///         solution.action[0] = grid.min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(0.0);
///         *solution.status = Status::NotConverged { iterations: 100, residual: 0.01 };
///         Ok(())
///     }
/// }
///
/// let mut layer = Kkt::new(Grid(Arc::new(WeightedFairness::paper())))?;
/// let dimensions = layer.problem().dimensions();
/// let (mut solutions, mut gradients) = (Solutions::new(dimensions, 1), Gradients::new(dimensions, 1));
/// let query = Query { context: &[1.0], multiplier: &[0.3], available: &[10.0] };
/// layer.solve(query, solutions.row_mut(0))?;
/// assert!((solutions.actions()[0] - 1.0 / 0.3).abs() < 1e-12);
///
/// // x = c/λ, so dx/dλ = −c/λ².
/// let exactness = layer.pullback(query, solutions.row(0), &[1.0], gradients.row_mut(0))?;
/// assert_eq!(exactness, Exactness::Exact);
/// assert!((gradients.multipliers[0] + 1.0 / 0.09).abs() < 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Kkt<S: StepSolver + Clone> {
    solver: S,
    work: Workspace,
}

impl<S: StepSolver + Clone> Kkt<S> {
    /// Wraps a solver, with the default [`Options`].
    ///
    /// # Errors
    /// [`Error::Core`] for a problem with inconsistent sizes or box.
    pub fn new(solver: S) -> Result<Self, Error> {
        Self::with_options(solver, Options::default())
    }

    /// Wraps a solver.
    ///
    /// # Errors
    /// [`Error::InvalidOption`], or [`Error::Core`] for a problem with inconsistent sizes or box.
    pub fn with_options(solver: S, options: Options) -> Result<Self, Error> {
        let work = Workspace::new(solver.problem(), &options)?;
        Ok(Self { solver, work })
    }

    /// The wrapped solver.
    #[must_use]
    pub fn solver(&self) -> &S {
        &self.solver
    }

    /// The options it was made with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.work.options
    }

    /// The full Jacobians of the action at a solution this solver gave for the query.
    ///
    /// # Errors
    /// [`CoreError::WrongLength`] when a slice does not fit the problem.
    pub fn jacobians(&mut self, query: Query<'_>, solution: SolutionRef<'_>) -> Result<Jacobians, CoreError> {
        self.work.jacobians(self.solver.problem(), query, solution)
    }
}

impl<S: StepSolver + Clone> StepSolver for Kkt<S> {
    fn problem(&self) -> &dyn SmoothProblem {
        self.solver.problem()
    }

    fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), CoreError> {
        let SolutionMut {
            action,
            duals,
            lower_duals,
            upper_duals,
            status,
        } = solution;
        let ours = SolutionMut {
            action: &mut *action,
            duals: &mut *duals,
            lower_duals: &mut *lower_duals,
            upper_duals: &mut *upper_duals,
            status: &mut *status,
        };
        self.solver.solve(query, ours)?;
        let solution = SolutionMut {
            action,
            duals,
            lower_duals,
            upper_duals,
            status,
        };
        self.work.refine(self.solver.problem(), query, solution);
        Ok(())
    }

    fn solve_batch(&mut self, queries: Queries<'_>, solutions: &mut Solutions) -> Result<(), CoreError> {
        self.solver.solve_batch(queries, solutions)?;
        let dimensions = solutions.dimensions();
        for row in 0..solutions.rows() {
            let query = queries.row(row, dimensions);
            self.work
                .refine(self.solver.problem(), query, solutions.row_mut(row));
        }
        Ok(())
    }
}

impl<S: StepSolver + Clone + 'static> Differentiate for Kkt<S> {
    fn pullback(
        &mut self,
        query: Query<'_>,
        solution: SolutionRef<'_>,
        upstream: &[f64],
        gradient: GradientMut<'_>,
    ) -> Result<Exactness, CoreError> {
        self.work
            .pullback(self.solver.problem(), query, solution, upstream, gradient)
    }

    fn fork(&self) -> Box<dyn Differentiate> {
        Box::new(self.clone())
    }
}

impl<S: StepSolver + Clone> std::fmt::Debug for Kkt<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kkt")
            .field("problem", &self.solver.problem().name())
            .field("options", &self.work.options)
            .finish_non_exhaustive()
    }
}
