use std::sync::Arc;

use laau_core::problems::{
    LlmTokens, LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless,
};
use laau_core::{Episodes, Nearest, Problem, Replay, SmoothProblem, conformance};
use rand::RngExt;

#[test]
fn weighted_fairness_keeps_the_contract_of_a_problem() {
    conformance::problem(&WeightedFairness::paper(), |rng, c| {
        c[0] = rng.random_range(0.01..1.0);
    });
    conformance::problem(&WeightedFairness::new(0.1, 7.0).unwrap(), |rng, c| {
        c[0] = rng.random_range(0.01..1.0);
    });
}

#[test]
fn log_utility_keeps_the_contract_of_a_problem() {
    let problem = LogUtility::new(3, 2, vec![1.0, 0.0, 0.3, 0.2, 0.9, 0.1], 0.1, 10.0).unwrap();
    conformance::problem(&problem, |rng, c| c.fill_with(|| rng.random_range(0.5..2.0)));
}

#[test]
fn vm_allocation_keeps_the_contract_at_every_fairness() {
    for alpha in [0.0, 0.5, 1.0, 2.0, 8.0] {
        let problem = VmAllocation::new(alpha, vec![1.0; 4], vec![40.0; 4]).unwrap();
        conformance::problem(&problem, |rng, c| {
            c.fill_with(|| rng.random_range(0.1..1.0));
            let shares: f64 = c[1..].iter().sum();
            c[1..].iter_mut().for_each(|s| *s /= shares);
        });
    }
    let (near, at) = ([0.999_999, 1.0])
        .map(|alpha| VmAllocation::new(alpha, vec![1.0], vec![40.0]).unwrap())
        .into();
    let cost = |problem: &VmAllocation| laau_core::Problem::cost(problem, &[7.0], &[0.4, 1.0]);
    assert!(
        (cost(&near) - cost(&at)).abs() < 1e-5,
        "the utility jumps at alpha = 1"
    );
}

#[test]
fn wireless_trading_power_and_tokens_keep_the_contract() {
    conformance::problem(&Wireless::three_channels(), |rng, c| {
        c.fill_with(|| rng.random_range(0.2..2.0));
    });
    conformance::problem(&Trading::inventory(), |rng, c| c[0] = rng.random_range(1.0..4.0));
    conformance::problem(&PowerProvisioning::two_loads(), |rng, c| {
        c.fill_with(|| rng.random_range(0.05..0.95));
    });
    conformance::problem(&LlmTokens::two_classes(), |rng, c| {
        c[..2].fill_with(|| rng.random_range(0.0..12.0));
        c[2..].fill_with(|| rng.random_range(0.3..1.0));
    });
}

#[test]
fn the_nearest_payable_action_is_a_problem_whatever_the_usage() {
    let inner: [Arc<dyn SmoothProblem>; 6] = [
        Arc::new(WeightedFairness::paper()),
        Arc::new(LogUtility::new(3, 2, vec![1.0, 0.0, 0.3, 0.2, 0.9, 0.1], 0.1, 10.0).unwrap()),
        Arc::new(VmAllocation::server()),
        Arc::new(Wireless::three_channels()),
        Arc::new(PowerProvisioning::two_loads()),
        Arc::new(LlmTokens::two_classes()),
    ];
    for inner in inner {
        let d = inner.dimensions().actions;
        let nearest = Nearest::new(inner);
        conformance::problem(&nearest, |rng, c| {
            c[..d].fill_with(|| rng.random_range(-5.0..50.0));
            c[d..].fill_with(|| rng.random_range(0.2..0.9));
        });
        let mut context = vec![0.5; nearest.dimensions().context];
        context[0] = f64::NAN;
        let error = nearest.check_context(&context).unwrap_err().to_string();
        assert_eq!(error, "expected a finite value for the target[0], found NaN");
    }
}

