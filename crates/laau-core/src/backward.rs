//! The gradient of a whole episode, through every step and through the budget.

use crate::episode::Episode;
use crate::error::{Error, expect_length};
use crate::policy::GradientCounts;
use crate::problem::Dimensions;
use crate::solver::{Differentiate, Gradients, Query, Solutions};

/// The total cost of an episode played with given prices, and its gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeGradient {
    /// The cost of the whole episode.
    pub cost: f64,
    /// In the price of every budget at every step, `N × M`.
    pub multipliers: Vec<f64>,
    /// In the budgets at the start, `M`.
    pub budgets: Vec<f64>,
    /// How many of the layer's gradients were exact.
    pub counts: GradientCounts,
}

/// Plays an episode with the given prices (`N × M`) and differentiates its cost through time.
///
/// The true chain rule: with `b_{t+1} = b_t − g(x_t)` and `x_t` a function of `λ_t` *and* `b_t`,
///
/// ```text
///     q_t     = ∂l/∂x_t − (∂g/∂x_t)ᵀ p_{t+1}            p_t = dL/db_t,  p_{N+1} = 0
///     dL/dλ_t = (∂x_t/∂λ_t)ᵀ q_t
///     p_t     = p_{t+1} + (∂x_t/∂b_t)ᵀ q_t
/// ```
///
/// The paper's Eqn. (gradbudget) has the wrong sign and lacks the path from `b_{t-1}` through `x_{t-1}`.
///
/// # Errors
/// When sizes do not fit, or a step has no feasible action. A step that is feasible but short of the solver's tolerance is
/// played, and its gradient counts as approximate.
pub fn episode_gradient(
    solver: &mut dyn Differentiate,
    episode: &Episode<'_>,
    multipliers: &[f64],
) -> Result<EpisodeGradient, Error> {
    let dimensions = solver.problem().dimensions();
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = dimensions;
    let horizon = episode.horizon();
    expect_length("multipliers", multipliers, horizon * m)?;
    expect_length("budgets", episode.budgets(), m)?;

    let mut solutions = Solutions::new(dimensions, horizon);
    let mut available = vec![0.0; horizon * m];
    let mut remaining = episode.budgets().to_vec();
    let mut usage = vec![0.0; m];
    let mut least = vec![0.0; m];
    let mut cost = 0.0;
    solver.problem().least_usage(&mut least);
    for step in 0..horizon {
        let available = &mut available[step * m..][..m];
        solver.problem().reserve(horizon - 1 - step, &mut usage);
        for i in 0..m {
            // Plain floats may fall short of the least usage by a last bit; only a ledger is exact.
            available[i] = (remaining[i] - usage[i]).max(least[i]);
        }
        let context = episode.context(step);
        let query = Query {
            context,
            multiplier: &multipliers[step * m..][..m],
            available,
        };
        solver.solve(query, solutions.row_mut(step))?;
        solutions.row(step).status.expect_feasible(step)?;
        let action = solutions.row(step).action;
        cost += solver.problem().cost(action, context);
        solver.problem().usage(action, context, &mut usage);
        for i in 0..m {
            remaining[i] -= usage[i];
        }
    }

    let mut gradient = EpisodeGradient {
        cost,
        multipliers: vec![0.0; horizon * m],
        budgets: vec![0.0; m],
        counts: GradientCounts::default(),
    };
    let mut layer = Gradients::new(dimensions, 1);
    let (mut upstream, mut scratch) = (vec![0.0; d], Vec::new());
    for step in (0..horizon).rev() {
        let context = episode.context(step);
        let solution = solutions.row(step);
        solver.problem().step_pullback_batch(
            solution.action,
            context,
            &gradient.budgets,
            1.0,
            &mut scratch,
            &mut upstream,
        );
        let query = Query {
            context,
            multiplier: &multipliers[step * m..][..m],
            available: &available[step * m..][..m],
        };
        gradient
            .counts
            .add(solver.pullback(query, solution, &upstream, layer.row_mut(0))?);
        gradient.multipliers[step * m..][..m].copy_from_slice(&layer.multipliers);
        for i in 0..m {
            gradient.budgets[i] += layer.available[i];
        }
    }
    Ok(gradient)
}
