//! Models of several horizons.

use laau_core::{Episodes, Problem as _};
use laau_net::{
    Checkpoint, EngineKind, Error, Model, ModelSpec, Summary, Training, model_from_bytes, model_to_bytes,
};

use crate::engines::check;
use crate::support::{all_specs, fairness, iid_episodes, mean_utility, model, one_phase, play, scatter};

/// The first steps of all episodes.
fn cut(episodes: &Episodes, steps: usize) -> Episodes {
    let all: Vec<usize> = (0..episodes.len()).collect();
    episodes.cut(steps, &all, fairness().problem())
}

fn spec(shortest: usize, horizon: usize) -> ModelSpec {
    ModelSpec {
        shortest_horizon: shortest,
        ..ModelSpec::paper(fairness().problem(), horizon)
    }
}

fn training(epochs: usize, engine: EngineKind) -> Training {
    Training {
        seed: 4,
        engine,
        ..one_phase(epochs, 1e-2)
    }
}

fn trained(spec: ModelSpec, engine: EngineKind, epochs: usize) -> Model {
    let (train, validation) = (
        iid_episodes(200, spec.horizon, 1),
        iid_episodes(50, spec.horizon, 2),
    );
    let mut model = model(spec, &*fairness(), &train, 1);
    let trainer = training(epochs, engine).check().unwrap();
    let run = trainer.run(&mut model, &*fairness(), &train, Some(&validation), &mut ());
    run.unwrap();
    model
}

#[test]
fn both_engines_are_right_at_every_horizon_of_a_model() {
    let layer = fairness();
    let (train, test) = (iid_episodes(50, 8, 3), iid_episodes(5, 8, 11));
    for (seed, of_one) in all_specs(&*layer, 8).into_iter().enumerate() {
        let of_several = ModelSpec {
            shortest_horizon: 2,
            ..of_one
        };
        let name = format!("{of_several:?}");
        let mut model = model(of_several, &*layer, &train, 1);
        scatter(&mut model, 0.5, seed as u64);
        for steps in [4, 7] {
            check(
                &model,
                &*layer,
                &cut(&test, steps),
                &format!("{steps} steps of {name}"),
            );
        }
    }
}

#[test]
fn a_short_episode_looks_like_a_long_one_with_as_much_per_step() {
    let train = iid_episodes(50, 8, 3);
    let several = model(spec(2, 8), &*fairness(), &train, 1);
    // Contexts that do not change: at the first step, nothing but the scale of the budget tells the horizons apart.
    let first_price = |model: &Model, steps: usize| {
        let episodes = Episodes::new(steps, 1, 1, vec![0.5; steps], vec![10.0 * steps as f64]).unwrap();
        play(model, &*fairness(), &episodes)[0].multipliers[0]
    };
    let mut blind = several.clone();
    // The share of steps left differs by 1/N: without its weights, the prices are the same.
    blind.parameters[20..30].fill(0.0);
    let [short, long] = [2, 8].map(|steps| first_price(&blind, steps));
    assert!((short - long).abs() <= 1e-12 * long, "{short} {long}");
}

#[test]
fn it_is_trained_on_all_of_them_by_either_engine_to_the_same_bytes_again() {
    for engine in [EngineKind::Fused, EngineKind::Candle] {
        let bytes =
            |spec: ModelSpec| model_to_bytes(&trained(spec, engine, 2), &Summary::untrained(4)).unwrap();
        let several = bytes(spec(3, 8));
        assert_eq!(several, bytes(spec(3, 8)), "{engine:?}");
        assert_ne!(several, bytes(spec(4, 8)), "{engine:?}");
        let (back, _) = model_from_bytes(&several).unwrap();
        assert_eq!(back.spec.horizons(), 3..=8);
    }
    let [fused, candle] =
        [EngineKind::Fused, EngineKind::Candle].map(|engine| trained(spec(3, 8), engine, 2));
    for (fused, candle) in fused.parameters.iter().zip(&candle.parameters) {
        assert!((fused - candle).abs() <= 1e-6, "{fused} {candle}");
    }
}

