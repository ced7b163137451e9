//! The general step solver: interior point, polish, pull-in.

use std::sync::Arc;

use laau_core::{
    Differentiate, Error as CoreError, Exactness, GradientMut, Query, SmoothProblem, SolutionMut,
    SolutionRef, StepSolver, expect_length,
};

use crate::differentiate::Jacobians;
use crate::error::Error;
use crate::options::Options;
use crate::workspace::Workspace;

/// Solves and differentiates the convex layer of any [`SmoothProblem`].
///
/// `min l(x, c) + λᵀ g(x, c)` over `g(x, c) ≤ b`, `lower ≤ x ≤ upper`, in three stages:
///
/// 1. a primal-dual interior point with predictor and corrector, whose iterates are strictly inside the box,
///    so that logarithms are safe;
/// 2. Newton steps on the active set it has found, to the last digits and to duals that are exactly zero where a
///    constraint is inactive;
/// 3. a pull-in by the last bits, so that `usage ≤ remaining` holds in `f64` as the problem computes it.
///
/// **The residual** of [`laau_core::Status::Solved`] is the larger of two figures, neither of which knows the width of the box. The
/// first is the largest stationarity of an action, relative to the sum of the absolute terms in it and to the change of
/// the gradient over the action's own size, `H_ii (|x_i| + x_i − lower_i)`; near a bound it is the product with the
/// distance to it. The second is what the solution could still gain, relative to the sum of the terms `|∂_i| |x_i|`
/// of the priced cost: the products of slacks and duals, and `r²/H` of a free action. Primal and dual feasibility hold
/// exactly.
///
/// A budget that ends a few roundings above the lower corner leaves usage a staircase, on which no float meets the first figure. As a
/// last resort the second alone decides: by weak duality it bounds the distance from the optimum, with each action's way up cut where
/// it alone uses up a budget. Where usage is curved, the gradient there is flagged.
///
/// **Without an interior**, when `b` is what the lower corner uses, the actions that use this budget are pinned to their
/// lower bounds and the rest is solved. Pinned actions are exempt from the residual: where usage starts flat (as `x²` from
/// `0`) they have no multipliers.
///
/// After construction nothing is allocated, as long as the problem's own methods do not; from 65 actions on, what is quadratic in them
/// is allocated when it is first needed: for gradients in contexts, unless the problem sums them itself
/// ([`SmoothProblem::context_pullback`]), and with a diagonal Hessian for singular systems.
///
/// ```
/// use std::sync::Arc;
/// use laau_core::problems::LogUtility;
/// use laau_core::{Query, Solutions, StepSolver};
/// use laau_kkt::{InteriorPoint, Options};
///
/// let problem = Arc::new(LogUtility::new(2, 1, vec![1.0, 2.0], 0.1, 10.0)?);
/// let mut solver = InteriorPoint::new(problem, Options::default())?;
/// let mut solutions = Solutions::new(solver.problem().dimensions(), 1);
/// let query = Query { context: &[1.0, 1.0], multiplier: &[0.0], available: &[4.0] };
/// solver.solve(query, solutions.row_mut(0))?;
/// // Half of the budget for each: x = 2 and 2 · 1 = 2.
/// let action = solutions.row(0).action;
/// assert!((action[0] - 2.0).abs() < 1e-12 && (action[1] - 1.0).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct InteriorPoint {
    problem: Arc<dyn SmoothProblem>,
    work: Workspace,
}

impl InteriorPoint {
    /// A solver with a workspace of its own.
    ///
    /// # Errors
    /// [`Error::InvalidOption`], or [`Error::Core`] for a problem with inconsistent sizes or box.
    pub fn new(problem: Arc<dyn SmoothProblem>, options: Options) -> Result<Self, Error> {
        let work = Workspace::new(&*problem, &options)?;
        Ok(Self { problem, work })
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
        self.work.jacobians(&*self.problem, query, solution)
    }
}

impl StepSolver for InteriorPoint {
    fn problem(&self) -> &dyn SmoothProblem {
        &*self.problem
    }

    fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), CoreError> {
        self.work.solve(&*self.problem, query, None, solution)
    }

    fn solve_near(
        &mut self,
        query: Query<'_>,
        near: &[f64],
        solution: SolutionMut<'_>,
    ) -> Result<(), CoreError> {
        expect_length("near", near, self.problem.dimensions().actions)?;
        self.work.solve(&*self.problem, query, Some(near), solution)
    }
}

impl Differentiate for InteriorPoint {
    fn pullback(
        &mut self,
        query: Query<'_>,
        solution: SolutionRef<'_>,
        upstream: &[f64],
        gradient: GradientMut<'_>,
    ) -> Result<Exactness, CoreError> {
        self.work
            .pullback(&*self.problem, query, solution, upstream, gradient)
    }

    fn fork(&self) -> Box<dyn Differentiate> {
        Box::new(self.clone())
    }
}

impl std::fmt::Debug for InteriorPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InteriorPoint")
            .field("problem", &self.problem.name())
            .field("options", &self.work.options)
            .finish_non_exhaustive()
    }
}
