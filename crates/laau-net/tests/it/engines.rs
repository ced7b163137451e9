//! Both engines give the same loss and the same gradient, and both are right.

use laau_core::{Differentiate, Episodes};
use laau_net::{Engine, EngineKind, Features, Model, ModelSpec};

use crate::support::{
    all_specs, fairness, iid_episodes, interior_point, log_episodes, mean_utility, mlp, model, play, scatter,
};

/// How closely the engines must agree, relative to the largest entry of the gradient.
const ENGINES: f64 = 1e-9;

pub(crate) fn gradient(
    engine: &mut dyn Engine,
    model: &Model,
    episodes: &Episodes,
    batch: &[usize],
) -> (f64, Vec<f64>) {
    let mut gradient = vec![f64::NAN; model.parameters.len()];
    let result = engine
        .loss_and_gradient(model, episodes, batch, &mut gradient)
        .unwrap();
    if episodes.horizon() > 1 {
        let steps = (batch.len() * episodes.horizon()) as u64;
        assert_eq!(result.counts.exact + result.counts.approximate, steps);
    }
    (result.loss, gradient)
}

pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, v| v.abs().max(largest))
}

pub(crate) fn assert_close(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    let scale = largest(expected).max(1e-6);
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance * scale,
            "{name}: weight {index}: {found:e} against {expected:e}"
        );
    }
}

/// Checks one model: engine against engine, loss against exact rollouts, gradient against finite differences.
pub(crate) fn check(model: &Model, layer: &dyn Differentiate, episodes: &Episodes, name: &str) {
    let batch: Vec<usize> = (0..episodes.len()).collect();
    let [mut fused, mut candle] =
        [EngineKind::Fused, EngineKind::Candle].map(|kind| kind.build(layer, &model.spec, 5).unwrap());
    let (fused_loss, fused_gradient) = gradient(&mut *fused, model, episodes, &batch);
    let (candle_loss, candle_gradient) = gradient(&mut *candle, model, episodes, &batch);
    assert!(
        (fused_loss - candle_loss).abs() <= ENGINES * candle_loss.abs(),
        "{name}: {fused_loss} against {candle_loss}"
    );
    assert_close(name, &fused_gradient, &candle_gradient, ENGINES);

    let differences = differences(model, layer, episodes, candle_loss, name);
    assert_close(name, &candle_gradient, &differences, 1e-5);
    assert_close(name, &fused_gradient, &differences, 1e-5);
}

/// The gradient by differences of exact rollouts, whose utility must be the loss.
pub(crate) fn differences(
    model: &Model,
    layer: &dyn Differentiate,
    episodes: &Episodes,
    loss: f64,
    name: &str,
) -> Vec<f64> {
    let utility = mean_utility(&play(model, layer, episodes));
    assert!(
        (loss + utility).abs() <= 1e-9 * utility.abs(),
        "{name}: loss {loss}, exact utility {utility}"
    );
    let differences: Vec<f64> = (0..model.parameters.len())
        .map(|index| {
            let width = 1e-6;
            let mut moved = model.clone();
            moved.parameters[index] += width;
            let above = -mean_utility(&play(&moved, layer, episodes));
            moved.parameters[index] -= 2.0 * width;
            let below = -mean_utility(&play(&moved, layer, episodes));
            (above - below) / (2.0 * width)
        })
        .collect();
    assert!(largest(&differences) > 1e-4, "{name}: the gradient says nothing");
    differences
}

#[test]
fn both_engines_are_right_for_every_model_of_weighted_fairness() {
    let layer = fairness();
    let episodes = iid_episodes(5, 6, 11);
    for (seed, spec) in all_specs(&*layer, 6).into_iter().enumerate() {
        let name = format!(
            "{:?} {:?} {:?} {:?}",
            spec.network, spec.features, spec.output, spec.form
        );
        let mut model = model(spec, &*layer, &iid_episodes(50, 6, 3), 1);
        scatter(&mut model, 0.5, seed as u64);
        check(&model, &*layer, &episodes, &name);
    }
}

