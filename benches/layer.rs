//! The convex layer, forward and backward, one thread, by actions, budgets and batch. Times are per batch.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use laau_benches::{Batch, fairness_batch, log_utility, log_utility_batch, sweep};
use laau_core::problems::WeightedFairness;
use laau_core::{Differentiate, Gradients, Solutions, Status};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};

/// Forward, pullback, and both, each as one benchmark.
fn measure(criterion: &mut Criterion, name: &str, layer: &mut dyn Differentiate, batch: &Batch) {
    let dimensions = layer.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, batch.rows);
    let mut gradients = Gradients::new(dimensions, batch.rows);
    layer
        .solve_batch(batch.queries(), &mut solutions)
        .expect("sizes fit");
    assert!(solutions.statuses().iter().all(Status::is_solved));
    let (d, m, rows) = (dimensions.actions, dimensions.budgets, batch.rows);
    for pass in ["forward", "pullback", "forward+pullback"] {
        let mut group = criterion.benchmark_group(format!("layer/{name}/{pass}"));
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_function(format!("d={d},M={m},batch={rows}"), |bencher| {
            bencher.iter(|| {
                if pass != "pullback" {
                    layer
                        .solve_batch(black_box(batch.queries()), &mut solutions)
                        .expect("sizes fit");
                }
                if pass != "forward" {
                    layer
                        .pullback_batch(
                            black_box(batch.queries()),
                            &solutions,
                            &batch.upstream,
                            &mut gradients,
                        )
                        .expect("sizes fit");
                }
            });
        });
        group.finish();
    }
}

fn closed_form(criterion: &mut Criterion) {
    for rows in sweep(&[10, 1000, 1, 100], 2) {
        let mut layer = FairnessLayer::new(WeightedFairness::paper());
        measure(criterion, "closed-form", &mut layer, &fairness_batch(rows));
    }
}

fn interior_point(criterion: &mut Criterion) {
    let mut sizes = vec![(8, 3, 10)];
    sizes.extend(sweep(&[100, 1, 1000], 0).iter().map(|rows| (8, 3, *rows)));
    sizes.extend(
        sweep(&[2, 4, 16, 8, 1, 32, 64], 3)
            .iter()
            .map(|actions| (*actions, 2, 100)),
    );
    sizes.extend(sweep(&[1, 4, 8, 16], 0).iter().map(|budgets| (16, *budgets, 100)));
    for (actions, budgets, rows) in sizes {
        let problem = Arc::new(log_utility(actions, budgets));
        let mut layer = InteriorPoint::new(problem, Options::default()).expect("valid options");
        let batch = log_utility_batch(actions, budgets, rows);
        measure(criterion, "log-utility", &mut layer, &batch);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = closed_form, interior_point
}
criterion_main!(benches);
