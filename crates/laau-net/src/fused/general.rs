//! The steps of any layer, through its batched traits.

use laau_core::{Cap, Differentiate, Dimensions, Gradients, Queries, Solutions};

use super::workspace::{Exchange, Step};
use crate::engine::BatchResult;
use crate::error::Error;
use crate::guarded::GuardedLayer;

/// The steps of a minibatch as the traits want them: `episode × value`, without padding.
pub(super) struct GeneralSteps {
    batch: usize,
    /// Lanes per block.
    width: usize,
    budgets: usize,
    context: usize,
    /// What each cost counts in the loss.
    weight: f64,
    /// Of all steps, what the layer was asked and what it answered.
    multipliers: Vec<f64>,
    available: Vec<f64>,
    solutions: Vec<Solutions>,
    /// What a guard's limits did to them; of no use without one.
    caps: Vec<Cap>,
    /// Of the current step.
    costs: Vec<f64>,
    usages: Vec<f64>,
    prices: Vec<f64>,
    upstream: Vec<f64>,
    jacobian: Vec<f64>,
    gradients: Gradients,
}

impl GeneralSteps {
    pub(super) fn new(
        dimensions: Dimensions,
        horizon: usize,
        (batch, whole): (usize, usize),
        width: usize,
    ) -> Self {
        let Dimensions {
            actions: d,
            budgets: m,
            context,
        } = dimensions;
        Self {
            batch,
            width,
            budgets: m,
            context,
            weight: 1.0 / (whole * horizon) as f64,
            multipliers: vec![0.0; horizon * batch * m],
            available: vec![0.0; horizon * batch * m],
            solutions: (0..horizon).map(|_| Solutions::new(dimensions, batch)).collect(),
            caps: vec![Cap::Free; horizon * batch],
            costs: vec![0.0; batch],
            usages: vec![0.0; batch * m],
            prices: vec![0.0; batch * m],
            upstream: vec![0.0; batch * d],
            jacobian: Vec::new(),
            gradients: Gradients::new(dimensions, batch),
        }
    }

    /// Plays a step: from `b` and `λ` to the next `b`. The padding uses nothing.
    pub(super) fn play(
        &mut self,
        layer: LayerMut<'_>,
        step: Step<'_>,
        exchange: &mut Exchange,
        result: &mut BatchResult,
    ) -> Result<(), Error> {
        let (m, width, rows) = (self.budgets, self.width, self.batch * self.budgets);
        let multipliers = &mut self.multipliers[step.index * rows..][..rows];
        let available = &mut self.available[step.index * rows..][..rows];
        from_lanes(&exchange.multipliers, m, width, multipliers);
        from_lanes(&exchange.remaining, m, width, available);
        for available in available.chunks_exact_mut(m) {
            for i in 0..m {
                // Plain floats may fall short of the least usage by a last bit; only a ledger is exact.
                available[i] = (available[i] - step.reserve[i]).max(step.least[i]);
            }
        }
        if let LayerMut::Guarded(guard) = &layer {
            guard.keep(step.index, available);
        }
        let contexts = &step.contexts[..self.batch * self.context];
        let solutions = &mut self.solutions[step.index];
        let queries = Queries {
            contexts,
            multipliers,
            available,
        };
        let problem = match layer {
            LayerMut::Plain(solver) => {
                solver.solve_batch(queries, solutions)?;
                for status in solutions.statuses() {
                    status.expect_feasible(step.index)?;
                }
                let problem = solver.problem();
                problem.cost_batch(solutions.actions(), contexts, &mut self.costs);
                problem
            }
            LayerMut::Guarded(guard) => {
                let caps = &mut self.caps[step.index * self.batch..][..self.batch];
                guard.solve(step.index, queries, solutions, caps)?;
                (guard.problem()).cost_batch(solutions.actions(), contexts, &mut self.costs);
                guard.pay(&self.costs);
                guard.problem()
            }
        };
        result.loss += self.weight * self.costs.iter().sum::<f64>();
        problem.usage_batch(solutions.actions(), contexts, &mut self.usages);
        into_lanes(&self.usages, m, width, &mut exchange.remaining, |b, used| {
            b - used
        });
        Ok(())
    }

