use std::sync::Arc;

use laau_core::problems::{PowerProvisioning, WeightedFairness};
use laau_core::{
    Agent, Episode, EpisodeRun, Episodes, Error, Fitted, Hindsight, Observation, Policy, PolicyReport,
    Problem, Projected, Run, conformance, rollout, rollout_all, rollout_hindsight,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Wants a fixed multiple of the equal share, whatever is left.
struct Greedy(f64);

impl Policy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }
    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(GreedyAgent(self.0))
    }
}

struct GreedyAgent(f64);

impl Agent for GreedyAgent {
    fn decide(&mut self, seen: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        if self.0.is_nan() {
            return Err(Error::Policy {
                policy: "greedy".into(),
                reason: "no factor".into(),
            });
        }
        action[0] = self.0 * seen.budgets[0] / seen.horizon as f64 * (1.0 + seen.context()[0]);
        Ok(())
    }
}

fn episodes(count: usize, horizon: usize) -> Episodes {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let contexts = (0..count * horizon).map(|_| rng.random_range(0.0..1.0)).collect();
    let budgets = (0..count)
        .map(|_| rng.random_range(10.0..15.0) * horizon as f64)
        .collect();
    Episodes::new(horizon, 1, 1, contexts, budgets).expect("a valid set")
}

fn fairness() -> Arc<dyn Problem> {
    Arc::new(WeightedFairness::paper())
}

#[test]
fn an_overspending_policy_is_refused_and_counted_and_the_episode_goes_on() {
    let problem = WeightedFairness::paper();
    let set = episodes(50, 20);
    for result in rollout_all(&problem, &Greedy(2.0), &set).unwrap() {
        assert!(result.violations > 0);
        assert_eq!(result.costs.len(), 20);
    }
}

#[test]
fn a_failing_policy_takes_the_lower_corner_and_is_counted() {
    let result = rollout(
        &WeightedFairness::paper(),
        &Greedy(f64::NAN),
        &episodes(1, 20).get(0),
    )
    .unwrap();
    assert_eq!((result.failures, result.violations), (20, 0));
    assert_eq!(result.actions, [1.0; 20]);
    assert_eq!(
        result.first_failure.unwrap().to_string(),
        "policy `greedy`: no factor"
    );
}

#[test]
fn the_projection_makes_any_policy_conform() {
    for factor in [0.0, 0.3, 1.0, 5.0, 1e300, -4.0] {
        conformance::policy(
            &*fairness(),
            &Projected::new(Greedy(factor), fairness()),
            &episodes(20, 20),
        );
    }
    let boxed = WeightedFairness::new(0.1, 7.0).unwrap();
    conformance::policy(
        &boxed,
        &Projected::new(Greedy(5.0), Arc::new(boxed.clone())),
        &episodes(20, 31),
    );
}

#[test]
fn rollouts_do_not_depend_on_the_number_of_threads() {
    let set = episodes(200, 20);
    let policy = Projected::new(Greedy(1.1), fairness());
    let play = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| rollout_all(&*fairness(), &policy, &set)).unwrap()
    };
    assert_eq!(play(1), play(2));
    assert_eq!(play(1), play(7));
}

#[test]
fn a_plan_that_overspends_by_rounding_is_pulled_in() {
    /// Plans a third of the budget three times: their sum may exceed the budget by a bit.
    struct Thirds;
    impl Hindsight for Thirds {
        fn name(&self) -> &'static str {
            "thirds"
        }
        fn plan(&self, episode: &laau_core::Episode<'_>, actions: &mut [f64]) -> Result<(), Error> {
            actions.fill((episode.budgets()[0] / 3.0).next_up());
            Ok(())
        }
    }
    let set = episodes(100, 3);
    let rollouts = rollout_hindsight(&*fairness(), &Thirds, &set).unwrap();
    assert!(
        rollouts
            .iter()
            .all(|r| r.violations == 0 && r.remaining[0] < 1e-13)
    );
    assert!(rollouts.iter().any(|r| r.projections > 0));
}

#[test]
fn the_least_feasible_budget_is_enough_for_every_step() {
    let problem = WeightedFairness::new(0.1, 7.0).unwrap();
    let mut least = [0.0];
    problem.reserve(1000, &mut least);
    assert!(EpisodeRun::new(&problem, 1000, &[least[0].next_down()]).is_err());
    let set = Episodes::new(1000, 1, 1, vec![0.5; 1000], least.to_vec()).unwrap();
    let result = rollout(
        &problem,
        &Projected::new(Greedy(9.0), Arc::new(problem.clone())),
        &set.get(0),
    )
    .unwrap();
    assert_eq!((result.violations, result.failures), (0, 0));
}

#[test]
fn a_refused_context_or_action_leaves_the_step_open() {
    let problem = WeightedFairness::paper();
    let mut run = EpisodeRun::new(&problem, 2, &[10.0]).unwrap();
    for bad in [&[f64::NAN][..], &[-0.5], &[], &[0.1, 0.2]] {
        assert!(run.reveal(bad).is_err());
        assert!(run.check(bad).is_err());
    }
    let mut step = run.reveal(&[0.2]).unwrap();
    for bad in [&[9.5][..], &[41.0], &[0.5], &[f64::NAN], &[]] {
        step = step.pay(bad).unwrap_err().step;
        let seen = step.observation();
        assert_eq!((seen.step, seen.remaining), (0, &[10.0][..]));
    }
    assert_eq!(step.pay(&[9.0]).unwrap(), [9.0]);
    assert_eq!((run.step(), run.remaining()), (1, &[1.0][..]));
}

