//! Seeded problems and episodes for the tests.

use std::sync::Arc;

use laau_core::problems::{LogUtility, WeightedFairness};
use laau_core::{
    Episodes, Error, Fit, FitSets, Fitted, Nearest, Parameter, Player, Policy, Problem, SmoothProblem, Task,
};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) fn generator(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Weighted fairness with its closed form.
pub(crate) fn fairness() -> Task {
    let problem = WeightedFairness::paper();
    Task::new(Arc::new(problem.clone()), Box::new(FairnessLayer::new(problem)))
}

/// Any problem with the general layer, and its projector.
pub(crate) fn general(problem: impl SmoothProblem + 'static) -> Task {
    let problem: Arc<dyn SmoothProblem> = Arc::new(problem);
    let layer = InteriorPoint::new(Arc::clone(&problem), Options::default()).unwrap();
    let nearest = Arc::new(Nearest::new(Arc::clone(&problem)));
    let projector = InteriorPoint::new(nearest, Options::default()).unwrap();
    Task::new(problem, Box::new(layer))
        .with_projector(Box::new(projector))
        .unwrap()
}

/// Three actions under two budgets that share them.
pub(crate) fn log_utility() -> LogUtility {
    LogUtility::new(3, 2, vec![1.0, 0.5, 0.2, 0.1, 0.6, 1.0], 0.1, 10.0).unwrap()
}

/// Fits with seed 0.
pub(crate) fn fit(
    options: &impl Fit,
    task: &Task,
    train: &Episodes,
    validation: &Episodes,
) -> Result<Fitted, Error> {
    options.fit(task, FitSets { train, validation }, 0, &mut ())
}

/// The online policy of a fit.
pub(crate) fn policy(fitted: &Fitted) -> &dyn Policy {
    match &fitted.player {
        Player::Online(policy) => &**policy,
        Player::Hindsight(_) => panic!("an offline optimum is no policy"),
    }
}

/// A number that was fitted.
pub(crate) fn number(fitted: &Fitted, name: &str) -> f64 {
    match fitted.parameters[name] {
        Parameter::Number(number) => number,
        ref other => panic!("{name} is {other}, not a number"),
    }
}

/// Contexts in `(0, 1)`, mostly small, each step on its own; budgets between `least` and `most` shares of the way from what the
/// lower to what the upper corner uses.
pub(crate) fn independent(
    problem: &dyn Problem,
    rng: &mut ChaCha8Rng,
    (count, horizon): (usize, usize),
    (least, most): (f64, f64),
) -> Episodes {
    let q = problem.dimensions().context;
    let m = problem.dimensions().budgets;
    let contexts: Vec<f64> = (0..count * horizon * q)
        .map(|_| rng.random_range(0.05..1.0_f64).powi(3))
        .collect();
    let (mut low, mut high) = (vec![0.0; m], vec![0.0; m]);
    problem.reserve(horizon, &mut low);
    let mut usage = vec![0.0; m];
    for context in contexts.chunks_exact(q) {
        problem.usage(problem.upper(), context, &mut usage);
        for (high, used) in high.iter_mut().zip(&usage) {
            *high = f64::max(*high, *used);
        }
    }
    let mut budgets = Vec::with_capacity(count * m);
    for _ in 0..count {
        for resource in 0..m {
            let share = rng.random_range(least..most);
            let widest = (high[resource] * horizon as f64).max(low[resource]);
            budgets.push(low[resource] + share * (widest - low[resource]));
        }
    }
    Episodes::new(horizon, q, m, contexts, budgets).unwrap()
}
