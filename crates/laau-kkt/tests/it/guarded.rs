//! Layers with a limit on their cost, and whole episodes behind a guard, of every problem that comes with the core.

use std::sync::Arc;

use crate::gradcheck::{GradcheckOptions, check_capped, check_guarded_episode};
use laau_core::problems::{
    LlmTokens, LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless,
};
use laau_core::{
    Agent, Cap, CappedLayer, Constant, Differentiate, Dimensions, Episodes, Error, Exactness, Gradients,
    Guarded, Inexact, Multiplier, Observation, Policy, Pricer, Problem, Query, Shadow, SmoothProblem,
    Solutions, Status, StepSolver, Task, Unrolled, guarded_episode_gradient, rollout,
};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Episodes that are drawn for each problem, and their steps.
const EPISODES: usize = 8;
const STEPS: usize = 8;

/// A problem, its layer, and what its contexts and its budgets per step lie between.
struct Case {
    problem: Arc<dyn SmoothProblem>,
    layer: Box<dyn Differentiate>,
    contexts: (Vec<f64>, Vec<f64>),
    shares: (Vec<f64>, Vec<f64>),
    floor: f64,
}

impl Case {
    fn new(
        problem: impl SmoothProblem + 'static,
        contexts: (&[f64], &[f64]),
        shares: (&[f64], &[f64]),
        floor: f64,
    ) -> Self {
        let problem: Arc<dyn SmoothProblem> = Arc::new(problem);
        Self {
            layer: Box::new(InteriorPoint::new(Arc::clone(&problem), Options::default()).unwrap()),
            problem,
            contexts: (contexts.0.to_vec(), contexts.1.to_vec()),
            shares: (shares.0.to_vec(), shares.1.to_vec()),
            floor,
        }
    }

    fn options(&self) -> GradcheckOptions {
        GradcheckOptions {
            floor: self.floor,
            ..GradcheckOptions::default()
        }
    }

    /// The duals of a step that may use its share: what a budget is worth.
    fn prices(&mut self, context: &[f64], share: &[f64]) -> Vec<f64> {
        let dimensions = self.problem.dimensions();
        let mut solutions = Solutions::new(dimensions, 1);
        let query = Query {
            context,
            multiplier: &vec![0.0; dimensions.budgets],
            available: share,
        };
        self.layer.solve(query, solutions.row_mut(0)).unwrap();
        let duals = solutions.row(0).duals;
        let typical = duals.iter().sum::<f64>() / duals.len() as f64;
        duals.iter().map(|dual| dual.max(0.1 * typical)).collect()
    }
}

/// Every problem of the core, with the general solver, and weighted fairness in closed form.
fn cases() -> Vec<Case> {
    let log_utility = LogUtility::new(3, 2, vec![1.0, 0.5, 0.2, 0.3, 1.0, 0.8], 0.1, 20.0).unwrap();
    let fairness = || {
        Case::new(
            WeightedFairness::paper(),
            (&[0.1], &[1.0]),
            (&[9.0], &[12.0]),
            2e-4,
        )
    };
    vec![
        Case {
            layer: Box::new(FairnessLayer::new(WeightedFairness::paper())),
            ..fairness()
        },
        fairness(),
        Case::new(log_utility, (&[0.3; 3], &[2.0; 3]), (&[4.0; 2], &[8.0; 2]), 2e-4),
        Case::new(
            Wireless::three_channels(),
            (&[0.5, 0.1, 0.1, 0.1], &[2.0, 3.0, 3.0, 3.0]),
            (&[3.0, 3.0], &[7.0, 5.0]),
            1e-4,
        ),
        Case::new(
            VmAllocation::server(),
            (&[0.05, 0.1, 0.1, 0.1, 0.1], &[1.0, 0.4, 0.4, 0.4, 0.4]),
            (&[10.0; 4], &[15.0; 4]),
            1e-4,
        ),
        Case::new(
            PowerProvisioning::two_loads(),
            (&[0.1, 0.1, 0.3], &[0.9, 0.9, 0.99]),
            (&[4.0, 2.6], &[6.0, 3.8]),
            1e-4,
        ),
        Case::new(Trading::inventory(), (&[1.0], &[4.0]), (&[2.0], &[4.0]), 1e-4),
        Case::new(
            LlmTokens::two_classes(),
            (&[2.0, 2.0, 0.1, 0.1], &[8.0, 8.0, 0.9, 0.9]),
            (&[4.0, 6.0], &[8.0, 12.0]),
            1e-4,
        ),
    ]
}

