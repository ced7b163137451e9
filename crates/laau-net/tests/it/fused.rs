//! The fused engine against the policy it trains, played by core's driver.

use laau_core::{Differentiate, Episodes, StepSolver, Unrolled, rollout_all};
use laau_net::{Engine, FusedEngine, Model, ModelSpec, Output};

use crate::support::{every_spec, fairness, full_model, mlp, wandering};

/// The loss of a batch as the policy in service has it: features from observations, an exact ledger.
fn played_loss(model: &Model, solver: &dyn Differentiate, set: &Episodes, batch: &[usize]) -> f64 {
    let solver = solver.fork();
    let policy = Unrolled::new("laau", model.clone(), solver.clone()).unwrap();
    let rollouts = rollout_all(solver.problem(), &policy, &set.select(batch)).unwrap();
    assert!(rollouts.iter().all(|r| r.violations == 0 && r.failures == 0));
    rollouts.iter().map(|r| -r.utility()).sum::<f64>() / batch.len() as f64
}

/// The loss and gradient of the fused engine.
fn fused(model: &Model, solver: &dyn Differentiate, set: &Episodes, batch: &[usize]) -> (f64, Vec<f64>) {
    let mut engine = FusedEngine::new(solver.fork(), &model.spec, batch.len()).unwrap();
    let mut gradient = vec![f64::NAN; model.parameters.len()];
    let result = engine
        .loss_and_gradient(model, set, batch, &mut gradient)
        .unwrap();
    let steps = (batch.len() * set.horizon()) as u64;
    assert_eq!(result.counts.exact + result.counts.approximate, steps);
    (result.loss, gradient)
}

/// Loss and gradient against central differences of the loss as played.
fn check_gradient(model: &Model, solver: &dyn Differentiate, set: &Episodes) {
    let batch: Vec<usize> = (0..set.len()).collect();
    let (loss, gradient) = fused(model, solver, set, &batch);
    let played = played_loss(model, solver, set, &batch);
    assert!((loss - played).abs() <= 1e-12 * played.abs(), "{loss} {played}");
    let scale = gradient.iter().fold(0.0_f64, |most, g| most.max(g.abs()));
    assert!(scale > 1e-6, "the gradient of {:?} vanishes: {scale}", model.spec);
    let width = 1e-6;
    for index in 0..gradient.len() {
        let at = |value: f64| {
            let mut moved = model.clone();
            moved.parameters[index] = value;
            played_loss(&moved, solver, set, &batch)
        };
        let centre = model.parameters[index];
        let difference = (at(centre + width) - at(centre - width)) / (2.0 * width);
        assert!(
            (difference - gradient[index]).abs() <= 1e-6 * scale,
            "weight {index} of {:?}: {} expected, {} found",
            model.spec,
            difference,
            gradient[index]
        );
    }
}

#[test]
fn the_gradient_is_that_of_the_episode_as_played_for_every_kind_of_model() {
    let solver = fairness();
    let set = wandering(11, 6, 1, &[72.0]);
    for (index, spec) in every_spec(&*solver, 6).into_iter().enumerate() {
        check_gradient(&full_model(&spec, &*solver, index as u64), &*solver, &set);
    }
}

#[test]
fn the_gradient_of_a_batch_is_the_mean_of_its_episodes() {
    let solver = fairness();
    let set = wandering(23, 20, 1, &[250.0]);
    for spec in every_spec(&*solver, 20) {
        let model = full_model(&spec, &*solver, 3);
        let batch: Vec<usize> = (0..set.len()).rev().collect();
        let (loss, gradient) = fused(&model, &*solver, &set, &batch);
        let mut sum = vec![0.0; gradient.len()];
        let mut total = 0.0;
        for index in 0..set.len() {
            let (loss, gradient) = fused(&model, &*solver, &set, &[index]);
            total += loss;
            for (sum, value) in sum.iter_mut().zip(&gradient) {
                *sum += value;
            }
        }
        let count = set.len() as f64;
        assert!((loss - total / count).abs() < 1e-13 * loss.abs());
        let scale = gradient.iter().fold(0.0_f64, |most, g| most.max(g.abs()));
        for (one, other) in gradient.iter().zip(&sum) {
            assert!(
                (one - other / count).abs() <= 1e-12 * scale,
                "{one} {}",
                other / count
            );
        }
    }
}

#[test]
fn an_engine_serves_batches_of_any_size_and_repeats_itself_to_the_bit() {
    let solver = fairness();
    let set = wandering(40, 8, 1, &[90.0]);
    let spec = ModelSpec::paper(solver.problem(), 8);
    let model = full_model(&spec, &*solver, 5);
    let mut engine = FusedEngine::new(solver.fork(), &spec, 10).unwrap();
    let mut again = |batch: &[usize]| {
        let mut gradient = vec![0.0; model.parameters.len()];
        let result = engine
            .loss_and_gradient(&model, &set, batch, &mut gradient)
            .unwrap();
        (
            result.loss.to_bits(),
            gradient.iter().map(|g| g.to_bits()).collect::<Vec<_>>(),
        )
    };
    let ten: Vec<usize> = (0..10).collect();
    let first = again(&ten);
    for size in [1, 3, 40, 10] {
        let batch: Vec<usize> = (0..size).collect();
        let (loss, gradient) = fused(&model, &*solver, &set, &batch);
        assert_eq!(
            again(&batch),
            (loss.to_bits(), gradient.iter().map(|g| g.to_bits()).collect())
        );
    }
    assert_eq!(again(&ten), first);
}

