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
    /// Of all steps, step by step: `∂l/∂x`, `∂g/∂x`, `∂x/∂λ`, `∂x/∂b`.
    slopes: Aligned,
}

impl ClosedSteps {
    pub(super) fn new(context: usize, horizon: usize, batch: usize, lanes: usize) -> Self {
        let mut weights = Aligned::zeros(lanes);
        weights[..batch].fill(1.0 / (batch * horizon) as f64);
        Self {
            batch,
            lanes,
            context,
            weights,
            available: Aligned::zeros(lanes),
            usages: Aligned::zeros(lanes),
            actions: Aligned::zeros(horizon * lanes),
            costs: Aligned::zeros(horizon * lanes),
            slopes: Aligned::zeros(4 * horizon * lanes),
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
        let lanes = self.lanes;
        let (reserve, least) = (simd.splat_f64s(step.reserve[0]), simd.splat_f64s(step.least[0]));
        let remaining = S::as_mut_simd_f64s(&mut exchange.remaining).0;
        let available = S::as_mut_simd_f64s(&mut self.available).0;
        for (available, b) in available.iter_mut().zip(&*remaining) {
            *available = simd.max_f64s(simd.sub_f64s(*b, reserve), least);
        }
        let slopes = &mut self.slopes[4 * step.index * lanes..][..4 * lanes];
        let (cost_slopes, slopes) = slopes.split_at_mut(lanes);
        let (usage_slopes, slopes) = slopes.split_at_mut(lanes);
        let (multiplier_slopes, remaining_slopes) = slopes.split_at_mut(lanes);
        let regularity = layer.linearise_batch(
            Queries {
                contexts: step.contexts,
                multipliers: &exchange.multipliers,
                available: &self.available,
            },
            LinearSteps {
                actions: &mut self.actions[step.index * lanes..][..lanes],
                usages: &mut self.usages,
                cost_slopes,
                usage_slopes,
                multiplier_slopes,
                remaining_slopes,
            },
        )?;
        match regularity {
            Regularity::Regular => result.counts.exact += self.batch as u64,
            Regularity::Irregular => self.count(layer, step, &exchange.multipliers, result)?,
        }
        for (b, used) in remaining.iter_mut().zip(S::as_simd_f64s(&self.usages).0) {
            *b = simd.sub_f64s(*b, *used);
        }
        Ok(())
    }

    /// Says of each episode how exact its derivatives are.
    #[cold]
    fn count(
        &self,
        layer: &dyn ClosedForm,
        step: Step<'_>,
        multipliers: &[f64],
        result: &mut BatchResult,
    ) -> Result<(), Error> {
        let queries = Queries {
            contexts: step.contexts,
            multipliers,
            available: &self.available,
        };
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
        let weights = S::as_simd_f64s(&self.weights).0;
        let count = weights.len();
        let slopes = S::as_simd_f64s(&self.slopes).0;
        let (cost_slopes, slopes) = slopes[4 * step * count..][..4 * count].split_at(count);
        let (usage_slopes, slopes) = slopes.split_at(count);
        let (multiplier_slopes, remaining_slopes) = slopes.split_at(count);
        let in_multipliers = S::as_mut_simd_f64s(&mut exchange.multipliers).0;
        let prices = S::as_mut_simd_f64s(&mut exchange.prices).0;
        let (in_multipliers, prices) = (&mut in_multipliers[..count], &mut prices[..count]);
        for i in 0..count {
            let spent = simd.mul_f64s(usage_slopes[i], prices[i]);
            let q = simd.sub_f64s(simd.mul_f64s(weights[i], cost_slopes[i]), spent);
            in_multipliers[i] = simd.mul_f64s(q, multiplier_slopes[i]);
            prices[i] = simd.mul_add_e_f64s(q, remaining_slopes[i], prices[i]);
        }
    }
}
