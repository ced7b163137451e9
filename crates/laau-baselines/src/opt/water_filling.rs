//! The offline optimum of weighted fairness, exactly.

use std::sync::Arc;

use laau_core::problems::WeightedFairness;
use laau_core::{Episode, Error, Hindsight, Problem, SmoothProblem};

use super::payable::{make_payable, reserve_limits};

/// Water-filling with a box: `max Σ c_t ln x_t` subject to `Σ x_t ≤ B` and `lower ≤ x_t ≤ upper`.
///
/// The optimum is `x_t = clamp(c_t w, lower, upper)` for one level `w`, and what it uses is piecewise linear in `w`
/// with a kink at every `lower/c_t` and `upper/c_t`. Sorting the contexts sorts both kinds of kink; one sweep finds
/// the piece in which the budget is spent, and there the level is a quotient: no iteration, no tolerance. A step of
/// weight zero gets the lower bound.
#[derive(Debug, Clone)]
pub struct WaterFilling {
    problem: WeightedFairness,
}

impl WaterFilling {
    /// Water-filling in the box of a problem.
    #[must_use]
    pub fn new(problem: WeightedFairness) -> Self {
        Self { problem }
    }

    /// Writes the optimal actions of an episode with these weights and this budget, before any rounding to what a ledger
    /// pays, and returns the price of the budget, the `ν` of `x_t = clamp(c_t / ν)`: zero when the budget is not spent.
    ///
    /// The budget must pay the lower bound of every step; a smaller one gives the lower bound everywhere.
    pub fn fill(&self, weights: &[f64], budget: f64, actions: &mut [f64]) -> f64 {
        let (lower, upper) = (self.problem.lower()[0], self.problem.upper()[0]);
        match water_level(weights, budget, lower, upper) {
            Level::Flood => {
                for (x, &c) in actions.iter_mut().zip(weights) {
                    *x = if c > 0.0 { upper } else { lower };
                }
                0.0
            }
            Level::At { scale, level } => {
                for (x, &c) in actions.iter_mut().zip(weights) {
                    *x = (c / scale * level).clamp(lower, upper);
                }
                scale / level
            }
        }
    }
}

impl Hindsight for WaterFilling {
    fn name(&self) -> &'static str {
        "opt"
    }

    fn plan(&self, episode: &Episode<'_>, actions: &mut [f64]) -> Result<(), Error> {
        self.fill(episode.contexts(), episode.budgets()[0], actions);
        let problem: Arc<dyn SmoothProblem> = Arc::new(self.problem.clone());
        make_payable(&problem, episode, &reserve_limits(&*problem, episode), actions)
    }
}

/// Where the water stands.
enum Level {
    /// The budget pays the upper bound of every step that has a weight.
    Flood,
    /// At `level` per unit of weight, weights measured in `scale` (the largest of them).
    At { scale: f64, level: f64 },
}

