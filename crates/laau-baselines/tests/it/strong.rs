//! The policies that are hard to beat, against each other.

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescentOptions, EqualOptions, Fitted,
    HorizonOptions, Memory, Mirror, Optimum, Prediction, optimum,
};
use laau_core::{Episodes, PolicyReport, rollout_all, rollout_hindsight};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

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
fn fractions(
    consecutive: bool,
    policies: impl Fn(&Episodes, &Episodes) -> Vec<Fitted>,
) -> Vec<(String, f64)> {
    let task = fairness();
    let mut rng = generator(2026);
    let train = cloud(&mut rng, 1000, 20, consecutive);
    let validation = cloud(&mut rng, 300, 20, consecutive);
    let test = cloud(&mut rng, 1000, 20, consecutive);
    let best = optimum(Optimum::Horizon(
        Arc::clone(&task.problem),
        HorizonOptions::default(),
    ))
    .unwrap();
    let best = rollout_hindsight(&task.problem.clone(), &*best, &test).unwrap();
    policies(&train, &validation)
        .into_iter()
        .map(|fitted| {
            let rollouts = rollout_all(&*task.problem, &*fitted.policy, &test).unwrap();
            let report = PolicyReport::new(fitted.policy.name(), &rollouts, &test, Some(&best));
            assert_eq!((report.violations, report.failures), (0, 0));
            (report.name, report.fraction_of_opt.unwrap())
        })
        .collect()
}

/// The fraction of the best policy of a name.
fn best_of(fractions: &[(String, f64)], name: &str) -> f64 {
    let named = fractions.iter().filter(|(policy, _)| policy == name);
    named
        .map(|(_, fraction)| *fraction)
        .fold(f64::NEG_INFINITY, f64::max)
}

#[test]
fn on_independent_contexts_the_dynamic_program_is_within_a_tenth_of_a_point_of_the_best() {
    let task = fairness();
    let fractions = fractions(false, |train, validation| {
        let mut all = vec![
            EqualOptions::default().fit(&task, FitSets { train, validation }, 0, &mut ()),
            AvgLtOptions::default().fit(&task, FitSets { train, validation }, 0, &mut ()),
            DualDescentOptions::new(Mirror::Euclidean).fit(&task, FitSets { train, validation }, 0, &mut ()),
            DualDescentOptions::new(Mirror::Entropic).fit(&task, FitSets { train, validation }, 0, &mut ()),
            CrPursuitOptions::default().fit(&task, FitSets { train, validation }, 0, &mut ()),
            CeOptions::default().fit(&task, FitSets { train, validation }, 0, &mut ()),
        ];
        for memory in [Memory::Independent, Memory::Markov, Memory::RunningMean] {
            let options = DpOptions {
                memory,
                ..DpOptions::default()
            };
            all.push(options.fit(&task, FitSets { train, validation }, 0, &mut ()));
        }
        all.into_iter().collect::<Result<_, _>>().unwrap()
    });
    let best = fractions
        .iter()
        .map(|(_, fraction)| *fraction)
        .fold(0.0, f64::max);
    assert!(best > 0.98 && best < 1.0, "{fractions:?}");
    // Each memory holds by itself, not only the one that validation would choose.
    for (name, fraction) in &fractions {
        if name == "dp" {
            assert!(*fraction >= best - 0.001, "{fractions:?}");
        }
    }
    for (name, fraction) in &fractions {
        if !["dp", "ce"].contains(&name.as_str()) {
            assert!(*fraction < best - 0.003, "{fractions:?}");
        }
    }
}

#[test]
fn where_levels_differ_history_is_worth_a_lot_to_both() {
    let task = fairness();
    let fractions = fractions(true, |train, validation| {
        let ce = |prediction| {
            let options = CeOptions {
                prediction,
                ..CeOptions::default()
            };
            options
                .fit(&task, FitSets { train, validation }, 0, &mut ())
                .unwrap()
        };
        let dp = |memory| {
            let options = DpOptions {
                memory,
                ..DpOptions::default()
            };
            options
                .fit(&task, FitSets { train, validation }, 0, &mut ())
                .unwrap()
        };
        vec![
            ce(Prediction::Prior),
            ce(Prediction::Best),
            dp(Memory::Independent),
            dp(Memory::Best),
        ]
    });
    let only = |index: usize| fractions[index].1;
    assert!(only(1) > only(0) + 0.05, "{fractions:?}");
    assert!(only(3) > only(2) + 0.05, "{fractions:?}");
    assert!(best_of(&fractions, "ce") > 0.99, "{fractions:?}");
    assert!(best_of(&fractions, "dp") > 0.99, "{fractions:?}");
}
