//! The layer at one step of an episode, as the priced policies use it.

use laau_core::{Differentiate, Error, Observation, Query, Solutions, StepSolver};

/// A layer with the scratch memory that an agent needs.
pub(crate) struct Layer {
    solver: Box<dyn Differentiate>,
    solution: Solutions,
    remaining: Vec<f64>,
    usage: Vec<f64>,
    /// Answers that were short of the layer's tolerance.
    pub(crate) unconverged: usize,
}

impl Layer {
    pub(crate) fn new(solver: &dyn Differentiate) -> Self {
        let dimensions = solver.problem().dimensions();
        Self {
            solver: solver.fork(),
            solution: Solutions::new(dimensions, 1),
            remaining: vec![0.0; dimensions.budgets],
            usage: vec![0.0; dimensions.budgets],
            unconverged: 0,
        }
    }

    /// The *untruncated* action: the layer's answer to a price when the step may use whatever it wants.
    ///
    /// What may remain is then out of reach of any action: the budgets plus the horizon times what the corners of the
    /// box use. Usage that is largest at neither corner (it would have to fall in some actions and rise in others)
    /// is cut only beyond that.
    pub(crate) fn untruncated(
        &mut self,
        seen: &Observation<'_>,
        price: &[f64],
        action: &mut [f64],
    ) -> Result<(), Error> {
        self.remaining.copy_from_slice(seen.budgets);
        for upper in [false, true] {
            let problem = self.solver.problem();
            let corner = if upper { problem.upper() } else { problem.lower() };
            problem.usage(corner, seen.context(), &mut self.usage);
            for (remaining, used) in self.remaining.iter_mut().zip(&self.usage) {
                *remaining += seen.horizon as f64 * used;
            }
        }
        self.solve(seen, price, action)
    }

    /// The layer's answer to a price within what is available.
    pub(crate) fn truncated(
        &mut self,
        seen: &Observation<'_>,
        price: &[f64],
        action: &mut [f64],
    ) -> Result<(), Error> {
        self.remaining.copy_from_slice(seen.available);
        self.solve(seen, price, action)
    }

    /// The best action that uses at most `limit`, and no more than is available. Returns the shadow prices of the limit.
    pub(crate) fn within(
        &mut self,
        seen: &Observation<'_>,
        limit: &[f64],
        action: &mut [f64],
    ) -> Result<&[f64], Error> {
        for ((remaining, limit), available) in self.remaining.iter_mut().zip(limit).zip(seen.available) {
            *remaining = limit.min(*available);
        }
        self.usage.fill(0.0);
        let price = std::mem::take(&mut self.usage);
        let solved = self.solve(seen, &price, action);
        self.usage = price;
        solved.map(|()| self.solution.row(0).duals)
    }

    /// What an action uses.
    pub(crate) fn usage(&mut self, seen: &Observation<'_>, action: &[f64]) -> &[f64] {
        self.solver
            .problem()
            .usage(action, seen.context(), &mut self.usage);
        &self.usage
    }

    fn solve(&mut self, seen: &Observation<'_>, price: &[f64], action: &mut [f64]) -> Result<(), Error> {
        let query = Query {
            context: seen.context(),
            multiplier: price,
            available: &self.remaining,
        };
        self.solver.solve(query, self.solution.row_mut(0))?;
        let solution = self.solution.row(0);
        action.copy_from_slice(solution.action);
        self.unconverged += usize::from(!solution.status.is_solved());
        solution.status.expect_feasible(seen.step)
    }
}

/// The share of the budgets that falls to one step, `ρ = B/N`.
pub(crate) fn share(seen: &Observation<'_>, out: &mut [f64]) {
    for (out, budget) in out.iter_mut().zip(seen.budgets) {
        *out = budget / seen.horizon as f64;
    }
}
