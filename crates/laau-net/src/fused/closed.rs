//! The steps of a layer that is a formula: played once, with their derivatives.

use laau_core::{ClosedForm, Dimensions, LinearSteps, Queries, Regularity};
use pulp::Simd;

use super::aligned::Aligned;
use super::workspace::{Exchange, Step};
use crate::engine::BatchResult;
use crate::error::Error;

/// The steps of a minibatch with one action and one budget, lane by lane, padding included.
pub(super) struct ClosedSteps {
    batch: usize,
    lanes: usize,
    context: usize,
    /// What each lane counts in the loss: the padding nothing.
    weights: Aligned,
    /// Of the current step.
    available: Aligned,
    usages: Aligned,
    /// Of all steps.
    actions: Aligned,
    costs: Aligned,
    cost_slopes: Aligned,
    usage_slopes: Aligned,
    multiplier_slopes: Aligned,
    remaining_slopes: Aligned,
}

impl ClosedSteps {
    pub(super) fn new(context: usize, horizon: usize, batch: usize, lanes: usize) -> Self {
        let mut weights = Aligned::zeros(lanes);
        weights[..batch].fill(1.0 / (batch * horizon) as f64);
        let of_all_steps = || Aligned::zeros(horizon * lanes);
        Self {
            batch,
            lanes,
            context,
            weights,
            available: Aligned::zeros(lanes),
            usages: Aligned::zeros(lanes),
            actions: of_all_steps(),
            costs: of_all_steps(),
            cost_slopes: of_all_steps(),
            usage_slopes: of_all_steps(),
            multiplier_slopes: of_all_steps(),
            remaining_slopes: of_all_steps(),
        }
    }

    /// Plays a step: from `b` and `λ` to the next `b`.
    #[inline(always)]
    pub(super) fn play<S: Simd>(
        &mut self,
        simd: S,
        layer: &dyn ClosedForm,
        step: Step<'_>,
        exchange: &mut Exchange,
        result: &mut BatchResult,
    ) -> Result<(), Error> {
        let (reserve, least) = (simd.splat_f64s(step.reserve[0]), simd.splat_f64s(step.least[0]));
        let remaining = S::as_mut_simd_f64s(&mut exchange.remaining).0;
        for (available, b) in S::as_mut_simd_f64s(&mut self.available)
            .0
            .iter_mut()
            .zip(&*remaining)
        {
            *available = simd.max_f64s(simd.sub_f64s(*b, reserve), least);
        }
        let queries = Queries {
            contexts: step.contexts,
            multipliers: &exchange.multipliers,
            remaining: &self.available,
        };
        let (start, end) = (step.index * self.lanes, (step.index + 1) * self.lanes);
        let regularity = layer.linearise_batch(
            queries,
            LinearSteps {
                actions: &mut self.actions[start..end],
                usages: &mut self.usages,
                cost_slopes: &mut self.cost_slopes[start..end],
                usage_slopes: &mut self.usage_slopes[start..end],
                multiplier_slopes: &mut self.multiplier_slopes[start..end],
                remaining_slopes: &mut self.remaining_slopes[start..end],
            },
        )?;
        match regularity {
            Regularity::Regular => result.counts.exact += self.batch as u64,
            Regularity::Irregular => {
                let dimensions = Dimensions {
                    actions: 1,
                    budgets: 1,
                    context: self.context,
                };
                for row in 0..self.batch {
                    let exactness = layer
                        .exactness(queries.row(row, dimensions))
                        .map_err(|status| step.unsolved(status))?;
                    result.counts.add(exactness);
                }
            }
        }
        for (b, used) in remaining.iter_mut().zip(S::as_simd_f64s(&self.usages).0) {
            *b = simd.sub_f64s(*b, *used);
        }
        Ok(())
    }

    /// The loss of all steps, once they are played.
    #[inline(always)]
    pub(super) fn loss<S: Simd>(&mut self, simd: S, layer: &dyn ClosedForm, contexts: &[f64]) -> f64 {
        layer.cost_batch(&self.actions, contexts, &mut self.costs);
        let weights = S::as_simd_f64s(&self.weights).0;
        let mut loss = simd.splat_f64s(0.0);
        for costs in S::as_simd_f64s(&self.costs).0.chunks_exact(weights.len()) {
            for (weight, cost) in weights.iter().zip(costs) {
                loss = simd.mul_add_e_f64s(*weight, *cost, loss);
            }
        }
        simd.reduce_sum_f64s(loss)
    }

    /// Takes a step back: from `p` after it to `dL/dλ` and to `p` before it, without what flows through the price.
    #[inline(always)]
    pub(super) fn pull<S: Simd>(&self, simd: S, step: usize, exchange: &mut Exchange) {
        let steps = step * self.lanes..(step + 1) * self.lanes;
        let weights = S::as_simd_f64s(&self.weights).0;
        let cost_slopes = S::as_simd_f64s(&self.cost_slopes[steps.clone()]).0;
        let usage_slopes = S::as_simd_f64s(&self.usage_slopes[steps.clone()]).0;
        let multiplier_slopes = S::as_simd_f64s(&self.multiplier_slopes[steps.clone()]).0;
        let remaining_slopes = S::as_simd_f64s(&self.remaining_slopes[steps]).0;
        let in_multipliers = S::as_mut_simd_f64s(&mut exchange.multipliers).0;
        let prices = S::as_mut_simd_f64s(&mut exchange.prices).0;
        for i in 0..weights.len() {
            let spent = simd.mul_f64s(usage_slopes[i], prices[i]);
            let q = simd.sub_f64s(simd.mul_f64s(weights[i], cost_slopes[i]), spent);
            in_multipliers[i] = simd.mul_f64s(q, multiplier_slopes[i]);
            prices[i] = simd.mul_add_e_f64s(q, remaining_slopes[i], prices[i]);
        }
    }
}
