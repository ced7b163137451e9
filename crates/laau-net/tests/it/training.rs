//! Offline training: it learns, it repeats, it can be interrupted, and it says when it diverges.

mod waking;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use laau_core::{Episodes, StepSolver};
use laau_net::{
    BatchResult, Checkpoint, CsvLog, Ending, Engine, EngineKind, EpochRecord, Error, Model, ModelSpec,
    Network, Optimiser, Phase, Precision, TrainObserver, Trained, Trainer, Training, model_from_bytes,
    model_to_bytes,
};

use crate::support::{fairness, iid_episodes, linear, mean_utility, model, one_phase, paper_model, play};

fn short(epochs: usize) -> Training {
    Training {
        phases: vec![
            Phase {
                epochs: epochs / 2,
                learning_rate: 1e-2,
            },
            Phase {
                epochs: epochs - epochs / 2,
                learning_rate: 5e-3,
            },
        ],
        seed: 4,
        ..Training::paper()
    }
}

struct Sets {
    training: Episodes,
    validation: Episodes,
}

fn sets(count: usize, horizon: usize) -> Sets {
    Sets {
        training: iid_episodes(count, horizon, 1),
        validation: iid_episodes(count / 4, horizon, 2),
    }
}

fn run(
    trainer: &Trainer,
    model: &mut Model,
    sets: &Sets,
    observer: &mut dyn TrainObserver,
) -> Result<Trained, Error> {
    trainer.run(
        model,
        &*fairness(),
        &sets.training,
        Some(&sets.validation),
        observer,
    )
}

/// Stops in the middle of an epoch.
struct StopIn {
    epoch: usize,
    batches: usize,
    seen: usize,
}

impl StopIn {
    fn epoch(epoch: usize) -> Self {
        Self {
            epoch,
            batches: 3,
            seen: 0,
        }
    }
}

impl TrainObserver for StopIn {
    fn epoch(&mut self, _: &EpochRecord, _: Duration) {
        self.epoch -= 1;
    }

    fn should_stop(&mut self) -> bool {
        self.seen += usize::from(self.epoch == 0);
        self.seen == self.batches
    }
}

