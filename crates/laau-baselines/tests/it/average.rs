//! The average multiplier does what its definition says.

use laau_baselines::AvgLtOptions;
use laau_core::{Episodes, Query, Solutions, StepSolver, Task};

use crate::workload::{fairness, general, generator, independent, log_utility};

/// What all training steps use together at a price, each untruncated.
fn used_at(task: &Task, train: &Episodes, multiplier: &[f64]) -> Vec<f64> {
    let mut solver = task.solver.clone();
    let dimensions = task.problem.dimensions();
    let mut solution = Solutions::new(dimensions, 1);
    let ample = vec![1e4; dimensions.budgets];
    let (mut used, mut usage) = (vec![0.0; dimensions.budgets], vec![0.0; dimensions.budgets]);
    for context in train.contexts().chunks_exact(dimensions.context) {
        let query = Query {
            context,
            multiplier,
            available: &ample,
        };
        solver.solve(query, solution.row_mut(0)).unwrap();
        task.problem.usage(solution.row(0).action, context, &mut usage);
        for (used, usage) in used.iter_mut().zip(&usage) {
            *used += usage;
        }
    }
    used
}

#[test]
fn at_the_average_multiplier_the_mean_usage_is_the_mean_budget() {
    for task in [fairness(), general(log_utility())] {
        let train = independent(&*task.problem, &mut generator(5), (100, 20), (0.2, 0.4));
        let multiplier = AvgLtOptions::default().average_multiplier(&task, &train).unwrap();
        let used = used_at(&task, &train, &multiplier);
        let m = train.budget_len();
        for (k, used) in used.iter().enumerate() {
            let budget: f64 = train.budgets().iter().skip(k).step_by(m).sum();
            let name = task.problem.name();
            assert!(multiplier[k] > 0.0, "{name}: budget {k} has no price");
            assert!(
                (used - budget).abs() < 1e-6 * budget,
                "{name}: {used} of {budget}"
            );
        }
    }
}

#[test]
fn a_budget_that_is_not_used_up_has_no_price() {
    let task = fairness();
    let train = independent(&*task.problem, &mut generator(6), (20, 10), (1.5, 2.0));
    let multiplier = AvgLtOptions::default().average_multiplier(&task, &train).unwrap();
    assert_eq!(multiplier, [0.0]);
}
