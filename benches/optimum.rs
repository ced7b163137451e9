//! The offline optimum, by horizon, actions and budgets.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use laau_baselines::{HorizonOptimum, HorizonOptions, WaterFilling};
use laau_benches::{fairness_episodes, log_utility, log_utility_episodes, sweep};
use laau_core::Hindsight as _;
use laau_core::problems::WeightedFairness;

fn water_filling(criterion: &mut Criterion) {
    for horizon in sweep(&[20, 1000, 100, 10_000], 2) {
        let set = fairness_episodes(1, horizon);
        let mut plan = vec![0.0; horizon];
        let solver = WaterFilling::new(WeightedFairness::paper());
        let mut group = criterion.benchmark_group("opt/water-filling");
        group.throughput(Throughput::Elements(horizon as u64));
        group.bench_function(format!("N={horizon}"), |bencher| {
            bencher.iter(|| solver.plan(black_box(&set.get(0)), &mut plan).expect("feasible"));
        });
        group.finish();
    }
}

fn interior_point(criterion: &mut Criterion) {
    let mut sizes = sweep(&[(4, 2, 20), (4, 2, 200), (4, 2, 100), (4, 2, 1000)], 2);
    sizes.extend(sweep(
        &[
            (8, 2, 100),
            (1, 2, 100),
            (2, 2, 100),
            (16, 2, 100),
            (32, 2, 100),
            (64, 2, 100),
        ],
        0,
    ));
    sizes.extend(sweep(&[(4, 1, 100), (4, 4, 100), (4, 8, 100)], 0));
    for (actions, budgets, horizon) in sizes {
        let problem = Arc::new(log_utility(actions, budgets));
        let set = log_utility_episodes(&problem, 1, horizon);
        let solver = HorizonOptimum::new(problem, HorizonOptions::default()).expect("valid options");
        let mut group = criterion.benchmark_group("opt/interior-point");
        group.throughput(Throughput::Elements(horizon as u64));
        group.bench_function(format!("d={actions},M={budgets},N={horizon}"), |bencher| {
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

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = water_filling, interior_point
}
criterion_main!(benches);
