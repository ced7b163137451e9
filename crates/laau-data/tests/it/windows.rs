//! Windows against a construction by brute force.

use std::fmt::Write as _;

use laau_data::{EpisodeOptions, Error, Normalisation, Split, Table, TableOptions, import};
use proptest::prelude::*;

use crate::files::Folder;

/// All windows of a series: cut it at its gaps, then take every stride-th start of each piece.
fn windows(readings: &[(i64, f64)], horizon: usize, stride: usize) -> Vec<Vec<f64>> {
    let mut windows = Vec::new();
    for piece in readings.chunk_by(|a, b| b.0 == a.0 + 10) {
        for start in (0..piece.len()).step_by(stride) {
            if start + horizon <= piece.len() {
                windows.push(piece[start..start + horizon].iter().map(|r| r.1).collect());
            }
        }
    }
    windows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_window_of_a_random_trace_is_found(
        series in prop::collection::vec(prop::collection::vec(prop::bool::weighted(0.85), 0..30), 1..5),
        horizon in 1usize..6,
        stride in 1usize..8,
        shards in 1usize..4,
        seed: u64,
    ) {
        let mut expected = Vec::new();
        let mut rows = Vec::new();
        for (number, present) in series.iter().enumerate() {
            let readings: Vec<(i64, f64)> = (0i64..)
                .zip(present)
                .filter(|(_, present)| **present)
                .map(|(position, _)| (position * 10, (number * 100) as f64 + position as f64))
                .collect();
            expected.extend(windows(&readings, horizon, stride));
            rows.extend(readings.iter().map(|(time, value)| (*time, number, *value)));
        }
        prop_assume!(!rows.is_empty());
        rows.sort_by(|a, b| a.partial_cmp(b).unwrap());

        let folder = Folder::new();
        let paths = rows
            .chunks(rows.len().div_ceil(shards))
            .enumerate()
            .map(|(shard, rows)| {
                let mut text = "time,series,value\n".to_owned();
                for (time, number, value) in rows {
                    writeln!(text, "{time},s{number},{value}").unwrap();
                }
                folder.write(&format!("shard-{shard}.csv"), text)
            })
            .rev()
            .collect();
        let table = Table::open(TableOptions { paths, step: Some(10), ..TableOptions::default() }).unwrap();
        let options = EpisodeOptions {
            horizon,
            stride: Some(stride),
            normalisation: Normalisation::None,
            split: Split { train: expected.len().max(1), validation: 0, test: 0 },
            seed,
            ..EpisodeOptions::default()
        };
        match import(&table, &options) {
            Err(Error::TooShort { available, .. }) => prop_assert_eq!((available, expected.len()), (0, 0)),
            Err(other) => panic!("{other}"),
            Ok(imported) => {
                let mut found: Vec<Vec<f64>> = imported.sets.train.iter().map(|e| e.contexts().to_vec()).collect();
                found.sort_by(|a, b| a.partial_cmp(b).unwrap());
                expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
                prop_assert_eq!(&found, &expected);
                let mut used: Vec<f64> = expected.concat();
                used.sort_by(f64::total_cmp);
                used.dedup();
                prop_assert_eq!(imported.report.unused, (rows.len() - used.len()) as u64);
            }
        }
    }
}
