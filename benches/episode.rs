//! A whole episode: played by a policy in service, played in parallel, and differentiated; and one LAAU step of it, by
//! horizon, actions, budgets, episodes and threads.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use laau_benches::{
    fairness_episodes, log_utility, log_utility_episodes, paper_model, play, sweep, vm_episodes,
};
use laau_core::problems::{VmAllocation, WeightedFairness};
use laau_core::{
    Differentiate, Episodes, Policy, Problem, SmoothProblem, StepSolver, Unrolled, episode_gradient,
    rollout_all,
};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use laau_net::{Model, ModelSpec, Statistics};
use rayon::ThreadPoolBuilder;

fn fairness_layer() -> FairnessLayer {
    FairnessLayer::new(WeightedFairness::paper())
}

fn interior_point(problem: Arc<dyn SmoothProblem>) -> InteriorPoint {
    InteriorPoint::new(problem, Options::default()).expect("valid options")
}

/// Cost and gradient of an episode under constant prices.
fn gradient(criterion: &mut Criterion, id: &str, layer: &mut dyn Differentiate, set: &Episodes) {
    let budgets = layer.problem().dimensions().budgets;
    let prices = vec![0.05; set.horizon() * budgets];
    criterion.bench_function(&format!("episode/gradient/{id}"), |bencher| {
        let episode = set.get(0);
        bencher.iter(|| episode_gradient(layer, black_box(&episode), &prices).expect("solvable"));
    });
}

/// The paper's model plays an episode, the exact ledger pays.
fn forward(criterion: &mut Criterion, id: &str, problem: &dyn Problem, policy: &dyn Policy, set: &Episodes) {
    criterion.bench_function(&format!("episode/forward/{id}"), |bencher| {
        bencher.iter(|| play(problem, policy, black_box(set), 0));
    });
}

fn by_horizon(criterion: &mut Criterion) {
    for horizon in sweep(&[20, 80, 5, 10, 40, 160], 2) {
        let set = fairness_episodes(50, horizon);
        let id = format!("fairness/N={horizon}");
        gradient(criterion, &id, &mut fairness_layer(), &set);
        let model = paper_model(&mut fairness_layer(), &set);
        let policy = Unrolled::new("laau", model, fairness_layer()).expect("one budget");
        forward(criterion, &id, &WeightedFairness::paper(), &policy, &set);
    }
}

fn by_size(criterion: &mut Criterion) {
    let mut sizes = sweep(&[(4, 4), (8, 4), (2, 4), (16, 4), (32, 4)], 2);
    sizes.extend(sweep(&[(4, 1), (4, 2), (4, 8)], 0));
    for (actions, budgets) in sizes {
        let problem = Arc::new(log_utility(actions, budgets));
        let set = log_utility_episodes(&problem, 20, 20);
        let mut layer = interior_point(problem.clone());
        let id = format!("log-utility/d={actions},M={budgets},N=20");
        gradient(criterion, &id, &mut layer, &set);
        let model = paper_model(&mut layer, &set);
        step(
            criterion,
            &format!("log-utility/d={actions},M={budgets}"),
            &*problem,
            layer,
            model,
            &set,
        );
    }
}

fn on_a_server(criterion: &mut Criterion) {
    for resources in sweep(&[4, 2, 8], 1) {
        let problem = VmAllocation::new(2.0, vec![1.0; resources], vec![40.0; resources]).expect("a box");
        let set = vm_episodes(&problem, 20, 20);
        let mut layer = interior_point(Arc::new(problem.clone()));
        let model = paper_model(&mut layer, &set);
        let id = format!("vm-allocation/d={resources},M={resources}");
        step(criterion, &id, &problem, layer, model, &set);
    }
}

fn on_one_budget(criterion: &mut Criterion) {
    let set = fairness_episodes(200, 20);
    let problem = WeightedFairness::paper();
    for (name, spec) in [
        ("paper", ModelSpec::paper(&problem, 20)),
        ("residual", ModelSpec::residual(&problem, 20)),
    ] {
        let statistics = Statistics::fit(&spec, &mut fairness_layer(), &set).expect("a training set");
        let model = Model::new(spec, statistics, 1).expect("statistics of this specification");
        let id = format!("fairness-{name}/d=1,M=1");
        step(criterion, &id, &problem, fairness_layer(), model, &set);
    }
}

/// One decision in service: context check, features, network, layer, ledger. An episode's opening is shared by its steps.
fn step<S: StepSolver + Clone + 'static>(
    criterion: &mut Criterion,
    id: &str,
    problem: &dyn Problem,
    layer: S,
    model: Model,
    set: &Episodes,
) {
    let policy = Unrolled::new("laau", model, layer).expect("as many budgets");
    criterion.bench_function(&format!("decision/{id}"), |bencher| {
        bencher.iter_custom(|decisions| {
            let rounds = usize::try_from(decisions)
                .unwrap_or(usize::MAX)
                .div_ceil(set.horizon());
            let start = Instant::now();
            for round in 0..rounds {
                play(problem, &policy, set, round % set.len());
            }
            let made = (rounds * set.horizon()) as f64;
            Duration::from_secs_f64(start.elapsed().as_secs_f64() * decisions as f64 / made)
        });
    });
}

/// Many episodes at once: by their number on one thread, and by threads.
fn parallel(criterion: &mut Criterion) {
    let problem = WeightedFairness::paper();
    let set = fairness_episodes(50, 20);
    let model = paper_model(&mut fairness_layer(), &set);
    let policy = Unrolled::new("laau", model, fairness_layer()).expect("one budget");
    let mut sizes = sweep(&[(1, 1000), (2, 1000), (4, 1000), (8, 1000)], 2);
    sizes.extend(sweep(&[(1, 100), (1, 10_000)], 0));
    for (threads, count) in sizes {
        let set = fairness_episodes(count, 20);
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("a pool");
        let mut group = criterion.benchmark_group("rollout/fairness");
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("threads={threads},episodes={count}"), |bencher| {
            bencher
                .iter(|| pool.install(|| rollout_all(&problem, &policy, black_box(&set)).expect("playable")));
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = by_horizon, by_size, on_a_server, on_one_budget, parallel
}
criterion_main!(benches);
