//! Training behind a guard: both engines agree, with core and with what is played at deployment.

use std::sync::Arc;

use laau_core::problems::{
    LlmTokens, LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless,
};
use laau_core::{
    CappedLayer, Constant, Differentiate, Dimensions, Episodes, Guarded, Policy, Rollout, Shadow,
    SmoothProblem, Task, Unrolled, guarded_episode_gradient, rollout_all,
};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use laau_net::{EngineKind, Features, Model, ModelSpec, Output, Precision, PriceBase};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::engines::{assert_close, gradient, largest};
use crate::support::{linear, mean_utility, mlp, model, scatter};

/// How closely engines and core must agree, relative to the largest entry of the gradient.
const ENGINES: f64 = 1e-9;

/// How closely those of a network in singles must, likewise.
const SINGLES: f64 = 1e-4;

/// How closely a gradient must agree with differences of what is played, likewise.
const DIFFERENCES: f64 = 1e-6;

const LEVEL: f64 = 0.9;

/// A problem with episodes, and an incumbent at the price of a model of it.
struct Case {
    task: Task,
    episodes: Episodes,
}

impl Case {
    fn new<P: SmoothProblem + 'static>(
        problem: P,
        layer: impl FnOnce(&Arc<P>) -> Box<dyn Differentiate>,
        (low, high): (&[f64], &[f64]),
        (least, most): (&[f64], &[f64]),
    ) -> Self {
        const HORIZON: usize = 6;
        let problem = Arc::new(problem);
        let Dimensions { context, budgets, .. } = problem.dimensions();
        let mut rng = ChaCha8Rng::seed_from_u64(17);
        let mut between = |low: &[f64], high: &[f64], factor: f64| -> Vec<f64> {
            let pairs = low.iter().zip(high);
            pairs
                .map(|(low, high)| factor * rng.random_range(*low..*high))
                .collect()
        };
        let contexts = (0..5 * HORIZON).flat_map(|_| between(low, high, 1.0)).collect();
        let totals = (0..5)
            .flat_map(|_| between(least, most, HORIZON as f64))
            .collect();
        Self {
            task: Task::new(Arc::clone(&problem) as Arc<_>, layer(&problem)),
            episodes: Episodes::new(HORIZON, context, budgets, contexts, totals).unwrap(),
        }
    }

    fn model(&self, network: laau_net::Network, output: Output, form: PriceBase) -> Model {
        let spec = ModelSpec {
            network,
            features: Features::History,
            output,
            form,
            ..ModelSpec::paper(&*self.task.problem, self.episodes.horizon())
        };
        model(spec, &*self.task.solver, &self.episodes, 1)
    }

    /// A policy at a factor of the prices that a model is scaled by.
    fn incumbent(&self, model: &Model, factor: f64) -> Arc<dyn Policy> {
        let prices = model
            .statistics
            .multiplier_scale
            .iter()
            .map(|p| factor * p)
            .collect();
        Arc::new(Unrolled::new("incumbent", Constant(prices), self.task.solver.clone()).unwrap())
    }

    fn shadow(&self, incumbent: &Arc<dyn Policy>, level: f64) -> Arc<Shadow> {
        let problem = &*self.task.problem;
        Arc::new(Shadow::new(problem, &**incumbent, level, &self.episodes).unwrap())
    }

    /// Plays a model behind the guard, paid by exact ledgers.
    fn play(&self, model: &Model, incumbent: &Arc<dyn Policy>) -> Vec<Rollout> {
        let advice = Unrolled::new("advice", model.clone(), self.task.solver.clone()).unwrap();
        let problem = Arc::clone(&self.task.problem) as Arc<_>;
        let guarded =
            Guarded::new("guarded", Arc::new(advice), Arc::clone(incumbent), problem, LEVEL).unwrap();
        rollout_all(&*self.task.problem, &guarded.in_layer(&self.task), &self.episodes).unwrap()
    }
}

