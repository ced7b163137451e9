//! Thousands of random instances: residual, feasibility, duals.

use laau_core::{Solutions, Status, StepSolver};
use laau_kkt::{InteriorPoint, Options};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::problems::instance;

#[test]
fn two_thousand_five_hundred_instances_are_solved_to_a_residual_of_1e_9() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut worst, mut most_steps, mut total) = (0.0_f64, 0, 0);
    for number in 0..2500 {
        let instance = instance(&mut rng, number % 5);
        let problem = instance.problem.clone();
        let mut solver = InteriorPoint::new(problem.clone(), Options::default()).unwrap();
        let mut solutions = Solutions::new(problem.dimensions(), 1);
        solver.solve(instance.query(), solutions.row_mut(0)).unwrap();
        let row = solutions.row(0);
        let Status::Solved { iterations, residual } = row.status else {
            panic!(
                "{number} {} {:?}: {}",
                problem.name(),
                problem.dimensions(),
                row.status
            );
        };
        worst = worst.max(residual);
        most_steps = most_steps.max(iterations);
        total += iterations;
        let mut usage = vec![0.0; row.duals.len()];
        problem.usage(row.action, &instance.context, &mut usage);
        for (used, remaining) in usage.iter().zip(&instance.remaining) {
            assert!(used <= remaining, "{number}: {used} > {remaining}");
        }
        for i in 0..row.action.len() {
            assert!(row.action[i] >= problem.lower()[i] && row.action[i] <= problem.upper()[i]);
            assert!(row.lower_duals[i] >= 0.0 && row.upper_duals[i] >= 0.0);
        }
        assert!(row.duals.iter().all(|dual| *dual >= 0.0));
    }
    assert!(worst <= 1e-9, "worst residual {worst}");
    assert!(
        most_steps <= 40 && total < 2500 * 9,
        "most steps {most_steps}, in total {total}"
    );
}