/// A policy that prices, but does not say so.
struct DecidesOnly<P>(P);

impl<P: Policy> Policy for DecidesOnly<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(DecidingAgent(self.0.begin()))
    }
}

struct DecidingAgent<'a>(Box<dyn Agent + 'a>);

impl Agent for DecidingAgent<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        self.0.decide(observation, action)
    }

    fn multiplier(&self) -> Option<&[f64]> {
        self.0.multiplier()
    }
}

fn between(rng: &mut ChaCha8Rng, (low, high): &(Vec<f64>, Vec<f64>)) -> Vec<f64> {
    let pairs = low.iter().zip(high);
    pairs.map(|(low, high)| rng.random_range(*low..*high)).collect()
}

#[test]
fn the_pullback_under_a_limit_equals_differences_for_every_problem() {
    for mut case in cases() {
        let name = case.problem.name().to_owned();
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut layer = CappedLayer::new(case.layer.clone());
        let mut solutions = Solutions::new(case.problem.dimensions(), 1);
        // An action is not as flat in its inputs as a minimal cost: it takes on more of the solver's rounding.
        let options = GradcheckOptions {
            floor: 1e-3,
            ..GradcheckOptions::default()
        };
        let (mut checked, mut kinks, mut binding) = (0, 0, 0);
        for _ in 0..40 {
            let context = between(&mut rng, &case.contexts);
            let share = between(&mut rng, &case.shares);
            let available: Vec<f64> = share.iter().map(|share| share * 2.0).collect();
            let mut multiplier = case.prices(&context, &share);
            for price in &mut multiplier {
                *price *= rng.random_range(0.8..2.5);
            }
            let query = Query {
                context: &context,
                multiplier: &multiplier,
                available: &available,
            };
            // From what the prices alone lead to down to what the budgets allow.
            let zero = vec![0.0; multiplier.len()];
            let mut cost_at = |multiplier: &[f64]| {
                let query = Query { multiplier, ..query };
                case.layer.solve(query, solutions.row_mut(0)).unwrap();
                case.problem.cost(solutions.row(0).action, &context)
            };
            let (dear, cheap) = (cost_at(&multiplier), cost_at(&zero));
            let limit = cheap + rng.random_range(0.05..1.2) * (dear - cheap);
            let upstream: Vec<f64> = (0..case.problem.dimensions().actions)
                .map(|_| rng.random_range(-1.0..1.0))
                .collect();
            let (cap, report) = check_capped(&mut layer, query, limit, &upstream, &options).unwrap();
            layer.solve(query, limit, solutions.row_mut(0)).unwrap();
            let found = case.problem.cost(solutions.row(0).action, &context);
            assert!(found <= limit, "{name}: {found} above {limit}");
            if let Cap::Binding { share } = cap {
                binding += 1;
                assert!(limit - found <= 1e-12 * limit.abs(), "{name}: {found} of {limit}");
                assert!(share > 0.0 && share < 1.0, "{name}: {share}");
            }
            assert!(report.worst_error() < 1e-6, "{name}: {cap:?} {report:?}");
            assert!(report.unsolved.is_empty(), "{name}: {report:?}");
            checked += report.checked;
            kinks += report.kinks.len();
        }
        assert!(binding >= 15, "{name}: {binding}");
        assert!(kinks * 10 < checked, "{name}: {kinks} kinks, {checked} checked");
    }
}

/// Given prices, step by step.
struct Prices(Vec<f64>);

impl Multiplier for Prices {
    fn budgets(&self) -> usize {
        self.0.len() / STEPS
    }

    fn begin(&self) -> Box<dyn Pricer + '_> {
        Box::new(self)
    }
}

