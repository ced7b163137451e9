//! Jobs on a server, for `laau_core::problems::VmAllocation`.

use rand_chacha::ChaCha8Rng;

use super::vm::Autoregression;
use super::{ContextProcess, Workload};
use crate::error::{Error, at_least_one, expect, positive, within};
use crate::random::{Purpose, normal, stream, uniform};

/// VMs that ask for bundles of resources: how much a bundle is worth comes from a VM's size and load, what it needs from
/// its family.
///
/// ```text
///     w_t   = size / mean size · load_t                  size: 1, 2, 4 or 8 cores;  load: a reading of the cloud workload
///     s_t,i ∝ exp(emphasis · [i is the family's resource] + spread · z_i + wander_t,i),   Σ_i s_t,i = 1
/// ```
///
/// A VM has one size (most are small) and one family (one for each resource, and one general family, with equal
/// probabilities), and `z` is drawn once; `wander` is an AR(1) per resource.
///
/// | parameter | default | purpose | range |
/// |---|---|---|---|
/// | `resources` | 4 | resources, and budgets: CPU, memory, I/O, storage | ≥ 1 |
/// | `load` | calibrated | law of the loads | as [`Workload`] |
/// | `sizes` | 1, 2, 4, 8 with shares .5, .25, .15, .1 | cores and how common they are | shares of sum 1 |
/// | `emphasis` | 1.2 | how much more a family needs of its resource, in the exponent | finite |
/// | `spread` | 0.3 | how VMs of a family differ | 0 to 10 |
/// | `wander` | 0.2 | deviation of the needs in time | 0 to 10 |
/// | `memory` | 0.9 | their autocorrelation from step to step | 0 to 1 |
/// | `budget` | (10, 15) | each resource, per step | 0 ≤ lo ≤ hi |
///
/// **Budgets.** Utility grows with every resource, so without budgets every job would take 40 of each. The range is the
/// paper's for one resource, 10 to 15 a step, drawn independently for each: every budget binds, and they bind unequally.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct VmJobs {
    /// Number of resources, and of budgets.
    pub resources: usize,
    /// The law of the loads.
    pub load: Workload,
    /// Sizes, and how common they are.
    pub sizes: [(f64, f64); 4],
    /// How much more a family needs of its resource, in the exponent.
    pub emphasis: f64,
    /// How the needs of VMs of a family differ, in the exponent.
    pub spread: f64,
    /// Deviation of the needs in time, in the exponent.
    pub wander: f64,
    /// Autocorrelation of the needs from step to step.
    pub memory: f64,
    /// Least and greatest budget of each resource, per step.
    pub budget: (f64, f64),
}

impl Default for VmJobs {
    fn default() -> Self {
        Self {
            resources: 4,
            load: Workload::default(),
            sizes: [(1.0, 0.5), (2.0, 0.25), (4.0, 0.15), (8.0, 0.1)],
            emphasis: 1.2,
            spread: 0.3,
            wander: 0.2,
            memory: 0.9,
            budget: (10.0, 15.0),
        }
    }
}

impl VmJobs {
    fn draw_size(&self, generator: &mut ChaCha8Rng) -> f64 {
        let mean: f64 = self.sizes.iter().map(|(size, share)| size * share).sum();
        let mut u = uniform(generator);
        for (size, share) in self.sizes {
            if u < share {
                return size / mean;
            }
            u -= share;
        }
        // Shares of sum 1 may fall short by a last bit.
        self.sizes[0].0 / mean
    }
}

impl ContextProcess for VmJobs {
    fn context_len(&self) -> usize {
        self.resources + 1
    }

    fn budgets(&self) -> Vec<(f64, f64)> {
        vec![self.budget; self.resources]
    }

