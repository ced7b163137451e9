//! What solvers and differentiation write to, and the solver itself.

use laau_core::{
    Dimensions, Error as CoreError, Input, Query, SmoothProblem, SolutionMut, Status, check_query,
    infeasible, invalid_input, validate_problem,
};

use crate::active_set::{LARGE, System};
use crate::barrier::Barrier;
use crate::direct::Model;
use crate::error::Error;
use crate::evaluations::Evaluations;
use crate::options::Options;
use crate::passes::Judged;
use crate::polish::Polish;
use crate::settle::CANDIDATES;

/// The options, and everything that solving, refining and differentiating a query write to.
///
/// The problem is an argument of every method: an [`crate::InteriorPoint`] owns it, a [`crate::Kkt`] asks its solver.
#[derive(Clone)]
pub(crate) struct Workspace {
    pub(crate) options: Options,
    pub(crate) evaluations: Evaluations,
    pub(crate) barrier: Barrier,
    pub(crate) polish: Polish,
    pub(crate) model: Model,
    /// The best solution so far of a query that is hard to solve.
    best: Polish,
    /// What the point that was last finished could still gain within reach, relative to the terms of the priced cost.
    pub(crate) gap: f64,
    pub(crate) judged: Judged,
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
    /// Memory for the queries of a problem.
    pub(crate) fn new(problem: &dyn SmoothProblem, options: &Options) -> Result<Self, Error> {
        options.check()?;
        validate_problem(problem)?;
        let Dimensions {
            actions: d,
            budgets: m,
            context,
        } = problem.dimensions();
        let evaluations = Evaluations::new(problem);
        let diagonal = evaluations.structure.diagonal_hessian;
        Ok(Self {
            options: *options,
            evaluations,
            barrier: Barrier::new(d, m, diagonal, options),
            polish: Polish::new(d, m),
            model: Model::new(d, m, diagonal),
            best: Polish::new(d, m),
            gap: 0.0,
            judged: Judged::new(d),
            system: System::new(d, m, diagonal),
            slack: vec![0.0; m],
            falling: vec![false; m],
            scratch: vec![0.0; d],
            p: vec![0.0; d],
            q: vec![0.0; m],
            mixed: vec![0.0; context * if d > LARGE { m } else { d.max(m) }],
        })
    }

    /// Solves a query, from a guess if there is one.
    pub(crate) fn solve(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        near: Option<&[f64]>,
        mut solution: SolutionMut<'_>,
    ) -> Result<(), CoreError> {
        check_query(query, &solution, problem.dimensions())?;
        if let Some(status) = self.refuse(problem, query) {
            solution.action.copy_from_slice(problem.lower());
            solution.duals.fill(0.0);
            solution.lower_duals.fill(0.0);
            solution.upper_duals.fill(0.0);
            *solution.status = status;
            return Ok(());
        }
        self.pin(problem, query);
        let direct = self.direct(problem, query, near, &mut solution);
        *solution.status = direct.unwrap_or_else(|| {
            // What the interior point starts from; the attempt has written over it.
            self.evaluations.begin(problem, query, problem.lower());
            self.run(problem, query, &mut solution)
        });
        Ok(())
    }

    /// The number of candidates. The lower corner is one only where every cost is zero; elsewhere it would be accepted for
    /// actions whose cost is negligible beside that of others.
    fn candidates(&self) -> usize {
        CANDIDATES.len() - usize::from(!self.barrier.worthless())
    }

    /// What keeps a query from being solved at all.
    fn refuse(&mut self, problem: &dyn SmoothProblem, query: Query<'_>) -> Option<Status> {
        if let Some(status) = invalid_input(query) {
            return Some(status);
        }
        if let Err(error) = problem.check_context(query.context) {
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
        infeasible(problem, query, &mut self.evaluations.usage)
    }

    /// Runs the stages until one gives a solution within the tolerance.
    ///
    /// Where the active set does not settle (at a degenerate vertex), the interior point is the solution as soon as it is
    /// close enough. When the steps run out, the best point seen is the answer.
    fn run(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        solution: &mut SolutionMut<'_>,
    ) -> Status {
        self.barrier
            .begin(problem, &mut self.evaluations, query, &self.slack);
        let mut until = self.options.polish_at;
        let mut polishing = 0;
        let mut best = (f64::INFINITY, f64::INFINITY);
        loop {
            let limit = match until {
                0.0 => 0,
                _ => self.options.max_iterations.saturating_sub(polishing),
            };
            self.barrier
                .advance(problem, &mut self.evaluations, query, until, limit, None);
            let Self {
                options,
                evaluations,
                system,
                polish,
                barrier,
                ..
            } = self;
            let settled = polish.run(problem, evaluations, system, query, barrier, options);
            polishing += polish.steps;
            let iterations = barrier.iterations + polishing;
            let last = until <= self.options.last_stage || iterations >= self.options.max_iterations;
            let (first, end) = (usize::from(!settled), self.candidates());
            let candidates = match (settled, until <= self.options.interior_at || last) {
                (_, true) => &CANDIDATES[first..end],
                (true, false) => &CANDIDATES[..1],
                (false, false) => &[],
            };
            for &candidate in candidates {
                let residual = self.settle(problem, query, candidate, solution);
                if residual <= self.options.tolerance {
                    return Status::Solved { iterations, residual };
                }
                let reached = (self.gap, residual);
                let better = match (
                    self.gap <= self.options.tolerance,
                    best.0 <= self.options.tolerance,
                ) {
                    (true, true) | (false, false) => residual < best.1,
                    (sufficient, _) => sufficient,
                };
                if better || best.1 == f64::INFINITY {
                    best = reached;
                    self.best.copy_from(&self.polish);
                }
            }
            if last && self.barrier.restore() {
                // Once more from the best iterate: rounding may have made later ones worse.
                self.evaluations.evaluate(problem, query, &self.barrier.x);
                until = 0.0;
                continue;
            }
            if last {
                self.polish.copy_from(&self.best);
                self.evaluations.evaluate(problem, query, &self.polish.x);
                self.evaluations.evaluate_usage(problem, query, &self.polish.x);
                self.evaluations
                    .evaluate_hessian(problem, query, &self.polish.x, &self.polish.dual);
                self.polish.update_stationarity(&self.evaluations, query);
                let residual = self.finish(problem, query, solution);
                // Rounding of a budget can keep an action from an optimum of its own that is worth nothing beside that rounding.
                return if self.gap <= self.options.tolerance {
                    Status::Solved {
                        iterations,
                        residual: self.gap,
                    }
                } else {
                    Status::NotConverged { iterations, residual }
                };
            }
            self.evaluations.evaluate(problem, query, &self.barrier.x);
            // Steps that converge fast may be past the next stages already.
            let reached = self.barrier.product / self.barrier.start;
            until = (until.min(reached) * self.options.stage_factor).max(self.options.last_stage);
        }
    }
}
