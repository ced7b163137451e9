//! What an import did to the readings goes with its episodes.

use std::fmt::Write as _;

use laau_core::{Constants, Sets};
use laau_data::{
    Construction, EpisodeOptions, Normalisation, OutOfRange, Split, SplitBy, Table, TableOptions, import,
    read_episodes, write_episodes,
};

use crate::files::Folder;

/// Twelve series of twenty readings, imported.
fn imported(folder: &Folder, normalisation: Normalisation, construction: Construction) -> Sets {
    let mut text = String::from("time,series,value\n");
    for time in 0..20 {
        for series in 0..12 {
            writeln!(text, "{time},s{series},{}", reading(series, time)).unwrap();
        }
    }
    let table = Table::open(TableOptions {
        paths: vec![folder.write("a.csv", text)],
        ..TableOptions::default()
    });
    let options = EpisodeOptions {
        horizon: 2,
        normalisation,
        construction,
        out_of_range: OutOfRange::Clamp,
        floor: 0.05,
        split: Split {
            train: 8,
            validation: 8,
            test: 8,
        },
        ..EpisodeOptions::default()
    };
    import(&table.unwrap(), &options).unwrap().sets
}

fn reading(series: u32, time: u32) -> f64 {
    f64::from((time * 13 + series * 29) % 110) + f64::from(series) / 3.0
}

#[test]
fn every_context_of_an_import_is_what_its_scaling_makes_of_a_reading() {
    for normalisation in [
        Normalisation::Percent,
        Normalisation::SeriesMax,
        Normalisation::MinMax,
        Normalisation::None,
    ] {
        for construction in [Construction::Consecutive, Construction::Interleaved] {
            let folder = Folder::new();
            let sets = imported(&folder, normalisation, construction);
            let path = folder.path().join("e.parquet");
            for set in [&sets.train, &sets.validation, &sets.test] {
                write_episodes(&path, set).unwrap();
                let set = read_episodes(&path).unwrap();
                let scaling = set.scaling().unwrap();
                let made: Vec<u64> = (0..12)
                    .flat_map(|series| (0..20).map(move |time| (series, time)))
                    .map(|(series, time)| {
                        let name = format!("s{series}");
                        let context = scaling.contexts(Some(&name), &[reading(series, time)]);
                        context.unwrap()[0].to_bits()
                    })
                    .collect();
                let missing = set.contexts().iter().find(|c| !made.contains(&c.to_bits()));
                assert_eq!(missing, None, "{normalisation:?}, {construction:?}");
            }
        }
    }
}

#[test]
fn constants_are_those_of_every_series_of_the_trace() {
    let folder = Folder::new();
    let sets = imported(&folder, Normalisation::MinMax, Construction::Consecutive);
    let scaling = sets.train.scaling().unwrap();
    assert_eq!((&*scaling.kind, &*scaling.columns[0].name), ("min-max", "value"));
    let Constants::PerSeries(series) = &scaling.constants else {
        panic!("{scaling:?}");
    };
    assert_eq!(series.len(), 12);
    let readings = || (0..20).map(|time| reading(2, time));
    let (least, greatest) = (
        readings().fold(f64::INFINITY, f64::min),
        readings().fold(0.0, f64::max),
    );
    assert_eq!(
        (series["s2"][0].offset, series["s2"][0].scale),
        (least, greatest - least)
    );
}

/// The episodes of two steps of some series, each reading on a step of its own, divided by time into halves for training and test.
fn halves(series: &[(&str, [f64; 8])], normalisation: Normalisation, construction: Construction) -> Sets {
    let folder = Folder::new();
    let mut text = String::from("time,series,value\n");
    for time in 0..8 {
        for (name, readings) in series {
            writeln!(text, "{time},{name},{}", readings[time]).unwrap();
        }
    }
    let table = Table::open(TableOptions {
        paths: vec![folder.write("a.csv", text)],
        ..TableOptions::default()
    });
    let options = EpisodeOptions {
        horizon: 2,
        normalisation,
        construction,
        out_of_range: OutOfRange::Clamp,
        floor: 0.05,
        split: Split {
            train: 2 * series.len(),
            validation: 0,
            test: 2 * series.len(),
        },
        split_by: SplitBy::Time,
        ..EpisodeOptions::default()
    };
    import(&table.unwrap(), &options).unwrap().sets
}

#[test]
fn what_the_training_raised_and_lowered_is_known() {
    for construction in [Construction::Consecutive, Construction::Interleaved] {
        // Of the test, 2, 150 and 160 are known to nobody.
        let series = [
            ("a", [3.0, 110.0, 50.0, 60.0, 2.0, 150.0, 50.0, 60.0]),
            ("b", [4.0, 20.0, 120.0, 30.0, 40.0, 20.0, 160.0, 30.0]),
        ];
        let sets = halves(&series, Normalisation::Percent, construction);
        let scaling = sets.train.scaling().unwrap();
        assert_eq!(scaling.columns[0].moved, [Some(0.03), Some(1.2)]);
        for (reading, expected) in [(3.0, 0.05), (2.0, 0.02), (120.0, 1.0), (121.0, 1.21)] {
            assert_eq!(scaling.unbounded(None, &[reading]), Ok(vec![expected]));
        }
    }
}

/// In units of a context: a small reading of a series of small ones says nothing of a series of large ones.
#[test]
fn what_one_series_raised_says_nothing_of_another() {
    let series = [
        ("small", [1.0, 10.0, 4.0, 5.0, 0.2, 3.0, 4.0, 5.0]),
        (
            "large",
            [1900.0, 2000.0, 1950.0, 1960.0, 1950.0, 1960.0, 1950.0, 1960.0],
        ),
    ];
    let sets = halves(&series, Normalisation::MinMax, Construction::Consecutive);
    let scaling = sets.train.scaling().unwrap();
    let free = |series, reading| scaling.unbounded(Some(series), &[reading]).unwrap()[0];
    // The least of the training is raised to the floor, and is 0 without it; less was not seen.
    assert_eq!(free("large", 1900.0), 0.05);
    assert_eq!(free("large", 5.0), -18.95);
    assert!(free("small", 0.2) < 0.0);
}
