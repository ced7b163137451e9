//! The steps of a layer that is a formula: played once, with their derivatives.

use laau_core::{ClosedForm, Dimensions, LinearSteps, Queries, Regularity};

use super::aligned::Aligned;
use super::guarded::LaneLimits;
use super::workspace::{Exchange, Step};
use crate::engine::BatchResult;
use crate::error::Error;
use crate::lanes::Lanes;

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
    pub(super) fn play<S: Lanes<Real = f64>>(
        &mut self,
        simd: S,
        layer: &dyn ClosedForm,
        step: Step<'_>,
        exchange: &mut Exchange,
        result: &mut BatchResult,
    ) -> Result<(), Error> {
        let (reserve, least) = (simd.splat(step.reserve[0]), simd.splat(step.least[0]));
        let remaining = S::vectors_mut(&mut exchange.remaining);
        let available = S::vectors_mut(&mut self.available);
        for (available, b) in available.iter_mut().zip(&*remaining) {
            *available = simd.max(simd.sub(*b, reserve), least);
        }
        match self.linearise(layer, step, &exchange.multipliers)? {
            Regularity::Regular => result.counts.exact += self.batch as u64,
            Regularity::Irregular => self.count(layer, step, &exchange.multipliers, result)?,
        }
        for (b, used) in remaining.iter_mut().zip(S::vectors(&self.usages)) {
            *b = simd.sub(*b, *used);
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
    pub(super) fn loss<S: Lanes<Real = f64>>(&self, simd: S) -> f64 {
        let weights = S::vectors(&self.weights);
        let mut loss = simd.splat(0.0);
        for costs in S::vectors(&self.costs).chunks_exact(weights.len()) {
            for (weight, cost) in weights.iter().zip(costs) {
                loss = simd.mul_add(*weight, *cost, loss);
            }
        }
        simd.sum(loss)
    }

    /// Takes a step back: from `p` after it to `dL/dλ` and to `p` before it, without what flows through the price.
    #[inline(always)]
    pub(super) fn pull<S: Lanes<Real = f64>>(&self, simd: S, step: usize, exchange: &mut Exchange) {
        let weights = S::vectors(&self.weights);
        let count = weights.len();
        let slopes = S::vectors(&self.slopes);
        let (cost_slopes, slopes) = slopes[4 * step * count..][..4 * count].split_at(count);
        let (usage_slopes, slopes) = slopes.split_at(count);
        let (multiplier_slopes, remaining_slopes) = slopes.split_at(count);
        let in_multipliers = S::vectors_mut(&mut exchange.multipliers);
        let prices = S::vectors_mut(&mut exchange.prices);
        let (in_multipliers, prices) = (&mut in_multipliers[..count], &mut prices[..count]);
        for i in 0..count {
            let spent = simd.mul(usage_slopes[i], prices[i]);
            let q = simd.sub(simd.mul(weights[i], cost_slopes[i]), spent);
            in_multipliers[i] = simd.mul(q, multiplier_slopes[i]);
            prices[i] = simd.mul_add(q, remaining_slopes[i], prices[i]);
        }
    }
}
