//! Dual mirror descent learns its prices at the rate that theory promises.

use laau_baselines::{
    DualDescent, DualDescentOptions, DualDescentParameters, Mirror, PriceScale, Start, WaterFilling,
};
use laau_core::problems::WeightedFairness;
use laau_core::{Episodes, Policy, Rollout, Task, rollout, rollout_all, rollout_hindsight};

use crate::workload::{fairness, fit, generator, independent, number, policy};

/// The mean utility as a fraction of that of OPT.
fn fraction_of_opt(task: &Task, policy: &dyn Policy, episodes: &Episodes) -> f64 {
    let best = WaterFilling::new(WeightedFairness::paper());
    let best = rollout_hindsight(&*task.problem, &best, episodes).unwrap();
    let found = rollout_all(&*task.problem, policy, episodes).unwrap();
    let sum = |rollouts: &[Rollout]| rollouts.iter().map(Rollout::utility).sum::<f64>();
    sum(&found) / sum(&best)
}

fn cold(step_size: f64) -> DualDescentParameters {
    DualDescentParameters {
        step_size,
        start: Start::Scaled(0.25),
        scale: PriceScale::Given(vec![0.02]),
    }
}

#[test]
fn with_a_step_of_one_over_root_n_what_is_lost_falls_as_one_over_root_n() {
    let task = fairness();
    for mirror in [Mirror::Euclidean, Mirror::Entropic] {
        let policy = DualDescent::new(&task, mirror, cold(1.0)).unwrap();
        let lost = [10, 100, 1000].map(|horizon| {
            let size = (40_000 / horizon, horizon);
            let episodes = independent(&*task.problem, &mut generator(9), size, (0.3, 0.3001));
            1.0 - fraction_of_opt(&task, &policy, &episodes)
        });
        // Ten times the steps, a third of the loss: √10 is 3.2.
        for pair in lost.windows(2) {
            let ratio = pair[0] / pair[1];
            assert!((2.0..5.0).contains(&ratio), "{}: {lost:?}", mirror.name());
        }
        assert!(lost[2] > 0.0 && lost[2] < 0.05, "{}: {lost:?}", mirror.name());
    }
}

#[test]
fn a_step_that_does_not_shrink_with_the_horizon_stays_behind() {
    let task = fairness();
    let episodes = independent(&*task.problem, &mut generator(10), (4, 1000), (0.3, 0.3001));
    for mirror in [Mirror::Euclidean, Mirror::Entropic] {
        let fraction = |step_size: f64| {
            let policy = DualDescent::new(&task, mirror, cold(step_size)).unwrap();
            fraction_of_opt(&task, &policy, &episodes)
        };
        let root = 1000_f64.sqrt();
        let (shrinking, constant, tiny) = (fraction(1.0), fraction(root), fraction(1.0 / root));
        assert!(
            shrinking > constant,
            "{}: {shrinking} and {constant}",
            mirror.name()
        );
        assert!(shrinking > tiny, "{}: {shrinking} and {tiny}", mirror.name());
    }
}

#[test]
fn three_steps_by_hand() {
    // B = 30, N = 3, so ρ = 10; η = 0.5. The price starts at 0.02: x̃ = 0.4/0.02 = 20, s = 1 − 20/10 = −1.
    let task = fairness();
    let episodes = Episodes::new(3, 1, 1, vec![0.4, 0.4, 0.4], vec![30.0]).unwrap();
    let eta = 0.5;
    for (mirror, second) in [
        (Mirror::Euclidean, 0.02 * 1.5),
        (Mirror::Entropic, 0.02 * 0.5_f64.exp()),
    ] {
        let parameters = DualDescentParameters {
            step_size: eta * 3_f64.sqrt(),
            start: Start::At(vec![0.02]),
            scale: PriceScale::Given(vec![0.02]),
        };
        let policy = DualDescent::new(&task, mirror, parameters).unwrap();
        let played = rollout(&*task.problem, &policy, &episodes.get(0)).unwrap();
        let near =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
        near(played.multipliers[0], 0.02);
        near(played.actions[0], 20.0);
        near(played.multipliers[1], second);
        // Of the 10 that are left, one is reserved for the last step.
        let wanted = 0.4 / second;
        near(played.actions[1], wanted.min(9.0));
        assert_eq!(played.projections, usize::from(wanted > 9.0));
        near(played.actions[2], 10.0 - wanted.min(9.0));
        near(played.multipliers[2], 0.0);
    }
}

#[test]
fn tuning_beats_the_cold_start_and_reports_what_it_found() {
    let task = fairness();
    let mut rng = generator(12);
    let [train, validation, test] =
        [200, 200, 200].map(|count| independent(&*task.problem, &mut rng, (count, 20), (0.2, 0.4)));
    for mirror in [Mirror::Euclidean, Mirror::Entropic] {
        let tuned = DualDescentOptions::new(mirror);
        let cold = DualDescentOptions {
            cold_start: true,
            ..tuned
        };
        let [tuned, cold] = [tuned, cold].map(|options| fit(&options, &task, &train, &validation).unwrap());
        let [warm_fraction, cold_fraction] =
            [&tuned, &cold].map(|fitted| fraction_of_opt(&task, policy(fitted), &test));
        assert!(
            warm_fraction > cold_fraction,
            "{}: {warm_fraction} and {cold_fraction}",
            mirror.name()
        );
        assert!(number(&tuned, "validation_utility") >= number(&cold, "validation_utility"));
        for name in ["step-size", "start", "price-scale"] {
            assert!(number(&tuned, name) > 0.0, "{name}");
        }
    }
}

#[test]
fn parameters_outside_their_ranges_are_refused() {
    let task = fairness();
    let check = |mirror, parameters, expected: &str| {
        let error = DualDescent::new(&task, mirror, parameters).err().unwrap();
        assert_eq!(error.to_string(), expected);
    };
    check(
        Mirror::Euclidean,
        cold(0.0),
        "policy `dgd`: expected a positive value for option `step_size`, found 0",
    );
    let at_zero = DualDescentParameters {
        start: Start::Scaled(0.0),
        ..cold(1.0)
    };
    check(
        Mirror::Entropic,
        at_zero.clone(),
        "policy `mw`: expected a positive value for option `start`, found 0",
    );
    assert!(DualDescent::new(&task, Mirror::Euclidean, at_zero).is_ok());
    let two = DualDescentParameters {
        scale: PriceScale::Given(vec![1.0, 1.0]),
        ..cold(1.0)
    };
    check(
        Mirror::Euclidean,
        two,
        "expected 1 values for the price scale, found 2",
    );
}
