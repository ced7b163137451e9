//! The steps of a layer that is a formula behind a guard, whose limit on the cost is a bound on the action.

use laau_core::{CappedLayer, ClosedForm, Exactness, Inexact, Problem, Query, Regularity, Shadow, Status};

use super::aligned::Aligned;
use super::closed::ClosedSteps;
use super::workspace::{Exchange, Step};
use crate::engine::BatchResult;
use crate::error::Error;

/// A guard's limits and what they did, lane by lane; tables of all steps are `step × lane`.
pub(super) struct LaneLimits {
    /// What must be kept of the budget, the most that a step and all before it may cost, and the incumbent's share.
    kept: Aligned,
    costs: Aligned,
    shares: Aligned,
    /// `∂x/∂κ`.
    slopes: Aligned,
    /// `C`: the costs so far.
    spent: Aligned,
    /// `π = dL/dC`, by way of later limits.
    limited: Aligned,
}

/// What is played where the guard's limits decide, and how exact its derivatives are.
struct Limited {
    /// Action, usage, cost, and the slopes `∂l/∂x`, `∂g/∂x`, `∂x/∂κ`.
    values: [f64; 6],
    exactness: Exactness,
}

impl ClosedSteps {
    /// Takes in the limits of a minibatch. The padding has those of its last episode.
    pub(super) fn guard(&mut self, shadow: &Shadow, batch: &[usize]) {
        let (lanes, entries) = (self.lanes, self.costs.len());
        let limits = self.limits.get_or_insert_with(|| LaneLimits {
            kept: Aligned::zeros(entries),
            costs: Aligned::zeros(entries),
            shares: Aligned::zeros(entries),
            slopes: Aligned::zeros(entries),
            spent: Aligned::zeros(lanes),
            limited: Aligned::zeros(lanes),
        });
        limits.spent.fill(0.0);
        limits.limited.fill(0.0);
        for lane in 0..lanes {
            let episode = shadow.get(batch[lane.min(batch.len() - 1)]);
            for index in 0..episode.horizon() {
                let (step, at) = (episode.step(index), index * lanes + lane);
                limits.kept[at] = step.kept[0];
                limits.costs[at] = step.cost;
                limits.shares[at] = step.share[0];
            }
        }
    }

    /// Plays a step behind a guard: from `b`, `λ` and `C` to the next `b` and `C`.
    pub(super) fn play_guarded(
        &mut self,
        layer: &dyn ClosedForm,
        problem: &dyn Problem,
        step: Step<'_>,
        exchange: &mut Exchange,
        result: &mut BatchResult,
    ) -> Result<(), Error> {
        let (lanes, first) = (self.lanes, step.index * self.lanes);
        let limits = self
            .limits
            .as_mut()
            .expect("a minibatch's limits are taken in first");
        let (kept, most) = (&limits.kept[first..][..lanes], &limits.costs[first..][..lanes]);
        for ((available, b), kept) in self.available.iter_mut().zip(&*exchange.remaining).zip(kept) {
            *available = (b - step.reserve[0]).max(step.least[0]) - kept;
        }
        // The limits that are left, in the place of the slopes in them until those are known.
        for ((limit, most), spent) in
            (limits.slopes[first..][..lanes].iter_mut().zip(most)).zip(&*limits.spent)
        {
            *limit = most - spent;
        }
        let regularity = self.linearise(layer, step, &exchange.multipliers)?;
        let costs = &mut self.costs[first..][..lanes];
        layer.cost_batch(&self.actions[first..][..lanes], step.contexts, costs);
        let limits = self.limits.as_mut().expect("as before");
        let context = step.contexts.len() / lanes;
        for lane in 0..lanes {
            let (cost, limit) = (self.costs[first + lane], limits.slopes[first + lane]);
            limits.slopes[first + lane] = 0.0;
            let mut exactness = Exactness::Exact;
            let is_free = cost < limit - CappedLayer::WEAK * cost.abs().max(limit.abs());
            if !is_free || regularity == Regularity::Irregular {
                let query = Query {
                    context: &step.contexts[lane * context..][..context],
                    multiplier: &exchange.multipliers[lane..=lane],
                    available: &self.available[lane..=lane],
                };
                let share = limits.shares[first + lane];
                let plain = layer.exactness(query);
                match limited(layer, problem, query, plain, (cost, limit), share) {
                    Ok(None) => exactness = plain.unwrap_or(Exactness::Exact),
                    Ok(Some(Limited {
                        values,
                        exactness: found,
                    })) => {
                        let slopes = &mut self.slopes[4 * first..][..4 * lanes];
                        let [action, usage, cost, cost_slope, usage_slope, limit_slope] = values;
                        self.actions[first + lane] = action;
                        self.usages[lane] = usage;
                        self.costs[first + lane] = cost;
                        slopes[lane] = cost_slope;
                        slopes[lanes + lane] = usage_slope;
                        slopes[2 * lanes + lane] = 0.0;
                        slopes[3 * lanes + lane] = 0.0;
                        limits.slopes[first + lane] = limit_slope;
                        exactness = found;
                    }
                    Err(status) => return Err(step.unsolved(status)),
                }
                if CappedLayer::is_weak(cost, limit) {
                    exactness = Exactness::Approximate {
                        reason: Inexact::WeaklyActive,
                    };
                }
            }
            if lane < self.batch {
                result.counts.add(exactness);
            }
            limits.spent[lane] += self.costs[first + lane];
            exchange.remaining[lane] -= self.usages[lane];
        }
        Ok(())
    }