    /// Takes a step back: from `p` after it to `dL/dλ` and to `p` before it, without what flows through the price.
    pub(super) fn pull(
        &mut self,
        layer: LayerMut<'_>,
        step: Step<'_>,
        exchange: &mut Exchange,
        result: &mut BatchResult,
    ) -> Result<(), Error> {
        let (m, width, rows) = (self.budgets, self.width, self.batch * self.budgets);
        let contexts = &step.contexts[..self.batch * self.context];
        let solutions = &self.solutions[step.index];
        from_lanes(&exchange.prices, m, width, &mut self.prices);
        let queries = Queries {
            contexts,
            multipliers: &self.multipliers[step.index * rows..][..rows],
            available: &self.available[step.index * rows..][..rows],
        };
        match layer {
            LayerMut::Plain(solver) => {
                solver.problem().step_pullback_batch(
                    solutions.actions(),
                    contexts,
                    &self.prices,
                    self.weight,
                    &mut self.jacobian,
                    &mut self.upstream,
                );
                solver.pullback_batch(queries, solutions, &self.upstream, &mut self.gradients)?;
            }
            LayerMut::Guarded(guard) => {
                guard.upstream(
                    solutions,
                    contexts,
                    &self.prices,
                    self.weight,
                    &mut self.jacobian,
                    &mut self.upstream,
                );
                let caps = &self.caps[step.index * self.batch..][..self.batch];
                guard.pullback(queries, caps, solutions, &self.upstream, &mut self.gradients)?;
            }
        }
        for exactness in &self.gradients.exactness {
            result.counts.add(*exactness);
        }
        let gradients = &self.gradients;
        into_lanes(
            &gradients.multipliers,
            m,
            width,
            &mut exchange.multipliers,
            |_, g| g,
        );
        into_lanes(&gradients.available, m, width, &mut exchange.prices, |p, g| p + g);
        Ok(())
    }
}

/// The layer that decides: a solver's own, or one behind a guard.
pub(super) enum LayerMut<'a> {
    Plain(&'a mut dyn Differentiate),
    Guarded(&'a mut GuardedLayer),
}

/// From `episode × budget` to `block × budget × lane`, as a change of what is there; the padding is left as it is.
fn into_lanes(rows: &[f64], m: usize, width: usize, lanes: &mut [f64], change: impl Fn(f64, f64) -> f64) {
    for (rows, block) in rows.chunks(width * m).zip(lanes.chunks_exact_mut(width * m)) {
        for (k, row) in rows.chunks_exact(m).enumerate() {
            for (i, value) in row.iter().enumerate() {
                let lane = &mut block[i * width + k];
                *lane = change(*lane, *value);
            }
        }
    }
}

/// From `block × budget × lane` to `episode × budget`.
fn from_lanes(lanes: &[f64], m: usize, width: usize, rows: &mut [f64]) {
    for (rows, block) in rows.chunks_mut(width * m).zip(lanes.chunks_exact(width * m)) {
        for (k, row) in rows.chunks_exact_mut(m).enumerate() {
            for (i, value) in row.iter_mut().enumerate() {
                *value = block[i * width + k];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_and_rows_are_each_others_inverse() {
        for m in [1, 2, 3] {
            for (batch, width) in [(10_usize, 16), (10, 4), (3, 8)] {
                let rows: Vec<f64> = (0..batch * m).map(|i| i as f64).collect();
                let mut lanes = vec![-1.0; batch.div_ceil(width) * width * m];
                into_lanes(&rows, m, width, &mut lanes, |_, value| value);
                assert_eq!(lanes.iter().filter(|v| **v >= 0.0).count(), rows.len());
                let mut back = vec![0.0; rows.len()];
                from_lanes(&lanes, m, width, &mut back);
                assert_eq!(back, rows);
            }
        }
    }
}
