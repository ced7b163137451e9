//! What an import leaves out is counted, and what it changes is counted where it is used.

use std::fmt::Write as _;

use laau_data::{Construction, EpisodeOptions, Imported, Normalisation, Split, SplitBy};

use crate::files::import_rows as run;

fn options([train, validation, test]: [usize; 3]) -> EpisodeOptions {
    EpisodeOptions {
        horizon: 5,
        normalisation: Normalisation::None,
        split: Split {
            train,
            validation,
            test,
        },
        ..EpisodeOptions::default()
    }
}

/// A reading for every minute of each series in some hours.
fn rows(series: &[(&str, std::ops::Range<u32>, usize)]) -> String {
    let mut text = String::new();
    for (name, minutes, step) in series {
        for minute in minutes.clone().step_by(*step) {
            writeln!(text, "{name},{minute},{minute}").unwrap();
        }
    }
    text
}

#[test]
fn a_series_with_a_coarser_step_is_counted_as_left_out() {
    let rows = rows(&[("fast", 0..60, 1), ("slow", 0..60, 5), ("short", 0..4, 1)]);
    let report = run(&rows, &options([4, 0, 0])).unwrap().report;
    assert_eq!(
        (report.unused, report.unused_series, report.available),
        (12 + 4, 2, 12)
    );
}

#[test]
fn a_series_without_a_reading_in_the_training_period_is_left_out_as_a_whole() {
    let rows = rows(&[("a", 0..100, 1), ("b", 0..100, 1), ("new", 75..100, 1)]);
    let count = |normalisation| {
        let options = EpisodeOptions {
            normalisation,
            split_by: SplitBy::Time,
            ..options([4, 1, 1])
        };
        let report = run(&rows, &options).unwrap().report;
        assert_eq!(
            report.unused + 5 * report.available,
            report.trace.readings,
            "{normalisation:?}"
        );
        (report.unused_series, report.available)
    };
    let (all, with_new) = count(Normalisation::None);
    let (left_out, without) = count(Normalisation::SeriesMax);
    assert_eq!((all, left_out), (0, 1));
    assert!(without < with_new, "{without} of {with_new}");
}

/// A shop that opens after the training: it has readings in it, all of them zero.
#[test]
fn a_series_that_varies_after_the_training_alone_is_left_out() {
    let mut rows = String::new();
    for minute in 0..100 {
        let late = if minute < 80 { 0 } else { 5000 + minute };
        writeln!(
            rows,
            "a,{minute},{}\nlate,{minute},{late}\nnever,{minute},0",
            5 + minute % 7
        )
        .unwrap();
    }
    for construction in [Construction::Consecutive, Construction::Interleaved] {
        for (normalisation, left_out) in [
            (Normalisation::SeriesMax, 1),
            (Normalisation::MinMax, 1),
            (Normalisation::None, 0),
        ] {
            let options = EpisodeOptions {
                normalisation,
                construction,
                horizon: 2,
                split_by: SplitBy::Time,
                ..options([4, 1, 1])
            };
            let Imported { sets, report } = run(&rows, &options).unwrap();
            assert_eq!(report.unused_series, left_out, "{normalisation:?}");
            let scaling = sets.train.scaling().unwrap();
            assert_eq!(
                scaling.contexts(Some("late"), &[5000.0]).is_err(),
                left_out > 0,
                "{normalisation:?}"
            );
            // One that never varies is zero, as it always was.
            assert_eq!(scaling.contexts(Some("never"), &[0.0]).unwrap(), [0.0]);
        }
        // In a split by series, all readings are known.
        let options = EpisodeOptions {
            normalisation: Normalisation::MinMax,
            construction,
            ..options([1, 0, 0])
        };
        assert_eq!(run(&rows, &options).unwrap().report.unused_series, 0);
    }
}