fn cases() -> Vec<Case> {
    fn general<P: SmoothProblem + 'static>(problem: &Arc<P>) -> Box<dyn Differentiate> {
        Box::new(InteriorPoint::new(Arc::clone(problem) as Arc<_>, Options::default()).unwrap())
    }
    let log_utility = LogUtility::new(3, 2, vec![1.0, 0.5, 0.2, 0.3, 1.0, 0.8], 0.1, 20.0).unwrap();
    vec![
        Case::new(
            WeightedFairness::paper(),
            |problem| Box::new(FairnessLayer::new(Arc::clone(problem))),
            (&[0.05], &[1.0]),
            (&[9.0], &[14.0]),
        ),
        Case::new(
            WeightedFairness::paper(),
            general,
            (&[0.05], &[1.0]),
            (&[9.0], &[14.0]),
        ),
        Case::new(
            log_utility,
            general,
            (&[0.3; 3], &[2.0; 3]),
            (&[4.0; 2], &[8.0; 2]),
        ),
        Case::new(
            Wireless::three_channels(),
            general,
            (&[0.5, 0.1, 0.1, 0.1], &[2.0, 3.0, 3.0, 3.0]),
            (&[3.0, 3.0], &[7.0, 5.0]),
        ),
        Case::new(
            VmAllocation::server(),
            general,
            (&[0.05, 0.1, 0.1, 0.1, 0.1], &[1.0, 0.4, 0.4, 0.4, 0.4]),
            (&[10.0; 4], &[15.0; 4]),
        ),
        Case::new(
            PowerProvisioning::two_loads(),
            general,
            (&[0.1, 0.1, 0.3], &[0.9, 0.9, 0.99]),
            (&[4.0, 2.6], &[6.0, 3.8]),
        ),
        Case::new(
            // With the impact of an inventory almost every sale is all or nothing.
            Trading::new(0.4, 10.0).unwrap(),
            general,
            (&[1.0], &[4.0]),
            (&[2.0], &[4.0]),
        ),
        Case::new(
            LlmTokens::two_classes(),
            general,
            (&[2.0, 2.0, 0.1, 0.1], &[8.0, 8.0, 0.9, 0.9]),
            (&[4.0, 6.0], &[8.0, 12.0]),
        ),
    ]
}

#[test]
fn both_engines_are_right_behind_a_guard() {
    for case in cases() {
        let problem = case.task.problem.name();
        let batch: Vec<usize> = (0..case.episodes.len()).collect();
        for (seed, (output, form)) in [
            (Output::Softplus, PriceBase::Plain),
            (Output::Exp, PriceBase::Residual),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("{problem} {output:?} {form:?}");
            let mut model = case.model(mlp(&[4]), output, form);
            scatter(&mut model, 0.4, seed as u64);
            let biases = model.parameters.len() - model.spec.dimensions.budgets;
            for bias in &mut model.parameters[biases..] {
                *bias = 0.3;
            }
            let incumbent = case.incumbent(&model, 0.8);
            let shadow = case.shadow(&incumbent, LEVEL);
            let [(fused_loss, fused), (loss, candle)] = [EngineKind::Fused, EngineKind::Candle].map(|kind| {
                let mut engine = kind.build(&*case.task.solver, &model.spec, 5).unwrap();
                engine.guard(Arc::clone(&shadow)).unwrap();
                gradient(&mut *engine, &model, &case.episodes, &batch)
            });
            assert!(
                (fused_loss - loss).abs() <= ENGINES * loss.abs(),
                "{name}: {fused_loss} against {loss}"
            );
            assert_close(&name, &fused, &candle, ENGINES);
            let kind = EngineKind::Fused;
            let engine = kind.build_in(Precision::F32, &*case.task.solver, &model.spec, 5);
            let mut engine = engine.unwrap();
            engine.guard(Arc::clone(&shadow)).unwrap();
            let (single_loss, single) = gradient(&mut *engine, &model, &case.episodes, &batch);
            assert!(
                (single_loss - loss).abs() <= SINGLES * loss.abs(),
                "{name}: {single_loss} in singles against {loss}"
            );
            assert_close(&name, &single, &fused, SINGLES);

            let played = case.play(&model, &incumbent);
            let acted: usize = played.iter().map(|p| p.certificate.unwrap().acted).sum();
            assert!(acted > 0, "{name}: the guard acted in {acted} steps");
            let utility = mean_utility(&played);
            assert!(
                (loss + utility).abs() <= 1e-9 * utility.abs(),
                "{name}: loss {loss}, played {utility}"
            );
            let slopes = differences(&model, |moved| -mean_utility(&case.play(moved, &incumbent)));
            assert!(largest(&slopes) > 1e-4, "{name}: the gradient says nothing");
            assert_close(&name, &candle, &slopes, DIFFERENCES);
        }
    }
}

/// The gradient by differences of what is played: central ones, extrapolated to the fourth order, at widths from where a kink
/// may be in between down to where the roundings of what is played show. Of neighbours, the two that agree best are taken.
fn differences(model: &Model, loss: impl Fn(&Model) -> f64) -> Vec<f64> {
    const WIDTHS: [f64; 6] = [4e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6];
    (0..model.parameters.len())
        .map(|index| {
            let at = |step: f64| {
                let mut moved = model.clone();
                moved.parameters[index] += step;
                loss(&moved)
            };
            let central = |width: f64| (at(width) - at(-width)) / (2.0 * width);
            let slopes = WIDTHS.map(|width| (4.0 * central(0.5 * width) - central(width)) / 3.0);
            let apart = |pair: &[f64]| (pair[0] - pair[1]).abs();
            let best = slopes.windows(2).min_by(|a, b| apart(a).total_cmp(&apart(b)));
            best.unwrap()[0]
        })
        .collect()
}

