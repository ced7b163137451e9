//! What an episode of decisions costs, policy by policy, by horizon: the time of a decision is that over the steps.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescentOptions, EqualOptions, Mirror, Phase,
    RlOptions,
};
use laau_benches::{fairness_episodes, log_utility, log_utility_episodes, sweep};
use laau_core::problems::WeightedFairness;
use laau_core::{Episodes, Error, Fit, FitSets, Fitted, Nearest, Player, Task, rollout};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};

/// Every policy that applies to the task.
fn policies(task: &Task, train: &Episodes) -> Vec<Fitted> {
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
    let fits: [Box<dyn Fit>; 8] = [
        Box::new(EqualOptions::default()),
        Box::new(AvgLtOptions::default()),
        Box::new(descent(Mirror::Euclidean)),
        Box::new(descent(Mirror::Entropic)),
        Box::new(CrPursuitOptions::default()),
        Box::new(CeOptions::default()),
        Box::new(DpOptions::default()),
        Box::new(rl),
    ];
    let sets = FitSets {
        train,
        validation: train,
    };
    fits.iter()
        .map(|fit| fit.fit(task, sets, 0, &mut ()))
        .filter(|fit| !matches!(fit, Err(Error::NotApplicable { .. })))
        .collect::<Result<_, _>>()
        .expect("valid options and episodes")
}

fn measure(criterion: &mut Criterion, name: &str, sizes: &str, task: &Task, train: &Episodes) {
    let horizon = train.horizon();
    for fitted in policies(task, train) {
        let Player::Online(policy) = &fitted.player else {
            continue;
        };
        let mut group = criterion.benchmark_group(format!("policy/{name}/{}", policy.name()));
        group.throughput(Throughput::Elements(horizon as u64));
        group.bench_function(format!("{sizes}N={horizon}"), |bencher| {
            bencher.iter(|| rollout(&*task.problem, &**policy, black_box(&train.get(0))).expect("playable"));
        });
        group.finish();
    }
}

fn one_budget(criterion: &mut Criterion) {
    for horizon in sweep(&[20, 10, 40, 80], 1) {
        let problem = WeightedFairness::paper();
        let layer = Box::new(FairnessLayer::new(problem.clone()));
        let task = Task::new(Arc::new(problem), layer);
        let train = fairness_episodes(40, horizon);
        measure(criterion, "fairness", "", &task, &train);
    }
}

fn several_budgets(criterion: &mut Criterion) {
    for horizon in sweep(&[20, 10, 40], 0) {
        let problem = Arc::new(log_utility(4, 2));
        let train = log_utility_episodes(&problem, 40, horizon);
        let layer = InteriorPoint::new(problem.clone(), Options::default()).expect("valid options");
        let nearest = Arc::new(Nearest::new(problem.clone()));
        let projector = InteriorPoint::new(nearest, Options::default()).expect("valid options");
        let task = Task::new(problem, Box::new(layer))
            .with_projector(Box::new(projector))
            .expect("made for the same problem");
        measure(criterion, "log-utility", "d=4,M=2,", &task, &train);
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
