//! OPT against clarabel, and its two algorithms against each other.

use std::sync::Arc;

use laau_baselines::{HorizonOptimum, HorizonOptions, WaterFilling};
use laau_core::problems::{LogUtility, WeightedFairness};
use laau_core::{
    AutoDiff, Dimensions, Episode, Hindsight, Number, Problem, ProblemFunctions, Replay, Rollout,
    SmoothProblem, rollout,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::cone::ConicProgram;
use crate::workload::generator;

/// Plans, replays through the ledger, and checks that the plan was paid as it was.
pub(crate) fn played(
    problem: &Arc<dyn SmoothProblem>,
    hindsight: &dyn Hindsight,
    episode: &Episode<'_>,
) -> Rollout {
    let mut plan = vec![0.0; episode.horizon() * problem.dimensions().actions];
    hindsight.plan(episode, &mut plan).unwrap();
    let policy = Replay::new(hindsight.name(), plan.clone(), &**problem);
    let result = rollout(&**problem, &policy, episode).unwrap();
    assert_eq!(
        (result.violations, result.failures, result.projections),
        (0, 0, 0)
    );
    assert_eq!(result.actions, plan);
    result
}

fn total(result: &Rollout) -> f64 {
    -result.costs.iter().sum::<f64>()
}

fn assert_close(found: f64, expected: f64, size: f64, tolerance: f64, what: &str) {
    assert!(
        (found - expected).abs() <= tolerance * size,
        "{what}: {found} against {expected}, off by {:e} of {size}",
        (found - expected).abs() / size
    );
}

/// A draw of contexts: some heavy, some light, now and then a zero.
fn weights(rng: &mut ChaCha8Rng, count: usize) -> Vec<f64> {
    (0..count)
        .map(|_| match rng.random_range(0..12) {
            0 => 0.0,
            1 => rng.random_range(1e-4..1e-2),
            _ => rng.random_range(0.01..1.0),
        })
        .collect()
}

#[test]
fn water_filling_and_the_interior_point_equal_clarabel_on_fairness() {
    let mut rng = generator(1);
    for case in 0..120 {
        let (lower, upper) = (rng.random_range(0.1..2.0), rng.random_range(5.0..50.0));
        let problem = WeightedFairness::new(lower, upper).unwrap();
        let horizon = rng.random_range(1..=20);
        let contexts = weights(&mut rng, horizon);
        let mut least = [0.0];
        problem.reserve(horizon, &mut least);
        let room = upper * horizon as f64 - least[0];
        let budget = least[0] + room * rng.random_range(0.02_f64..1.1);
        let episode = Episode::new(&contexts, 1, std::slice::from_ref(&budget)).unwrap();
        let shared: Arc<dyn SmoothProblem> = Arc::new(problem.clone());

        let exact = played(&shared, &WaterFilling::new(problem), &episode);
        let iterated = played(
            &shared,
            &HorizonOptimum::new(Arc::clone(&shared), HorizonOptions::default()).unwrap(),
            &episode,
        );
        let truth = ConicProgram {
            weights: contexts.clone(),
            lower,
            upper,
            budgets: vec![(vec![1.0; horizon], budget)],
            squares: None,
        }
        .utility();
        let size = exact.costs.iter().map(|c| c.abs()).sum::<f64>();
        let what = format!("case {case}, horizon {horizon}, budget {budget}");
        assert_close(total(&exact), truth, size.max(1e-3), 1e-7, &what);
        assert_close(total(&iterated), total(&exact), size, 1e-9, &what);
    }
}

#[test]
fn the_interior_point_equals_clarabel_on_several_resources() {
    let mut rng = generator(2);
    for case in 0..120 {
        let (d, m) = (rng.random_range(1..=4), rng.random_range(1..=3));
        let horizon = rng.random_range(1..=10);
        let matrix: Vec<f64> = (0..d * m)
            .map(|_| match rng.random_range(0..4) {
                0 => 0.0,
                _ => rng.random_range(0.1..2.0),
            })
            .collect();
        let (lower, upper) = (0.25, 8.0);
        let problem = LogUtility::new(d, m, matrix.clone(), lower, upper).unwrap();
        let contexts = weights(&mut rng, horizon * d);
        let (mut least, mut most) = (vec![0.0; m], vec![0.0; m]);
        problem.reserve(horizon, &mut least);
        problem.usage(problem.upper(), &contexts[..d], &mut most);
        let budgets: Vec<f64> = (0..m)
            .map(|k| least[k] + (most[k] * horizon as f64 - least[k]) * rng.random_range(0.02_f64..1.1))
            .collect();
        let episode = Episode::new(&contexts, d, &budgets).unwrap();
        let truth = ConicProgram {
            weights: contexts.clone(),
            lower,
            upper,
            budgets: matrix
                .chunks_exact(d)
                .zip(&budgets)
                .map(|(row, budget)| (row.repeat(horizon), *budget))
                .collect(),
            squares: None,
        }
        .utility();
        let problem: Arc<dyn SmoothProblem> = Arc::new(problem);
        let solver = HorizonOptimum::new(Arc::clone(&problem), HorizonOptions::default()).unwrap();
        let found = played(&problem, &solver, &episode);
        let size = contexts.iter().map(|c| c * 2.0).sum::<f64>().max(truth.abs());
        let what = format!("case {case}, d {d}, M {m}, horizon {horizon}");
        assert_close(total(&found), truth, size, 1e-7, &what);
    }
}

/// Weighted fairness that pays the square of what it gives: usage that is not affine.
struct Square;

impl ProblemFunctions for Square {
    fn name(&self) -> &'static str {
        "square"
    }
    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 1,
            budgets: 1,
            context: 1,
        }
    }
    fn lower(&self) -> &[f64] {
        &[0.5]
    }
    fn upper(&self) -> &[f64] {
        &[6.0]
    }
    fn cost<T: Number>(&self, action: &[T], context: &[T]) -> T {
        -context[0] * action[0].ln()
    }
    fn usage<T: Number>(&self, action: &[T], _: &[T], out: &mut [T]) {
        out[0] = action[0] * action[0];
    }
    fn least_usage(&self, out: &mut [f64]) {
        out[0] = 0.25;
    }
}