fn trained_bytes(training: Training, sets: &Sets) -> Vec<u8> {
    let mut model = paper_model(&sets.training, 9);
    let trained = run(&training.check().unwrap(), &mut model, sets, &mut ()).unwrap();
    model_to_bytes(&model, &trained.summary).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_one_thread_and_on_two() {
    let sets = sets(60, 8);
    for (engine, precision) in [
        (EngineKind::Fused, Precision::F64),
        (EngineKind::Fused, Precision::F32),
        (EngineKind::Candle, Precision::F64),
    ] {
        let bytes = |threads, seed| {
            let training = Training {
                engine,
                precision,
                seed,
                ..short(3)
            };
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
                .install(|| trained_bytes(training, &sets))
        };
        let one = bytes(1, 4);
        assert!(one == bytes(2, 4), "{engine:?}: two threads differ from one");
        assert!(one != bytes(1, 5), "{engine:?}: the seed does not matter");
    }
}

#[test]
fn a_resumed_run_gives_the_bytes_of_an_uninterrupted_one() {
    let sets = sets(60, 8);
    let folder = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for (optimiser, precision) in [
        (Optimiser::adam(), Precision::F64),
        (Optimiser::adam(), Precision::F32),
        (Optimiser::Sgd, Precision::F64),
    ] {
        let path = folder.path().join(format!("{}-{precision:?}", optimiser.name()));
        let training = Training {
            optimiser,
            precision,
            ..short(6)
        };
        let whole = trained_bytes(training.clone(), &sets);
        assert_eq!(model_from_bytes(&whole).unwrap().1.precision, precision);

        let trainer = training.check().unwrap().with_checkpoint(&path);
        let mut model = paper_model(&sets.training, 9);
        let stopped = run(&trainer, &mut model, &sets, &mut StopIn::epoch(3)).unwrap();
        assert_eq!((stopped.ending, stopped.history.len()), (Ending::Stopped, 3));

        let checkpoint = Checkpoint::load(&path).unwrap();
        assert_eq!(checkpoint.epochs_done(), 3);
        assert_eq!(checkpoint.best_model(), model);
        let mut log = Vec::new();
        let (resumed_model, resumed) = trainer
            .resume(
                checkpoint,
                &*fairness(),
                &sets.training,
                Some(&sets.validation),
                &mut CsvLog::new(&mut log),
            )
            .unwrap();
        assert_eq!((resumed.ending, resumed.history.len()), (Ending::Completed, 6));
        assert!(model_to_bytes(&resumed_model, &resumed.summary).unwrap() == whole);
        assert_eq!(String::from_utf8(log).unwrap().lines().count(), 7);
        // The checkpoint at the end is that of the whole run, and is written to the same bytes again.
        let end = Checkpoint::load(&path).unwrap();
        let again = folder.path().join("again");
        end.save(&again).unwrap();
        assert!(std::fs::read(&again).unwrap() == std::fs::read(&path).unwrap());
        assert_eq!(end.epochs_done(), 6);
        assert_eq!(end.settings().precision, precision);
        found.push(resumed_model.parameters);
    }
    assert!(found[0] != found[1], "the precision does not matter");
}

#[test]
fn a_checkpoint_is_refused_for_another_run() {
    let sets = sets(40, 5);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let mut model = paper_model(&sets.training, 9);
    let trainer = short(2).check().unwrap().with_checkpoint(&path);
    run(&trainer, &mut model, &sets, &mut ()).unwrap();
    let resume = |training: Training, episodes: &Episodes| {
        training
            .check()
            .unwrap()
            .resume(
                Checkpoint::load(&path).unwrap(),
                &*fairness(),
                episodes,
                Some(&sets.validation),
                &mut (),
            )
            .map(|(_, trained)| trained.ending)
            .map_err(|error| error.to_string())
    };
    assert_eq!(resume(short(2), &sets.training), Ok(Ending::Completed));
    assert_eq!(
        resume(Training { batch: 7, ..short(2) }, &sets.training),
        Err("invalid `batch`: expected the value with which the checkpointed run began".to_owned())
    );
    let single = Training {
        precision: Precision::F32,
        ..short(2)
    };
    assert_eq!(
        resume(single, &sets.training),
        Err("invalid `precision`: expected the value with which the checkpointed run began".to_owned())
    );
    assert_eq!(
        resume(short(2), &iid_episodes(40, 5, 77)),
        Err("invalid `training`: expected the episodes of the checkpointed run".to_owned())
    );
    let bytes = std::fs::read(&path).unwrap();
    for length in (0..bytes.len()).step_by(13) {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(Checkpoint::load(&path).is_err());
    }
    std::fs::write(
        &path,
        model_to_bytes(&model, &laau_net::Summary::untrained(0)).unwrap(),
    )
    .unwrap();
    let message = Checkpoint::load(&path).unwrap_err().to_string();
    assert!(
        message.ends_with("format: expected `laau-checkpoint`, found `laau-model`"),
        "{message}"
    );
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_the_run_and_the_model_keeps_what_it_learned() {
    let sets = sets(20, 4);
    let mut model = paper_model(&sets.training, 9);
    let before = model.clone();
    let training = Training {
        checkpoint_every: 1,
        ..short(4)
    };
    let trainer = training
        .check()
        .unwrap()
        .with_checkpoint("no/such/folder/checkpoint");
    let error = run(&trainer, &mut model, &sets, &mut ()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert_ne!(model.parameters, before.parameters);
}

#[test]
fn a_flag_stops_a_run_at_once_and_leaves_a_usable_checkpoint() {
    let sets = sets(40, 5);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let flag = AtomicBool::new(true);
    let mut model = paper_model(&sets.training, 9);
    let before = model.clone();
    let trainer = short(2).check().unwrap().with_checkpoint(&path);
    let trained = run(&trainer, &mut model, &sets, &mut ((), &flag)).unwrap();
    assert_eq!((trained.ending, trained.history.len()), (Ending::Stopped, 0));
    assert_eq!(model, before);
    flag.store(false, Ordering::Relaxed);
    let checkpoint = Checkpoint::load(&path).unwrap();
    assert_eq!(checkpoint.epochs_done(), 0);
    let (model, trained) = trainer
        .resume(
            checkpoint,
            &*fairness(),
            &sets.training,
            Some(&sets.validation),
            &mut &flag,
        )
        .unwrap();
    assert_eq!(trained.ending, Ending::Completed);
    assert!(model_to_bytes(&model, &trained.summary).unwrap() == trained_bytes(short(2), &sets));
}

#[test]
fn the_best_epoch_on_validation_is_kept_and_patience_ends_the_run() {
    let sets = sets(40, 5);
    let training = Training {
        patience: Some(3),
        ..one_phase(40, 0.3)
    };
    let mut model = paper_model(&sets.training, 9);
    let trained = run(&training.check().unwrap(), &mut model, &sets, &mut ()).unwrap();
    assert_eq!(trained.ending, Ending::EarlyStop);
    let utilities: Vec<f64> = trained
        .history
        .iter()
        .map(|record| record.validation_utility.unwrap())
        .collect();
    let best = trained.summary.best_epoch.unwrap();
    assert_eq!(utilities.len(), best + 4);
    assert!(utilities.iter().all(|utility| *utility <= utilities[best]));
    assert_eq!(
        mean_utility(&play(&model, &*fairness(), &sets.validation)),
        utilities[best]
    );
    assert_eq!(trained.summary.best_validation_utility, Some(utilities[best]));
}

#[test]
fn validation_comes_as_often_as_asked_and_at_the_end() {
    let sets = sets(20, 4);
    let training = Training {
        validate_every: 3,
        ..short(5)
    };
    let trained = run(
        &training.check().unwrap(),
        &mut paper_model(&sets.training, 9),
        &sets,
        &mut (),
    )
    .unwrap();
    let validated: Vec<bool> = trained
        .history
        .iter()
        .map(|record| record.validation_utility.is_some())
        .collect();
    assert_eq!(validated, [false, false, true, false, true]);
}

#[test]
fn without_validation_the_last_weights_are_kept() {
    let sets = sets(20, 4);
    let mut model = paper_model(&sets.training, 9);
    let before = model.clone();
    let trained = short(2)
        .check()
        .unwrap()
        .run(&mut model, &*fairness(), &sets.training, None, &mut ())
        .unwrap();
    assert_eq!(trained.summary.best_epoch, None);
    assert_ne!(model.parameters, before.parameters);
    let patient = Training {
        patience: Some(1),
        ..short(2)
    };
    let error = patient
        .check()
        .unwrap()
        .run(&mut model, &*fairness(), &sets.training, None, &mut ())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid `patience`: expected a validation set to judge by"
    );
}

fn diverging(change: impl Fn(&mut Training), path: &Path) -> (Error, Model, Model) {
    let sets = sets(40, 5);
    let mut training = short(4);
    change(&mut training);
    let mut model = paper_model(&sets.training, 9);
    let before = model.clone();
    let trainer = training.check().unwrap().with_checkpoint(path);
    let error = run(&trainer, &mut model, &sets, &mut ()).unwrap_err();
    (error, before, model)
}

#[test]
fn a_run_that_leaves_the_range_of_numbers_says_where_and_keeps_good_weights() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    for engine in [EngineKind::Fused, EngineKind::Candle] {
        for learning_rate in [1e306, 1e200] {
            let (error, before, model) = diverging(
                |training| {
                    training.engine = engine;
                    training.optimiser = Optimiser::Sgd;
                    training.phases[0].learning_rate = learning_rate;
                },
                &path,
            );
            let Error::Diverged { epoch: 0, hint, .. } = &error else {
                panic!("{error}");
            };
            assert!(hint.contains("learning rate"));
            assert!(
                error
                    .to_string()
                    .starts_with("training diverged in epoch 1, batch "),
                "{error}"
            );
            assert_eq!(model, before);
            assert_eq!(Checkpoint::load(&path).unwrap().best_model(), before);
        }
    }
}

#[test]
fn a_later_divergence_keeps_the_best_weights_of_the_epochs_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let (error, before, model) = diverging(
        |training| {
            training.optimiser = Optimiser::Sgd;
            training.phases[1].learning_rate = 1e306;
        },
        &path,
    );
    assert!(matches!(error, Error::Diverged { epoch: 2, .. }), "{error}");
    assert_ne!(model.parameters, before.parameters);
    assert!(model.parameters.iter().all(|value| value.is_finite()));
    let checkpoint = Checkpoint::load(&path).unwrap();
    assert_eq!(checkpoint.epochs_done(), 2);
    assert_eq!(checkpoint.best_model(), model);
}

