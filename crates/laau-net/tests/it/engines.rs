//! Both engines give the same loss and the same gradient, and both are right.

use candle_core::{DType, Device, Tensor, Var};
use laau_core::{Differentiate, Episodes, episode_gradient};
use laau_net::candle_engine::Unroller;
use laau_net::{Engine, EngineKind, Features, Model, ModelSpec};

use crate::support::{
    all_specs, fairness, iid_episodes, interior_point, log_episodes, mean_utility, mlp, model, play, scatter,
};

/// How closely the engines must agree, relative to the largest entry of the gradient.
const ENGINES: f64 = 1e-9;

fn gradient(engine: &mut dyn Engine, model: &Model, episodes: &Episodes, batch: &[usize]) -> (f64, Vec<f64>) {
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

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, v| v.abs().max(largest))
}

fn assert_close(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    let scale = largest(expected).max(1e-6);
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance * scale,
            "{name}: weight {index}: {found:e} against {expected:e}"
        );
    }
}

/// Checks one model: engine against engine, loss against exact rollouts, gradient against finite differences.
fn check(model: &Model, layer: &dyn Differentiate, episodes: &Episodes, name: &str) {
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

    let utility = mean_utility(&play(model, layer, episodes));
    assert!(
        (candle_loss + utility).abs() <= 1e-9 * utility.abs(),
        "{name}: loss {candle_loss}, exact utility {utility}"
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
    assert_close(name, &candle_gradient, &differences, 1e-5);
    assert_close(name, &fused_gradient, &differences, 1e-5);
    assert!(largest(&differences) > 1e-4, "{name}: the gradient says nothing");
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

#[test]
fn a_network_of_ones_own_learns_through_the_budgets() {
    let layer = interior_point();
    let episodes = log_episodes(4, 5, 2);
    // One free price per step and budget, the same for all episodes: core differentiates these episode by episode.
    let prices: Vec<f64> = (0..10).map(|i| 0.05 + 0.01 * f64::from(i)).collect();
    let var = Var::from_slice(&prices, (5, 2), &Device::Cpu).unwrap();
    let unroller = Unroller::new(layer.fork());
    let loss = unroller
        .loss(&episodes, &[0, 1, 2, 3], |step| {
            assert_eq!(step.contexts_so_far()?.dims(), [4, step.step + 1, 3]);
            var.narrow(0, step.step, 1)?.broadcast_as((4, 2))
        })
        .unwrap();
    let gradients = loss.backward().unwrap();
    let found: Vec<f64> = gradients
        .get(&var)
        .unwrap()
        .flatten_all()
        .unwrap()
        .to_vec1()
        .unwrap();
    let counts = unroller.take_counts();
    assert_eq!(counts.exact + counts.approximate, 20);

    let mut expected = vec![0.0; 10];
    let mut cost = 0.0;
    let mut free_at_the_end = prices;
    free_at_the_end[8..].fill(0.0);
    for episode in episodes.iter() {
        let gradient = episode_gradient(&mut *layer.fork(), &episode, &free_at_the_end).unwrap();
        cost += gradient.cost / 20.0;
        for (sum, value) in expected.iter_mut().zip(&gradient.multipliers) {
            *sum += value / 20.0;
        }
    }
    expected[8..].fill(0.0);
    assert!((loss.to_scalar::<f64>().unwrap() - cost).abs() < 1e-12);
    assert_close("free prices", &found, &expected, ENGINES);
    assert!(largest(&expected) > 1e-3);
}

#[test]
fn gradients_reach_a_network_that_shapes_the_budget_itself() {
    let layer = fairness();
    let episodes = iid_episodes(3, 6, 4);
    let loss = |weight: f64| {
        let weight = Var::from_slice(&[weight], (1, 1), &Device::Cpu).unwrap();
        let loss = Unroller::new(layer.fork())
            .loss(&episodes, &[2, 0], |step| {
                let level = (step.remaining.broadcast_div(&step.budgets)?).matmul(&weight)?;
                (&step.context * level.exp()?)? * 0.1
            })
            .unwrap();
        let gradient = loss.backward().unwrap();
        let slope = gradient.get(&weight).unwrap().flatten_all().unwrap();
        (
            loss.to_scalar::<f64>().unwrap(),
            slope.to_vec1::<f64>().unwrap()[0],
        )
    };
    let (_, slope) = loss(0.3);
    let difference = (loss(0.3 + 1e-6).0 - loss(0.3 - 1e-6).0) / 2e-6;
    assert!(
        (slope - difference).abs() < 1e-6 * difference.abs(),
        "{slope} against {difference}"
    );
}

#[test]
fn a_price_below_zero_or_of_another_type_is_an_error_that_says_so() {
    let episodes = iid_episodes(2, 3, 4);
    let message = |price: &dyn Fn() -> candle_core::Result<Tensor>| {
        Unroller::new(fairness())
            .loss(&episodes, &[0, 1], |_| price())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        message(&|| Tensor::full(-1.0, (2, 1), &Device::Cpu)),
        "step 0: the layer was not solved: invalid multiplier[0]: -1"
    );
    assert_eq!(
        message(&|| Tensor::ones((2, 1), DType::F32, &Device::Cpu)),
        "tensor engine: expected a tensor of f64 values"
    );
    assert_eq!(
        message(&|| Tensor::ones((3, 1), DType::F64, &Device::Cpu)),
        "expected 3 values for context, found 2"
    );
}