#[test]
fn it_is_as_good_at_the_shortest_and_the_longest_as_a_model_of_that_horizon() {
    let residual = |shortest, horizon| ModelSpec {
        shortest_horizon: shortest,
        ..ModelSpec::residual(fairness().problem(), horizon)
    };
    let several = trained(residual(4, 16), EngineKind::Fused, 15);
    for steps in [4, 16] {
        let of_one = trained(residual(steps, steps), EngineKind::Fused, 15);
        let test = cut(&iid_episodes(300, 16, 9), steps);
        let [found, expected] =
            [&several, &of_one].map(|model| mean_utility(&play(model, &*fairness(), &test)));
        assert!(found > 0.995 * expected, "{steps} steps: {found} {expected}");
    }
}

/// Stops in the third epoch.
struct Stop(usize);

impl laau_net::TrainObserver for Stop {
    fn should_stop(&mut self) -> bool {
        self.0 += 1;
        self.0 > 14
    }
}

#[test]
fn an_interrupted_run_goes_on_to_the_same_bytes() {
    let (train, validation) = (iid_episodes(60, 8, 1), iid_episodes(20, 8, 2));
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("checkpoint");
    let whole = training(4, EngineKind::Fused).check().unwrap();
    let mut expected = model(spec(3, 8), &*fairness(), &train, 1);
    whole
        .run(&mut expected, &*fairness(), &train, Some(&validation), &mut ())
        .unwrap();
    let trainer = whole.with_checkpoint(&place);
    let mut stopped = model(spec(3, 8), &*fairness(), &train, 1);
    trainer
        .run(
            &mut stopped,
            &*fairness(),
            &train,
            Some(&validation),
            &mut Stop(0),
        )
        .unwrap();
    let checkpoint = Checkpoint::load(&place).unwrap();
    let (found, _) = trainer
        .resume(checkpoint, &*fairness(), &train, Some(&validation), &mut ())
        .unwrap();
    assert_eq!(found.parameters, expected.parameters);
}

#[test]
fn other_episodes_than_the_longest_and_an_empty_range_are_refused() {
    let train = iid_episodes(20, 8, 1);
    let mut several = model(spec(3, 8), &*fairness(), &train, 1);
    let trainer = training(1, EngineKind::Fused).check().unwrap();
    let error = trainer
        .run(&mut several, &*fairness(), &cut(&train, 5), None, &mut ())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid `horizon`: expected episodes of 8 steps, the most that the model is for, found 5"
    );
    for shortest in [0, 9] {
        let error = spec(shortest, 8).validate().unwrap_err();
        assert!(matches!(
            error,
            Error::InvalidSetting {
                field: "shortest_horizon",
                ..
            }
        ));
    }
}

#[test]
fn episodes_are_cut_with_budgets_in_proportion_that_pay_every_step() {
    let layer = fairness();
    // The least budget of 7 steps, in floats that do not divide by 7.
    let problem = laau_core::problems::WeightedFairness::new(0.1, 40.0).unwrap();
    let mut least = [0.0];
    problem.reserve(7, &mut least);
    let tight = Episodes::new(7, 1, 1, vec![0.5; 7], least.to_vec()).unwrap();
    for steps in 1..=7 {
        tight.cut(steps, &[0], &problem).check(&problem).unwrap();
    }
    let episodes = iid_episodes(3, 8, 5);
    let short = episodes.cut(2, &[2, 0], layer.problem());
    assert_eq!((short.len(), short.horizon()), (2, 2));
    assert_eq!(short.get(0).contexts(), &episodes.get(2).contexts()[..2]);
    assert_eq!(short.get(1).budgets(), [episodes.get(0).budgets()[0] * 0.25]);
    assert_eq!(episodes.cut(99, &[0, 1, 2], layer.problem()), episodes);
}
