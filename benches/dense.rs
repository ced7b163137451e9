//! Where plain loops and faer cross: one factorisation and one solve of a symmetric matrix, by size and kind.
//!
//! The file under test is private to `laau-kkt`, so it is compiled in here once more.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use laau_benches::sweep;

#[path = "../crates/laau-kkt/src/dense.rs"]
#[allow(dead_code, unused_imports, reason = "only a part of the file is measured")]
mod dense;

use dense::{Crossing, Dense, Kind};

/// A symmetric matrix of numbers that look random, positive definite when asked.
fn symmetric(n: usize, definite: bool) -> Vec<f64> {
    let mut a = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let value = ((i * 31 + j * 17 + 7) as f64).sin();
            a[i * n + j] = value;
            a[j * n + i] = value;
        }
        if definite {
            a[i * n + i] = n as f64 + 1.0;
        }
    }
    a
}

fn crossing(criterion: &mut Criterion) {
    for (kind, name) in [(Kind::PositiveDefinite, "cholesky"), (Kind::Indefinite, "lu")] {
        for n in sweep(&[8, 32, 3, 12, 16, 20, 24, 48], 2) {
            let matrix = symmetric(n, kind == Kind::PositiveDefinite);
            for (size, path) in [(usize::MAX, "plain"), (0, "faer")] {
                let crossing = Crossing {
                    cholesky: size,
                    lu: size,
                };
                let mut dense = Dense::with_crossing(n, crossing);
                let mut right = vec![1.0; n];
                criterion.bench_function(&format!("dense/{name}-{path}/n={n}"), |bencher| {
                    bencher.iter(|| {
                        dense.matrix(n).copy_from_slice(black_box(&matrix));
                        right.fill(1.0);
                        dense.factorise(kind, 1e-12).expect("a regular matrix");
                        dense.solve(black_box(&mut right));
                    });
                });
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    targets = crossing
}
criterion_main!(benches);
