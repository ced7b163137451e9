//! The layout of the Azure VM trace.

use std::fmt::Write as _;

use laau_data::{
    AzureVm, AzureVmOptions, Construction, CpuReading, EpisodeOptions, Imported, Normalisation, OutOfRange,
    Split, VmProperty, VmTableOptions, import, inspect_trace,
};

use crate::files::Folder;

/// Names such as Azure's.
const NAMES: [&str; 4] = ["a/b+c==", "Zk9/", "+q", "x//y"];

/// A reading that tells its machine and its position.
fn cpu(machine: usize, position: usize) -> f64 {
    (machine * 20 + position) as f64 / 4.0
}

/// The number of a reading, 20 × machine + position, by its context.
fn number(context: f64) -> usize {
    (0..80)
        .find(|number| (*number as f64 / 400.0 - context).abs() < 1e-9)
        .unwrap()
}

/// Rows of a slice of time, time-major, with an empty `mincpu`.
fn rows(machines: usize, positions: std::ops::Range<usize>) -> String {
    let mut text = String::new();
    for position in positions {
        for machine in 0..machines {
            let reading = cpu(machine, position);
            writeln!(
                text,
                "{},{},,{},{reading}",
                position * 300,
                NAMES[machine],
                reading + 1.0
            )
            .unwrap();
        }
    }
    text
}

fn open(paths: Vec<String>) -> AzureVm {
    AzureVm::open(AzureVmOptions {
        paths,
        ..AzureVmOptions::default()
    })
    .unwrap()
}

fn options(horizon: usize, train: usize) -> EpisodeOptions {
    EpisodeOptions {
        horizon,
        split: Split {
            train,
            validation: 0,
            test: 0,
        },
        ..EpisodeOptions::default()
    }
}

/// The training episodes as readings, sorted.
fn readings(imported: &Imported) -> Vec<Vec<f64>> {
    let mut episodes: Vec<Vec<f64>> = imported
        .sets
        .train
        .iter()
        .map(|episode| episode.contexts().iter().map(|c| (c * 400.0).round()).collect())
        .collect();
    episodes.sort_by(|a, b| a.partial_cmp(b).unwrap());
    episodes
}

/// What `readings` should give for windows at these starts.
fn windows(horizon: usize, starts: &[(usize, usize)]) -> Vec<Vec<f64>> {
    starts
        .iter()
        .map(|&(machine, start)| (start..start + horizon).map(|p| cpu(machine, p) * 4.0).collect())
        .collect()
}

#[test]
fn windows_span_shards_whatever_their_order() {
    let folder = Folder::new();
    let paths = vec![
        folder.write("vm_cpu_readings-file-10-of-10.csv.gz", rows(2, 9..12)),
        folder.write("vm_cpu_readings-file-1-of-10.csv.gz", rows(2, 0..5)),
        folder.write("vm_cpu_readings-file-2-of-10.csv", rows(2, 5..9)),
    ];
    let imported = import(&open(paths), &options(4, 6)).unwrap();
    let expected = windows(4, &[(0, 0), (0, 4), (0, 8), (1, 0), (1, 4), (1, 8)]);
    assert_eq!(readings(&imported), expected);
    let report = imported.report;
    assert_eq!(
        (report.trace.readings, report.trace.series, report.unused),
        (24, 2, 0)
    );
    let glob = format!("{}/vm_cpu_readings-file-*-of-*", folder.path().display());
    assert_eq!(import(&open(vec![glob]), &options(4, 6)).unwrap(), imported);
}

#[test]
fn budgets_are_uniform_per_step_and_seeded() {
    let folder = Folder::new();
    let paths = vec![folder.write("a.csv", rows(4, 0..20))];
    let draw = |seed| {
        let options = EpisodeOptions {
            budgets: vec![(10.0, 15.0), (2.0, 2.0)],
            seed,
            ..options(1, 80)
        };
        import(&open(paths.clone()), &options).unwrap().sets.train
    };
    let first = draw(0);
    let (mut least, mut greatest) = (f64::INFINITY, 0.0f64);
    for episode in first.iter() {
        assert_eq!(episode.budgets()[1], 2.0);
        least = least.min(episode.budgets()[0]);
        greatest = greatest.max(episode.budgets()[0]);
    }
    assert!(
        (10.0..10.5).contains(&least) && (14.5..15.0).contains(&greatest),
        "{least} {greatest}"
    );
    assert_eq!(first, draw(0));
    assert_ne!(first.budgets(), draw(1).budgets());
    assert_ne!(first.contexts(), draw(1).contexts());
}

