//! What an incumbent does, as data of a training.

use super::expect_level;
use crate::episode::Episodes;
use crate::error::{Error, expect_finite};
use crate::policy::Policy;
use crate::problem::{Dimensions, Problem};
use crate::rollout::rollout_all;

/// The limits that a guard puts on every step of a set of episodes, but for what the guarded policy itself has spent so far.
///
/// The incumbent's play depends on contexts and budgets alone, so that in training it is data. With `γ` the level, `ℓ` the
/// lower corner, `G†` the incumbent's gain and `r†` what it has left less the reserve, both after step `t`, a step may use at
/// most `available − e_t` and cost at most `K_t − C_{t−1}`, where `C_{t−1}` is what the steps before it cost and
///
/// ```text
///     e_t = γ r†_t  (0 at the last step)        K_t = Σ_{τ≤t} cost(ℓ, c_τ) − γ G†_t
/// ```
///
/// These are the conditions of [`super::Guarded`] in plain floats.
#[derive(Debug, Clone, PartialEq)]
pub struct Shadow {
    dimensions: Dimensions,
    horizon: usize,
    level: f64,
    kept: Vec<f64>,
    costs: Vec<f64>,
    shares: Vec<f64>,
}

/// The limits of one episode of a [`Shadow`].
#[derive(Debug, Clone, Copy)]
pub struct ShadowEpisode<'a> {
    dimensions: Dimensions,
    kept: &'a [f64],
    costs: &'a [f64],
    shares: &'a [f64],
}

/// The limits of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShadowStep<'a> {
    /// What must be kept of each budget beside the reserve, `e_t`.
    pub kept: &'a [f64],
    /// The most that this step and all before it may cost, `K_t`.
    pub cost: f64,
    /// The incumbent's share, `ℓ + γ(x†_t − ℓ)`: within all limits, if those before were kept.
    pub share: &'a [f64],
}

impl Shadow {
    /// Plays the incumbent on all episodes.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless the level is in `[0, 1]`; when the problem cannot be played on the episodes, or
    /// a cost is not finite.
    pub fn new(
        problem: &dyn Problem,
        incumbent: &dyn Policy,
        level: f64,
        episodes: &Episodes,
    ) -> Result<Self, Error> {
        expect_level(level)?;
        let dimensions = problem.dimensions();
        let (m, horizon) = (dimensions.budgets, episodes.horizon());
        let (mut kept, mut costs, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        let mut reserve = vec![0.0; m];
        for (rollout, episode) in rollout_all(problem, incumbent, episodes)?
            .iter()
            .zip(episodes.iter())
        {
            let (mut lower_cost, mut gain) = (0.0, 0.0);
            let mut remaining = episode.budgets().to_vec();
            for (step, usage) in rollout.usages.chunks_exact(m).enumerate() {
                let cost = problem.cost(problem.lower(), episode.context(step));
                expect_finite(
                    "the cost of the lower corner and of the incumbent",
                    &[cost, rollout.costs[step]],
                )?;
                lower_cost += cost;
                gain += cost - rollout.costs[step];
                costs.push(lower_cost - level * gain);
                problem.reserve(horizon - 1 - step, &mut reserve);
                for i in 0..m {
                    remaining[i] -= usage[i];
                    // What is not used at the last step is lost: all of it may go.
                    let is_last = step + 1 == horizon;
                    kept.push(if is_last {
                        0.0
                    } else {
                        level * (remaining[i] - reserve[i]).max(0.0)
                    });
                }
            }
            shares.extend(
                rollout
                    .actions
                    .iter()
                    .zip(problem.lower().iter().cycle())
                    .map(|(&played, &lower)| level.mul_add(played - lower, lower).clamp(lower, played)),
            );
        }
        Ok(Self {
            dimensions,
            horizon,
            level,
            kept,
            costs,
            shares,
        })
    }

    /// The share of the incumbent's gain that is promised.
    #[must_use]
    pub fn level(&self) -> f64 {
        self.level
    }

    /// All limits one after the other, to tell shadows apart.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        (self.kept.iter().chain(&self.costs).chain(&self.shares)).copied()
    }

    /// Checks that this may be the shadow of a set of episodes: as many, and of the same length.
    ///
    /// # Errors
    /// [`Error::WrongLength`].
    pub fn check(&self, episodes: &Episodes) -> Result<(), Error> {
        let count = self.costs.len() / self.horizon;
        for (what, expected, found) in [
            (
                "the horizon of the guard's episodes",
                self.horizon,
                episodes.horizon(),
            ),
            ("the guard's episodes", count, episodes.len()),
        ] {
            if expected != found {
                return Err(Error::WrongLength {
                    what,
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    /// The limits of an episode.
    #[must_use]
    pub fn get(&self, episode: usize) -> ShadowEpisode<'_> {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.dimensions;
        let part = |width: usize| episode * self.horizon * width..(episode + 1) * self.horizon * width;
        ShadowEpisode {
            dimensions: self.dimensions,
            kept: &self.kept[part(m)],
            costs: &self.costs[part(1)],
            shares: &self.shares[part(d)],
        }
    }
}

impl<'a> ShadowEpisode<'a> {
    /// The number of steps.
    #[must_use]
    pub fn horizon(&self) -> usize {
        self.costs.len()
    }

    /// The limits of a step.
    #[must_use]
    pub fn step(&self, step: usize) -> ShadowStep<'a> {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.dimensions;
        ShadowStep {
            kept: &self.kept[step * m..][..m],
            cost: self.costs[step],
            share: &self.shares[step * d..][..d],
        }
    }
}
