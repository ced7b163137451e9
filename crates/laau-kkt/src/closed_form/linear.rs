//! Steps of weighted fairness with their derivatives, several rows at a time.

#![allow(
    clippy::inline_always,
    reason = "SIMD dispatch reaches only what is inlined into the dispatched function"
)]

use laau_core::problems::WeightedFairness;
use laau_core::{
    CappedLayer, ClosedForm, Error, Exactness, Inexact, LimitedStep, LinearSteps, Problem, Queries, Query,
    Regularity, Status, check_queries,
};
use pulp::{Scalar, Simd, WithSimd};

use super::FairnessLayer;

impl ClosedForm for FairnessLayer {
    fn linearise_batch(&self, queries: Queries<'_>, mut steps: LinearSteps<'_>) -> Result<Regularity, Error> {
        let rows = queries.contexts.len();
        check_queries(queries, self.problem.dimensions(), rows)?;
        steps.check(rows)?;
        let regular = self.arch.dispatch(Linearise {
            lower: self.lower,
            upper: self.upper,
            queries: &queries,
            steps: &mut steps,
        });
        Ok(if regular {
            Regularity::Regular
        } else {
            Regularity::Irregular
        })
    }

    fn cost_batch(&self, actions: &[f64], contexts: &[f64], costs: &mut [f64]) {
        self.arch.dispatch(CostLoop {
            actions,
            contexts,
            costs,
        });
    }

    fn exactness(&self, query: Query<'_>) -> Result<Exactness, Status> {
        let (c, multiplier, remaining) = (query.context[0], query.multiplier[0], query.available[0]);
        let status = self.status(c, multiplier, remaining);
        if status.is_solved() {
            Ok(self.smoothness(c, multiplier, remaining))
        } else {
            Err(status)
        }
    }

    fn at_cost(&self, query: Query<'_>, limit: f64) -> Option<LimitedStep> {
        let (c, most) = (query.context[0], self.upper.min(query.available[0]));
        let cheapest = WeightedFairness::cost_of_normal(most, c);
        // Of `−c ln x`; a weight of zero costs nothing, whatever the action.
        if cheapest > limit || c == 0.0 {
            return None;
        }
        let is_weak = CappedLayer::is_weak(cheapest, limit);
        let action = if is_weak {
            most
        } else {
            (-limit / c).exp().clamp(self.lower, most)
        };
        Some(LimitedStep {
            action,
            usage: action,
            cost_slope: -c / action,
            usage_slope: 1.0,
            exactness: if is_weak {
                Exactness::Approximate {
                    reason: Inexact::WeaklyActive,
                }
            } else {
                Exactness::Exact
            },
        })
    }
}

/// Plays and linearises all rows of a batch, whose tables all have the same length.
struct Linearise<'a, 'q, 's> {
    lower: f64,
    upper: f64,
    // By reference: a copy of slices just written waits for the writes.
    queries: &'a Queries<'q>,
    steps: &'a mut LinearSteps<'s>,
}