#[test]
fn a_gap_ends_a_window_and_is_counted() {
    let folder = Folder::new();
    let text = format!("{}{}", rows(1, 0..5), rows(1, 7..12));
    let imported = import(&open(vec![folder.write("a.csv", text)]), &options(2, 4)).unwrap();
    assert_eq!(readings(&imported), windows(2, &[(0, 0), (0, 2), (0, 7), (0, 9)]));
    assert_eq!((imported.report.trace.gaps, imported.report.unused), (1, 2));
}

#[test]
fn the_stride_makes_windows_overlap_or_leaves_readings_out() {
    let folder = Folder::new();
    let paths = vec![folder.write("a.csv", rows(1, 0..8))];
    let with = |stride, train| {
        let options = EpisodeOptions {
            stride: Some(stride),
            ..options(4, train)
        };
        import(&open(paths.clone()), &options).unwrap()
    };
    let overlapping = with(2, 3);
    assert_eq!(readings(&overlapping), windows(4, &[(0, 0), (0, 2), (0, 4)]));
    assert_eq!((overlapping.report.available, overlapping.report.unused), (3, 0));
    let single = with(1, 5);
    assert_eq!(
        readings(&single),
        windows(4, &[(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)])
    );
    let apart = import(
        &open(paths.clone()),
        &EpisodeOptions {
            stride: Some(5),
            ..options(3, 2)
        },
    )
    .unwrap();
    assert_eq!(readings(&apart), windows(3, &[(0, 0), (0, 5)]));
    assert_eq!(apart.report.unused, 2);
}

#[test]
fn no_series_is_in_two_sets() {
    let folder = Folder::new();
    let paths = vec![folder.write("a.csv", rows(4, 0..20))];
    let split = Split {
        train: 10,
        validation: 4,
        test: 5,
    };
    for seed in 0..20 {
        let imported = import(
            &open(paths.clone()),
            &EpisodeOptions {
                seed,
                split,
                ..options(2, 0)
            },
        )
        .unwrap();
        assert_eq!(imported.report.series, [2, 1, 1]);
        let machines = |set: &laau_core::Episodes| {
            let mut machines: Vec<usize> = set
                .iter()
                .map(|episode| number(episode.contexts()[0]) / 20)
                .collect();
            machines.sort_unstable();
            machines.dedup();
            machines
        };
        let mut all = [
            &imported.sets.train,
            &imported.sets.validation,
            &imported.sets.test,
        ]
        .map(machines)
        .concat();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3], "seed {seed}");
        assert_eq!(
            [
                imported.sets.train.len(),
                imported.sets.validation.len(),
                imported.sets.test.len()
            ],
            split.sizes()
        );
    }
}

#[test]
fn normalisations_and_the_floor() {
    let folder = Folder::new();
    let paths = vec![folder.write("a.csv", "0,a,,9,20\n300,a,,9,0\n600,a,,9,50\n900,a,,9,40\n")];
    let with = |normalisation, floor| {
        let options = EpisodeOptions {
            normalisation,
            floor,
            ..options(4, 1)
        };
        let imported = import(&open(paths.clone()), &options).unwrap();
        (imported.sets.train.contexts().to_vec(), imported.report.floored)
    };
    assert_eq!(with(Normalisation::Percent, 0.0), (vec![0.2, 0.0, 0.5, 0.4], 0));
    assert_eq!(
        with(Normalisation::SeriesMax, 0.01),
        (vec![0.4, 0.01, 1.0, 0.8], 1)
    );
    assert_eq!(with(Normalisation::MinMax, 0.0).0, [0.4, 0.0, 1.0, 0.8]);
    assert_eq!(with(Normalisation::None, 0.5), (vec![20.0, 0.5, 50.0, 40.0], 1));
    let statistics =
        inspect_trace(&open(paths.clone()), Normalisation::SeriesMax, OutOfRange::Error).unwrap();
    assert_eq!(
        (
            statistics.values[0].max,
            statistics.values[0].zeros,
            statistics.counts.zeros
        ),
        (1.0, 1, 1)
    );
}

#[test]
fn another_reading_of_the_row_can_be_the_context() {
    let folder = Folder::new();
    let trace = AzureVm::open(AzureVmOptions {
        paths: vec![folder.write("a.csv", rows(1, 0..2))],
        reading: CpuReading::Maximum,
        ..AzureVmOptions::default()
    })
    .unwrap();
    let imported = import(&trace, &options(2, 1)).unwrap();
    assert_eq!(imported.sets.train.contexts(), [0.01, 0.0125]);
}