#[test]
fn an_exploding_loss_is_a_divergence() {
    let folder = tempfile::tempdir().unwrap();
    let (error, ..) = diverging(
        |training| {
            training.phases[0].learning_rate = 10.0;
            training.divergence_factor = 1e-2;
        },
        &folder.path().join("checkpoint"),
    );
    let text = error.to_string();
    assert!(text.contains("above the limit of"), "{text}");
}

#[test]
fn an_episode_that_costs_far_more_than_the_others_is_no_divergence() {
    // The upper bound is below 1, so that weights cost; one episode has weights a million times those of the others.
    let problem = laau_core::problems::WeightedFairness::new(0.1, 0.5).unwrap();
    let layer = laau_kkt::FairnessLayer::new(problem);
    let mut contexts = vec![1e-2; 4 * 8];
    contexts[3 * 4..4 * 4].fill(1e4);
    let episodes = Episodes::new(4, 1, 1, contexts, vec![1.0; 8]).unwrap();
    for seed in 0..5 {
        let spec = ModelSpec::paper(layer.problem(), 4);
        let mut model = model(spec, &layer, &episodes, seed);
        let training = Training {
            batch: 1,
            seed,
            ..Training::paper()
        };
        let trainer = training.check().unwrap();
        if let Err(error) = trainer.run(&mut model, &layer, &episodes, None, &mut ()) {
            panic!("seed {seed}: {error}");
        }
    }
}

