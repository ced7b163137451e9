//! What a model sees and what it says, against definitions written out.

use laau_core::{Differentiate, Episodes, Multiplier, Observation, Pricer, Queries, Solutions, StepSolver};
use laau_net::{Error, Model, ModelSpec, Network, PriceBase, Statistics};

use crate::support::{every_spec, fairness, full_model, interior_point, log_episodes, wandering};

/// The price of weighted fairness at a step of an episode with some of its budget left.
fn price(model: &Model, set: &Episodes, step: usize, remaining: f64) -> f64 {
    let episode = set.get(0);
    let observation = Observation {
        step,
        horizon: episode.horizon(),
        contexts: &episode.contexts()[..=step],
        context_len: 1,
        budgets: episode.budgets(),
        remaining: &[remaining],
        available: &[remaining],
    };
    let mut price = [f64::NAN];
    model.begin().price(&observation, &mut price).unwrap();
    price[0]
}

#[test]
fn an_untrained_residual_model_says_the_certainty_equivalent_price() {
    let solver = fairness();
    let train = wandering(50, 12, 1, &[140.0]);
    for spec in every_spec(&*solver, 12) {
        if spec.form != PriceBase::Residual {
            continue;
        }
        let statistics = Statistics::fit(&spec, &mut solver.fork(), &train).unwrap();
        let model = Model::new(spec, statistics, 4).unwrap();
        let contexts = train.get(0).contexts();
        let mean = model.statistics.context_mean[0];
        for (step, remaining) in [(0, 150.0), (3, 80.0), (10, 5.0)] {
            let seen = &contexts[..=step];
            let count = seen.len() as f64;
            let average = seen.iter().sum::<f64>() / count;
            let variance = seen.iter().map(|c| (c - average) * (c - average)).sum::<f64>() / count;
            let known = [
                mean,
                contexts[step],
                average,
                seen.iter().copied().fold(f64::INFINITY, f64::min),
                seen.iter().copied().fold(0.0, f64::max),
                variance.sqrt(),
            ];
            let predictor = model.statistics.level_predictor;
            let predicted: f64 = predictor.iter().zip(known).map(|(a, x)| a * x).sum();
            let left = (11 - step) as f64;
            let expected = (contexts[step] + left * predicted) / remaining;
            let found = price(&model, &train, step, remaining);
            assert!(
                (found - expected).abs() <= 1e-12 * expected,
                "step {step}: {found}, expected {expected}"
            );
        }
    }
}

#[test]
fn the_level_predictor_leaves_no_trend_in_its_errors() {
    let solver = fairness();
    let train = wandering(200, 10, 1, &[120.0]);
    let spec = ModelSpec::residual(solver.problem(), 10);
    let statistics = Statistics::fit(&spec, &mut solver.fork(), &train).unwrap();
    let mean = statistics.context_mean[0];
    let (mut error, mut with_level, mut squares, mut spread, mut count) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for episode in train.iter() {
        for step in 0..9 {
            let levels: Vec<f64> = episode.contexts().iter().map(|c| c / mean).collect();
            let (seen, to_come) = levels.split_at(step + 1);
            let average = seen.iter().sum::<f64>() / seen.len() as f64;
            let variance =
                seen.iter().map(|w| (w - average) * (w - average)).sum::<f64>() / seen.len() as f64;
            let known = [
                1.0,
                levels[step],
                average,
                seen.iter().copied().fold(f64::INFINITY, f64::min),
                seen.iter().copied().fold(0.0, f64::max),
                variance.sqrt(),
            ];
            let predicted: f64 = statistics
                .level_predictor
                .iter()
                .zip(known)
                .map(|(a, x)| a * x)
                .sum();
            let target = to_come.iter().sum::<f64>() / to_come.len() as f64;
            error += target - predicted;
            with_level += (target - predicted) * levels[step];
            squares += (target - predicted) * (target - predicted);
            spread += (target - 1.0) * (target - 1.0);
            count += 1.0;
        }
    }
    assert!((error / count).abs() < 1e-4, "{}", error / count);
    assert!((with_level / count).abs() < 1e-4, "{}", with_level / count);
    assert!(squares < 0.7 * spread, "{squares} of {spread} unexplained");
}

/// The mean usage of all contexts at constant prices, without budgets.
fn mean_usage(solver: &dyn Differentiate, train: &Episodes, prices: &[f64]) -> Vec<f64> {
    let mut solver = solver.fork();
    let dimensions = solver.problem().dimensions();
    let rows = train.contexts().len() / dimensions.context;
    let (multipliers, remaining) = (prices.repeat(rows), vec![1e3; rows * prices.len()]);
    let mut solutions = Solutions::new(dimensions, rows);
    let queries = Queries {
        contexts: train.contexts(),
        multipliers: &multipliers,
        available: &remaining,
    };
    solver.solve_batch(queries, &mut solutions).unwrap();
    let mut usages = vec![0.0; rows * prices.len()];
    solver
        .problem()
        .usage_batch(solutions.actions(), train.contexts(), &mut usages);
    (0..prices.len())
        .map(|m| usages.iter().skip(m).step_by(prices.len()).sum::<f64>() / rows as f64)
        .collect()
}

#[test]
fn at_the_average_price_the_training_set_uses_its_budget() {
    let solver = fairness();
    let train = wandering(50, 20, 1, &[200.0]);
    let spec = ModelSpec::paper(solver.problem(), 20);
    let statistics = Statistics::fit(&spec, &mut solver.fork(), &train).unwrap();
    let used = mean_usage(&*solver, &train, &statistics.multiplier_scale)[0];
    let expected = statistics.budget_per_step[0];
    assert!((used - expected).abs() < 1e-6 * expected, "{used} of {expected}");
}

