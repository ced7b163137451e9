//! What a guard adds to an episode of decisions: the advice alone, the incumbent alone, and the one guarded by the other.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use laau_baselines::{DualDescent, DualDescentParameters, EqualOptions, Mirror};
use laau_benches::{fairness_episodes, paper_model, play, sweep, vm_episodes};
use laau_core::problems::{VmAllocation, WeightedFairness};
use laau_core::{Episodes, Fit as _, FitSets, Guarded, Player, Policy, Task, Unrolled};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};

/// The level of the tables.
const LEVEL: f64 = 0.95;

fn measure(criterion: &mut Criterion, name: &str, sizes: &str, task: &Task, episodes: &Episodes) {
    let model = paper_model(&mut *task.solver.clone(), episodes);
    let laau: Arc<dyn Policy> =
        Arc::new(Unrolled::new("laau", model, task.solver.clone()).expect("sizes fit"));
    let parameters = DualDescentParameters::default();
    let mw: Arc<dyn Policy> =
        Arc::new(DualDescent::new(task, Mirror::Entropic, parameters).expect("valid parameters"));
    let sets = FitSets {
        train: episodes,
        validation: episodes,
    };
    let equal = EqualOptions::default()
        .fit(task, sets, 0, &mut ())
        .expect("nothing to fit");
    let Player::Online(equal) = equal.player else {
        return;
    };
    let guarded = |incumbent: &Arc<dyn Policy>| {
        let problem = Arc::clone(&task.problem) as Arc<_>;
        Guarded::new(
            "guarded",
            Arc::clone(&laau),
            Arc::clone(incumbent),
            problem,
            LEVEL,
        )
        .expect("a valid level")
    };
    let cases: [(&str, Arc<dyn Policy>); 6] = [
        ("laau", Arc::clone(&laau)),
        ("mw", Arc::clone(&mw)),
        ("equal", Arc::clone(&equal)),
        ("laau-by-mw", Arc::new(guarded(&mw).in_layer(task))),
        ("laau-by-equal", Arc::new(guarded(&equal).in_layer(task))),
        ("laau-by-mw-segment", Arc::new(guarded(&mw))),
    ];
    for (case, policy) in cases {
        let mut group = criterion.benchmark_group(format!("guard/{name}/{case}"));
        group.throughput(Throughput::Elements((episodes.horizon() * episodes.len()) as u64));
        group.bench_function(sizes, |bencher| {
            bencher.iter(|| {
                for index in 0..episodes.len() {
                    play(&*task.problem, &*policy, black_box(episodes), index);
                }
            });
        });
        group.finish();
    }
}

fn one_budget(criterion: &mut Criterion) {
    for horizon in sweep(&[20, 80], 1) {
        let problem = WeightedFairness::paper();
        let layer = Box::new(FairnessLayer::new(problem.clone()));
        let task = Task::new(Arc::new(problem), layer);
        measure(
            criterion,
            "fairness",
            &format!("N={horizon}"),
            &task,
            &fairness_episodes(20, horizon),
        );
    }
}

fn several_budgets(criterion: &mut Criterion) {
    for horizon in sweep(&[20], 1) {
        let problem = Arc::new(VmAllocation::server());
        let episodes = vm_episodes(&problem, 20, horizon);
        let layer = InteriorPoint::new(problem.clone(), Options::default()).expect("valid options");
        let task = Task::new(problem, Box::new(layer));
        measure(
            criterion,
            "vm-allocation",
            &format!("d=4,M=4,N={horizon}"),
            &task,
            &episodes,
        );
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