impl WithSimd for Linearise<'_, '_, '_> {
    /// Whether every row is solved and off every kink.
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let Self {
            lower,
            upper,
            queries,
            steps,
        } = self;
        let (c, last_c) = S::as_simd_f64s(queries.contexts);
        let (l, last_l) = S::as_simd_f64s(queries.multipliers);
        let (b, last_b) = S::as_simd_f64s(queries.available);
        let (x, last_x) = S::as_mut_simd_f64s(&mut *steps.actions);
        let (usage, last_usage) = S::as_mut_simd_f64s(&mut *steps.usages);
        let (usage_slope, last_usage_slope) = S::as_mut_simd_f64s(&mut *steps.usage_slopes);
        let (cost_slope, last_cost_slope) = S::as_mut_simd_f64s(&mut *steps.cost_slopes);
        let (in_l, last_in_l) = S::as_mut_simd_f64s(&mut *steps.multiplier_slopes);
        let (in_b, last_in_b) = S::as_mut_simd_f64s(&mut *steps.remaining_slopes);

        let bounds = (simd.splat_f64s(lower), simd.splat_f64s(upper));
        let one = simd.splat_f64s(1.0);
        let mut regular = simd.equal_f64s(bounds.0, bounds.0);
        let rows = c.len();
        let (l, b, x) = (&l[..rows], &b[..rows], &mut x[..rows]);
        let (usage, usage_slope) = (&mut usage[..rows], &mut usage_slope[..rows]);
        let (cost_slope, in_l, in_b) = (&mut cost_slope[..rows], &mut in_l[..rows], &mut in_b[..rows]);
        for i in 0..rows {
            let row = linearise(simd, bounds, c[i], l[i], b[i]);
            x[i] = row.action;
            // The usage is the action.
            usage[i] = row.action;
            usage_slope[i] = one;
            cost_slope[i] = row.cost_slope;
            in_l[i] = row.multiplier_slope;
            in_b[i] = row.remaining_slope;
            regular = simd.and_m64s(regular, row.regular);
        }
        let mut all_regular = simd.first_true_m64s(simd.not_m64s(regular)) >= S::F64_LANES;
        for i in 0..last_c.len() {
            let row = linearise(Scalar, (lower, upper), last_c[i], last_l[i], last_b[i]);
            last_x[i] = row.action;
            last_usage[i] = row.action;
            last_usage_slope[i] = 1.0;
            last_cost_slope[i] = row.cost_slope;
            last_in_l[i] = row.multiplier_slope;
            last_in_b[i] = row.remaining_slope;
            all_regular &= row.regular;
        }
        all_regular
    }
}

/// Rows side by side.
struct Rows<S: Simd> {
    action: S::f64s,
    cost_slope: S::f64s,
    multiplier_slope: S::f64s,
    remaining_slope: S::f64s,
    regular: S::m64s,
}

/// The formulas of [`super::formulas`].
#[inline(always)]
fn linearise<S: Simd>(
    simd: S,
    (lower, upper): (S::f64s, S::f64s),
    c: S::f64s,
    l: S::f64s,
    b: S::f64s,
) -> Rows<S> {
    let (zero, one, infinity) = (
        simd.splat_f64s(0.0),
        simd.splat_f64s(1.0),
        simd.splat_f64s(f64::INFINITY),
    );
    let limit = simd.min_f64s(b, upper);
    let z = simd.div_f64s(c, simd.add_f64s(l, zero));
    let below = simd.not_m64s(simd.greater_than_or_equal_f64s(z, lower));
    let above = simd.greater_than_f64s(z, limit);
    let action = simd.select_f64s(below, lower, simd.min_f64s(z, limit));
    let slope = simd.mul_f64s(simd.neg_f64s(z), simd.div_f64s(one, l));
    let held = simd.or_m64s(below, above);
    let budget_binds = simd.and_m64s(above, simd.less_than_or_equal_f64s(b, upper));

    let at_a_bound = simd.or_m64s(simd.equal_f64s(z, lower), simd.equal_f64s(z, limit));
    let bounds_meet = simd.or_m64s(simd.equal_f64s(b, upper), simd.less_than_or_equal_f64s(b, lower));
    let negative = simd.less_than_f64s(simd.min_f64s(c, l), zero);
    let both_zero = simd.less_than_or_equal_f64s(simd.max_f64s(c, l), zero);
    let finite = simd.less_than_f64s(simd.add_f64s(simd.add_f64s(c, l), b), infinity);
    let kink = simd.or_m64s(at_a_bound, bounds_meet);
    let odd = simd.or_m64s(negative, both_zero);
    Rows {
        action,
        cost_slope: simd.div_f64s(simd.neg_f64s(c), action),
        multiplier_slope: simd.select_f64s(held, zero, slope),
        remaining_slope: simd.select_f64s(budget_binds, one, zero),
        regular: simd.and_m64s(finite, simd.not_m64s(simd.or_m64s(kink, odd))),
    }
}

/// The costs of actions in the box; the loop vectorises by itself.
struct CostLoop<'a> {
    actions: &'a [f64],
    contexts: &'a [f64],
    costs: &'a mut [f64],
}

impl WithSimd for CostLoop<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for ((cost, x), c) in self.costs.iter_mut().zip(self.actions).zip(self.contexts) {
            *cost = WeightedFairness::cost_of_normal(*x, *c);
        }
    }
}