#[test]
fn with_two_budgets_each_average_price_binds_or_is_the_least() {
    let solver = interior_point();
    let train = log_episodes(20, 4, 3);
    let spec = ModelSpec::paper(solver.problem(), 4);
    let statistics = Statistics::fit(&spec, &mut solver.fork(), &train).unwrap();
    let used = mean_usage(&*solver, &train, &statistics.multiplier_scale);
    for m in 0..2 {
        let (used, budget) = (used[m], statistics.budget_per_step[m]);
        assert!(used <= budget * (1.0 + 1e-4), "budget {m}: {used} of {budget}");
        assert!(statistics.multiplier_scale[m] > 0.0 && statistics.mean_price[m] > 0.0);
    }
    let binding = (0..2)
        .filter(|&m| used[m] > 0.999 * statistics.budget_per_step[m])
        .count();
    assert!(
        binding >= 1,
        "no budget binds: {used:?} of {:?}",
        statistics.budget_per_step
    );
}

#[test]
fn a_budget_in_abundance_still_has_a_price() {
    let solver = fairness();
    let train = wandering(10, 5, 1, &[1e6]);
    let spec = ModelSpec::residual(solver.problem(), 5);
    let statistics = Statistics::fit(&spec, &mut solver.fork(), &train).unwrap();
    assert!(statistics.multiplier_scale[0] > 0.0 && statistics.mean_price[0] > 0.0);
    statistics.validate(&spec).unwrap();
}

#[test]
fn parts_that_do_not_fit_are_refused_by_name() {
    let solver = fairness();
    let spec = ModelSpec::paper(solver.problem(), 5);
    let good = full_model(&spec, &*solver, 1);
    let check = |result: Result<Model, Error>, expected: &str| {
        assert_eq!(result.unwrap_err().to_string(), expected);
    };
    check(
        Model::from_parts(spec.clone(), good.statistics.clone(), vec![0.0; 3]),
        "invalid `parameters`: expected 161 values, found 3",
    );
    let mut parameters = good.parameters.clone();
    parameters[7] = f64::INFINITY;
    check(
        Model::from_parts(spec.clone(), good.statistics.clone(), parameters),
        "invalid `parameters`: expected finite values, found inf at 7",
    );
    let mut statistics = good.statistics.clone();
    statistics.feature_scale[1] = 0.0;
    check(
        Model::new(spec.clone(), statistics, 0),
        "invalid `feature_scale`: expected positive, finite values, found 0",
    );
    let mut statistics = good.statistics.clone();
    statistics.context_mean.push(1.0);
    check(
        Model::new(spec.clone(), statistics, 0),
        "invalid `context_mean`: expected 1 values, found 2",
    );
    let bounded = ModelSpec {
        network: Network::Linear {
            norm_bound: Some(-1.0),
        },
        ..spec.clone()
    };
    check(
        Model::new(bounded, good.statistics.clone(), 0),
        "invalid `network.norm_bound`: expected a positive, finite bound, found -1",
    );
    let empty = ModelSpec {
        network: Network::Mlp {
            hidden: vec![4, 0],
            spectral_bound: None,
        },
        ..spec.clone()
    };
    check(
        Model::new(empty, good.statistics.clone(), 0),
        "invalid `network.hidden`: expected at least one unit per layer, found [4, 0]",
    );
    let other = interior_point();
    let error = Statistics::fit(&spec, &mut other.fork(), &log_episodes(5, 4, 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid `problem`: expected `weighted-fairness`, found `log-utility`"
    );
}

#[test]
fn a_price_that_is_no_number_is_an_error() {
    let solver = fairness();
    let mut model = full_model(&ModelSpec::paper(solver.problem(), 4), &*solver, 1);
    model.parameters.fill(1e300);
    let observation = Observation {
        step: 0,
        horizon: 4,
        contexts: &[0.5],
        context_len: 1,
        budgets: &[40.0],
        remaining: &[40.0],
        available: &[37.0],
    };
    let error = model
        .begin()
        .price(&observation, &mut [0.0])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("expected a finite value for the multiplier[0]"),
        "{error}"
    );
    let error = model
        .begin()
        .price(&observation, &mut [0.0; 2])
        .unwrap_err()
        .to_string();
    assert_eq!(error, "expected 1 values for multiplier, found 2");
    let wide = Observation {
        context_len: 2,
        contexts: &[0.5, 0.5],
        ..observation
    };
    let error = model.begin().price(&wide, &mut [0.0]).unwrap_err().to_string();
    assert_eq!(error, "expected 1 values for context, found 2");
}

#[test]
fn a_pricer_reads_every_context_once() {
    let solver = fairness();
    let train = wandering(30, 12, 1, &[140.0]);
    let contexts = train.get(0).contexts();
    for spec in every_spec(&*solver, 12) {
        let model = full_model(&spec, &*solver, 3);
        let mut pricer = model.begin();
        let mut seen = contexts.to_vec();
        for step in 0..contexts.len() {
            let observe = |contexts: &[f64], pricer: &mut dyn Pricer| {
                let observation = Observation {
                    step,
                    horizon: contexts.len(),
                    contexts: &contexts[..=step],
                    context_len: 1,
                    budgets: &[140.0],
                    remaining: &[70.0],
                    available: &[60.0],
                };
                let mut price = [f64::NAN];
                pricer.price(&observation, &mut price).unwrap();
                price[0]
            };
            // What it has read already is gone, and it does not notice.
            let price = observe(&seen, &mut *pricer);
            assert_eq!(
                price,
                observe(contexts, &mut *model.begin()),
                "{spec:?}, step {step}"
            );
            seen[step] = f64::NAN;
        }
    }
}
