//! The steps of a layer that is a formula: played once, with their derivatives.

use laau_core::{ClosedForm, Dimensions, LinearSteps, Queries, Regularity};
use pulp::Simd;

use super::aligned::Aligned;
use super::guarded::LaneLimits;
use super::workspace::{Exchange, Step};
use crate::engine::BatchResult;
use crate::error::Error;

/// The steps of a minibatch with one action and one budget, lane by lane, padding included.
pub(super) struct ClosedSteps {
    pub(super) batch: usize,
    pub(super) lanes: usize,
    context: usize,
    /// What each lane counts in the loss: the padding nothing.
    pub(super) weights: Aligned,
    /// Of the current step.
    pub(super) available: Aligned,
    pub(super) usages: Aligned,
    /// Of all steps.
    pub(super) actions: Aligned,
    pub(super) costs: Aligned,
    /// Of all steps, step by step: `∂l/∂x`, `∂g/∂x`, `∂x/∂λ`, `∂x/∂b`.
    pub(super) slopes: Aligned,
    /// The limits of a guard, once there is one.
    pub(super) limits: Option<LaneLimits>,
}

impl ClosedSteps {
    pub(super) fn new(context: usize, horizon: usize, (batch, whole): (usize, usize), lanes: usize) -> Self {
        let mut weights = Aligned::zeros(lanes);
        weights[..batch].fill(1.0 / (whole * horizon) as f64);
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
            limits: None,
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
        let available = S::as_mut_simd_f64s(&mut self.available).0;
        for (available, b) in available.iter_mut().zip(&*remaining) {
            *available = simd.max_f64s(simd.sub_f64s(*b, reserve), least);
        }
        match self.linearise(layer, step, &exchange.multipliers)? {
            Regularity::Regular => result.counts.exact += self.batch as u64,
            Regularity::Irregular => self.count(layer, step, &exchange.multipliers, result)?,
        }
        for (b, used) in remaining.iter_mut().zip(S::as_simd_f64s(&self.usages).0) {
            *b = simd.sub_f64s(*b, *used);
        }
        Ok(())
    }

    /// Solves and linearises a step, once it is known what is available.
    #[inline(always)]
    pub(super) fn linearise(
        &mut self,
        layer: &dyn ClosedForm,
        step: Step<'_>,
        multipliers: &[f64],
    ) -> Result<Regularity, Error> {
        let lanes = self.lanes;
        let slopes = &mut self.slopes[4 * step.index * lanes..][..4 * lanes];
        let (cost_slopes, slopes) = slopes.split_at_mut(lanes);
        let (usage_slopes, slopes) = slopes.split_at_mut(lanes);
        let (multiplier_slopes, remaining_slopes) = slopes.split_at_mut(lanes);
        let queries = Queries {
            contexts: step.contexts,
            multipliers,
            available: &self.available,
        };
        let steps = LinearSteps {
            actions: &mut self.actions[step.index * lanes..][..lanes],
            usages: &mut self.usages,
            cost_slopes,
            usage_slopes,
            multiplier_slopes,
            remaining_slopes,
        };
        Ok(layer.linearise_batch(queries, steps)?)
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

    /// The costs of all steps, once they are played.
    #[inline(always)]
    pub(super) fn price(&mut self, layer: &dyn ClosedForm, contexts: &[f64]) {
        layer.cost_batch(&self.actions, contexts, &mut self.costs);
    }

    /// The loss of all steps, whose costs are known.
    #[inline(always)]
    pub(super) fn loss<S: Simd>(&self, simd: S) -> f64 {
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