#[test]
fn parameters_and_contexts_outside_the_domain_are_refused() {
    assert!(VmAllocation::new(-1.0, vec![1.0], vec![2.0]).is_err());
    assert!(VmAllocation::new(2.0, vec![0.0], vec![2.0]).is_err());
    assert!(Wireless::new(3, 0.0, 4.0).is_err());
    assert!(Trading::new(0.0, 1.0).is_err());
    assert!(PowerProvisioning::new(vec![1.0], 1.2, 1.0, 1.1, 6.0).is_err());
    let check = |problem: &dyn Problem, context: &[f64], expected: &str| {
        assert_eq!(problem.check_context(context).unwrap_err().to_string(), expected);
    };
    assert!(Wireless::new(3, f64::INFINITY, 4.0).is_err());
    assert!(WeightedFairness::new(1e-200, 1.0).is_err());
    assert!(LogUtility::new(1, 1, vec![1e200], 0.1, 1.0).is_err());
    assert!(Trading::new(1e-200, 1.0).is_err());
    assert!(VmAllocation::new(2.0, vec![1.0], vec![1e200]).is_err());
    assert!(PowerProvisioning::new(vec![1.0], 1.0, 1e200, 1.1, 6.0).is_err());
    let (wireless, power) = (Wireless::three_channels(), PowerProvisioning::two_loads());
    check(
        &wireless,
        &[1.0, 1.0, 0.0, 1.0],
        "expected a channel gain of at least 1e-9 for context[2], found 0",
    );
    check(
        &power,
        &[0.5, 1.5, 0.3],
        "expected a load of at most the problem's largest load for context[1], found 1.5",
    );
    check(
        &power,
        &[0.5, 0.5, -0.3],
        "expected a non-negative value for context[2], found -0.3",
    );
    check(
        &power,
        &[0.5, 0.5, 1.3],
        "expected an intensity of at most the problem's largest intensity for context[2], found 1.3",
    );
    check(
        &LogUtility::new(2, 1, vec![1.0; 2], 0.1, 1.0).unwrap(),
        &[1.0, 1e308],
        &format!("expected a value of at most 1e60 for context[1], found {}", 1e308),
    );
}

#[test]
fn shares_with_which_a_bundle_is_not_concave_are_refused() {
    use laau_core::Problem;
    let check = |alpha: f64, lower: f64, context: &[f64], expected: Result<(), &str>| {
        let problem = VmAllocation::new(alpha, vec![lower; 3], vec![40.0; 3]).unwrap();
        let found = problem.check_context(context).map_err(|error| error.to_string());
        assert_eq!(
            found,
            expected.map_err(str::to_owned),
            "alpha {alpha}, {context:?}"
        );
    };
    check(0.0, 1.0, &[1.0, 0.1, 0.2, 0.7], Ok(()));
    check(0.0, 1.0, &[1.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0], Ok(()));
    let refused = |index: usize, value: f64| {
        format!(
            "expected a share that keeps (1 - alpha) times their sum within 1 for context[{index}], found {value}"
        )
    };
    check(0.0, 1.0, &[1.0, 0.5, 0.6, 0.1], Err(&refused(2, 0.6)));
    check(0.5, 1.0, &[1.0, 0.5, 0.6, 0.9], Ok(()));
    check(0.5, 1.0, &[1.0, 0.5, 0.6, 1.0], Err(&refused(3, 1.0)));
    check(1.0, 1.0, &[1.0, 5.0, 6.0, 7.0], Ok(()));
    check(
        20.0,
        1e-20,
        &[1.0, 0.1, 0.9, 0.0],
        Err("expected a share for which the utility is finite all over the box for context[2], found 0.9"),
    );
    // Just beyond the border the cost is indeed not convex, along a ray from the origin.
    let problem = VmAllocation::new(0.0, vec![1.0; 2], vec![40.0; 2]).unwrap();
    let cost = |x: f64| problem.cost(&[x, x], &[1.0, 0.7, 0.5]);
    assert!(cost(20.5) > f64::midpoint(cost(1.0), cost(40.0)));
    assert!(problem.check_context(&[1.0, 0.7, 0.5]).is_err());
}

#[test]
fn a_problem_with_fixed_actions_keeps_the_contract() {
    let draw =
        |rng: &mut rand_chacha::ChaCha8Rng, c: &mut [f64]| c.fill_with(|| rng.random_range(0.05..0.95));
    conformance::problem(&WeightedFairness::new(3.0, 3.0).unwrap(), draw);
    conformance::problem(&LogUtility::new(2, 1, vec![1.0, 0.5], 2.0, 2.0).unwrap(), draw);
    conformance::problem(
        &VmAllocation::new(2.0, vec![1.0, 3.0], vec![40.0, 3.0]).unwrap(),
        draw,
    );
    conformance::problem(&Trading::new(0.5, 0.0).unwrap(), draw);
    conformance::problem(&Wireless::new(2, 1.0, 0.0).unwrap(), draw);
    conformance::problem(
        &PowerProvisioning::new(vec![1.0], 1.0, 1.0, 2.0, 2.0).unwrap(),
        draw,
    );
    let fixed = WeightedFairness::new(3.0, 3.0).unwrap();
    let episodes = Episodes::new(4, 1, 1, vec![0.5; 8], vec![12.0, 40.0]).unwrap();
    conformance::policy(&fixed, &Replay::new("fixed", vec![3.0; 4], &fixed), &episodes);
}
