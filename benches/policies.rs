//! What a decision costs, policy by policy, and what the offline optimum costs by horizon and number of actions.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescentOptions, EqualOptions, Fitted,
    HorizonOptimum, HorizonOptions, Mirror, Optimum, Phase, RlOptions, Setting, optimum,
};
use laau_benches::log_utility;
use laau_core::problems::WeightedFairness;
use laau_core::{Episodes, Error, Problem, rollout};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Episodes with contexts `U[0, 1]`; every budget pays three tenths of what the upper corner uses.
fn episodes(problem: &dyn Problem, count: usize, horizon: usize) -> Episodes {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let sizes = problem.dimensions();
    let contexts: Vec<f64> = (0..count * horizon * sizes.context)
        .map(|_| rng.random_range(0.0..1.0))
        .collect();
    let mut budgets = vec![0.0; sizes.budgets];
    problem.usage(problem.upper(), &contexts[..sizes.context], &mut budgets);
    for budget in &mut budgets {
        *budget *= 0.3 * horizon as f64;
    }
    Episodes::new(
        horizon,
        sizes.context,
        sizes.budgets,
        contexts,
        budgets.repeat(count),
    )
    .expect("sizes fit")
}

fn fairness() -> Setting {
    let problem = WeightedFairness::paper();
    Setting::new(Arc::new(problem.clone()), Box::new(FairnessLayer::new(problem)))
}

fn several(actions: usize, budgets: usize) -> Setting {
    let problem = Arc::new(log_utility(actions, budgets));
    let layer = InteriorPoint::new(problem.clone(), Options::default()).expect("valid options");
    Setting::new(problem, Box::new(layer))
}

/// Every policy that applies to the setting.
fn policies(setting: &Setting, train: &Episodes) -> Vec<Fitted> {
    // One epoch: what a decision costs does not depend on how well it was trained.
    let rl = RlOptions {
        schedule: vec![Phase {
            epochs: 1,
            learning_rate: 5e-3,
        }],
        ..RlOptions::default()
    };
    let descent = |mirror| DualDescentOptions {
        most_episodes: 20,
        ..DualDescentOptions::new(mirror)
    };
    let fits: [Result<Fitted, Error>; 9] = [
        EqualOptions::default().fit(setting, train, train),
        AvgLtOptions::default().fit(setting, train, train),
        descent(Mirror::Euclidean).fit(setting, train, train),
        descent(Mirror::Entropic).fit(setting, train, train),
        descent(Mirror::Queue).fit(setting, train, train),
        CrPursuitOptions::default().fit(setting, train, train),
        CeOptions::default().fit(setting, train, train),
        DpOptions::default().fit(setting, train, train),
        rl.fit(setting, train, train),
    ];
    fits.into_iter()
        .filter(|fit| !matches!(fit, Err(Error::NotApplicable { .. })))
        .collect::<Result<_, _>>()
        .expect("valid options and episodes")
}

/// A whole episode per iteration: the time of a decision is that over the number of steps.
fn decisions(criterion: &mut Criterion) {
    const HORIZON: usize = 20;
    for (name, setting) in [("fairness", fairness()), ("log-utility-4x2", several(4, 2))] {
        let train = episodes(&*setting.problem, 40, HORIZON);
        let mut group = criterion.benchmark_group(format!("policies/{name}"));
        group.throughput(Throughput::Elements(HORIZON as u64));
        for fitted in policies(&setting, &train) {
            let policy = &*fitted.policy;
            group.bench_function(policy.name(), |bencher| {
                bencher
                    .iter(|| rollout(&*setting.problem, policy, black_box(&train.get(0))).expect("playable"));
            });
        }
        group.finish();
    }
}

fn optimum_by_horizon(criterion: &mut Criterion) {
    for horizon in [10, 100, 1000] {
        let problem = WeightedFairness::paper();
        let set = episodes(&problem, 1, horizon);
        let mut plan = vec![0.0; horizon];
        let solver = optimum(Optimum::WaterFilling(problem)).expect("valid options");
        let mut group = criterion.benchmark_group("policies/opt-water-filling");
        group.throughput(Throughput::Elements(horizon as u64));
        group.bench_function(BenchmarkId::from_parameter(horizon), |bencher| {
            bencher.iter(|| solver.plan(black_box(&set.get(0)), &mut plan).expect("feasible"));
        });
        group.finish();
    }
    for (actions, budgets, horizon) in [(4, 2, 10), (4, 2, 100), (4, 2, 1000), (1, 1, 100), (8, 2, 100)] {
        let problem = Arc::new(log_utility(actions, budgets));
        let set = episodes(&*problem, 1, horizon);
        let solver = HorizonOptimum::new(problem, HorizonOptions::default()).expect("valid options");
        let mut group = criterion.benchmark_group(format!("policies/opt-horizon-{actions}x{budgets}"));
        group.throughput(Throughput::Elements(horizon as u64));
        group.bench_function(BenchmarkId::from_parameter(horizon), |bencher| {
            let episode = set.get(0);
            bencher.iter(|| {
                solver
                    .solve(black_box(episode.contexts()), episode.budgets())
                    .expect("feasible")
            });
        });
        group.finish();
    }
}

criterion_group!(benches, decisions, optimum_by_horizon);
criterion_main!(benches);
