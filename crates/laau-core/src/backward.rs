//! The gradient of a whole episode, through every step and through the budget.

use crate::episode::Episode;
use crate::error::{Error, expect_length};
use crate::guard::{Cap, CappedLayer, ShadowEpisode, ShadowStep};
use crate::policy::GradientCounts;
use crate::problem::{Dimensions, SmoothProblem};
use crate::solver::{Differentiate, Exactness, GradientMut, Gradients, Query, SolutionRef, Solutions};

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
    differentiate(&mut Layer::Plain(solver), episode, multipliers)
}

/// The same behind a guard, whose incumbent's play is held fixed: also where the budgets move.
///
/// With `C_t` the cost of the steps up to `t`, each step may use `e_t` less and cost at most `κ_t = K_t − C_{t−1}` (see
/// [`crate::Shadow`]), so that what is spent on costs has a price, too:
///
/// ```text
///     q_t               = (1 + π_t) ∂l/∂x_t − (∂g/∂x_t)ᵀ p_{t+1}        π_t = dL/dC_t by way of later limits,  π_N = 0
///     (dL/dλ_t, db, ω)  = pullback of the layer with its limit for q_t
///     p_t               = p_{t+1} + db        π_{t−1} = π_t − ω
/// ```
///
/// Where no action is within the limits but by rounding, the incumbent's share is played: its gradient is zero, and counts as
/// approximate.
///
/// # Errors
/// As [`episode_gradient`], but that a step with too little left plays the incumbent's share.
pub fn guarded_episode_gradient(
    layer: &mut CappedLayer,
    episode: &Episode<'_>,
    shadow: ShadowEpisode<'_>,
    multipliers: &[f64],
) -> Result<EpisodeGradient, Error> {
    if shadow.horizon() != episode.horizon() {
        return Err(Error::WrongLength {
            what: "the guard's episode",
            expected: episode.horizon(),
            found: shadow.horizon(),
        });
    }
    differentiate(&mut Layer::Guarded(layer, shadow), episode, multipliers)
}

enum Layer<'a> {
    Plain(&'a mut dyn Differentiate),
    Guarded(&'a mut CappedLayer, ShadowEpisode<'a>),
}

impl Layer<'_> {
    fn problem(&self) -> &dyn SmoothProblem {
        match self {
            Self::Plain(solver) => solver.problem(),
            Self::Guarded(layer, _) => layer.problem(),
        }
    }

    /// What a guard keeps of a budget at a step.
    fn kept(&self, step: usize, budget: usize) -> f64 {
        match self {
            Self::Plain(_) => 0.0,
            Self::Guarded(_, shadow) => shadow.step(step).kept[budget],
        }
    }

    fn solve(
        &mut self,
        step: usize,
        query: Query<'_>,
        spent: f64,
        solutions: &mut Solutions,
    ) -> Result<Cap, Error> {
        match self {
            Self::Plain(solver) => {
                solver.solve(query, solutions.row_mut(step))?;
                solutions.row(step).status.expect_feasible(step)?;
                Ok(Cap::Free)
            }
            Self::Guarded(layer, shadow) => {
                let ShadowStep { cost, share, .. } = shadow.step(step);
                layer.solve_or(query, cost - spent, share, solutions, step, step)
            }
        }
    }

    fn pullback(
        &mut self,
        query: Query<'_>,
        cap: Cap,
        solution: SolutionRef<'_>,
        upstream: &[f64],
        gradient: GradientMut<'_>,
    ) -> Result<(Exactness, f64), Error> {
        match self {
            Self::Plain(solver) => Ok((solver.pullback(query, solution, upstream, gradient)?, 0.0)),
            Self::Guarded(layer, _) => layer.pullback(query, cap, solution, upstream, gradient),
        }
    }
}

fn differentiate(
    layer: &mut Layer<'_>,
    episode: &Episode<'_>,
    multipliers: &[f64],
) -> Result<EpisodeGradient, Error> {
    let dimensions = layer.problem().dimensions();
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
    let mut caps = Vec::with_capacity(horizon);
    layer.problem().least_usage(&mut least);
    for step in 0..horizon {
        let available = &mut available[step * m..][..m];
        layer.problem().reserve(horizon - 1 - step, &mut usage);
        for i in 0..m {
            // Plain floats may fall short of the least usage by a last bit; only a ledger is exact.
            available[i] = (remaining[i] - usage[i]).max(least[i]) - layer.kept(step, i);
        }
        let context = episode.context(step);
        let query = Query {
            context,
            multiplier: &multipliers[step * m..][..m],
            available,
        };
        caps.push(layer.solve(step, query, cost, &mut solutions)?);
        let action = solutions.row(step).action;
        cost += layer.problem().cost(action, context);
        layer.problem().usage(action, context, &mut usage);
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
    let mut of_step = Gradients::new(dimensions, 1);
    let mut limited = 0.0;
    let (mut upstream, mut scratch) = (vec![0.0; d], Vec::new());
    for step in (0..horizon).rev() {
        let context = episode.context(step);
        let solution = solutions.row(step);
        layer.problem().step_pullback_batch(
            solution.action,
            context,
            &gradient.budgets,
            1.0 + limited,
            &mut scratch,
            &mut upstream,
        );
        let query = Query {
            context,
            multiplier: &multipliers[step * m..][..m],
            available: &available[step * m..][..m],
        };
        let (exactness, in_limit) =
            layer.pullback(query, caps[step], solution, &upstream, of_step.row_mut(0))?;
        gradient.counts.add(exactness);
        gradient.multipliers[step * m..][..m].copy_from_slice(&of_step.multipliers);
        limited -= in_limit;
        for i in 0..m {
            gradient.budgets[i] += of_step.available[i];
        }
    }
    Ok(gradient)
}
