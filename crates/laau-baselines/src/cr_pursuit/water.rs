//! The pseudo-optimum of weighted fairness, kept up to date as steps are revealed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::shared::FairnessBounds;

/// The largest value of `Σ c_τ ln(x_τ / lower)` over the revealed steps, subject to `Σ (x_τ − lower) ≤ Δ` and the box.
///
/// The maximiser is a water level `w`: `x_τ = clip(c_τ w, lower, upper)`. Revealing one more step can only lower
/// `w`, and as `w` falls a step goes from its upper bound to the inside to its lower bound, each once and never back;
/// the step with the smallest weight goes first. Two heaps by weight therefore suffice, and `n` steps cost
/// `O(n log n)` in total.
#[derive(Debug, Clone)]
pub(crate) struct WaterLevel {
    fair: FairnessBounds,
    excess: f64,
    level: f64,
    full: BinaryHeap<Reverse<Weight>>,
    inside: BinaryHeap<Reverse<Weight>>,
    /// `Σ c` over the steps at their upper bound.
    full_weight: f64,
    /// `Σ c` over the steps between their bounds.
    inside_weight: f64,
    /// `Σ c ln c` over the steps between their bounds.
    inside_entropy: f64,
    value: f64,
}

impl WaterLevel {
    /// No step revealed yet; `excess` is the budget less the lower bound of every step of the episode.
    pub(crate) fn new(fair: FairnessBounds, excess: f64) -> Self {
        Self {
            fair,
            excess: excess.max(0.0),
            level: f64::INFINITY,
            full: BinaryHeap::new(),
            inside: BinaryHeap::new(),
            full_weight: 0.0,
            inside_weight: 0.0,
            inside_entropy: 0.0,
            value: 0.0,
        }
    }

    /// Reveals one more step; gives the growth of the pseudo-optimum, `η_t − η_{t−1} ≥ 0`.
    pub(crate) fn reveal(&mut self, weight: f64) -> f64 {
        if weight > 0.0 {
            let wanted = weight * self.level;
            if wanted >= self.fair.upper {
                self.full.push(Reverse(Weight(weight)));
                self.full_weight += weight;
            } else if wanted > self.fair.lower {
                self.enter(weight);
            }
            self.lower_level();
        }
        let before = self.value;
        self.value = self.evaluate().max(before);
        self.value - before
    }

    /// The water level; infinite while the budget covers every upper bound.
    #[cfg(test)]
    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// Lowers the level until the revealed steps can be paid.
    fn lower_level(&mut self) {
        let FairnessBounds { lower, upper } = self.fair;
        loop {
            // What is left for the steps inside, with their lower bounds put back.
            let rest =
                self.excess - self.full.len() as f64 * (upper - lower) + self.inside.len() as f64 * lower;
            let next_full = self.full.peek().map_or(0.0, |c| upper / c.0.0);
            let next_inside = self.inside.peek().map_or(0.0, |c| lower / c.0.0);
            let next = next_full.max(next_inside);
            if self.inside.is_empty() {
                if rest >= 0.0 {
                    return;
                }
            } else {
                let balanced = rest / self.inside_weight;
                if balanced >= next {
                    self.level = self.level.min(balanced);
                    return;
                }
            }
            self.level = self.level.min(next);
            if next_full >= next_inside {
                let Some(Reverse(Weight(weight))) = self.full.pop() else {
                    return;
                };
                self.full_weight = if self.full.is_empty() {
                    0.0
                } else {
                    self.full_weight - weight
                };
                self.enter(weight);
            } else if let Some(Reverse(Weight(weight))) = self.inside.pop() {
                if self.inside.is_empty() {
                    self.inside_weight = 0.0;
                    self.inside_entropy = 0.0;
                } else {
                    self.inside_weight -= weight;
                    self.inside_entropy -= weight * weight.ln();
                }
            }
        }
    }

    fn enter(&mut self, weight: f64) {
        self.inside.push(Reverse(Weight(weight)));
        self.inside_weight += weight;
        self.inside_entropy += weight * weight.ln();
    }

    fn evaluate(&self) -> f64 {
        let FairnessBounds { lower, upper } = self.fair;
        let full = self.full_weight * (upper / lower).ln();
        if self.inside.is_empty() {
            full
        } else {
            full + self.inside_entropy + self.inside_weight * (self.level / lower).ln()
        }
    }
}

/// A positive, finite weight, ordered.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Weight(f64);

impl Eq for Weight {}

impl PartialOrd for Weight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Weight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A fresh solve by bisection over the level.
    fn fresh(fair: FairnessBounds, excess: f64, weights: &[f64]) -> f64 {
        let actions = |level: f64| {
            weights.iter().map(move |c| {
                if *c > 0.0 {
                    (c * level).clamp(fair.lower, fair.upper)
                } else {
                    fair.lower
                }
            })
        };
        let (mut low, mut high) = (0.0_f64, 1e9_f64);
        for _ in 0..400 {
            let middle = 0.5 * (low + high);
            if actions(middle).map(|x| x - fair.lower).sum::<f64>() <= excess {
                low = middle;
            } else {
                high = middle;
            }
        }
        weights
            .iter()
            .zip(actions(low))
            .map(|(c, x)| c * (x / fair.lower).ln())
            .sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_kept_value_equals_a_fresh_solve_after_every_step(
            weights in prop::collection::vec(
                prop_oneof![Just(0.0), Just(0.25), Just(1.0), 1e-4..1.0_f64, 0.2..0.4_f64], 1..60),
            lower in prop_oneof![Just(1.0), 0.05..3.0_f64],
            width in 0.5..50.0_f64,
            share in prop_oneof![Just(0.0), Just(1.0), 0.0..1.3_f64],
        ) {
            let fair = FairnessBounds { lower, upper: lower + width };
            let excess = share * width * weights.len() as f64;
            let mut water = WaterLevel::new(fair, excess);
            let (mut total, mut last_level) = (0.0, f64::INFINITY);
            for step in 0..weights.len() {
                let growth = water.reveal(weights[step]);
                total += growth;
                prop_assert!(growth >= 0.0);
                prop_assert!(water.level() <= last_level);
                last_level = water.level();
                let expected = fresh(fair, excess, &weights[..=step]);
                prop_assert!((total - expected).abs() <= 1e-9 * expected.max(1.0), "step {}: {} against {}", step, total, expected);
            }
        }
    }
}
