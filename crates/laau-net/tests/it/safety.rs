//! No weights overspend a budget.

use laau_core::{Differentiate, Episodes, Ledger};
use laau_net::{Model, ModelSpec};
use proptest::prelude::*;

use crate::support::{
    all_specs, fairness, iid_episodes, interior_point, log_episodes, model, one_phase, play, scatter,
};

/// Plays all episodes; no step may ask for more than there is, and nothing is spent beyond the budget.
fn assert_safe(name: &str, model: &Model, layer: &dyn Differentiate, episodes: &Episodes) -> usize {
    let rollouts = play(model, layer, episodes);
    for (rollout, episode) in rollouts.iter().zip(episodes.iter()) {
        assert_eq!(rollout.violations, 0, "{name}");
        // Exactly: a ledger knows no epsilon.
        let mut ledger = Ledger::new(episode.budgets()).unwrap();
        for usage in rollout.usages.chunks_exact(episode.budgets().len()) {
            ledger.spend(usage).unwrap();
        }
        assert_eq!(ledger.remaining(), rollout.remaining, "{name}");
    }
    rollouts.iter().map(|rollout| rollout.failures).sum()
}

#[test]
fn trained_and_untrained_models_never_overspend_and_never_fail() {
    let layer = fairness();
    let training = iid_episodes(100, 8, 1);
    let test = iid_episodes(200, 8, 2);
    for spec in all_specs(&*layer, 8) {
        let name = format!("{:?} {:?} {:?}", spec.network, spec.features, spec.form);
        let mut model = model(spec, &*layer, &training, 5);
        assert_eq!(assert_safe(&name, &model, &*layer, &test), 0);
        one_phase(2, 1e-2)
            .check()
            .unwrap()
            .run(&mut model, &*layer, &training, None, &mut ())
            .unwrap();
        assert_eq!(assert_safe(&name, &model, &*layer, &test), 0);
        laau_core::conformance::multiplier(layer.problem(), &model, &test);
    }
}

#[test]
fn adversarial_weights_never_overspend() {
    let layer = fairness();
    let test = iid_episodes(100, 8, 2);
    for spec in all_specs(&*layer, 8) {
        let name = format!("{:?} {:?} {:?}", spec.network, spec.features, spec.form);
        let mut model = model(spec, &*layer, &test, 5);
        for scale in [0.0, 1e-300, 1e-8, 1e3, 1e100, f64::MAX] {
            scatter(&mut model, scale, 1);
            assert_safe(&format!("{name} at {scale:e}"), &model, &*layer, &test);
        }
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN] {
            model.parameters.fill(value);
            assert_safe(&format!("{name} of {value}"), &model, &*layer, &test);
        }
    }
}

#[test]
fn two_budgets_are_never_overspent_at_any_weights() {
    let layer = interior_point();
    let training = log_episodes(20, 5, 1);
    let test = log_episodes(20, 5, 2);
    for spec in [
        ModelSpec::paper(layer.problem(), 5),
        ModelSpec::residual(layer.problem(), 5),
    ] {
        let mut model = model(spec, &*layer, &training, 5);
        one_phase(2, 1e-2)
            .check()
            .unwrap()
            .run(&mut model, &*layer, &training, Some(&test), &mut ())
            .unwrap();
        assert_eq!(assert_safe("trained", &model, &*layer, &test), 0);
        for scale in [0.0, 1e-8, 1.0, 1e3, 1e100, f64::MAX] {
            scatter(&mut model, scale, 1);
            assert_safe(&format!("at {scale:e}"), &model, &*layer, &test);
        }
        model.parameters.fill(f64::NAN);
        assert_safe("of NaN", &model, &*layer, &test);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_weights_never_overspend(seed in any::<u64>(), exponent in -10.0..10.0_f64, kind in 0_usize..24) {
        let layer = fairness();
        let test = iid_episodes(10, 6, seed);
        let mut model = model(all_specs(&*layer, 6).swap_remove(kind), &*layer, &test, 5);
        scatter(&mut model, 10.0_f64.powf(exponent), seed);
        assert_safe("random", &model, &*layer, &test);
    }
}