#[test]
fn both_engines_are_right_for_three_actions_and_two_budgets() {
    let layer = interior_point();
    let episodes = log_episodes(3, 4, 11);
    for (seed, spec) in all_specs(&*layer, 4).into_iter().enumerate() {
        if spec.network == mlp(&[10, 10]) && spec.features == Features::History {
            // Hundreds of weights by finite differences take long; the smaller networks have the same path.
            continue;
        }
        let name = format!(
            "{:?} {:?} {:?} {:?}",
            spec.network, spec.features, spec.output, spec.form
        );
        let mut model = model(spec, &*layer, &log_episodes(20, 4, 3), 1);
        scatter(&mut model, 0.4, seed as u64);
        check(&model, &*layer, &episodes, &name);
    }
}

#[test]
fn the_engines_agree_on_a_minibatch_of_the_paper() {
    let layer = fairness();
    let episodes = iid_episodes(100, 20, 5);
    let spec = ModelSpec::paper(layer.problem(), 20);
    let [mut fused, mut candle] =
        [EngineKind::Fused, EngineKind::Candle].map(|kind| kind.build(&*layer, &spec, 10).unwrap());
    for seed in 0..10 {
        let model = model(spec.clone(), &*layer, &episodes, seed);
        let batch: Vec<usize> = (0..10)
            .map(|i| (i * 7 + usize::try_from(seed).unwrap()) % 100)
            .collect();
        let (fused_loss, fused_gradient) = gradient(&mut *fused, &model, &episodes, &batch);
        let (candle_loss, candle_gradient) = gradient(&mut *candle, &model, &episodes, &batch);
        assert!((fused_loss - candle_loss).abs() <= ENGINES * candle_loss.abs());
        assert_close("paper", &fused_gradient, &candle_gradient, ENGINES);
    }
}

#[test]
fn the_engines_agree_on_large_minibatches_of_wide_networks() {
    let layer = fairness();
    let episodes = iid_episodes(120, 20, 5);
    for hidden in [&[10, 10][..], &[40, 33]] {
        let spec = ModelSpec {
            network: mlp(hidden),
            ..ModelSpec::paper(layer.problem(), 20)
        };
        let [mut fused, mut candle] =
            [EngineKind::Fused, EngineKind::Candle].map(|kind| kind.build(&*layer, &spec, 120).unwrap());
        let model = model(spec, &*layer, &episodes, 3);
        let batch: Vec<usize> = (0..120).collect();
        let (fused_loss, fused_gradient) = gradient(&mut *fused, &model, &episodes, &batch);
        let (candle_loss, candle_gradient) = gradient(&mut *candle, &model, &episodes, &batch);
        assert!((fused_loss - candle_loss).abs() <= ENGINES * candle_loss.abs());
        assert_close("wide", &fused_gradient, &candle_gradient, ENGINES);
    }
}

#[test]
fn a_single_step_has_no_price_and_no_gradient() {
    let layer = fairness();
    let episodes = iid_episodes(3, 1, 5);
    let model = model(ModelSpec::paper(layer.problem(), 1), &*layer, &episodes, 0);
    for kind in [EngineKind::Fused, EngineKind::Candle] {
        let (_, gradient) = gradient(
            &mut *kind.build(&*layer, &model.spec, 2).unwrap(),
            &model,
            &episodes,
            &[0, 2],
        );
        assert_eq!(largest(&gradient), 0.0);
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused_by_name() {
    let layer = fairness();
    let episodes = iid_episodes(3, 4, 5);
    let model = model(ModelSpec::paper(layer.problem(), 4), &*layer, &episodes, 0);
    for kind in [EngineKind::Fused, EngineKind::Candle] {
        let mut engine = kind.build(&*layer, &model.spec, 3).unwrap();
        let mut gradient = vec![0.0; model.parameters.len()];
        let mut check = |episodes: &Episodes, batch: &[usize], length: usize| {
            engine
                .loss_and_gradient(&model, episodes, batch, &mut gradient[..length])
                .unwrap_err()
        };
        check(&log_episodes(3, 4, 0), &[0], 161);
        check(&episodes, &[], 161);
        check(&episodes, &[3], 161);
        check(&episodes, &[0], 160);
    }
}
