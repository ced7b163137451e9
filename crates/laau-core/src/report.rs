//! What is reported of a policy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::episode::Episodes;
use crate::policy::GradientCounts;
use crate::rollout::Rollout;

/// The figures of several policies on the same episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The problem's name.
    pub problem: String,
    /// Steps per episode.
    pub horizon: usize,
    /// Number of episodes.
    pub episodes: usize,
    /// One entry per policy, in the order they were run.
    pub policies: Vec<PolicyReport>,
}

/// The figures of one policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyReport {
    /// The policy's name.
    pub name: String,
    /// Mean utility per step.
    pub utility: f64,
    /// Mean utility over that of the offline optimum on the same episodes, if it was run: 1 less the relative loss. Where
    /// utilities are negative (delays), it is 1 less the relative excess, so that more is better here, too.
    pub fraction_of_opt: Option<f64>,
    /// Mean remaining budget in percent, per budget.
    pub remaining_percent: Vec<f64>,
    /// Minimum, quartiles and maximum of the utility per step over episodes.
    pub quantiles: [f64; 5],
    /// Steps in which the policy asked for what cannot be paid.
    pub violations: usize,
    /// Steps in which the policy gave an error.
    pub failures: usize,
    /// Steps in which the named projection acted.
    pub projections: usize,
    /// Steps whose action was feasible but short of the layer's tolerance.
    #[serde(default)]
    pub unconverged: usize,
    /// Exact and approximate gradients in training, for a policy that was trained.
    pub gradients: Option<GradientCounts>,
    /// What was fitted or tuned, by name.
    pub parameters: BTreeMap<String, f64>,
}

impl PolicyReport {
    /// Sums up rollouts of one policy; `optimum` are the rollouts of the offline optimum on the same episodes.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        rollouts: &[Rollout],
        episodes: &Episodes,
        optimum: Option<&[Rollout]>,
    ) -> Self {
        let mut utilities: Vec<f64> = rollouts.iter().map(Rollout::utility).collect();
        let mean = mean(&utilities);
        let fraction_of_opt = optimum.map(|optimum| {
            let best: Vec<f64> = optimum.iter().map(Rollout::utility).collect();
            fraction(mean, self::mean(&best))
        });
        let budgets = episodes.budget_len();
        let mut remaining_percent = vec![0.0; budgets];
        for (rollout, episode) in rollouts.iter().zip(episodes.iter()) {
            for m in 0..budgets {
                if episode.budgets()[m] > 0.0 {
                    remaining_percent[m] +=
                        100.0 * rollout.remaining[m] / episode.budgets()[m] / rollouts.len() as f64;
                }
            }
        }
        utilities.sort_by(f64::total_cmp);
        Self {
            name: name.into(),
            utility: mean,
            fraction_of_opt,
            remaining_percent,
            quantiles: [0.0, 0.25, 0.5, 0.75, 1.0].map(|q| quantile(&utilities, q)),
            violations: rollouts.iter().map(|r| r.violations).sum(),
            failures: rollouts.iter().map(|r| r.failures).sum(),
            projections: rollouts.iter().map(|r| r.projections).sum(),
            unconverged: rollouts.iter().map(|r| r.unconverged).sum(),
            gradients: None,
            parameters: BTreeMap::new(),
        }
    }
}

/// `1 − (best − utility) / |best|`.
fn fraction(utility: f64, best: f64) -> f64 {
    if best < 0.0 {
        2.0 - utility / best
    } else {
        utility / best
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The quantile of sorted values, with linear interpolation between neighbours; NaN of none.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = q.clamp(0.0, 1.0) * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position in the slice"
    )]
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_one_less_the_loss_whatever_the_sign() {
        for (utility, best, expected) in [
            (0.9, 1.0, 0.9),
            (-1.5, -1.0, 0.5),
            (-1.0, -1.0, 1.0),
            (-3.0, -1.0, -1.0),
        ] {
            assert_eq!(fraction(utility, best), expected);
        }
    }

    #[test]
    fn quantiles_interpolate_between_neighbours() {
        let sorted = [1.0, 2.0, 4.0, 8.0];
        for (q, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.75, 5.0), (1.0, 8.0)] {
            assert_eq!(quantile(&sorted, q), expected, "quantile {q}");
        }
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(quantile(&[3.0], 0.9), 3.0);
    }
}