#[test]
fn every_step_keeps_the_reserve_of_those_to_come() {
    let problem = WeightedFairness::paper();
    let mut run = EpisodeRun::new(&problem, 5, &[10.0]).unwrap();
    run.reveal(&[0.2]).unwrap().pay(&[6.0]).unwrap();
    let error = run.reveal(&[0.2]).unwrap().pay(&[4.0]).unwrap_err().error;
    let refused = Error::Overspend {
        budget: 0,
        asked: 4.0,
        available: 1.0,
    };
    assert_eq!(error, refused);
    // A step that was revealed and not paid is revealed anew.
    for _ in 1..5 {
        run.reveal(&[0.7]).unwrap();
        let step = run.reveal(&[0.2]).unwrap();
        assert_eq!(step.observation().context(), [0.2]);
        step.pay(&[1.0]).unwrap();
    }
    assert_eq!(run.remaining(), [0.0]);
    assert_eq!(run.reveal(&[0.2]).err(), Some(Error::EpisodeOver { horizon: 5 }));
}

#[test]
fn a_horizon_may_be_a_mere_upper_bound() {
    let problem = WeightedFairness::paper();
    let least = 2f64.powi(53);
    assert!(EpisodeRun::new(&problem, 1 << 53, &[least.next_down()]).is_err());
    let mut run = EpisodeRun::new(&problem, 1 << 53, &[least + 2.0]).unwrap();
    for most in [3.0_f64, 1.0] {
        let refused = run.reveal(&[0.2]).unwrap().pay(&[most.next_up()]).unwrap_err();
        refused.step.pay(&[most]).unwrap();
    }
}

#[test]
fn a_context_that_the_problem_refuses_is_an_error_of_the_episode() {
    let power = PowerProvisioning::two_loads();
    let contexts = [0.5, 0.5, 0.5, 0.5, 1.5, 0.5];
    let episode = Episode::new(&contexts, 3, &[100.0, 100.0]).unwrap();
    let refused = rollout(&power, &Greedy(1.0), &episode).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "step 1: expected a load of at most the problem's largest load for context[1], found 1.5"
    );
    // The contexts of another problem are not this policy's failure either.
    let other = Episode::new(&contexts, 2, &[100.0]).unwrap();
    assert_eq!(
        rollout(&WeightedFairness::paper(), &Greedy(1.0), &other)
            .unwrap_err()
            .to_string(),
        "step 0: expected 1 values for context, found 2"
    );
    let set = Episodes::new(1, 3, 2, contexts.to_vec(), vec![100.0; 4]).unwrap();
    let expected =
        "episode 1: step 0: expected a load of at most the problem's largest load for context[1], found 1.5";
    let refused = rollout_all(&power, &Greedy(1.0), &set).unwrap_err();
    assert_eq!(refused.to_string(), expected);
}

#[test]
fn a_plan_that_fails_names_its_episode() {
    struct Stuck;
    impl Hindsight for Stuck {
        fn name(&self) -> &'static str {
            "stuck"
        }
        fn plan(&self, _: &Episode<'_>, _: &mut [f64]) -> Result<(), Error> {
            Err(Error::Policy {
                policy: "stuck".into(),
                reason: "no plan".into(),
            })
        }
    }
    let error = rollout_hindsight(&*fairness(), &Stuck, &episodes(1, 3)).unwrap_err();
    assert_eq!(error.to_string(), "episode 0: policy `stuck`: no plan");
}

#[test]
fn the_least_budget_of_any_lower_bound_and_horizon_is_used_up_to_the_last_bit() {
    for (lower, horizon) in [(0.1, 3), (0.1, 1000), (1.0 / 3.0, 77), (1e-50, 9), (7e-5, 2048)] {
        let problem = WeightedFairness::new(lower, 7.0).unwrap();
        let mut least = [0.0];
        problem.reserve(horizon, &mut least);
        let refused = EpisodeRun::new(&problem, horizon, &[least[0].next_down()]);
        assert!(matches!(refused, Err(Error::BudgetTooSmall { least: l, .. }) if l == least[0]));
        let budgets = [least[0] * 1.5];
        let contexts = vec![0.5; horizon];
        let result = rollout(
            &problem,
            &Projected::new(Greedy(3.0), Arc::new(problem.clone())),
            &Episode::new(&contexts, 1, &budgets).unwrap(),
        )
        .unwrap();
        assert_eq!((result.violations, result.failures), (0, 0));
        // What is not used is beneath the last bit of one payment.
        let rest = result.remaining[0];
        assert!(
            rest <= lower * f64::EPSILON * 8.0,
            "{rest:e} of {budgets:?} is left"
        );
    }
}

#[test]
fn a_report_sums_up_rollouts() {
    let problem = WeightedFairness::paper();
    let set = Episodes::new(2, 1, 1, vec![0.5, 0.5, 1.0, 1.0], vec![20.0, 40.0]).unwrap();
    let floor = || Projected::new(Greedy(0.0), fairness());
    let rollouts = rollout_all(&problem, &floor(), &set).unwrap();
    let run = Run {
        seed: 3,
        fitted: Fitted::new(floor()),
        results: rollouts.iter().collect(),
        rollouts: Vec::new(),
    };
    let best = rollouts.iter().collect();
    let report = PolicyReport::new("floor", vec![run], &[3, 4], &set, Some(&best));
    assert_eq!(report.utility, 0.0);
    assert_eq!(report.remaining_percent, [f64::midpoint(90.0, 95.0)]);
    assert_eq!((report.violations, report.projections), (0, 4));
    let json = serde_json::to_string(&report).unwrap();
    assert!(json.contains("\"remaining_percent\":92.5"), "{json}");
    assert_eq!(report.seeds.len(), 2);
}
