//! Data: a trace file to episodes by readings, Wasserstein distances and t-SNE by episodes.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use laau_benches::{fairness_episodes, sweep};
use laau_core::Episodes;
use laau_data::tsne::{TsneOptions, tsne};
use laau_data::wasserstein::{Slices, pooled_wasserstein, sliced_wasserstein};
use laau_data::{AzureVm, AzureVmOptions, EpisodeOptions, Split, import};

/// Readings of each machine.
const READINGS: usize = 200;

/// A trace in the layout of Azure, time after time.
fn write_trace(path: &Path, readings: usize) {
    let machines = readings / READINGS;
    let mut text = String::new();
    for time in 0..READINGS {
        for machine in 0..machines {
            let average = 50.0 + 45.0 * ((time * 7 + machine * 13) as f64).sin();
            writeln!(
                text,
                "{},vm{machine:06},{:.4},{:.4},{average:.4}",
                time * 300,
                average * 0.7,
                average.mul_add(0.5, 50.0)
            )
            .expect("memory");
        }
    }
    std::fs::write(path, text).expect("a temporary file");
}

fn trace(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for readings in sweep(&[40_000, 400_000, 4000], 1) {
        let path = folder.path().join(format!("{readings}.csv"));
        write_trace(&path, readings);
        let windows = readings / 20;
        let options = EpisodeOptions {
            split: Split {
                train: windows / 2,
                validation: windows / 10,
                test: windows / 5,
            },
            ..EpisodeOptions::default()
        };
        let mut group = criterion.benchmark_group("data/import");
        group.throughput(Throughput::Elements(readings as u64));
        group.bench_function(format!("readings={readings}"), |bencher| {
            bencher.iter(|| {
                let trace = AzureVm::open(AzureVmOptions {
                    paths: vec![path.display().to_string()],
                    ..AzureVmOptions::default()
                })
                .expect("a trace");
                import(&trace, &options).expect("enough windows")
            });
        });
        group.finish();
    }
}

/// Two sets that differ.
fn sets(count: usize) -> (Episodes, Episodes) {
    let both = fairness_episodes(2 * count, 20);
    let half = |range: std::ops::Range<usize>| {
        let contexts = both.contexts()[range.start * 20..range.end * 20].to_vec();
        Episodes::new(20, 1, 1, contexts, vec![250.0; count]).expect("sizes fit")
    };
    (half(0..count), half(count..2 * count))
}

fn distances(criterion: &mut Criterion) {
    for count in sweep(&[200, 2000, 20_000], 2) {
        let (first, second) = sets(count);
        criterion.bench_function(&format!("data/wasserstein-pooled/episodes={count}"), |bencher| {
            bencher.iter(|| pooled_wasserstein(black_box(&first), &second).expect("numbers"));
        });
    }
    for count in sweep(&[200, 800, 3200], 1) {
        let (first, second) = sets(count);
        criterion.bench_function(&format!("data/wasserstein-sliced/episodes={count}"), |bencher| {
            bencher.iter(|| {
                sliced_wasserstein(black_box(&first), &second, &Slices::default()).expect("numbers")
            });
        });
    }
}

/// A hundred steps of descent; a picture takes a thousand.
fn embedding(criterion: &mut Criterion) {
    for count in sweep(&[100, 50, 200, 400], 1) {
        let (first, second) = sets(count);
        let options = TsneOptions {
            per_set: count,
            perplexity: 10.0,
            epochs: 100,
            ..TsneOptions::default()
        };
        criterion.bench_function(&format!("data/tsne/points={}", 2 * count), |bencher| {
            bencher.iter(|| tsne(black_box(&first), &second, &options).expect("enough episodes"));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_secs(1));
    targets = trace, distances, embedding
}
criterion_main!(benches);
