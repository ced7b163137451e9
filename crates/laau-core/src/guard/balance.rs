//! The two conditions of safety, exactly.

use crate::sum::Sum;

/// What is kept of an episode so that both conditions can be read off as floats: the lead of the gain over a share `γ` of the
/// incumbent's, `G − γG†`, and of each net remainder, `r − γr†`. Both are exact sums; nothing is rounded before it is read.
#[derive(Clone)]
pub(super) struct Balance {
    level: f64,
    gain: Sum,
    remainders: Vec<Sum>,
    least: Vec<f64>,
}

impl Balance {
    /// At the start of an episode: no gain yet, and `(1 − γ)(B − N·least)` of each budget.
    pub(super) fn new(level: f64, budgets: &[f64], least: Vec<f64>, horizon: usize) -> Self {
        let remainders = budgets.iter().zip(&least).map(|(&budget, &least)| {
            let mut lead = Sum::zero();
            lead.add(budget);
            lead.add_product(-level, budget);
            lead.add_products(horizon, -1.0, least);
            lead.add_products(horizon, level, least);
            lead
        });
        Self {
            level,
            gain: Sum::zero(),
            remainders: remainders.collect(),
            least,
        }
    }

    /// Takes in what the incumbent did at a step, and gives the most that the step may cost; `usage` becomes the most that
    /// it may use. An action is safe if and only if neither is exceeded: both are the exact bounds, rounded down.
    pub(super) fn limits(
        &mut self,
        lower_cost: f64,
        incumbent_cost: f64,
        incumbent_usage: &[f64],
        usage: &mut [f64],
    ) -> f64 {
        // G_{t−1} + cost(ℓ) − x ≥ γ (G†_{t−1} + cost(ℓ) − cost(x†))
        self.gain.add(lower_cost);
        self.gain.add_product(-self.level, lower_cost);
        self.gain.add_product(self.level, incumbent_cost);
        for (((lead, &least), &used), most) in (self.remainders.iter_mut().zip(&self.least))
            .zip(incumbent_usage)
            .zip(usage)
        {
            // r_{t−1} + least − x ≥ γ (r†_{t−1} + least − g(x†))
            lead.add(least);
            lead.add_product(-self.level, least);
            lead.add_product(self.level, used);
            *most = lead.floor();
        }
        self.gain.floor()
    }

    /// Takes in what was played.
    pub(super) fn pay(&mut self, cost: f64, usage: &[f64]) {
        self.gain.add(-cost);
        for (lead, &used) in self.remainders.iter_mut().zip(usage) {
            lead.add(-used);
        }
    }

    /// `G − γG†`, rounded down.
    pub(super) fn lead(&self) -> f64 {
        self.gain.floor()
    }
}
