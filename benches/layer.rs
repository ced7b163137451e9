//! The convex layer, forward and backward, one thread. Times are per batch; divide by the number of rows.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use laau_benches::{Batch, fairness_batch, log_utility, log_utility_batch};
use laau_core::problems::WeightedFairness;
use laau_core::{Differentiate, Gradients, Solutions};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};

/// Forward, pullback, and both, each as one benchmark of a group.
fn measure(criterion: &mut Criterion, name: &str, layer: &mut dyn Differentiate, batch: &Batch) {
    let dimensions = layer.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, batch.rows);
    let mut gradients = Gradients::new(dimensions, batch.rows);
    layer
        .solve_batch(batch.queries(), &mut solutions)
        .expect("sizes fit");
    assert!(solutions.statuses().iter().all(laau_core::Status::is_solved));
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(batch.rows as u64));
    group.bench_function("forward", |bencher| {
        bencher.iter(|| {
            layer
                .solve_batch(black_box(batch.queries()), &mut solutions)
                .expect("sizes fit");
        });
    });
    group.bench_function("pullback", |bencher| {
        bencher.iter(|| {
            layer
                .pullback_batch(
                    black_box(batch.queries()),
                    &solutions,
                    &batch.upstream,
                    &mut gradients,
                )
                .expect("sizes fit");
        });
    });
    group.bench_function("forward+pullback", |bencher| {
        bencher.iter(|| {
            layer
                .solve_batch(black_box(batch.queries()), &mut solutions)
                .expect("sizes fit");
            layer
                .pullback_batch(
                    black_box(batch.queries()),
                    &solutions,
                    &batch.upstream,
                    &mut gradients,
                )
                .expect("sizes fit");
        });
    });
    group.finish();
}

fn interior_point(actions: usize, budgets: usize) -> InteriorPoint {
    InteriorPoint::new(Arc::new(log_utility(actions, budgets)), Options::default()).expect("valid options")
}

fn closed_form(criterion: &mut Criterion) {
    for rows in [1, 10, 1000] {
        let mut layer = FairnessLayer::new(WeightedFairness::paper());
        measure(
            criterion,
            &format!("layer/closed-form/batch-{rows}"),
            &mut layer,
            &fairness_batch(rows),
        );
    }
}

fn log_utility_8_3(criterion: &mut Criterion) {
    for rows in [10, 1000] {
        measure(
            criterion,
            &format!("layer/log-utility-8x3/batch-{rows}"),
            &mut interior_point(8, 3),
            &log_utility_batch(8, 3, rows),
        );
    }
}

fn sizes(criterion: &mut Criterion) {
    for (actions, budgets) in [(1, 1), (2, 1), (4, 2), (16, 4), (32, 8), (64, 16), (32, 20)] {
        measure(
            criterion,
            &format!("layer/log-utility-{actions}x{budgets}/batch-100"),
            &mut interior_point(actions, budgets),
            &log_utility_batch(actions, budgets, 100),
        );
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(std::time::Duration::from_secs(2));
    targets = closed_form, log_utility_8_3, sizes
}
criterion_main!(benches);