impl Pricer for &Prices {
    fn price(&mut self, observation: &Observation<'_>, multiplier: &mut [f64]) -> Result<(), Error> {
        let m = multiplier.len();
        multiplier.copy_from_slice(&self.0[observation.step * m..][..m]);
        Ok(())
    }
}

#[test]
fn the_gradient_of_guarded_episodes_equals_differences_for_every_problem() {
    for mut case in cases() {
        let name = case.problem.name().to_owned();
        let Dimensions {
            budgets: m, context, ..
        } = case.problem.dimensions();
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut layer = CappedLayer::new(case.layer.clone());
        let task = Task::new(Arc::clone(&case.problem), case.layer.clone());
        let (mut checked, mut kinks, mut acted, mut limited) = (0, 0, 0, 0);
        for index in 0..EPISODES {
            let share = between(&mut rng, &case.shares);
            let budgets: Vec<f64> = share.iter().map(|share| share * STEPS as f64).collect();
            let contexts: Vec<f64> = (0..STEPS)
                .flat_map(|_| between(&mut rng, &case.contexts))
                .collect();
            let middle: Vec<f64> = (case.contexts.0.iter().zip(&case.contexts.1))
                .map(|(low, high)| f64::midpoint(*low, *high))
                .collect();
            let usual = case.prices(&middle, &share);
            let incumbent = Unrolled::new("incumbent", Constant(usual.clone()), case.layer.clone()).unwrap();
            // Every second episode holds back too long, the others spend too early.
            let (low, high) = if index % 2 == 0 { (1.2, 2.0) } else { (0.4, 0.9) };
            let prices: Vec<f64> = (0..STEPS)
                .flat_map(|_| usual.clone())
                .map(|price| price * rng.random_range(low..high))
                .collect();
            let episodes = Episodes::new(STEPS, context, m, contexts, budgets).unwrap();
            let episode = episodes.get(0);
            let level = if index % 4 < 2 { 0.95 } else { 0.8 };
            let shadow = Shadow::new(&*case.problem, &incumbent, level, &episodes).unwrap();
            let report =
                check_guarded_episode(&mut layer, &episode, shadow.get(0), &prices, &case.options()).unwrap();
            assert!(report.worst_error() < 1e-6, "{name}: {report:?}");
            assert!(report.unsolved.is_empty(), "{name}: {report:?}");
            checked += report.checked;
            kinks += report.kinks.len();

            // The same steps as at deployment, where sums are exact.
            let gradient = guarded_episode_gradient(&mut layer, &episode, shadow.get(0), &prices).unwrap();
            let advice = Unrolled::new("advice", Prices(prices), case.layer.clone()).unwrap();
            let (advice, incumbent) = (Arc::new(advice.priced_to_the_end()), Arc::new(incumbent));
            let [played, decided] = [
                Arc::clone(&advice) as Arc<dyn Policy>,
                Arc::new(DecidesOnly(advice)),
            ]
            .map(|advice| {
                let problem = Arc::clone(&case.problem) as Arc<_>;
                let guarded = Guarded::new("guarded", advice, incumbent.clone(), problem, level);
                rollout(&*case.problem, &guarded.unwrap().in_layer(&task), &episode).unwrap()
            });
            // Asked for its prices alone, the advice leads to the same actions as asked to decide.
            for (priced, decided) in played.actions.iter().zip(&decided.actions) {
                assert!(
                    (priced - decided).abs() <= 1e-6 * decided.abs().max(1.0),
                    "{name}: {priced} {decided}"
                );
            }
            // A limit that is met to the last bit may count as met in the one and as passed in the other.
            let [ours, theirs] = [&played, &decided].map(|played| played.certificate.unwrap().acted);
            assert!(
                ours.abs_diff(theirs) <= 1,
                "{name}: acted in {ours} and {theirs} steps"
            );
            let cost: f64 = played.costs.iter().sum();
            assert!(
                (gradient.cost - cost).abs() <= 1e-9 * cost.abs(),
                "{name}: {} in training, {cost} at deployment",
                gradient.cost
            );
            let steps = played.certificate.unwrap().acted;
            acted += steps;
            limited += usize::from(steps > 0);
        }
        let all = EPISODES * (STEPS + 1) * m;
        assert_eq!(checked + kinks, all, "{name}");
        assert!(kinks * 5 < all, "{name}: {kinks} of {all} are kinks");
        assert!(
            acted >= EPISODES && limited >= EPISODES / 2,
            "{name}: the guard acted in {acted} steps of {limited} episodes"
        );
    }
}

