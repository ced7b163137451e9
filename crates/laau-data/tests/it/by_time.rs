//! Sets that are apart in time, from tables with stamps and separators of every kind.

use laau_core::{Constants, Episodes};
use laau_data::{
    Construction, EpisodeOptions, Gap, Imported, Normalisation, Split, SplitBy, Table, TableOptions, import,
};

use crate::files::Folder;

/// A reading every five minutes for each series; its value is its number in time, plus a tenth per series.
fn table(folder: &Folder, series: u32, readings: u32, separator: &str, iso: bool) -> Table {
    let mut text = ["when", "host", "load"].join(separator) + "\n";
    for number in 0..readings {
        for host in 0..series {
            let seconds = 1_709_251_200 + 300 * number;
            let (hour, minute) = (number / 12, number % 12 * 5);
            let time = if iso {
                format!("2024-03-{:02}T{:02}:{minute:02}:00Z", 1 + hour / 24, hour % 24)
            } else {
                seconds.to_string()
            };
            let load = format!("{number}.{host}");
            text += &([&*time, &*format!("h{host}"), &*load].join(separator) + "\n");
        }
    }
    Table::open(TableOptions {
        paths: vec![folder.write("load.csv", text)],
        series: "host".to_owned(),
        time: "when".to_owned(),
        values: vec!["load".to_owned()],
        ..TableOptions::default()
    })
    .unwrap()
}

fn options(split_by: SplitBy, gap: Gap, [train, validation, test]: [usize; 3]) -> EpisodeOptions {
    EpisodeOptions {
        horizon: 5,
        normalisation: Normalisation::None,
        split: Split {
            train,
            validation,
            test,
        },
        split_by,
        gap,
        ..EpisodeOptions::default()
    }
}

/// The first and the last number in time of a set, and the series in it.
fn extent(set: &Episodes) -> (f64, f64, Vec<u64>) {
    let numbers = || set.contexts().iter().map(|value| value.floor());
    let mut series: Vec<u64> = set
        .contexts()
        .iter()
        .map(|value| (value.fract() * 10.0).round().to_bits())
        .collect();
    series.sort_unstable();
    series.dedup();
    (
        numbers().fold(f64::INFINITY, f64::min),
        numbers().fold(0.0, f64::max),
        series,
    )
}

fn check_order(Imported { sets, report }: &Imported, gap: f64) {
    let [train, validation, test] = [&sets.train, &sets.validation, &sets.test].map(extent);
    assert!(validation.0 - train.1 > gap, "{train:?} {validation:?}");
    assert!(test.0 - validation.1 > gap, "{validation:?} {test:?}");
    assert_eq!((report.step, report.periods.is_some()), (Some(300), true));
}

#[test]
fn sets_follow_each_other_with_a_gap_for_one_series_and_several() {
    for (iso, separator) in [(true, ","), (false, ","), (true, ";"), (false, "\t")] {
        for series in [1, 3] {
            let folder = Folder::new();
            let trace = table(&folder, series, 110, separator, iso);
            let many = series as usize;
            let all = [10 * many, 6 * many, 4 * many];
            let imported = import(&trace, &options(SplitBy::Time, Gap::Steps(5), all)).unwrap();
            check_order(&imported, 5.0);
            assert_eq!(imported.report.series, [u64::from(series); 3]);
            assert_eq!(imported.report.trace.gaps, 0);
            // The same gap as a duration: five readings, five minutes apart.
            let same = import(&trace, &options(SplitBy::Time, Gap::Seconds(1500), all)).unwrap();
            assert_eq!(same.sets, imported.sets);
        }
    }
}

#[test]
fn windows_that_overlap_do_not_straddle_a_boundary() {
    let folder = Folder::new();
    let trace = table(&folder, 2, 60, ",", true);
    let options = EpisodeOptions {
        stride: Some(1),
        ..options(SplitBy::Time, Gap::Steps(0), [40, 20, 20])
    };
    check_order(&import(&trace, &options).unwrap(), 0.0);
}

#[test]
fn a_split_by_both_shares_neither_time_nor_series() {
    let folder = Folder::new();
    let trace = table(&folder, 9, 100, ",", false);
    for construction in [Construction::Consecutive, Construction::Interleaved] {
        let options = EpisodeOptions {
            construction,
            ..options(SplitBy::Both, Gap::Steps(2), [12, 5, 5])
        };
        let imported = import(&trace, &options).unwrap();
        check_order(&imported, 2.0);
        let sets = &imported.sets;
        let [train, validation, test] = [&sets.train, &sets.validation, &sets.test].map(|set| extent(set).2);
        assert!(
            train
                .iter()
                .all(|series| !validation.contains(series) && !test.contains(series))
        );
        assert!(validation.iter().all(|series| !test.contains(series)));
    }
}

#[test]
fn interleaved_sets_follow_each_other() {
    let folder = Folder::new();
    let trace = table(&folder, 4, 100, ",", false);
    let options = EpisodeOptions {
        construction: Construction::Interleaved,
        ..options(SplitBy::Time, Gap::Steps(3), [30, 10, 10])
    };
    check_order(&import(&trace, &options).unwrap(), 3.0);
}

#[test]
fn what_comes_after_the_training_does_not_normalise_it() {
    let folder = Folder::new();
    let trace = table(&folder, 1, 100, ",", false);
    let options = EpisodeOptions {
        normalisation: Normalisation::SeriesMax,
        ..options(SplitBy::Time, Gap::Steps(0), [10, 5, 5])
    };
    let sets = import(&trace, &options).unwrap().sets;
    let Constants::PerSeries(series) = &sets.train.scaling().unwrap().constants else {
        panic!("constants per series");
    };
    assert_eq!(series["h0"][0].scale, 49.0);
    assert_eq!(extent(&sets.test).1, 2.0, "99 / 49, rounded down");
}

#[test]
fn a_split_that_leaves_too_little_says_how_much_there_is() {
    let folder = Folder::new();
    let trace = table(&folder, 1, 60, ",", true);
    let error = import(&trace, &options(SplitBy::Time, Gap::Steps(40), [4, 2, 2])).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the trace is too short: 4 train episodes wanted, "),
        "{error}"
    );
    let error = import(&trace, &options(SplitBy::Series, Gap::Steps(1), [1, 0, 0])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid gap: expected a split by time or both: sets of series have no gap"
    );
}
