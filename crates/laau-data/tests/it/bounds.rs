//! Numbers at the ends of their ranges, and memory that does not follow them.

use std::fmt::Write as _;

use laau_data::{Construction, EpisodeOptions, Error, Normalisation, Split, SplitBy};

use crate::files::import_rows as run;

fn options(horizon: usize) -> EpisodeOptions {
    EpisodeOptions {
        horizon,
        normalisation: Normalisation::None,
        split: Split {
            train: 1,
            validation: 0,
            test: 0,
        },
        ..EpisodeOptions::default()
    }
}

#[test]
fn more_episodes_than_can_be_counted_are_too_many_and_no_panic() {
    let most = usize::MAX / 2;
    let rows = "a,0,1\na,5,2\nb,10,3\nb,15,4\n";
    for split_by in [SplitBy::Series, SplitBy::Time, SplitBy::Both] {
        for construction in [Construction::Consecutive, Construction::Interleaved] {
            let options = EpisodeOptions {
                split: Split {
                    train: most,
                    validation: most,
                    test: most,
                },
                split_by,
                construction,
                ..options(2)
            };
            let error = run(rows, &options).unwrap_err();
            let is_told = match &error {
                Error::TooShort { wanted, .. } => *wanted >= most / 2,
                // Interleaved episodes want two series first.
                error => error.to_string().contains("at least 2 series in each set"),
            };
            assert!(is_told, "{error}");
        }
    }
}

#[test]
fn times_at_the_ends_of_their_range_are_times() {
    let rows = |times: &[i64]| {
        times.iter().fold(String::new(), |mut rows, time| {
            writeln!(rows, "a,{time},1").unwrap();
            rows
        })
    };
    let (least, most) = (i64::MIN, i64::MAX);
    for times in [
        [most - 3, most - 2, most - 1, most],
        [least, least + 1, least + 2, least + 3],
        [least, least / 3, most / 3, most - 1],
        [least, -2, most - 3, most],
    ] {
        for horizon in 1..=4 {
            for stride in 1..=5 {
                let options = EpisodeOptions {
                    stride: Some(stride),
                    ..options(horizon)
                };
                // Whether it holds a window or not, it is told and not a panic.
                let _ = run(&rows(&times), &options);
                let _ = run(
                    &rows(&times),
                    &EpisodeOptions {
                        split_by: SplitBy::Time,
                        ..options
                    },
                );
            }
        }
    }
    let overlapping = EpisodeOptions {
        stride: Some(1),
        ..options(3)
    };
    // Three readings, 2^63 - 1 apart: the first and the last are further apart than a time can say.
    let imported = run(&rows(&[least, -1, most - 1]), &overlapping).unwrap();
    assert_eq!((imported.report.available, imported.report.step), (1, Some(most)));
    let error = run(&rows(&[least, most]), &options(1)).unwrap_err();
    assert!(
        error.to_string().ends_with(
            "t.csv, row 3, column `time`: expected a time less than 2^63 after the one before it, \
             found 9223372036854775807 after -9223372036854775808"
        ),
        "{error}"
    );
}

#[test]
fn a_horizon_that_no_series_reaches_takes_the_memory_of_the_readings_alone() {
    for construction in [Construction::Consecutive, Construction::Interleaved] {
        for horizon in [1_000_000_000_000, usize::MAX / 16] {
            let options = EpisodeOptions {
                construction,
                ..options(horizon)
            };
            let error = run("a,0,1\nb,0,2\na,5,3\nb,5,4\n", &options).unwrap_err();
            assert!(matches!(error, Error::TooShort { .. }), "{error}");
        }
        let options = EpisodeOptions {
            construction,
            ..options(usize::MAX)
        };
        assert_eq!(
            run("a,0,1\na,5,3\n", &options).unwrap_err().to_string(),
            "invalid horizon: expected a window of at most 1152921504606846975 values, \
             found 18446744073709551615 steps with 1 each"
        );
    }
}
