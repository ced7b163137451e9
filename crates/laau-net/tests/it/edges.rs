//! Training where budgets run out or are zero or just enough, and with a layer that falls short of its tolerance.

use std::sync::Arc;

use laau_core::problems::{LogUtility, VmAllocation};
use laau_core::{
    Differentiate, Episodes, Error, Exactness, GradientMut, Problem, Query, SmoothProblem, SolutionMut,
    SolutionRef, Status, StepSolver,
};
use laau_kkt::{InteriorPoint, Options};
use laau_net::{EngineKind, ModelSpec, Statistics, Training};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::{all_specs, model, one_phase, play, scatter};

/// Log-utility whose budgets are used up long before most episodes end.
fn problem() -> Arc<LogUtility> {
    Arc::new(LogUtility::new(3, 2, vec![1.0, 0.5, 0.0, 0.2, 0.7, 1.0], 0.1, 10.0).unwrap())
}

fn episodes(count: usize, horizon: usize, rng: &mut ChaCha8Rng) -> Episodes {
    let contexts = (0..count * horizon * 3)
        .map(|_| rng.random_range(0.05..1.0))
        .collect();
    let budgets = (0..2 * count)
        .map(|i| [1.5, 2.0][i % 2] * horizon as f64 * rng.random_range(0.7..1.3))
        .collect();
    Episodes::new(horizon, 3, 2, contexts, budgets).unwrap()
}

fn training(epochs: usize, seed: u64, engine: EngineKind) -> Training {
    Training {
        seed,
        engine,
        ..one_phase(epochs, 1e-2)
    }
}

#[test]
fn training_does_not_abort_when_budgets_are_used_up() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (train, validation) = (episodes(100, 40, &mut rng), episodes(20, 40, &mut rng));
        let layer: Box<dyn Differentiate> =
            Box::new(InteriorPoint::new(problem(), Options::default()).unwrap());
        let mut model = model(ModelSpec::paper(layer.problem(), 40), &*layer, &train, seed);
        let trainer = training(5, seed, EngineKind::Fused).check().unwrap();
        if let Err(error) = trainer.run(&mut model, &*layer, &train, Some(&validation), &mut ()) {
            panic!("seed {seed}: {error}");
        }
        for rollout in play(&model, &*layer, &validation) {
            assert_eq!(
                (rollout.failures, rollout.violations, rollout.unconverged),
                (0, 0, 0),
                "seed {seed}"
            );
        }
    }
}

/// A layer that never reaches its tolerance.
#[derive(Clone)]
struct Short(InteriorPoint);

impl StepSolver for Short {
    fn problem(&self) -> &dyn SmoothProblem {
        self.0.problem()
    }

    fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), Error> {
        let status = solution.status;
        let inner = SolutionMut {
            status: &mut *status,
            ..solution
        };
        self.0.solve(query, inner)?;
        if status.is_solved() {
            *status = Status::NotConverged {
                iterations: 1,
                residual: 1e-3,
            };
        }
        Ok(())
    }
}

impl Differentiate for Short {
    fn pullback(
        &mut self,
        query: Query<'_>,
        solution: SolutionRef<'_>,
        upstream: &[f64],
        gradient: GradientMut<'_>,
    ) -> Result<Exactness, Error> {
        self.0.pullback(query, solution, upstream, gradient)
    }

    fn fork(&self) -> Box<dyn Differentiate> {
        Box::new(self.clone())
    }
}

