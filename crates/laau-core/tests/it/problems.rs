use std::sync::Arc;

use laau_core::problems::{LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless};
use laau_core::{Nearest, Problem, SmoothProblem, conformance};
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
fn wireless_trading_and_power_keep_the_contract() {
    conformance::problem(&Wireless::three_channels(), |rng, c| {
        c.fill_with(|| rng.random_range(0.2..2.0));
    });
    conformance::problem(&Trading::inventory(), |rng, c| c[0] = rng.random_range(1.0..4.0));
    conformance::problem(&PowerProvisioning::two_loads(), |rng, c| {
        c.fill_with(|| rng.random_range(0.05..0.95));
    });
}

#[test]
fn the_nearest_payable_action_is_a_problem_whatever_the_usage() {
    let inner: [Arc<dyn SmoothProblem>; 5] = [
        Arc::new(WeightedFairness::paper()),
        Arc::new(LogUtility::new(3, 2, vec![1.0, 0.0, 0.3, 0.2, 0.9, 0.1], 0.1, 10.0).unwrap()),
        Arc::new(VmAllocation::server()),
        Arc::new(Wireless::three_channels()),
        Arc::new(PowerProvisioning::two_loads()),
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
}