fn with_width(horizon: usize, hidden: &[usize]) -> ModelSpec {
    ModelSpec {
        network: mlp(hidden),
        ..ModelSpec::paper(fairness().problem(), horizon)
    }
}

#[test]
fn a_wide_network_has_the_gradient_of_the_episodes_as_played() {
    let solver = fairness();
    // Too long for tables in a cache, so that steps are contracted some at a time; with and without a rest of rows and columns.
    for (hidden, count, horizon) in [([33, 34], 10, 60), ([32, 40], 14, 40)] {
        let set = wandering(count, horizon, 1, &[12.0 * horizon as f64]);
        let model = full_model(&with_width(horizon, &hidden), &*solver, 7);
        check_gradient(&model, &*solver, &set);
    }
}

#[test]
fn a_large_minibatch_is_the_sum_of_its_episodes_to_the_same_bytes_on_any_number_of_threads() {
    let solver = fairness();
    let set = wandering(230, 20, 1, &[250.0]);
    let batch: Vec<usize> = (0..set.len()).collect();
    for hidden in [&[10, 10][..], &[40, 36], &[64], &[33, 34, 35]] {
        let model = full_model(&with_width(20, hidden), &*solver, 2);
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build()
                .unwrap()
                .install(|| fused(&model, &*solver, &set, &batch))
        };
        let (loss, gradient) = on(1);
        for threads in [2, 3, 8, 40] {
            assert_eq!(
                on(threads),
                (loss, gradient.clone()),
                "{threads} threads, {hidden:?}"
            );
        }
        let scale = gradient.iter().fold(0.0_f64, |most, g| most.max(g.abs()));
        let (mut total, mut sum) = (0.0, vec![0.0; gradient.len()]);
        for ten in batch.chunks(10) {
            let (loss, gradient) = fused(&model, &*solver, &set, ten);
            total += loss / 23.0;
            for (sum, value) in sum.iter_mut().zip(gradient) {
                *sum += value / 23.0;
            }
        }
        assert!((loss - total).abs() <= 1e-13 * loss.abs());
        for (found, sum) in gradient.iter().zip(&sum) {
            assert!((found - sum).abs() <= 1e-12 * scale, "{hidden:?}: {found} {sum}");
        }
    }
}

#[test]
fn an_episode_of_one_step_has_a_loss_and_no_gradient() {
    let solver = fairness();
    let set = wandering(3, 1, 1, &[12.0]);
    let model = full_model(&ModelSpec::paper(solver.problem(), 1), &*solver, 0);
    let (loss, gradient) = fused(&model, &*solver, &set, &[0, 1, 2]);
    assert!((loss - played_loss(&model, &*solver, &set, &[0, 1, 2])).abs() < 1e-13);
    assert!(gradient.iter().all(|g| *g == 0.0));
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let solver = fairness();
    let set = wandering(3, 4, 1, &[40.0]);
    let spec = ModelSpec::paper(solver.problem(), 4);
    let model = full_model(&spec, &*solver, 0);
    let check = |result: Result<laau_net::BatchResult, laau_net::Error>, expected: &str| {
        assert_eq!(result.unwrap_err().to_string(), expected);
    };
    let mut engine = FusedEngine::new(solver.fork(), &spec, 2).unwrap();
    let mut gradient = vec![0.0; model.parameters.len()];
    check(
        engine.loss_and_gradient(&model, &set, &[], &mut gradient),
        "expected 1 values for a batch, found 0",
    );
    check(
        engine.loss_and_gradient(&model, &set, &[3], &mut gradient),
        "expected 4 values for the episodes, found 3",
    );
    check(
        engine.loss_and_gradient(&model, &set, &[0], &mut gradient[1..]),
        "expected 161 values for the gradient, found 160",
    );
    let wide = wandering(3, 4, 2, &[40.0]);
    check(
        engine.loss_and_gradient(&model, &wide, &[0], &mut gradient),
        "expected 1 values for a context, found 2",
    );
    let other = Model::new(
        ModelSpec {
            output: Output::Exp,
            ..spec.clone()
        },
        model.statistics.clone(),
        0,
    )
    .unwrap();
    check(
        engine.loss_and_gradient(&other, &set, &[0], &mut gradient),
        "invalid `spec`: expected a model of the specification that the engine was made for",
    );
    let mut broken = model.clone();
    broken.parameters.fill(f64::NAN);
    check(
        engine.loss_and_gradient(&broken, &set, &[0], &mut gradient),
        "step 0: the layer was not solved: invalid multiplier[0]: NaN",
    );
}
