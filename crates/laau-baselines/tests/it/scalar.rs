//! One action and one budget: what every rival plays is known, and stays.

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescentOptions, EqualOptions, Mirror, Phase,
    RlOptions,
};
use laau_core::problems::Trading;
use laau_core::{Error, Fitted, Rollout, rollout_all};

use crate::workload::{fairness, fit, general, generator, independent, policy};

/// Mean utility per step and the number of projections of every rival, in the order of the list below.
fn check(task: &laau_core::Task, expected: &[(&str, f64, usize)]) {
    let mut rng = generator(21);
    let mut set = |count| independent(&*task.problem, &mut rng, (count, 12), (0.05, 0.3));
    let (train, test) = (set(30), set(30));
    let descent = |mirror| DualDescentOptions {
        refinements: 1,
        ..DualDescentOptions::new(mirror)
    };
    let schedule = vec![Phase {
        epochs: 4,
        learning_rate: 5e-3,
    }];
    let trained = RlOptions {
        schedule: schedule.clone(),
        ..RlOptions::default()
    };
    let model_free = RlOptions {
        schedule,
        ..RlOptions::model_free()
    };
    let fits: [Result<Fitted, Error>; 9] = [
        fit(&EqualOptions::default(), task, &train, &train),
        fit(&AvgLtOptions::default(), task, &train, &train),
        fit(&descent(Mirror::Euclidean), task, &train, &train),
        fit(&descent(Mirror::Entropic), task, &train, &train),
        fit(&CrPursuitOptions::default(), task, &train, &train),
        fit(&CeOptions::default(), task, &train, &train),
        fit(&DpOptions::default(), task, &train, &train),
        fit(&trained, task, &train, &train),
        fit(&model_free, task, &train, &train),
    ];
    for (fit, (name, utility, projections)) in fits.into_iter().zip(expected) {
        let fitted = fit.unwrap();
        let policy = policy(&fitted);
        let rollouts = rollout_all(&*task.problem, policy, &test).unwrap();
        let found = rollouts.iter().map(Rollout::utility).sum::<f64>() / rollouts.len() as f64;
        let cut: usize = rollouts.iter().map(|rollout| rollout.projections).sum();
        assert_eq!((policy.name(), cut), (*name, *projections));
        assert!(
            // AVG-LT's price is found by an interior point, to a tolerance.
            (found - utility).abs() <= 1e-8 * utility.abs(),
            "{name}: {found}, not {utility}"
        );
    }
}

#[test]
fn weighted_fairness_is_played_as_ever() {
    check(
        &fairness(),
        &[
            ("equal", 0.473_329_706_426_357_74, 0),
            ("avg-lt", 0.492_335_909_804_696_2, 0),
            ("dgd", 0.548_604_110_336_000_8, 26),
            ("mw", 0.551_828_118_313_853_1, 18),
            ("cr-pursuit", 0.437_901_215_041_719_47, 0),
            ("ce", 0.569_950_755_924_535_3, 0),
            ("dp", 0.579_636_605_864_739_9, 0),
            ("rl", 0.416_506_269_981_058_33, 126),
            ("rl-pg", 0.413_632_507_419_357_53, 130),
        ],
    );
}

#[test]
fn trading_is_played_as_ever() {
    check(
        &general(Trading::inventory()),
        &[
            ("equal", 0.340_568_474_949_737_63, 0),
            ("avg-lt", 0.627_905_192_714_875_7, 0),
            ("dgd", 0.659_401_246_376_212_7, 28),
            ("mw", 0.659_201_132_542_644_8, 24),
            ("cr-pursuit", 0.449_472_307_250_750_1, 0),
            ("ce", 0.640_042_881_591_641_2, 0),
            ("dp", 0.685_435_811_823_354_6, 0),
            ("rl", 0.312_755_290_439_550_8, 131),
            ("rl-pg", 0.313_950_221_293_490_6, 132),
        ],
    );
}
