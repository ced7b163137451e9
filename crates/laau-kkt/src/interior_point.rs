//! The general step solver: interior point, polish, pull-in.

use std::sync::Arc;

use laau_core::{
    Dimensions, Error as CoreError, Input, Query, SmoothProblem, SolutionMut, Status, StepSolver,
    check_query, infeasible, invalid_input, validate_problem,
};

use crate::active_set::System;
use crate::barrier::Barrier;
use crate::error::Error;
use crate::evaluations::Evaluations;
use crate::options::Options;
use crate::polish::Polish;
use crate::settle::CANDIDATES;

/// Each further guess of the active set comes at this share of the barrier of the one before.
const NEXT_STAGE: f64 = 1e-3;
/// From this relative barrier on, the interior point is a solution where the active set does not settle.
const INTERIOR_STAGE: f64 = 1e-10;
/// Below this relative barrier the interior point has nothing more to give: actions whose worth differs by more are none of
/// double precision's.
const LAST_STAGE: f64 = 1e-80;

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
/// **The residual** of [`Status::Solved`] is the larger of two figures, neither of which knows the width of the box. The
/// first is the largest stationarity of an action, relative to the sum of the absolute terms in it and to the change of
/// the gradient over the action's own size, `H_ii (|x_i| + x_i − lower_i)`; near a bound it is the product with the
/// distance to it. The second is what the solution could still gain, relative to the sum of the terms `|∂_i| |x_i|`
/// of the priced cost: the products of slacks and duals, and `r²/H` of a free action. Primal and dual feasibility hold
/// exactly.
///
/// **Without an interior**, when `b` is what the lower corner uses, the actions that use this budget are pinned to their
/// lower bounds and the rest is solved. Pinned actions are exempt from the residual: where usage starts flat (as `x²` from
/// `0`) they have no multipliers.
///
/// After construction nothing is allocated, as long as the problem's own methods do not.
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
    pub(crate) problem: Arc<dyn SmoothProblem>,
    pub(crate) options: Options,
    pub(crate) work: Workspace,
}

/// Everything the solver writes to.
#[derive(Clone)]
pub(crate) struct Workspace {
    pub(crate) evaluations: Evaluations,
    pub(crate) barrier: Barrier,
    pub(crate) polish: Polish,
    /// The best solution so far of a query that is hard to solve.
    best: Polish,
    pub(crate) system: System,
    pub(crate) slack: Vec<f64>,
    /// Used-up budgets whose usage falls in some action.
    pub(crate) falling: Vec<bool>,
    pub(crate) scratch: Vec<f64>,
    pub(crate) p: Vec<f64>,
    pub(crate) q: Vec<f64>,
    pub(crate) mixed: Vec<f64>,
}

impl Workspace {
    /// How many of the candidates there are: the lower corner is one only where nothing is worth anything. Elsewhere it would
    /// pass for actions that weigh next to nothing beside others, and have optima of their own.
    fn candidates(&self) -> usize {
        let worthless = self.barrier.start <= f64::MIN_POSITIVE.sqrt();
        CANDIDATES.len() - usize::from(!worthless)
    }
}

impl InteriorPoint {
    /// A solver with a workspace of its own.
    ///
    /// # Errors
    /// [`Error::InvalidOption`], or [`Error::Core`] for a problem with inconsistent sizes or box.
    pub fn new(problem: Arc<dyn SmoothProblem>, options: Options) -> Result<Self, Error> {
        options.check()?;
        validate_problem(&*problem)?;
        let Dimensions {
            actions: d,
            budgets: m,
            context,
        } = problem.dimensions();
        let evaluations = Evaluations::new(&*problem);
        let diagonal = evaluations.structure.diagonal_hessian;
        Ok(Self {
            problem,
            options,
            work: Workspace {
                evaluations,
                barrier: Barrier::new(d, m, diagonal),
                polish: Polish::new(d, m),
                best: Polish::new(d, m),
                system: System::new(d, m, diagonal),
                slack: vec![0.0; m],
                falling: vec![false; m],
                scratch: vec![0.0; d],
                p: vec![0.0; d],
                q: vec![0.0; m],
                mixed: vec![0.0; context * d.max(m)],
            },
        })
    }

