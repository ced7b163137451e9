use laau_core::problems::WeightedFairness;
use laau_core::{
    Constant, Episode, Error, Query, SmoothProblem, SolutionMut, Status, StepSolver, Unrolled, rollout,
};

/// Answers twice the lower bound, with a given status.
#[derive(Clone)]
struct Stub(WeightedFairness, Status);

impl StepSolver for Stub {
    fn problem(&self) -> &dyn SmoothProblem {
        &self.0
    }

    fn solve(&mut self, _: Query<'_>, solution: SolutionMut<'_>) -> Result<(), Error> {
        solution.action[0] = 2.0;
        *solution.status = self.1;
        Ok(())
    }
}

#[test]
fn an_action_short_of_the_tolerance_is_played_and_one_of_an_infeasible_layer_is_not() {
    let (iterations, residual) = (9, 1e-3);
    for (status, action, failures) in [
        (Status::Solved { iterations, residual }, 2.0, 0),
        (Status::NotConverged { iterations, residual }, 2.0, 0),
        (
            Status::Infeasible {
                budget: 0,
                shortfall: 1.0,
            },
            1.0,
            3,
        ),
    ] {
        let problem = WeightedFairness::paper();
        let policy = Unrolled::new("stub", Constant(vec![0.1]), Stub(problem.clone(), status)).unwrap();
        let episode = Episode::new(&[0.5; 3], 1, &[30.0]).unwrap();
        let played = rollout(&problem, &policy, &episode).unwrap();
        assert_eq!(
            (played.actions, played.failures),
            (vec![action; 3], failures),
            "{status}"
        );
    }
}