#[test]
fn a_clipped_gradient_makes_the_step_no_longer_than_the_clip() {
    let sets = sets(10, 5);
    let training = Training {
        optimiser: Optimiser::Sgd,
        gradient_clip: Some(1e-3),
        ..one_phase(1, 1.0)
    };
    let mut model = paper_model(&sets.training, 9);
    let before = model.parameters.clone();
    run(&training.check().unwrap(), &mut model, &sets, &mut ()).unwrap();
    let moved = model
        .parameters
        .iter()
        .zip(&before)
        .map(|(after, before)| (after - before).powi(2))
        .sum::<f64>()
        .sqrt();
    assert!((moved - 1e-3).abs() < 1e-12, "{moved}");
}

#[test]
fn bounds_on_the_weights_hold_after_every_epoch() {
    let sets = sets(40, 5);
    let layer = fairness();
    let train = |network: Network| {
        let spec = ModelSpec {
            network,
            ..ModelSpec::paper(layer.problem(), 5)
        };
        let mut model = model(spec, &*layer, &sets.training, 3);
        let training = one_phase(3, 0.05);
        run(&training.check().unwrap(), &mut model, &sets, &mut ()).unwrap();
        let mut projected = model.clone();
        projected.project();
        (model, projected)
    };
    let norm = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
    let (model, _) = train(Network::Linear {
        norm_bound: Some(0.4),
    });
    assert!(norm(&model.parameters) <= 0.4);
    assert!(
        norm(&train(linear()).0.parameters) > 0.4,
        "the bound does not bind"
    );
    let (model, projected) = train(Network::Mlp {
        hidden: vec![6],
        spectral_bound: Some(0.5),
    });
    for (a, b) in model.parameters.iter().zip(&projected.parameters) {
        assert!((a - b).abs() <= 1e-12, "not inside its bound");
    }
}

#[test]
fn episodes_that_do_not_fit_are_refused_before_the_first_step() {
    let sets = sets(20, 4);
    let mut model = paper_model(&sets.training, 9);
    let trainer = short(2).check().unwrap();
    let none = Episodes::new(4, 1, 1, vec![], vec![]).unwrap();
    let error = trainer
        .run(&mut model, &*fairness(), &none, None, &mut ())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid `training`: expected at least one episode, found none"
    );
    let poor = Episodes::new(4, 1, 1, vec![0.5; 4], vec![3.0]).unwrap();
    let Err(Error::Core(error)) = trainer.run(&mut model, &*fairness(), &poor, None, &mut ()) else {
        panic!("a budget that is too small")
    };
    assert!(matches!(error.root(), laau_core::Error::BudgetTooSmall { .. }));
    model.parameters[0] = f64::INFINITY;
    assert!(run(&trainer, &mut model, &sets, &mut ()).is_err());
}

/// Notes the bias that a start was given.
#[derive(Default)]
struct Woken(Option<f64>);

impl TrainObserver for Woken {
    fn bias_reset(&mut self, bias: f64) {
        self.0 = Some(bias);
    }
}
