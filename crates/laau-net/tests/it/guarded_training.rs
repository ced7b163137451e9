//! Whole trainings behind a guard.

use std::sync::Arc;

use laau_core::problems::WeightedFairness;
use laau_core::{
    Constant, Episodes, Fit, FitSets, Guarded, Incumbent, Parameter, Player, Policy, Rollout, Task, Unrolled,
    rollout_all,
};
use laau_kkt::FairnessLayer;
use laau_net::{Checkpoint, EngineKind, Laau, Model, TrainObserver, Training};

use crate::support::{iid_episodes, mean_utility, one_phase};

const LEVEL: f64 = 0.95;

fn task() -> Task {
    let problem = Arc::new(WeightedFairness::paper());
    Task::new(
        Arc::clone(&problem) as Arc<_>,
        Box::new(FairnessLayer::new(problem)),
    )
}

fn incumbent(price: f64) -> Arc<dyn Policy> {
    Arc::new(Unrolled::new("constant", Constant(vec![price]), task().solver).unwrap())
}

fn laau(engine: EngineKind) -> Laau {
    let training = Training {
        engine,
        ..one_phase(6, 5e-3)
    };
    Laau::residual()
        .trained_by(training)
        .guarded_by(Incumbent::ready(incumbent(0.05)), LEVEL)
}

/// Plays a model behind the guard of [`laau`].
fn play(model: &Model, episodes: &Episodes) -> Vec<Rollout> {
    let task = task();
    let advice = Unrolled::new("advice", model.clone(), task.solver.clone()).unwrap();
    let problem = Arc::clone(&task.problem) as Arc<_>;
    let guarded = Guarded::new("guarded", Arc::new(advice), incumbent(0.05), problem, LEVEL).unwrap();
    rollout_all(&*task.problem, &guarded.in_layer(&task), episodes).unwrap()
}

#[test]
fn a_model_trained_behind_a_guard_is_validated_behind_it_and_learns() {
    let (train, validation) = (iid_episodes(200, 12, 1), iid_episodes(60, 12, 2));
    for engine in [EngineKind::Fused, EngineKind::Candle] {
        let laau = laau(engine);
        let initial = laau.initial(&task(), &train, 3).unwrap();
        let (model, trained) = laau
            .train(&task(), &train, Some(&validation), 3, &mut ())
            .unwrap();
        let utility = mean_utility(&play(&model, &validation));
        let best = trained.summary.best_validation_utility.unwrap();
        assert!(
            (best - utility).abs() <= 1e-12 * utility.abs(),
            "{best}, {utility}"
        );
        assert!(utility > mean_utility(&play(&initial, &validation)), "{engine:?}");
        let losses: Vec<f64> = trained.history.iter().map(|record| record.loss).collect();
        assert!(losses[5] < losses[0], "{engine:?}: {losses:?}");
        // The guard acts, so that what was trained is not the plain policy.
        let acted: usize = (play(&model, &validation).iter())
            .map(|rollout| rollout.certificate.unwrap().acted)
            .sum();
        assert!(acted > 0, "{engine:?}");
    }
}

#[test]
fn the_policy_of_a_fit_behind_a_guard_is_guarded() {
    let (train, validation) = (iid_episodes(60, 8, 1), iid_episodes(20, 8, 2));
    let sets = FitSets {
        train: &train,
        validation: &validation,
    };
    let fitted = laau(EngineKind::Fused).fit(&task(), sets, 3, &mut ()).unwrap();
    assert_eq!(fitted.parameters["guard"], Parameter::Word("constant".to_owned()));
    assert_eq!(fitted.parameters["guard_level"], Parameter::Number(LEVEL));
    // The model alone would be another policy.
    assert!(fitted.document.is_none());
    let Player::Online(policy) = fitted.player else {
        panic!("an online policy");
    };
    for rollout in rollout_all(&*task().problem, &*policy, &iid_episodes(40, 8, 9)).unwrap() {
        let certificate = rollout.certificate.unwrap();
        assert_eq!(certificate.level, LEVEL);
        assert!(certificate.margin >= -certificate.allowance, "{certificate:?}");
    }
    let plain = Laau {
        guard: None,
        ..laau(EngineKind::Fused)
    };
    let plain = plain.fit(&task(), sets, 3, &mut ()).unwrap();
    assert!(!plain.parameters.contains_key("guard") && plain.document.is_some());
}

/// Stops in an epoch.
struct StopIn(usize);

impl TrainObserver for StopIn {
    fn epoch(&mut self, _: &laau_net::EpochRecord, _: std::time::Duration) {
        self.0 -= 1;
    }

    fn should_stop(&mut self) -> bool {
        self.0 == 0
    }
}

#[test]
fn a_run_behind_a_guard_is_resumed_behind_the_same_one_only() {
    let (train, validation) = (iid_episodes(40, 6, 1), iid_episodes(20, 6, 2));
    let path = tempfile::tempdir().unwrap();
    let path = path.path().join("checkpoint");
    let (task, laau) = (task(), laau(EngineKind::Fused));
    let trainer = || laau.training.clone().check().unwrap().with_checkpoint(&path);
    let guarded = |price: f64| trainer().with_guard(&task, incumbent(price), LEVEL);
    let initial = laau.initial(&task, &train, 3).unwrap();
    let run = |observer: &mut dyn TrainObserver| {
        let mut model = initial.clone();
        guarded(0.05)
            .run(&mut model, &*task.solver, &train, Some(&validation), observer)
            .unwrap();
        model
    };
    let whole = run(&mut ());
    run(&mut StopIn(3));
    let resume = |trainer: laau_net::Trainer| {
        let checkpoint = Checkpoint::load(&path).unwrap();
        assert_eq!(checkpoint.epochs_done(), 3);
        trainer
            .resume(checkpoint, &*task.solver, &train, Some(&validation), &mut ())
            .map(|(model, _)| model)
            .map_err(|error| error.to_string())
    };
    let refused = "invalid `guard`: expected that of the checkpointed run, or none if it had none";
    assert_eq!(resume(trainer()), Err(refused.to_owned()));
    assert_eq!(resume(guarded(0.06)), Err(refused.to_owned()));
    assert_eq!(resume(guarded(0.05)), Ok(whole));
}