    fn validate(&self) -> Result<(), Error> {
        self.load.validate()?;
        at_least_one("number of resources", self.resources)?;
        for (size, share) in self.sizes {
            positive("size of a VM", size)?;
            within("share of a size", share, 0.0, 1.0)?;
        }
        let total: f64 = self.sizes.iter().map(|(_, share)| share).sum();
        expect("sum of the shares", total, (total - 1.0).abs() < 1e-9, "1")?;
        within("emphasis", self.emphasis, -10.0, 10.0)?;
        for (what, value) in [("spread", self.spread), ("wander", self.wander)] {
            within(what, value, 0.0, 10.0)?;
        }
        within("memory", self.memory, 0.0, 1.0)
    }

    fn series(&self, seed: u64, series: u64, len: usize) -> Vec<f64> {
        let loads = self.load.readings(seed, series, len);
        let mut generator = stream(seed, Purpose::Needs, series);
        let g = &mut generator;
        let size = self.draw_size(g);
        let families = self.resources + 1;
        let family = crate::random::below(g, families);
        let base: Vec<f64> = (0..self.resources)
            .map(|i| {
                let own = if i == family { self.emphasis } else { 0.0 };
                own + self.spread * normal(g)
            })
            .collect();
        let mut wander: Vec<Autoregression> = (0..self.resources)
            .map(|_| Autoregression::stationary(self.wander, self.memory, g))
            .collect();
        let mut contexts = Vec::with_capacity(len * (self.resources + 1));
        for load in loads {
            let needs: Vec<f64> = base
                .iter()
                .zip(&wander)
                .map(|(base, wander)| libm::exp(base + wander.value))
                .collect();
            let total: f64 = needs.iter().sum();
            contexts.push(size * load);
            contexts.extend(needs.iter().map(|need| need / total));
            for wander in &mut wander {
                wander.advance(normal(g));
            }
        }
        contexts
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::{autocorrelation, check_law, check_refused, column, mean};
    use super::*;
    use laau_core::problems::VmAllocation;

    #[test]
    fn the_law_never_changes_and_fits_its_problem() {
        check_law(&VmJobs::default(), &VmAllocation::server(), 0x2c77_3281_f840_2f06);
        let two = VmJobs {
            resources: 2,
            ..VmJobs::default()
        };
        assert_eq!((two.context_len(), two.budgets().len()), (3, 2));
    }

    #[test]
    fn shares_sum_to_one_and_last_and_weights_are_loads_by_size() {
        let law = VmJobs::default();
        let shares: Vec<Vec<Vec<f64>>> = (1..5).map(|entry| column(&law, entry, 400, 50)).collect();
        for vm in 0..400 {
            for step in 0..50 {
                let total: f64 = shares.iter().map(|share| share[vm][step]).sum();
                assert!((total - 1.0).abs() < 1e-12);
            }
        }
        for share in &shares {
            // By symmetry a quarter on average.
            assert!((mean(share) - 0.25).abs() < 0.02, "{}", mean(share));
            // What a VM needs hardly changes within an episode.
            let lasting = autocorrelation(share, 19);
            assert!((0.7..0.95).contains(&lasting), "{lasting}");
        }
        let weights = column(&law, 0, 2000, 20);
        assert!((mean(&weights) - 0.3).abs() < 0.05, "{}", mean(&weights));
        let load = law.load.readings(1, 7, 20);
        let factor = weights[7][0] / load[0];
        assert!(
            weights[7]
                .iter()
                .zip(&load)
                .all(|(w, l)| (w - factor * l).abs() < 1e-12)
        );
        assert!(
            [1.0, 2.0, 4.0, 8.0]
                .iter()
                .any(|size| (factor - size / 2.4).abs() < 1e-12),
            "{factor}"
        );
    }

    #[test]
    fn bad_parameters_are_refused_with_a_word() {
        let law = VmJobs::default();
        check_refused(
            &VmJobs {
                resources: 0,
                ..law.clone()
            },
            "invalid number of resources: expected at least 1, found 0",
        );
        check_refused(
            &VmJobs {
                sizes: [(1.0, 0.5); 4],
                ..law.clone()
            },
            "invalid sum of the shares: expected 1, found 2",
        );
        check_refused(
            &VmJobs { memory: 2.0, ..law },
            "invalid memory: expected a value from 0 to 1, found 2",
        );
    }
}
