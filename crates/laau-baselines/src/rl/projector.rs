//! The Euclidean projection onto what can be paid, and its derivative.

use laau_core::{Differentiate, Dimensions, Error, Gradients, Query, Solutions, Status, StepSolver};

/// Projects the wanted actions of the steps of an episode, and remembers each step for the way back.
///
/// The solver is one for [`laau_core::Nearest`]. It is used only where the wanted action, clamped to the box, cannot be
/// paid: where it can, it is the nearest action already.
pub(crate) struct Projector {
    solver: Box<dyn Differentiate>,
    solutions: Solutions,
    steps: Vec<Step>,
    /// The projection has no prices.
    multiplier: Vec<f64>,
    usage: Vec<f64>,
    upstream: Vec<f64>,
    gradients: Gradients,
}

/// The inputs of a step's projection.
#[derive(Debug, Clone, Default)]
struct Step {
    /// The wanted action, then the problem's context.
    context: Vec<f64>,
    available: Vec<f64>,
    /// Whether the box alone did not make the action payable.
    cut: bool,
}

impl Projector {
    /// A projector that remembers `steps` steps.
    pub(crate) fn new(solver: &dyn Differentiate, steps: usize) -> Self {
        let dimensions = solver.problem().dimensions();
        Self {
            solver: solver.fork(),
            solutions: Solutions::new(dimensions, steps),
            steps: vec![Step::default(); steps],
            multiplier: vec![0.0; dimensions.budgets],
            usage: vec![0.0; dimensions.budgets],
            upstream: vec![0.0; dimensions.actions],
            gradients: Gradients::with_contexts(dimensions, 1),
        }
    }

    /// Replaces the wanted action of a step by the nearest one that is in the box and payable; says whether that is another.
    pub(crate) fn project(
        &mut self,
        step: usize,
        context: &[f64],
        available: &[f64],
        action: &mut [f64],
    ) -> Result<bool, Error> {
        let problem = self.solver.problem();
        let kept = &mut self.steps[step];
        kept.context.clear();
        kept.context.extend_from_slice(action);
        kept.context.extend_from_slice(context);
        kept.available.clear();
        kept.available.extend_from_slice(available);
        let mut changed = false;
        for ((x, &lower), &upper) in action.iter_mut().zip(problem.lower()).zip(problem.upper()) {
            let inside = if x.is_nan() { lower } else { x.clamp(lower, upper) };
            changed |= inside != *x;
            *x = inside;
        }
        problem.usage(action, &kept.context, &mut self.usage);
        kept.cut = self.usage.iter().zip(available).any(|(used, b)| used > b);
        if kept.cut {
            let query = Query {
                context: &kept.context,
                multiplier: &self.multiplier,
                available,
            };
            self.solver.solve(query, self.solutions.row_mut(step))?;
            action.copy_from_slice(self.solutions.row(step).action);
        }
        Ok(changed || kept.cut)
    }

    /// Turns the gradient in a step's action into the one in the action that was wanted, and adds the one in what was
    /// available.
    pub(crate) fn pullback(
        &mut self,
        step: usize,
        gradient: &mut [f64],
        in_available: &mut [f64],
    ) -> Result<(), Error> {
        let kept = &self.steps[step];
        let problem = self.solver.problem();
        if !kept.cut {
            let bounds = problem.lower().iter().zip(problem.upper());
            for ((value, wanted), (lower, upper)) in gradient.iter_mut().zip(&kept.context).zip(bounds) {
                if !(wanted > lower && wanted < upper) {
                    *value = 0.0;
                }
            }
            return Ok(());
        }
        let Dimensions { actions: d, .. } = problem.dimensions();
        let solution = self.solutions.row(step);
        if matches!(
            solution.status,
            Status::Infeasible { .. } | Status::Invalid { .. }
        ) {
            // The lower corner, whatever was wanted.
            gradient.fill(0.0);
            return Ok(());
        }
        let query = Query {
            context: &kept.context,
            multiplier: &self.multiplier,
            available: &kept.available,
        };
        self.upstream.copy_from_slice(gradient);
        self.solver
            .pullback(query, solution, &self.upstream, self.gradients.row_mut(0))?;
        gradient.copy_from_slice(&self.gradients.contexts[..d]);
        for (sum, value) in in_available.iter_mut().zip(&self.gradients.available) {
            *sum += value;
        }
        Ok(())
    }

    /// How many of the remembered steps could not be paid as they were wanted.
    #[cfg(test)]
    pub(crate) fn cuts(&self) -> usize {
        self.steps.iter().filter(|step| step.cut).count()
    }
}