#[test]
fn a_layer_short_of_its_tolerance_is_played_flagged_and_counted() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (train, validation) = (episodes(20, 10, &mut rng), episodes(10, 10, &mut rng));
    let solver = InteriorPoint::new(problem(), Options::default()).unwrap();
    let layer: Box<dyn Differentiate> = Box::new(Short(solver));
    for engine in [EngineKind::Fused, EngineKind::Candle] {
        let mut model = model(ModelSpec::paper(layer.problem(), 10), &*layer, &train, 1);
        let trainer = training(2, 1, engine).check().unwrap();
        let trained = trainer
            .run(&mut model, &*layer, &train, Some(&validation), &mut ())
            .unwrap();
        let counts = trained.summary.gradients;
        assert!(
            counts.approximate > 0 && counts.exact == 0,
            "{engine:?}: {counts:?}"
        );
        let rollouts = play(&model, &*layer, &validation);
        let sum = |of: fn(&laau_core::Rollout) -> usize| rollouts.iter().map(of).sum::<usize>();
        assert_eq!((sum(|r| r.failures), sum(|r| r.violations)), (0, 0));
        assert_eq!(sum(|r| r.unconverged), rollouts.len() * 10);
        let problem = problem();
        let lower = rollouts
            .iter()
            .flat_map(|r| &r.actions)
            .filter(|x| **x == problem.lower()[0]);
        assert!(
            lower.count() < rollouts.len() * 30,
            "the lower corner was played throughout"
        );
    }
}

/// A training step with every kind of model and both engines, then a rollout.
fn every_model_trains_and_plays(problem: LogUtility, episodes: &Episodes) {
    let layer: Box<dyn Differentiate> =
        Box::new(InteriorPoint::new(Arc::new(problem), Options::default()).unwrap());
    let batch: Vec<usize> = (0..episodes.len()).collect();
    for spec in all_specs(&*layer, episodes.horizon()) {
        let mut model = model(spec.clone(), &*layer, episodes, 1);
        scatter(&mut model, 0.5, 2);
        for kind in [EngineKind::Fused, EngineKind::Candle] {
            let mut gradient = vec![f64::NAN; model.parameters.len()];
            let result = kind
                .build(&*layer, &spec, batch.len())
                .unwrap()
                .loss_and_gradient(&model, episodes, &batch, &mut gradient);
            let result = result.unwrap_or_else(|error| panic!("{kind:?} {spec:?}: {error}"));
            assert!(result.loss.is_finite(), "{kind:?} {spec:?}");
            assert!(gradient.iter().all(|g| g.is_finite()), "{kind:?} {spec:?}");
        }
        for rollout in play(&model, &*layer, episodes) {
            assert_eq!((rollout.failures, rollout.violations), (0, 0), "{spec:?}");
        }
    }
}

#[test]
fn a_budget_of_zero_that_nothing_uses_has_a_price() {
    let problem = LogUtility::new(2, 2, vec![1.0, 0.5, 0.0, 0.0], 0.1, 10.0).unwrap();
    let contexts = (0_u8..24).map(|i| 0.1 + f64::from(i % 5)).collect();
    let budgets = [6.0, 0.0].repeat(3);
    every_model_trains_and_plays(problem, &Episodes::new(4, 2, 2, contexts, budgets).unwrap());
}

#[test]
fn numbers_of_any_size_have_prices() {
    // Contexts that are constant, zero or tiny, and budgets that no step needs.
    for scale in [0.0, 1e-300, 1e-9, 1.0, 1e12] {
        for budget in [2e-9, 1.0, 1e12] {
            let problem = LogUtility::new(2, 1, vec![1.0, 0.5], 1e-9, 10.0).unwrap();
            let contexts: Vec<f64> = (0_u8..24).map(|i| scale * f64::from(i % 2)).collect();
            let episodes = Episodes::new(4, 2, 1, contexts, vec![4.0 * budget; 3]).unwrap();
            every_model_trains_and_plays(problem, &episodes);
        }
    }
}

#[test]
fn a_mean_budget_that_rounds_below_the_least_usage_still_pays_it() {
    // The mean of three such budgets is a last bit below each of them.
    let lower = 0.213_866_133_240_894_15;
    assert!((lower + lower + lower) / 3.0 < lower);
    let problem = Arc::new(VmAllocation::new(1.0, vec![lower], vec![1.0]).unwrap());
    let layer = InteriorPoint::new(problem, Options::default()).unwrap();
    let episodes = Episodes::new(1, 2, 1, vec![0.0; 6], vec![lower; 3]).unwrap();
    let spec = ModelSpec::paper(layer.problem(), 1);
    let statistics = Statistics::fit(&spec, &mut layer.clone(), &episodes).unwrap();
    assert!(statistics.mean_price[0] > 0.0);
}
