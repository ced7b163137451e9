//! The end-to-end network, trained both ways.

use laau_baselines::{EqualOptions, Phase, RlOptions};
use laau_core::{Fit, FitSets, Parameter, Policy, rollout_all};

use crate::strong::cloud;
use crate::workload::{fairness, fit, generator, policy};

fn quick(options: &RlOptions, epochs: usize) -> RlOptions {
    let schedule = vec![Phase {
        epochs,
        learning_rate: 5e-3,
    }];
    RlOptions {
        schedule,
        ..options.clone()
    }
}

#[test]
fn both_ways_of_training_learn_to_beat_equal_shares() {
    let task = fairness();
    let mut rng = generator(11);
    let train = cloud(&mut rng, 300, 10, false);
    let validation = cloud(&mut rng, 100, 10, false);
    let test = cloud(&mut rng, 300, 10, false);
    let utility = |policy: &dyn Policy| task.mean_utility(policy, &test).unwrap();
    let equal = fit(&EqualOptions::default(), &task, &train, &validation).unwrap();
    let equal = utility(policy(&equal));
    for (options, epochs) in [(RlOptions::default(), 20), (RlOptions::model_free(), 20)] {
        let options = quick(&options, epochs);
        let fitted = fit(&options, &task, &train, &validation).unwrap();
        let learned = utility(policy(&fitted));
        assert_eq!(policy(&fitted).name(), options.name());
        assert!(
            learned > equal * 1.04,
            "{}: {learned} against {equal}",
            options.name()
        );
    }
}

#[test]
fn a_seed_decides_everything() {
    let task = fairness();
    let episodes = cloud(&mut generator(12), 40, 6, true);
    for options in [RlOptions::default(), RlOptions::model_free()] {
        let run = |seed| {
            let sets = FitSets {
                train: &episodes,
                validation: &episodes,
            };
            let fitted = quick(&options, 3).fit(&task, sets, seed, &mut ()).unwrap();
            rollout_all(&*task.problem, policy(&fitted), &episodes).unwrap()
        };
        assert!(run(1) == run(1));
        assert!(run(1) != run(2));
    }
}

#[test]
fn only_epochs_that_are_validated_and_the_last_can_be_the_best() {
    let task = fairness();
    let episodes = cloud(&mut generator(14), 40, 6, true);
    for (validate_every, possible) in [(3, vec![0, 3, 6, 7]), (100, vec![0, 7])] {
        let options = RlOptions {
            validate_every,
            ..quick(&RlOptions::default(), 7)
        };
        let fitted = fit(&options, &task, &episodes, &episodes).unwrap();
        let Parameter::Count(best) = fitted.parameters["best_epoch"] else {
            panic!("an epoch is a count")
        };
        assert!(possible.contains(&best), "every {validate_every}: epoch {best}");
        assert!(best > 0, "training helps");
    }
}

#[test]
fn bad_options_are_refused_with_a_word() {
    let task = fairness();
    let episodes = cloud(&mut generator(13), 4, 3, true);
    let check = |options: RlOptions, expected: &str| {
        let error = fit(&options, &task, &episodes, &episodes).err().unwrap();
        assert_eq!(error.to_string(), format!("policy `rl`: {expected}"));
    };
    check(
        RlOptions {
            batch: 0,
            ..RlOptions::default()
        },
        "expected at least 1 for option `batch`, found 0",
    );
    check(
        RlOptions {
            validate_every: 0,
            ..RlOptions::default()
        },
        "expected at least 1 for option `validate_every`, found 0",
    );
    check(
        quick(&RlOptions::default(), 0),
        "expected at least 1 in all for option `epochs`, found 0",
    );
}