#[test]
fn the_engines_equal_the_gradient_of_guarded_episodes() {
    for case in cases() {
        let name = case.task.problem.name();
        // Without weights the price is the same at every step, whatever remains: a factor of its bias.
        let mut model = case.model(linear(), Output::Exp, PriceBase::Plain);
        let m = model.spec.dimensions.budgets;
        let biases = model.parameters.len() - m;
        model.parameters.fill(0.0);
        for (i, bias) in model.parameters[biases..].iter_mut().enumerate() {
            *bias = 0.1 + 0.05 * i as f64;
        }
        let scales = model.statistics.multiplier_scale.iter();
        let prices: Vec<f64> = (scales.zip(&model.parameters[biases..]))
            .map(|(scale, bias)| scale * bias.exp())
            .collect();
        // At this level what the incumbent gains is more than its advice does, and leaves the prices something to decide.
        let level = if name == "vm-allocation" { 0.98 } else { 0.95 };
        let shadow = case.shadow(&case.incumbent(&model, 0.95), level);
        let (count, horizon) = (case.episodes.len(), case.episodes.horizon());
        let mut layer = CappedLayer::new(case.task.solver.clone());
        let (mut loss, mut expected, mut limited) = (0.0, vec![0.0; m], false);
        for index in 0..count {
            let mut multipliers = prices.repeat(horizon);
            multipliers[(horizon - 1) * m..].fill(0.0);
            let episode = case.episodes.get(index);
            let found =
                guarded_episode_gradient(&mut layer, &episode, shadow.get(index), &multipliers).unwrap();
            let plain =
                laau_core::episode_gradient(&mut *case.task.solver.clone(), &episode, &multipliers).unwrap();
            limited |= (plain.cost - found.cost).abs() > 1e-6 * plain.cost.abs();
            let weight = 1.0 / (count * horizon) as f64;
            loss += weight * found.cost;
            for (i, slope) in found.multipliers[..(horizon - 1) * m].iter().enumerate() {
                expected[i % m] += weight * slope * prices[i % m];
            }
        }
        assert!(limited && largest(&expected) > 1e-6, "{name}: {expected:?}");
        let batch: Vec<usize> = (0..count).collect();
        for kind in [EngineKind::Fused, EngineKind::Candle] {
            let mut engine = kind.build(&*case.task.solver, &model.spec, 3).unwrap();
            engine.guard(Arc::clone(&shadow)).unwrap();
            let (found_loss, found) = gradient(&mut *engine, &model, &case.episodes, &batch);
            assert!(
                (found_loss - loss).abs() <= ENGINES * loss.abs(),
                "{name}: {found_loss}, {loss}"
            );
            assert_close(name, &found[biases..], &expected, ENGINES);
        }
    }
}

#[test]
fn the_engines_agree_on_minibatches_of_the_paper_behind_a_guard() {
    let case = cases().remove(0);
    let episodes = crate::support::iid_episodes(100, 20, 5);
    let spec = ModelSpec::paper(&*case.task.problem, 20);
    let first = model(spec.clone(), &*case.task.solver, &episodes, 0);
    let incumbent = case.incumbent(&first, 1.0);
    let shadow = Arc::new(Shadow::new(&*case.task.problem, &*incumbent, 0.95, &episodes).unwrap());
    let [mut fused, mut candle] = [EngineKind::Fused, EngineKind::Candle].map(|kind| {
        let mut engine = kind.build(&*case.task.solver, &spec, 10).unwrap();
        engine.guard(Arc::clone(&shadow)).unwrap();
        engine
    });
    for seed in 0..10_usize {
        let model = model(spec.clone(), &*case.task.solver, &episodes, seed as u64);
        // Batches of several sizes, and of episodes that do not follow each other.
        let batch: Vec<usize> = (0..10 + seed).map(|i| (i * 7 + seed) % 100).collect();
        let (fused_loss, fused) = gradient(&mut *fused, &model, &episodes, &batch);
        let (candle_loss, candle) = gradient(&mut *candle, &model, &episodes, &batch);
        assert!((fused_loss - candle_loss).abs() <= ENGINES * candle_loss.abs());
        assert_close("paper", &fused, &candle, ENGINES);
    }
}

#[test]
fn a_guard_of_other_episodes_is_refused() {
    let case = cases().remove(0);
    let model = case.model(mlp(&[4]), Output::Softplus, PriceBase::Plain);
    let shadow = case.shadow(&case.incumbent(&model, 1.0), LEVEL);
    let fewer = case.episodes.select(&[0, 1]);
    for kind in [EngineKind::Fused, EngineKind::Candle] {
        let mut engine = kind.build(&*case.task.solver, &model.spec, 2).unwrap();
        engine.guard(Arc::clone(&shadow)).unwrap();
        let mut gradient = vec![0.0; model.parameters.len()];
        let refused = engine
            .loss_and_gradient(&model, &fewer, &[0, 1], &mut gradient)
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "expected 5 values for the guard's episodes, found 2"
        );
    }
}