    /// The options it was made with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What keeps a query from being solved at all.
    fn refuse(&mut self, query: Query<'_>) -> Option<Status> {
        if let Some(status) = invalid_input(query) {
            return Some(status);
        }
        if let Err(error) = self.problem.check_context(query.context) {
            let index = match error {
                CoreError::Negative { index, .. }
                | CoreError::NotFinite { index, .. }
                | CoreError::OutsideDomain { index, .. } => index,
                _ => 0,
            };
            return Some(Status::Invalid {
                input: Input::Context,
                index,
                value: query.context.get(index).copied().unwrap_or(f64::NAN),
            });
        }
        infeasible(&*self.problem, query, &mut self.work.evaluations.usage)
    }

    /// Runs the stages until one gives a solution within the tolerance.
    ///
    /// Where the active set does not settle (more constraints meet in a point than it takes to hold it), the interior point
    /// is the solution as soon as it is close enough. The best that was seen is the answer when the steps run out.
    fn run(&mut self, query: Query<'_>, solution: &mut SolutionMut<'_>) -> Status {
        let work = &mut self.work;
        work.barrier
            .begin(&*self.problem, &mut work.evaluations, query, &work.slack);
        let mut until = self.options.polish_at;
        let mut polishing = 0;
        let mut best = f64::INFINITY;
        loop {
            let limit = match until {
                0.0 => 0,
                _ => self.options.max_iterations.saturating_sub(polishing),
            };
            let Self {
                problem,
                options,
                work,
            } = self;
            let problem = &**problem;
            work.barrier
                .advance(problem, &mut work.evaluations, query, until, limit, None);
            let Workspace {
                evaluations,
                system,
                polish,
                barrier,
                ..
            } = work;
            let settled = polish.run(problem, evaluations, system, query, barrier, options);
            polishing += polish.steps;
            let iterations = barrier.iterations + polishing;
            let last = until <= LAST_STAGE || iterations >= self.options.max_iterations;
            let (first, end) = (usize::from(!settled), self.work.candidates());
            let candidates = match (settled, until <= INTERIOR_STAGE || last) {
                (_, true) => &CANDIDATES[first..end],
                (true, false) => &CANDIDATES[..1],
                (false, false) => &[],
            };
            for &candidate in candidates {
                let residual = self.settle(query, candidate, solution);
                if residual <= self.options.tolerance {
                    return Status::Solved { iterations, residual };
                }
                if residual < best || best == f64::INFINITY {
                    best = residual;
                    self.work.best.copy_from(&self.work.polish);
                }
            }
            let work = &mut self.work;
            if last && work.barrier.restore() {
                // Once more from the best iterate, which rounding may have thrown back since.
                work.evaluations.evaluate(&*self.problem, query, &work.barrier.x);
                until = 0.0;
                continue;
            }
            if last {
                work.polish.copy_from(&work.best);
                work.evaluations.evaluate(&*self.problem, query, &work.polish.x);
                work.evaluations
                    .evaluate_usage(&*self.problem, query, &work.polish.x);
                work.evaluations
                    .evaluate_hessian(&*self.problem, query, &work.polish.x, &work.polish.dual);
                work.polish.update_stationarity(&work.evaluations, query);
                let residual = self.finish(query, solution);
                return Status::NotConverged { iterations, residual };
            }
            work.evaluations.evaluate(&*self.problem, query, &work.barrier.x);
            // Steps that converge fast may be past the next stages already.
            let reached = work.barrier.product / work.barrier.start;
            until = (until.min(reached) * NEXT_STAGE).max(LAST_STAGE);
        }
    }
}

impl StepSolver for InteriorPoint {
    fn problem(&self) -> &dyn SmoothProblem {
        &*self.problem
    }

    fn solve(&mut self, query: Query<'_>, mut solution: SolutionMut<'_>) -> Result<(), CoreError> {
        check_query(query, &solution, self.problem.dimensions())?;
        if let Some(status) = self.refuse(query) {
            solution.action.copy_from_slice(self.problem.lower());
            solution.duals.fill(0.0);
            solution.lower_duals.fill(0.0);
            solution.upper_duals.fill(0.0);
            *solution.status = status;
            return Ok(());
        }
        self.pin(query);
        *solution.status = self.run(query, &mut solution);
        Ok(())
    }
}

impl std::fmt::Debug for InteriorPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InteriorPoint")
            .field("problem", &self.problem.name())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