    /// Takes a step back: from `p` and `π` after it to `dL/dλ` and to those before it, without what flows through the price.
    pub(super) fn pull_guarded(&mut self, step: usize, exchange: &mut Exchange) {
        let lanes = self.lanes;
        let limits = self.limits.as_mut().expect("the steps have been played");
        let limit_slopes = &limits.slopes[step * lanes..][..lanes];
        let (cost_slopes, slopes) = self.slopes[4 * step * lanes..][..4 * lanes].split_at(lanes);
        let (usage_slopes, slopes) = slopes.split_at(lanes);
        let (multiplier_slopes, remaining_slopes) = slopes.split_at(lanes);
        let (in_multipliers, prices) = (&mut exchange.multipliers[..lanes], &mut exchange.prices[..lanes]);
        let (weights, limited) = (&self.weights[..lanes], &mut limits.limited[..lanes]);
        for i in 0..lanes {
            let q = (weights[i] + limited[i]) * cost_slopes[i] - usage_slopes[i] * prices[i];
            in_multipliers[i] = q * multiplier_slopes[i];
            prices[i] += q * remaining_slopes[i];
            limited[i] -= q * limit_slopes[i];
        }
    }
}

/// What is played in the place of the plain solution, if anything is; the status of a query that has no answer at all.
fn limited(
    layer: &dyn ClosedForm,
    problem: &dyn Problem,
    query: Query<'_>,
    plain: Result<Exactness, Status>,
    (cost, limit): (f64, f64),
    share: f64,
) -> Result<Option<Limited>, Status> {
    match plain {
        Err(status @ Status::Invalid { .. }) => return Err(status),
        Ok(_) if cost <= limit || CappedLayer::is_weak(cost, limit) => return Ok(None),
        Ok(_) => {
            if let Some(step) = layer.at_cost(query, limit) {
                return Ok(Some(Limited {
                    values: [
                        step.action,
                        step.usage,
                        limit,
                        step.cost_slope,
                        step.usage_slope,
                        1.0 / step.cost_slope,
                    ],
                    exactness: step.exactness,
                }));
            }
        }
        Err(_) => {}
    }
    let mut usage = [0.0];
    problem.usage(&[share], query.context, &mut usage);
    Ok(Some(Limited {
        values: [
            share,
            usage[0],
            problem.cost(&[share], query.context),
            0.0,
            0.0,
            0.0,
        ],
        exactness: Exactness::Approximate {
            reason: Inexact::DependentConstraints,
        },
    }))
}