/// How exact the gradient of a fairness layer is at a limit that lies a factor from the cost of an action.
fn exactness(action: f64, factor: f64) -> (Cap, Exactness) {
    let problem = WeightedFairness::paper();
    let mut layer = CappedLayer::new(Box::new(FairnessLayer::new(problem.clone())));
    let dimensions = problem.dimensions();
    let (mut solutions, mut gradients) = (Solutions::new(dimensions, 1), Gradients::new(dimensions, 1));
    // The plain action is 10, the cheapest 20.
    let query = Query {
        context: &[0.5],
        multiplier: &[0.05],
        available: &[20.0],
    };
    let limit = problem.cost(&[action], &[0.5]) * factor;
    let cap = layer.solve(query, limit, solutions.row_mut(0)).unwrap();
    let pulled = layer.pullback(query, cap, solutions.row(0), &[1.0], gradients.row_mut(0));
    (cap, pulled.unwrap().0)
}

#[test]
fn a_limit_that_is_only_just_met_is_a_kink() {
    let weak = Exactness::Approximate {
        reason: Inexact::WeaklyActive,
    };
    // Costs are negative: a factor below one raises the limit.
    for (factor, expected) in [
        (1.0 - 1e-12, weak),
        (1.0 + 1e-12, weak),
        (1.0 - 1e-6, Exactness::Exact),
    ] {
        assert_eq!(exactness(10.0, factor).1, expected, "the plain action, {factor}");
    }
    assert_eq!(exactness(10.0, 1.0 - 1e-12).0, Cap::Touched);
    assert!(matches!(
        exactness(10.0, 1.0 + 1e-6),
        (Cap::Binding { .. }, Exactness::Exact)
    ));
    assert_eq!(exactness(20.0, 1.0 - 1e-12), (Cap::Binding { share: 0.0 }, weak));
    assert!(matches!(
        exactness(20.0, 1.0 - 1e-6),
        (Cap::Binding { .. }, Exactness::Exact)
    ));
    let (cap, singular) = exactness(20.0, 1.0 + 1e-6);
    assert_eq!(cap, Cap::Empty);
    assert_ne!(singular, Exactness::Exact);
}

#[test]
fn a_limit_that_nothing_meets_plays_what_is_given_without_a_gradient() {
    let mut layer = CappedLayer::new(Box::new(FairnessLayer::new(WeightedFairness::paper())));
    let dimensions = layer.problem().dimensions();
    let (mut solutions, mut gradients) = (Solutions::new(dimensions, 1), Gradients::new(dimensions, 1));
    for (available, price, limit) in [(20.0, 0.05, -10.0), (0.0, 0.05, 10.0)] {
        let query = Query {
            context: &[0.5],
            multiplier: &[price],
            available: &[available],
        };
        let cap = layer
            .solve_or(query, limit, &[3.0], &mut solutions, 0, 0)
            .unwrap();
        assert_eq!((cap, solutions.actions()), (Cap::Empty, &[3.0][..]));
        gradients.multipliers[0] = f64::NAN;
        gradients.available[0] = f64::NAN;
        let row = gradients.row_mut(0);
        let (exactness, in_limit) = layer.pullback(query, cap, solutions.row(0), &[1.0], row).unwrap();
        assert_ne!(exactness, Exactness::Exact);
        assert_eq!(
            (gradients.multipliers[0], gradients.available[0], in_limit),
            (0.0, 0.0, 0.0)
        );
    }
    let query = Query {
        context: &[0.5],
        multiplier: &[f64::NAN],
        available: &[20.0],
    };
    let failure = layer
        .solve_or(query, 10.0, &[3.0], &mut solutions, 0, 7)
        .unwrap_err();
    assert!(matches!(
        failure,
        Error::Unsolved {
            step: 7,
            status: Status::Invalid { .. }
        }
    ));
}
