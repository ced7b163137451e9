//! The average multiplier does what its definition says.

use laau_baselines::AvgLtOptions;
use laau_core::{Query, Solutions, StepSolver};

use crate::workload::{fairness, generator, independent};

#[test]
fn at_the_average_multiplier_the_mean_usage_is_the_mean_budget() {
    let setting = fairness();
    let train = independent(&*setting.problem, &mut generator(5), (200, 20), (0.2, 0.4));
    let multiplier = AvgLtOptions::default()
        .average_multiplier(&setting, &train)
        .unwrap();
    let mut solver = setting.solver.clone();
    let dimensions = setting.problem.dimensions();
    let mut solution = Solutions::new(dimensions, 1);
    let mut used = 0.0;
    for context in train.contexts().chunks_exact(dimensions.context) {
        let query = Query {
            context,
            multiplier: &multiplier,
            remaining: &[1e6],
        };
        solver.solve(query, solution.row_mut(0)).unwrap();
        used += solution.row(0).action[0];
    }
    let budget: f64 = train.budgets().iter().sum();
    assert!((used - budget).abs() < 1e-7 * budget, "{used} of {budget}");
}

#[test]
fn a_budget_that_is_not_used_up_has_no_price() {
    let setting = fairness();
    let train = independent(&*setting.problem, &mut generator(6), (20, 10), (1.5, 2.0));
    let multiplier = AvgLtOptions::default()
        .average_multiplier(&setting, &train)
        .unwrap();
    assert_eq!(multiplier, [0.0]);
}