fn water_level(weights: &[f64], budget: f64, lower: f64, upper: f64) -> Level {
    let scale = weights.iter().copied().fold(0.0, f64::max);
    // Weights relative to the largest, heaviest first. One that is too light to have a finite kink counts as zero.
    let mut sorted: Vec<f64> = weights.iter().map(|c| c / scale).collect();
    sorted.retain(|c| (upper / c).is_finite());
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let dry = (weights.len() - sorted.len()) as f64 * lower;
    let count = sorted.len();
    let budget = budget - dry;
    if count == 0 || budget >= upper * count as f64 {
        return Level::Flood;
    }

    // Raise the level from kink to kink. The first `full` weights are at the upper bound, those from `wet` on still at
    // the lower one, those between are free and use `level` times their weight.
    let (mut full, mut wet) = (0, 0);
    // Sums from the lightest up: the difference of two is as accurate as the heaviest weight between them, however heavy those
    // are that have left.
    let mut sums = vec![0.0; count + 1];
    for i in (0..count).rev() {
        sums[i] = sums[i + 1] + sorted[i];
    }
    loop {
        let lifts = sorted.get(wet).map_or(f64::INFINITY, |c| lower / c);
        let fills = if full < wet {
            upper / sorted[full]
        } else {
            f64::INFINITY
        };
        let kink = lifts.min(fills);
        let fixed = upper * full as f64 + lower * (count - wet) as f64;
        if !kink.is_finite() || fixed + kink * (sums[full] - sums[wet]) >= budget {
            break;
        }
        if lifts <= fills {
            wet += 1;
        } else {
            full += 1;
        }
    }
    let free: f64 = sorted[full..wet].iter().sum();
    let fixed = upper * full as f64 + lower * (count - wet) as f64;
    if full == wet {
        // No action is free: the budget is spent to the bit on lower and upper bounds, or a last bit short of all upper ones.
        return match sorted.get(wet) {
            Some(c) => Level::At {
                scale,
                level: lower / c,
            },
            None => Level::Flood,
        };
    }
    Level::At {
        scale,
        level: ((budget - fixed) / free).max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(weights: &[f64], budget: f64) -> (Vec<f64>, f64) {
        let mut actions = vec![0.0; weights.len()];
        let price = WaterFilling::new(WeightedFairness::paper()).fill(weights, budget, &mut actions);
        (actions, price)
    }

    #[test]
    fn without_a_bound_in_reach_the_budget_is_shared_by_weight() {
        let (actions, price) = filled(&[0.2, 0.4, 0.2], 16.0);
        assert_eq!(actions, [4.0, 8.0, 4.0]);
        assert!((price - 0.05).abs() < 1e-16);
    }

    #[test]
    fn bounds_hold_and_the_rest_is_shared() {
        assert_eq!(filled(&[1.0, 1e-3, 0.1], 52.0).0, [40.0, 1.0, 11.0]);
    }

    #[test]
    fn the_least_budget_and_a_flood_have_their_corners() {
        assert_eq!(filled(&[0.3, 0.0, 0.5], 3.0).0, [1.0, 1.0, 1.0]);
        let (actions, price) = filled(&[0.3, 0.0, 0.5], 500.0);
        assert_eq!((actions, price), (vec![40.0, 1.0, 40.0], 0.0));
        assert_eq!(filled(&[0.0, 0.0], 50.0).0, [1.0, 1.0]);
    }

    #[test]
    fn a_budget_a_last_bit_short_of_all_upper_bounds_is_spent() {
        let weights = [0.2, 0.1, 6.0, 0.03, 6.0, 7.0, 0.9, 0.1, 0.3, 2.0];
        for upper in [0.6, 21.425_167_245_729_888, 0.628_537_288_501_087] {
            let problem = WeightedFairness::new(0.2, upper).unwrap();
            let whole: f64 = (0..10).map(|_| upper).sum();
            for budget in [whole, 10.0 * upper, (10.0 * upper).next_down(), whole.next_down()] {
                let mut actions = vec![0.0; 10];
                WaterFilling::new(problem.clone()).fill(&weights, budget, &mut actions);
                let used: f64 = actions.iter().sum();
                assert!((used - budget).abs() <= 1e-14 * budget, "{used} of {budget}");
            }
        }
    }

    #[test]
    fn weights_far_below_those_that_are_full_share_the_rest() {
        // A third of the rest rounds beside the largest weight: a sum from which that is taken again would not do.
        let weights = [1.0, 1e-16 / 3.0, 2e-16 / 3.0, 1e-20];
        let (actions, _) = filled(&weights, 72.0);
        for (x, expected) in actions.iter().zip([40.0, 31.0 / 3.0, 62.0 / 3.0, 1.0]) {
            assert!((x - expected).abs() < 1e-12, "{x} is not {expected}");
        }
    }

    #[test]
    fn weights_of_any_size_are_filled() {
        let (actions, _) = filled(&[1e-310, 2e-310, 1e-310], 16.0);
        for (x, expected) in actions.iter().zip([4.0, 8.0, 4.0]) {
            assert!((x - expected).abs() < 1e-9, "{x} is not {expected}");
        }
        assert_eq!(filled(&[1e300, 1e-300, 1e300], 21.0).0, [10.0, 1.0, 10.0]);
    }

    #[test]
    fn the_budget_is_spent_wherever_the_level_stands() {
        let weights: Vec<f64> = (0..50)
            .map(|t| (f64::from(t) * 0.7).sin().abs().powi(3))
            .collect();
        for budget in (50..2000).step_by(13).map(f64::from) {
            let used: f64 = filled(&weights, budget).0.iter().sum();
            // Step 0 has no weight, and stays at the lower bound.
            let expected = budget.min(49.0 * 40.0 + 1.0);
            assert!(
                (used - expected).abs() <= 1e-12 * expected,
                "{used} of {expected}"
            );
        }
    }
}
