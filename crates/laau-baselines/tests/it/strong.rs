//! The policies that are hard to beat, against each other.

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescentOptions, EqualOptions, Memory, Mirror,
    OptOptions, Prediction,
};
use laau_core::{Comparison, Episodes, Fit, PolicyReport, Sets};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::workload::{fairness, generator};

/// Weights of a cloud kind: a skewed level, with a mean of about 0.3, and readings around it, within `[0, 1]`.
///
/// `consecutive` keeps one level for an episode; otherwise every step has another one. Budgets are `U[10N, 15N]`.
pub(crate) fn cloud(rng: &mut ChaCha8Rng, count: usize, horizon: usize, consecutive: bool) -> Episodes {
    // A sum of uniforms stands in for a normal.
    let normal = |rng: &mut ChaCha8Rng| (0..12).map(|_| rng.random_range(0.0..1.0_f64)).sum::<f64>() - 6.0;
    let (mut contexts, mut budgets) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut level = (-1.5 + 0.8 * normal(rng)).exp();
        for _ in 0..horizon {
            if !consecutive {
                level = (-1.5 + 0.8 * normal(rng)).exp();
            }
            contexts.push((level * (0.25 * normal(rng)).exp()).clamp(0.0, 1.0));
        }
        budgets.push(rng.random_range(10.0..15.0) * horizon as f64);
    }
    Episodes::new(horizon, 1, 1, contexts, budgets).unwrap()
}

/// The utility of each policy over that of OPT.
fn fractions(consecutive: bool, policies: Vec<(&'static str, Box<dyn Fit>)>) -> Vec<(&'static str, f64)> {
    let task = fairness();
    let mut rng = generator(2026);
    let sets = Sets {
        train: cloud(&mut rng, 1000, 20, consecutive),
        validation: cloud(&mut rng, 300, 20, consecutive),
        test: cloud(&mut rng, 1000, 20, consecutive),
    };
    let names: Vec<_> = policies.iter().map(|(name, _)| *name).collect();
    let mut comparison = Comparison::new(&task, &sets).relative_to(OptOptions::default());
    for (index, (_, fit)) in policies.into_iter().enumerate() {
        comparison = comparison.with(index.to_string(), fit);
    }
    let report = comparison.run().unwrap();
    let fraction = |(name, policy): (_, &PolicyReport)| {
        assert_eq!((policy.violations, policy.failures), (0, 0));
        (name, policy.fraction_of_opt.unwrap())
    };
    names.into_iter().zip(&report.policies).map(fraction).collect()
}

fn ce(prediction: Prediction) -> Box<dyn Fit> {
    Box::new(CeOptions {
        prediction,
        ..CeOptions::default()
    })
}

fn dp(memory: Memory) -> Box<dyn Fit> {
    Box::new(DpOptions {
        memory,
        ..DpOptions::default()
    })
}

#[test]
fn on_independent_contexts_the_dynamic_program_is_within_a_tenth_of_a_point_of_the_best() {
    let fractions = fractions(
        false,
        vec![
            ("equal", Box::new(EqualOptions::default())),
            ("avg-lt", Box::new(AvgLtOptions::default())),
            ("dgd", Box::new(DualDescentOptions::new(Mirror::Euclidean))),
            ("mw", Box::new(DualDescentOptions::new(Mirror::Entropic))),
            ("cr-pursuit", Box::new(CrPursuitOptions::default())),
            ("ce", Box::new(CeOptions::default())),
            ("dp", dp(Memory::Independent)),
            ("dp", dp(Memory::Markov)),
            ("dp", dp(Memory::RunningMean)),
        ],
    );
    let best = fractions
        .iter()
        .map(|(_, fraction)| *fraction)
        .fold(0.0, f64::max);
    assert!(best > 0.98 && best < 1.0, "{fractions:?}");
    // Each memory holds by itself, not only the one that validation would choose.
    for (name, fraction) in &fractions {
        match *name {
            "dp" => assert!(*fraction >= best - 0.001, "{fractions:?}"),
            "ce" => {}
            _ => assert!(*fraction < best - 0.003, "{fractions:?}"),
        }
    }
}

#[test]
fn where_levels_differ_history_is_worth_a_lot_to_both() {
    let fractions = fractions(
        true,
        vec![
            ("ce", ce(Prediction::Prior)),
            ("ce", ce(Prediction::Best)),
            ("dp", dp(Memory::Independent)),
            ("dp", dp(Memory::Best)),
        ],
    );
    for pair in fractions.chunks_exact(2) {
        assert!(pair[1].1 > pair[0].1 + 0.05, "{fractions:?}");
        assert!(pair[1].1 > 0.99, "{fractions:?}");
    }
}
