//! Online training: play, then learn, safe at any weights.

use laau_core::{Constant, Episodes};
use laau_net::{
    CsvLog, EngineKind, Model, ModelSpec, OnlineObserver, OnlineTraining, Optimiser, Round, load_model,
    save_model,
};

use crate::support::{fairness, iid_episodes, mean_utility, model, paper_model, play, scatter};

fn learn(training: OnlineTraining, model: Model, episodes: &Episodes) -> (Vec<f64>, Model) {
    let mut learner = training.check(model, fairness()).unwrap();
    let run = learner.run(episodes, &mut ()).unwrap();
    assert_eq!(run.skipped, 0);
    assert!(run.rollouts.iter().all(|r| r.violations == 0 && r.failures == 0));
    let utilities = run.rollouts.iter().map(laau_core::Rollout::utility).collect();
    (utilities, learner.model().clone())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn from_a_cold_start_the_utility_rises_with_either_optimiser() {
    let stream = iid_episodes(1500, 10, 3);
    let test = iid_episodes(300, 10, 4);
    for (optimiser, learning_rate) in [(Optimiser::Sgd, 0.05), (Optimiser::adam(), 2e-3)] {
        let cold = paper_model(&iid_episodes(20, 10, 5), 2);
        let before = mean_utility(&play(&cold, &*fairness(), &test));
        let training = OnlineTraining {
            optimiser,
            learning_rate,
            ..OnlineTraining::default()
        };
        let (utilities, learned) = learn(training, cold, &stream);
        let after = mean_utility(&play(&learned, &*fairness(), &test));
        assert_eq!(utilities.len(), 1500);
        assert!(after > before + 5e-3, "{optimiser:?}: {before} became {after}");
    }
}

#[test]
fn a_residual_model_is_good_from_the_first_round() {
    let stream = iid_episodes(300, 10, 3);
    let layer = fairness();
    let warm_up = iid_episodes(20, 10, 5);
    let residual = model(ModelSpec::residual(layer.problem(), 10), &*layer, &warm_up, 2);
    let constant = Constant(residual.statistics.multiplier_scale.clone());
    let unlearned = mean_utility(&play(&constant, &*layer, &stream));
    let (utilities, _) = learn(OnlineTraining::default(), residual, &stream);
    assert!(
        mean(&utilities) > unlearned,
        "{} against {unlearned}",
        mean(&utilities)
    );
}

#[test]
fn each_round_is_played_before_it_is_learned_from() {
    let stream = iid_episodes(5, 10, 3);
    let start = paper_model(&stream, 2);
    let expected = play(&start, &*fairness(), &stream)[0].clone();
    for engine in [EngineKind::Fused, EngineKind::Candle] {
        let training = OnlineTraining {
            engine,
            ..OnlineTraining::default()
        };
        let mut learner = training.check(start.clone(), fairness()).unwrap();
        let (rollout, round) = learner.round(&stream, 0).unwrap();
        assert_eq!(rollout, expected);
        assert_eq!((round.round, round.utility), (0, expected.utility()));
        assert_ne!(learner.model().parameters, start.parameters);
        let learned = learner.model().clone();
        let (second, round) = learner.round(&stream, 1).unwrap();
        assert_eq!(second, play(&learned, &*fairness(), &stream)[1]);
        assert_eq!(
            round.running_utility,
            f64::midpoint(expected.utility(), second.utility())
        );
    }
}

struct StopAfter(usize);

impl OnlineObserver for StopAfter {
    fn round(&mut self, round: &Round) {
        self.0 -= 1;
        assert!(round.skipped.is_none());
    }

    fn should_stop(&mut self) -> bool {
        self.0 == 0
    }
}

#[test]
fn rounds_are_logged_and_an_observer_may_stop_them() {
    let stream = iid_episodes(10, 5, 3);
    let mut learner = OnlineTraining::default()
        .check(paper_model(&stream, 2), fairness())
        .unwrap();
    let mut out = Vec::new();
    let mut log = CsvLog::new(&mut out);
    let run = learner.run(&stream, &mut (StopAfter(3), &mut log)).unwrap();
    assert!(log.error().is_none());
    let text = String::from_utf8(out).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(
        rows[0],
        "round,utility,running_utility,violations,failures,stepped"
    );
    assert_eq!(rows.len(), 4);
    let cells: Vec<f64> = rows[3].split(',').map(|cell| cell.parse().unwrap()).collect();
    let utilities: Vec<f64> = run.rollouts.iter().map(laau_core::Rollout::utility).collect();
    assert_eq!(cells[..2], [2.0, utilities[2]]);
    assert!((cells[2] - mean(&utilities)).abs() < 1e-15);
    assert_eq!(cells[3..], [0.0, 0.0, 1.0]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("online");
    save_model(&path, learner.model(), &learner.summary(2)).unwrap();
    let (loaded, summary) = load_model(&path).unwrap();
    assert_eq!(&loaded, learner.model());
    assert_eq!((summary.epochs, summary.optimiser.as_deref()), (3, Some("sgd")));
    assert_eq!(summary.gradients.exact + summary.gradients.approximate, 15);
}

#[test]
fn weights_beyond_all_numbers_are_played_safely_and_left_as_they_are() {
    let stream = iid_episodes(20, 5, 3);
    let mut wild = paper_model(&stream, 2);
    scatter(&mut wild, 1e300, 1);
    for engine in [EngineKind::Fused, EngineKind::Candle] {
        let training = OnlineTraining {
            engine,
            ..OnlineTraining::default()
        };
        let mut learner = training.check(wild.clone(), fairness()).unwrap();
        let run = learner.run(&stream, &mut ()).unwrap();
        assert!(run.rollouts.iter().all(|rollout| rollout.violations == 0));
        assert!(learner.model().parameters.iter().all(|value| value.is_finite()));
    }
    // A step that would leave the numbers is not taken.
    let training = OnlineTraining {
        learning_rate: 1e308,
        gradient_clip: None,
        ..OnlineTraining::default()
    };
    let mut learner = training.check(paper_model(&stream, 2), fairness()).unwrap();
    let run = learner.run(&stream, &mut ()).unwrap();
    assert!(run.skipped > 0);
    assert!(learner.model().parameters.iter().all(|value| value.is_finite()));
}

#[test]
fn settings_outside_their_range_are_refused_by_name() {
    let stream = iid_episodes(2, 5, 3);
    let training = OnlineTraining {
        learning_rate: 0.0,
        ..OnlineTraining::default()
    };
    let message = training
        .check(paper_model(&stream, 2), fairness())
        .err()
        .unwrap()
        .to_string();
    assert_eq!(
        message,
        "invalid `learning_rate`: expected a positive number, found 0"
    );
}