#[test]
fn readings_that_no_problem_takes_are_refused() {
    for (normalisation, bounds) in [
        (Normalisation::None, "[-1e60, 1e60]"),
        (Normalisation::MinMax, "[-1e60, 1e60]"),
        (Normalisation::SeriesMax, "[0, 1e60]"),
    ] {
        let options = EpisodeOptions {
            normalisation,
            ..options([1, 0, 0])
        };
        let error = run("a,0,1\na,1,1e308\n", &options).unwrap_err().to_string();
        assert!(
            error.ends_with(&format!("expected a value in {bounds}, found 1e308")),
            "{error}"
        );
    }
}

#[test]
fn a_change_of_unit_within_a_file_is_refused() {
    let mut text = String::new();
    for minute in 0..20_i64 {
        let seconds = 1_704_067_200 + 60 * minute;
        writeln!(text, "a,{},1", if minute < 10 { seconds } else { 1000 * seconds }).unwrap();
    }
    let error = run(&text, &options([1, 0, 0])).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "row 12, column `time`: expected times since 1970 in one unit, found milliseconds after seconds: 1704067800000 after \
             1704067740"
        ),
        "{error}"
    );
}

#[test]
fn a_series_that_its_set_has_no_period_for_is_counted_as_left_out() {
    // Each series lies in one period, and half of them belong to a set that has another.
    let mut series = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        series.push((name, 0..50, 1));
    }
    for name in ["u", "v", "w", "x", "y", "z"] {
        series.push((name, 50..100, 1));
    }
    let options = EpisodeOptions {
        split_by: SplitBy::Both,
        ..options([10, 0, 10])
    };
    let report = run(&rows(&series), &options).unwrap().report;
    let used: u64 = report.series.iter().sum();
    assert!(report.unused_series > 0);
    assert_eq!(report.unused_series + used, report.trace.series);
}

#[test]
fn constants_of_a_training_period_need_one() {
    let options = EpisodeOptions {
        normalisation: Normalisation::MinMax,
        split_by: SplitBy::Time,
        ..options([0, 0, 4])
    };
    let rows = rows(&[("a", 0..100, 1)]);
    assert_eq!(
        run(&rows, &options).unwrap_err().to_string(),
        "invalid split: expected training episodes: `min-max` takes its constants from their period"
    );
    let by_series = EpisodeOptions {
        split_by: SplitBy::Series,
        ..options
    };
    assert_eq!(run(&rows, &by_series).unwrap().sets.test.len(), 4);
}

#[test]
fn contexts_are_raised_where_episodes_have_them_alone() {
    let mut rows = String::new();
    for time in 0..40 {
        for series in 0..8 {
            writeln!(rows, "s{series},{time},{}", if time % 2 == 0 { -1 } else { 3 }).unwrap();
        }
    }
    for construction in [Construction::Consecutive, Construction::Interleaved] {
        let options = EpisodeOptions {
            horizon: 2,
            construction,
            ..options([1, 1, 1])
        };
        let Imported { sets, report } = run(&rows, &options).unwrap();
        let sets = [&sets.train, &sets.validation, &sets.test];
        let contexts = sets.iter().flat_map(|set| set.contexts());
        let zeros = contexts.filter(|context| **context == 0.0).count();
        assert_eq!(report.floored, zeros as u64, "{construction:?}");
    }
}

#[test]
fn times_are_told_as_they_are_written() {
    for (rows, expected) in [
        (
            "a,2024-10-27T01:00:00Z,1\na,2024-10-27T01:00:00Z,2\n",
            "column `time`: series `a` has a second reading at time 2024-10-27T01:00:00Z",
        ),
        (
            "a,2024-10-27T01:00:00Z,1\na,2024-10-27T00:00:00Z,2\n",
            "column `time`: expected ascending times, found 2024-10-27T00:00:00Z after 2024-10-27T01:00:00Z in series `a`",
        ),
    ] {
        let error = run(rows, &options([1, 0, 0])).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}
