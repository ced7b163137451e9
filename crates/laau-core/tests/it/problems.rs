use laau_core::conformance;
use laau_core::problems::{LogUtility, WeightedFairness};
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
