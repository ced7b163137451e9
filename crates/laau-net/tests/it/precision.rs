//! The fused engine with a network of singles: the gradient of doubles but for roundings, and everything else as with them.

use laau_core::{Differentiate, Episodes};
use laau_net::{EngineKind, Model, ModelSpec, Precision, Training};

use crate::engines::{assert_close, gradient, largest};
use crate::support::{
    all_specs, fairness, iid_episodes, interior_point, log_episodes, mean_utility, mlp, model, one_phase,
    paper_model, play, scatter,
};

/// How closely gradients of the two precisions must agree, relative to the largest entry.
const SINGLES: f64 = 1e-4;

/// Loss and gradient of a minibatch in a precision.
fn play_in(
    precision: Precision,
    layer: &dyn Differentiate,
    model: &Model,
    episodes: &Episodes,
    batch: &[usize],
) -> (f64, Vec<f64>) {
    let engine = EngineKind::Fused.build_in(precision, layer, &model.spec, batch.len());
    gradient(&mut *engine.unwrap(), model, episodes, batch)
}

fn check(name: &str, layer: &dyn Differentiate, model: &Model, episodes: &Episodes) {
    let batch: Vec<usize> = (0..episodes.len()).collect();
    let [(loss, double), (single_loss, single)] =
        [Precision::F64, Precision::F32].map(|precision| play_in(precision, layer, model, episodes, &batch));
    assert!(largest(&double) > 1e-6, "{name}: the gradient vanishes");
    assert!(single != double, "{name}: no single was rounded");
    assert!(
        (single_loss - loss).abs() <= 1e-5 * loss.abs(),
        "{name}: {single_loss} against {loss}"
    );
    assert_close(name, &single, &double, SINGLES);
}

#[test]
fn singles_give_the_gradient_of_doubles_for_every_kind_of_model() {
    let (formula, general) = (fairness(), interior_point());
    for (layer, episodes) in [
        (&formula, iid_episodes(23, 12, 5)),
        (&general, log_episodes(7, 6, 5)),
    ] {
        for (index, spec) in all_specs(&**layer, episodes.horizon()).into_iter().enumerate() {
            let name = format!("{spec:?}");
            let mut model = model(spec, &**layer, &episodes, 1);
            scatter(&mut model, 0.4, index as u64);
            check(&name, &**layer, &model, &episodes);
        }
    }
}

fn wide(hidden: &[usize], horizon: usize) -> ModelSpec {
    ModelSpec {
        network: mlp(hidden),
        ..ModelSpec::paper(fairness().problem(), horizon)
    }
}

#[test]
fn singles_give_the_gradient_of_doubles_for_wide_networks_and_large_minibatches() {
    let layer = fairness();
    // Contracted at once and some steps at a time, with and without a rest of rows, columns and lanes.
    for (hidden, horizon, count) in [
        (&[10, 10][..], 20, 230),
        (&[40, 36], 20, 61),
        (&[64], 20, 100),
        (&[33, 34], 120, 48),
        (&[80, 80], 80, 48),
    ] {
        let episodes = iid_episodes(count, horizon, 3);
        let model = model(wide(hidden, horizon), &*layer, &episodes, 2);
        check(&format!("{hidden:?}"), &*layer, &model, &episodes);
    }
}

#[test]
fn singles_give_the_same_bytes_on_any_number_of_threads_and_with_any_batch_before() {
    let layer = fairness();
    let episodes = iid_episodes(230, 20, 3);
    let batch: Vec<usize> = (0..episodes.len()).collect();
    for hidden in [&[10, 10][..], &[40, 36], &[64], &[33, 34, 35]] {
        let model = model(wide(hidden, 20), &*layer, &episodes, 2);
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build()
                .unwrap()
                .install(|| play_in(Precision::F32, &*layer, &model, &episodes, &batch))
        };
        let one = on(1);
        for threads in [2, 3, 8, 40] {
            assert_eq!(on(threads), one, "{threads} threads, {hidden:?}");
        }
        let engine = EngineKind::Fused.build_in(Precision::F32, &*layer, &model.spec, 10);
        let mut engine = engine.unwrap();
        for size in [10, 1, 47, 230, 10] {
            let batch = &batch[..size];
            let found = gradient(&mut *engine, &model, &episodes, batch);
            assert_eq!(found, play_in(Precision::F32, &*layer, &model, &episodes, batch));
        }
    }
}

#[test]
fn training_in_singles_reaches_the_utility_of_training_in_doubles() {
    let [train, validation, test] =
        [(500, 1), (200, 2), (400, 3)].map(|(count, seed)| iid_episodes(count, 20, seed));
    let layer = fairness();
    let reached = |precision| {
        let utilities = (0..3).map(|seed| {
            let mut model = paper_model(&train, seed);
            let before = mean_utility(&play(&model, &*layer, &test));
            let training = Training {
                precision,
                seed,
                ..one_phase(20, 5e-3)
            };
            let trainer = training.check().unwrap();
            trainer
                .run(&mut model, &*layer, &train, Some(&validation), &mut ())
                .unwrap();
            let rollouts = play(&model, &*layer, &test);
            assert!(rollouts.iter().all(|r| r.violations == 0 && r.failures == 0));
            let after = mean_utility(&rollouts);
            assert!(after > before + 1e-3, "{precision:?}: {before} and then {after}");
            after
        });
        utilities.sum::<f64>() / 3.0
    };
    // Roundings lead to other weights, which are as good: seeds differ by some ten-thousandths.
    let (double, single) = (reached(Precision::F64), reached(Precision::F32));
    assert!(
        (single - double).abs() < 5e-4 * double.abs(),
        "{single} and {double}"
    );
}
