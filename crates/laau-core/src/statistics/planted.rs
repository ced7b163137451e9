//! Planted effects: data of realistic spread with a known difference, to say what verdicts find and how often they are wrong.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::{Bootstrap, Difference, Measure, SeedSample, Verdict, decide};
use crate::numerics::normal_pair;

/// Where planted data spread, in points of OPT.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// What it is like.
    pub name: &'static str,
    /// Number of seeds.
    pub seeds: usize,
    /// Series of a seed.
    pub series: usize,
    /// Episodes of a series.
    pub episodes: usize,
    /// Between seeds: another training.
    pub seed: f64,
    /// Between series: another VM.
    pub of_series: f64,
    /// Between episodes of a series.
    pub episode: f64,
    /// Whether all seeds draw their series from one trace.
    pub one_trace: bool,
    /// How far away, on either side, a training is that fails; one of ten does.
    pub failed: f64,
}

/// As the embedded workload: every episode another VM, a training that moves by a twentieth of a point.
pub const WORKLOAD: Spread = Spread {
    name: "workload",
    seeds: 10,
    series: 60,
    episodes: 1,
    seed: 0.05,
    of_series: 1.0,
    episode: 0.0,
    one_trace: false,
    failed: 0.0,
};

/// As policies that are close to each other on the trace: 25 of 100 VMs are tested under a seed, and other seeds meet them again.
pub const TRACE: Spread = Spread {
    name: "trace",
    seeds: 10,
    series: 25,
    episodes: 3,
    seed: 0.05,
    of_series: 0.4,
    episode: 0.8,
    one_trace: true,
    failed: 0.0,
};

/// As policies that are far from each other on the trace, where a VM is worth several points.
pub const WIDE: Spread = Spread {
    name: "trace, VMs far apart",
    seed: 0.5,
    of_series: 6.0,
    episode: 4.0,
    ..TRACE
};

/// As the trace, with one training of ten that fails.
pub const FAILING: Spread = Spread {
    name: "trace, one training of ten fails",
    failed: 80.0,
    ..TRACE
};

/// One data set with a planted mean.
#[must_use]
pub fn plant(spread: Spread, difference: f64, draw: u64) -> Vec<SeedSample> {
    let mut rng = ChaCha8Rng::seed_from_u64(draw);
    let mut normal =
        |deviation: f64| deviation * normal_pair(1.0 - rng.random::<f64>(), rng.random::<f64>()).0;
    let trace: Vec<f64> = (0..100).map(|_| normal(spread.of_series)).collect();
    (0..spread.seeds)
        .map(|seed| {
            let mut trained = normal(spread.seed);
            if spread.failed > 0.0 {
                // A normal number is beyond 1.645 in one of ten draws.
                let fate = normal(1.0);
                if fate.abs() > 1.645 {
                    trained += fate.signum() * spread.failed;
                }
            }
            let (mut series, mut values) = (Vec::new(), Vec::new());
            for index in 0..spread.series {
                // A stride that visits every VM of the trace: seeds share some, and no two have the same.
                let vm = (seed * 37 + index * 3) % 100;
                let (number, effect) = if spread.one_trace {
                    (vm as u64, trace[vm])
                } else {
                    (seed as u64 * 1000 + index as u64, normal(spread.of_series))
                };
                for _ in 0..spread.episodes {
                    series.push(number);
                    values.push(difference + trained + effect + normal(spread.episode));
                }
            }
            SeedSample {
                seed: seed as u64,
                series,
                values,
            }
        })
        .collect()
}

/// The mean of planted data, as differences are measured; nothing from samples that are empty or not finite.
#[must_use]
pub fn measured(samples: &[SeedSample], replicates: usize) -> Option<Difference> {
    let bootstrap = Bootstrap { replicates, seed: 1 };
    let drawn = bootstrap.draw(samples, &[Measure::Mean(0)]).ok()?;
    Difference::between(&[&drawn], |rows| rows[0][0])
}

/// How often a planted difference is found to hold and not to hold, of so many data sets; another block has others.
#[must_use]
pub fn shares(spread: Spread, difference: f64, draws: u64, block: u64) -> [f64; 2] {
    let verdicts: Vec<Option<Verdict>> = (0..draws)
        .into_par_iter()
        .map(|draw| decide(&[measured(&plant(spread, difference, draw + 10_000 * block), 200)?]))
        .collect();
    [Verdict::Holds, Verdict::DoesNotHold]
        .map(|verdict| verdicts.iter().filter(|v| **v == Some(verdict)).count() as f64 / draws as f64)
}
