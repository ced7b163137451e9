//! What an episode of decisions costs, policy by policy, by horizon: the time of a decision is that over the steps.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescentOptions, EqualOptions, Fitted, Mirror,
    Phase, RlOptions, Setting,
};
use laau_benches::{fairness_episodes, log_utility, log_utility_episodes, sweep};
use laau_core::problems::WeightedFairness;
use laau_core::{Episodes, Error, Nearest, rollout};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};

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
    let fits: [Result<Fitted, Error>; 8] = [
        EqualOptions::default().fit(setting, train, train),
        AvgLtOptions::default().fit(setting, train, train),
        descent(Mirror::Euclidean).fit(setting, train, train),
        descent(Mirror::Entropic).fit(setting, train, train),
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

fn measure(criterion: &mut Criterion, name: &str, sizes: &str, setting: &Setting, train: &Episodes) {
    let horizon = train.horizon();
    for fitted in policies(setting, train) {
        let policy = &*fitted.policy;
        let mut group = criterion.benchmark_group(format!("policy/{name}/{}", policy.name()));
        group.throughput(Throughput::Elements(horizon as u64));
        group.bench_function(format!("{sizes}N={horizon}"), |bencher| {
            bencher.iter(|| rollout(&*setting.problem, policy, black_box(&train.get(0))).expect("playable"));
        });
        group.finish();
    }
}

fn one_budget(criterion: &mut Criterion) {
    for horizon in sweep(&[20, 10, 40, 80], 1) {
        let problem = WeightedFairness::paper();
        let layer = Box::new(FairnessLayer::new(problem.clone()));
        let setting = Setting::new(Arc::new(problem), layer);
        let train = fairness_episodes(40, horizon);
        measure(criterion, "fairness", "", &setting, &train);
    }
}

fn several_budgets(criterion: &mut Criterion) {
    for horizon in sweep(&[20, 10, 40], 0) {
        let problem = Arc::new(log_utility(4, 2));
        let train = log_utility_episodes(&problem, 40, horizon);
        let layer = InteriorPoint::new(problem.clone(), Options::default()).expect("valid options");
        let nearest = Arc::new(Nearest::new(problem.clone()));
        let projector = InteriorPoint::new(nearest, Options::default()).expect("valid options");
        let setting = Setting::new(problem, Box::new(layer))
            .with_projector(Box::new(projector))
            .expect("made for the same problem");
        measure(criterion, "log-utility", "d=4,M=2,", &setting, &train);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    targets = one_budget, several_budgets
}
criterion_main!(benches);
