//! The general step solver: interior point, polish, pull-in.

use std::sync::Arc;

use laau_core::{
    Dimensions, Error as CoreError, Input, Query, SmoothProblem, SolutionMut, Status, StepSolver,
    check_query, infeasible, invalid_input, validate_problem,
};

use crate::active_set::{Bound, System};
use crate::barrier::Barrier;
use crate::error::Error;
use crate::feasible::pull_in;
use crate::model::Model;
use crate::options::Options;
use crate::polish::Polish;

/// Each further guess of the active set comes at this share of the barrier of the one before.
const NEXT_STAGE: f64 = 1e-3;
/// Below this relative barrier the interior point has nothing more to give.
const LAST_STAGE: f64 = 1e-14;

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
/// **The residual** of [`Status::Solved`] is the largest of: stationarity of an action, relative to the sum of the
/// absolute terms in it and to the change of the gradient over the action's own size (`H_ii (|x_i| + x_i − lower_i)`);
/// and the product of relative slack and relative dual of a constraint. Primal and dual feasibility hold exactly.
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
/// let query = Query { context: &[1.0, 1.0], multiplier: &[0.0], remaining: &[4.0] };
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
    pub(crate) model: Model,
    pub(crate) barrier: Barrier,
    pub(crate) polish: Polish,
    pub(crate) system: System,
    pub(crate) slack: Vec<f64>,
    pub(crate) scratch: Vec<f64>,
    pub(crate) p: Vec<f64>,
    pub(crate) q: Vec<f64>,
    pub(crate) mixed: Vec<f64>,
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
        let model = Model::new(&*problem);
        let diagonal = model.structure.diagonal_hessian;
        Ok(Self {
            problem,
            options,
            work: Workspace {
                model,
                barrier: Barrier::new(d, m, diagonal),
                polish: Polish::new(d, m),
                system: System::new(d, m, diagonal),
                slack: vec![0.0; m],
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
                CoreError::Negative { index, .. } | CoreError::NotFinite { index, .. } => index,
                _ => 0,
            };
            return Some(Status::Invalid {
                input: Input::Context,
                index,
                value: query.context.get(index).copied().unwrap_or(f64::NAN),
            });
        }
        infeasible(&*self.problem, query, &mut self.work.model.usage)
    }

    /// Finds the budgets that the lower corner uses up, and the actions they pin to their lower bounds.
    ///
    /// The model holds the usage of the lower corner.
    pub(crate) fn pin(&mut self, query: Query<'_>) {
        let work = &mut self.work;
        let (d, m) = (work.model.d, work.model.m);
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        work.barrier.free.fill(1.0);
        for row in 0..m {
            work.slack[row] = query.remaining[row] - work.model.usage[row];
        }
        work.model.begin(&*self.problem, query, lower);
        for row in 0..m {
            let jacobian = &work.model.jacobian[row * d..][..d];
            let mut reach = 0.0;
            for i in 0..d {
                reach += jacobian[i].max(0.0) * (upper[i] - lower[i]);
            }
            let rounding = 8.0 * f64::EPSILON * query.remaining[row].abs();
            let tight = work.slack[row] <= rounding.max(self.options.active_tolerance * reach);
            work.barrier.live[row] = !tight;
            if !tight {
                continue;
            }
            work.scratch.copy_from_slice(lower);
            let at_corner = query.remaining[row] - work.slack[row];
            for i in 0..d {
                let mut uses = work.model.jacobian[row * d + i] > 0.0;
                if !uses && !work.model.structure.affine_usage {
                    // Usage may start flat and still grow.
                    work.scratch[i] = upper[i];
                    work.model.evaluate_usage(&*self.problem, query, &work.scratch);
                    work.scratch[i] = lower[i];
                    uses = work.model.usage[row] > at_corner;
                }
                if uses {
                    work.barrier.free[i] = 0.0;
                }
            }
        }
    }

    /// Runs the stages; returns whether the active set has settled, and the steps taken.
    fn run(&mut self, query: Query<'_>) -> (bool, u32) {
        let Self {
            problem,
            options,
            work,
        } = self;
        let problem = &**problem;
        work.barrier.begin(problem, &mut work.model, query, &work.slack);
        let mut until = options.polish_at;
        let mut polishing = 0;
        loop {
            let limit = options.max_iterations.saturating_sub(polishing);
            work.barrier
                .advance(problem, &mut work.model, query, until, limit, None);
            let settled = work.polish.run(
                problem,
                &mut work.model,
                &mut work.system,
                query,
                &work.barrier,
                options,
            );
            polishing += work.polish.steps;
            let steps = work.barrier.iterations + polishing;
            if settled {
                return (true, steps);
            }
            model_at_barrier(work, problem, query);
            if until <= LAST_STAGE || steps >= options.max_iterations {
                return (false, steps);
            }
            until = (until * NEXT_STAGE).max(LAST_STAGE);
        }
    }

    /// Takes the interior point as it is where no active set has settled.
    fn take_interior(&mut self, query: Query<'_>) {
        let work = &mut self.work;
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        work.polish.guess(&work.model, query, &work.barrier, lower, upper);
        for i in 0..work.model.d {
            let x = work.barrier.x[i];
            if work.barrier.free[i] != 0.0 {
                work.polish.x[i] = if x.is_finite() {
                    x.clamp(lower[i], upper[i])
                } else {
                    lower[i]
                };
            }
        }
        work.model.evaluate(&*self.problem, query, &work.polish.x);
        work.model.evaluate_usage(&*self.problem, query, &work.polish.x);
        work.polish.update_stationarity(&work.model, query);
    }

    /// Gives pinned actions a budget to blame: a dual large enough that no lower dual is negative.
    fn blame_pinning_budgets(&mut self, query: Query<'_>) {
        let work = &mut self.work;
        let d = work.model.d;
        for row in 0..work.model.m {
            if work.barrier.live[row] {
                continue;
            }
            let jacobian = &work.model.jacobian[row * d..][..d];
            let mut dual = 0.0_f64;
            for i in 0..d {
                if work.barrier.free[i] == 0.0 && jacobian[i] > 0.0 {
                    dual = dual.max(-work.polish.stationarity[i] / jacobian[i]);
                }
            }
            work.polish.dual[row] = dual;
            work.polish.update_stationarity(&work.model, query);
        }
    }

    /// Writes the duals of the box and returns the residual.
    fn finish(&mut self, query: Query<'_>, solution: &mut SolutionMut<'_>) -> f64 {
        let work = &mut self.work;
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let polish = &work.polish;
        let mut residual = 0.0_f64;
        let mut note = |value: f64| residual = if value <= residual { residual } else { value };
        for i in 0..work.model.d {
            let (x, r, scale) = (polish.x[i], polish.stationarity[i], polish.scale[i]);
            let size = x.abs() + (x - lower[i]);
            let zero = self.options.active_tolerance * scale;
            solution.action[i] = x;
            solution.lower_duals[i] = 0.0;
            solution.upper_duals[i] = 0.0;
            let total = scale + work.model.curvature(i).abs() * size;
            match polish.set.bounds[i] {
                Bound::Lower if r > zero => {
                    solution.lower_duals[i] = r;
                    note((x - lower[i]) / (upper[i] - lower[i]) * (r / (r + scale)));
                }
                Bound::Upper if -r > zero => {
                    solution.upper_duals[i] = -r;
                    note((upper[i] - x) / (upper[i] - lower[i]) * (-r / (scale - r)));
                }
                _ if work.barrier.free[i] == 0.0 || r == 0.0 => {}
                _ => note(r.abs() / total),
            }
        }
        for m in 0..work.model.m {
            let (dual, remaining, used) = (polish.dual[m], query.remaining[m], work.model.usage[m]);
            solution.duals[m] = dual;
            if dual > 0.0 && work.barrier.live[m] {
                let slack = (remaining - used) / (remaining.abs() + used.abs()).max(f64::MIN_POSITIVE);
                note(slack * dual / (dual + query.multiplier[m]));
            }
        }
        if residual.is_finite() {
            residual
        } else {
            f64::INFINITY
        }
    }
}

/// The gradients at the interior point again, after polishing has moved the model elsewhere.
fn model_at_barrier(work: &mut Workspace, problem: &dyn SmoothProblem, query: Query<'_>) {
    work.model.evaluate(problem, query, &work.barrier.x);
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
        let (settled, iterations) = self.run(query);
        if !settled {
            self.take_interior(query);
        }
        let work = &mut self.work;
        if pull_in(&*self.problem, &mut work.model, query, &mut work.polish.x) {
            work.model.evaluate(&*self.problem, query, &work.polish.x);
            work.polish.update_stationarity(&work.model, query);
        }
        if work.barrier.live.contains(&false) {
            self.blame_pinning_budgets(query);
        }
        let residual = self.finish(query, &mut solution);
        *solution.status = if residual <= self.options.tolerance {
            Status::Solved { iterations, residual }
        } else {
            Status::NotConverged { iterations, residual }
        };
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