#[test]
fn the_table_of_machines_filters_and_adds_contexts() {
    let folder = Folder::new();
    let table = "a/b+c==,s,d,0,600,9,5,8,Interactive,4,32\n\
                 Zk9/,s,d,0,600,9,5,8,Interactive,>24,>64\n\
                 +q,s,d,0,600,9,5,8,Delay-insensitive,2,1.75\n";
    let trace = AzureVm::open(AzureVmOptions {
        paths: vec![folder.write("a.csv", rows(4, 0..2))],
        vm_table: Some(VmTableOptions {
            path: folder.write("vmtable.csv.gz", table),
            categories: vec!["Interactive".to_owned()],
            cores: (Some(4.0), None),
            memory: (None, None),
            contexts: vec![VmProperty::Cores, VmProperty::Memory],
        }),
        ..AzureVmOptions::default()
    })
    .unwrap();
    let imported = import(&trace, &options(2, 2)).unwrap();
    let mut contexts: Vec<Vec<f64>> = imported
        .sets
        .train
        .iter()
        .map(|e| e.contexts().to_vec())
        .collect();
    contexts.sort_by(|a, b| a.partial_cmp(b).unwrap());
    // the open buckets count as 48 cores and 128 GB, the greatest of the table
    assert_eq!(
        contexts,
        [
            vec![0.0, 4.0 / 48.0, 0.25, 0.0025, 4.0 / 48.0, 0.25],
            vec![0.05, 1.0, 1.0, 0.0525, 1.0, 1.0]
        ]
    );
    let dropped = imported.report.trace.dropped;
    assert_eq!((dropped.filtered, dropped.unlisted), (2, 2));
    let statistics = inspect_trace(&trace, Normalisation::Percent, OutOfRange::Error).unwrap();
    assert_eq!((statistics.dropped_share, statistics.values.len()), (0.5, 3));
    assert_eq!((statistics.step, statistics.times), (Some(300), Some((0, 300))));
}

#[test]
fn interleaved_episodes_line_up_the_readings_of_each_set() {
    let folder = Folder::new();
    let paths = vec![folder.write("a.csv", rows(4, 0..20))];
    for seed in 0..10 {
        let imported = import(
            &open(paths.clone()),
            &EpisodeOptions {
                construction: Construction::Interleaved,
                split: Split {
                    train: 8,
                    validation: 0,
                    test: 8,
                },
                seed,
                ..options(5, 0)
            },
        )
        .unwrap();
        let mut all = Vec::new();
        for episode in [&imported.sets.train, &imported.sets.test]
            .into_iter()
            .flat_map(laau_core::Episodes::iter)
        {
            let readings: Vec<usize> = episode
                .contexts()
                .iter()
                .map(|context| number(*context))
                .collect();
            for pair in readings.windows(2) {
                assert_ne!(pair[0] / 20, pair[1] / 20, "the same series twice: {readings:?}");
                let times = (pair[0] % 20, pair[1] % 20);
                assert!(times.0 <= times.1 && times.1 <= times.0 + 1, "{readings:?}");
            }
            all.extend(readings);
        }
        all.sort_unstable();
        assert_eq!(
            all,
            (0..80).collect::<Vec<_>>(),
            "every reading once, seed {seed}"
        );
    }
}

#[test]
fn interleaved_episodes_are_of_one_time_if_the_series_suffice() {
    let folder = Folder::new();
    let paths = vec![folder.write("a.csv", rows(4, 0..20))];
    let imported = import(
        &open(paths),
        &EpisodeOptions {
            construction: Construction::Interleaved,
            ..options(3, 20)
        },
    )
    .unwrap();
    assert_eq!((imported.report.available, imported.report.unused), (20, 20));
    let mut orders = Vec::new();
    for episode in imported.sets.train.iter() {
        let readings: Vec<usize> = episode.contexts().iter().map(|c| number(*c)).collect();
        assert!(
            readings.iter().all(|r| r % 20 == readings[0] % 20),
            "{readings:?}"
        );
        let mut machines: Vec<usize> = readings.iter().map(|r| r / 20).collect();
        orders.push(machines.clone());
        machines.sort_unstable();
        machines.dedup();
        assert_eq!(machines.len(), 3);
    }
    orders.sort();
    orders.dedup();
    assert!(orders.len() > 5, "the order changes with the time: {orders:?}");
}

#[test]
fn interleaved_episodes_need_two_series_in_each_set() {
    let folder = Folder::new();
    let paths = vec![folder.write("a.csv", rows(2, 0..20))];
    let error = import(
        &open(paths),
        &EpisodeOptions {
            construction: Construction::Interleaved,
            split: Split {
                train: 1,
                validation: 1,
                test: 0,
            },
            ..options(5, 0)
        },
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid construction: interleaved episodes need at least 2 series in each set, found 1 for train"
    );
}