#[test]
fn usage_that_is_not_affine_equals_clarabel_too() {
    let mut rng = generator(3);
    let problem: Arc<dyn SmoothProblem> = Arc::new(AutoDiff::new(Square).unwrap());
    let solver = HorizonOptimum::new(Arc::clone(&problem), HorizonOptions::default()).unwrap();
    for case in 0..40 {
        let horizon = rng.random_range(1..=15);
        let contexts = weights(&mut rng, horizon);
        let budget = horizon as f64 * rng.random_range(0.3..40.0);
        let episode = Episode::new(&contexts, 1, std::slice::from_ref(&budget)).unwrap();
        let truth = ConicProgram {
            weights: contexts.clone(),
            lower: 0.5,
            upper: 6.0,
            budgets: Vec::new(),
            squares: Some(budget),
        }
        .utility();
        let found = played(&problem, &solver, &episode);
        let size = contexts.iter().map(|c| c * 2.0).sum::<f64>().max(1e-3);
        assert_close(total(&found), truth, size, 1e-7, &format!("case {case}"));
    }
}

/// Weighted fairness whose usage is metered at a rate of at most 1 that comes with the context: the reserve is for the
/// highest rate, and binds.
struct Metered;

impl ProblemFunctions for Metered {
    fn name(&self) -> &'static str {
        "metered"
    }
    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 1,
            budgets: 1,
            context: 2,
        }
    }
    fn lower(&self) -> &[f64] {
        &[1.0]
    }
    fn upper(&self) -> &[f64] {
        &[9.0]
    }
    fn cost<T: Number>(&self, action: &[T], context: &[T]) -> T {
        -context[0] * action[0].ln()
    }
    fn usage<T: Number>(&self, action: &[T], context: &[T], out: &mut [T]) {
        out[0] = action[0] * context[1];
    }
    fn least_usage(&self, out: &mut [f64]) {
        out[0] = 1.0;
    }
}

#[test]
fn a_plan_is_the_best_of_those_that_keep_the_reserve() {
    let mut rng = generator(13);
    let problem: Arc<dyn SmoothProblem> = Arc::new(AutoDiff::new(Metered).unwrap());
    let solver = HorizonOptimum::new(Arc::clone(&problem), HorizonOptions::default()).unwrap();
    let mut held_back = 0;
    for case in 0..40 {
        let horizon = rng.random_range(2..=12);
        let weights: Vec<f64> = (0..horizon).map(|_| rng.random_range(0.01..1.0)).collect();
        let rates: Vec<f64> = (0..horizon).map(|_| rng.random_range(0.1..1.0)).collect();
        let contexts: Vec<f64> = weights.iter().zip(&rates).flat_map(|(c, k)| [*c, *k]).collect();
        let budget = horizon as f64 * rng.random_range(1.0..3.0);
        let episode = Episode::new(&contexts, 2, std::slice::from_ref(&budget)).unwrap();
        let truth = |limits: &mut dyn Iterator<Item = usize>| {
            ConicProgram {
                weights: weights.clone(),
                lower: 1.0,
                upper: 9.0,
                budgets: limits
                    .map(|step| {
                        let mut row = rates.clone();
                        row[step + 1..].fill(0.0);
                        (row, budget - (horizon - 1 - step) as f64)
                    })
                    .collect(),
                squares: None,
            }
            .utility()
        };
        let (reserved, free) = (truth(&mut (0..horizon)), truth(&mut std::iter::once(horizon - 1)));
        let found = played(&problem, &solver, &episode);
        let size = weights.iter().map(|c| c * 2.0).sum::<f64>();
        assert_close(total(&found), reserved, size, 1e-7, &format!("case {case}"));
        held_back += usize::from(reserved < free - 1e-4 * size);
    }
    assert!(held_back >= 10, "the reserve mattered in {held_back} cases only");
}

#[test]
fn no_feasible_plan_is_better_than_water_filling() {
    let mut rng = generator(4);
    let exact = WaterFilling::new(WeightedFairness::paper());
    for _ in 0..300 {
        let horizon = rng.random_range(2..=12);
        let contexts = weights(&mut rng, horizon);
        let budget = horizon as f64 * rng.random_range(1.0..45.0_f64);
        let mut best = vec![0.0; horizon];
        exact.fill(&contexts, budget, &mut best);
        let utility = |plan: &[f64]| contexts.iter().zip(plan).map(|(c, x)| c * x.ln()).sum::<f64>();
        let (from, to) = (rng.random_range(0..horizon), rng.random_range(0..horizon));
        let moved = rng
            .random_range(0.0..1.0_f64)
            .min(best[from] - 1.0)
            .min(40.0 - best[to]);
        let mut other = best.clone();
        other[from] -= moved;
        other[to] += moved;
        assert!(utility(&other) <= utility(&best) + 1e-13 * horizon as f64);
    }
}
