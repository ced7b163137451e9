//! The layout of the Azure Functions trace.

use std::fmt::Write as _;

use laau_data::{
    AzureFunctions, AzureFunctionsOptions, Construction, EpisodeOptions, Normalisation, Split, Trace as _,
    import,
};

use crate::files::Folder;

/// A function by name, and its counts by minute.
type Function<'a> = (&'a str, fn(usize) -> u32);

/// A day of invocations.
pub(crate) fn invocations(functions: &[Function<'_>]) -> String {
    let mut text = "HashOwner,HashApp,HashFunction,Trigger".to_owned();
    for minute in 1..=1440 {
        write!(text, ",{minute}").unwrap();
    }
    text.push('\n');
    for (name, count) in functions {
        write!(text, "o,a,{name},http").unwrap();
        for minute in 0..1440 {
            write!(text, ",{}", count(minute)).unwrap();
        }
        text.push('\n');
    }
    text
}

fn minutes(minute: usize) -> u32 {
    u32::try_from(minute).unwrap()
}

fn options(construction: Construction) -> EpisodeOptions {
    EpisodeOptions {
        horizon: 1000,
        normalisation: Normalisation::SeriesMax,
        construction,
        split: Split {
            train: 1,
            validation: 0,
            test: 1,
        },
        ..EpisodeOptions::default()
    }
}

#[test]
fn a_window_spans_days_and_joins_durations_and_memory() {
    let folder = Folder::new();
    // named in the wrong order; `g` is missing on day 2
    let second = folder.write("i.anon.d02.csv.gz", invocations(&[("f", minutes)]));
    let first = folder.write("i.anon.d01.csv", invocations(&[("g", |_| 7), ("f", minutes)]));
    let durations = folder.write(
        "durations.d01.csv",
        "HashOwner,HashApp,HashFunction,Average,Count\no,a,f,10,1\no,a,g,40,1\n",
    );
    let more = folder.write(
        "durations.d02.csv",
        "HashOwner,HashApp,HashFunction,Average,Count\no,a,f,30,1\n",
    );
    let memory = folder.write(
        "memory.d01.csv",
        "HashOwner,HashApp,SampleCount,AverageAllocatedMb\no,a,5,100\no,b,5,400\n",
    );
    let trace = AzureFunctions::open(&AzureFunctionsOptions {
        invocations: vec![second, first],
        durations: vec![durations, more],
        memory: vec![memory],
    })
    .unwrap();
    let names: Vec<_> = trace.values().into_iter().map(|value| value.name).collect();
    assert_eq!(names, ["invocations", "duration", "memory"]);
    let imported = import(&trace, &options(Construction::Consecutive)).unwrap();
    // f has 2880 minutes and 2 windows, g has 1440 and 1: either order of the series gives f to one set, g to the other
    assert_eq!(imported.report.trace.readings, 4320);
    assert_eq!((imported.report.available, imported.report.unused), (3, 1320));
    let of_f = [&imported.sets.train, &imported.sets.test]
        .into_iter()
        .find(|set| set.get(0).context(0)[1] == 0.5)
        .unwrap();
    let episode = of_f.get(0);
    let first = episode.context(0)[0] * 1439.0;
    assert!(first.abs() < 1e-9 || (first - 1000.0).abs() < 1e-9, "{first}");
    assert_eq!(episode.context(0)[1..], [0.5, 0.25]);
    if first > 1.0 {
        // minute 440 of this window is the first of day 2
        assert_eq!(episode.context(440)[0], 0.0);
    }
}

#[test]
fn functions_that_are_not_listed_are_dropped_and_counted() {
    let folder = Folder::new();
    let day = folder.write(
        "i.d01.csv",
        invocations(&[("f", |_| 1), ("g", |_| 1), ("h", |_| 1)]),
    );
    let durations = folder.write(
        "d.d01.csv",
        "HashOwner,HashApp,HashFunction,Average\no,a,f,1\no,a,g,2\n",
    );
    let trace = AzureFunctions::open(&AzureFunctionsOptions {
        invocations: vec![day],
        durations: vec![durations],
        ..AzureFunctionsOptions::default()
    })
    .unwrap();
    let report = import(&trace, &options(Construction::Consecutive))
        .unwrap()
        .report;
    assert_eq!((report.trace.series, report.trace.dropped.unlisted), (2, 1440));
}

#[test]
fn interleaved_episodes_take_the_functions_of_one_minute() {
    let folder = Folder::new();
    let day = folder.write(
        "i.d01.csv",
        invocations(&[("f", minutes), ("g", minutes), ("h", minutes), ("i", minutes)]),
    );
    let trace = AzureFunctions::open(&AzureFunctionsOptions {
        invocations: vec![day],
        ..AzureFunctionsOptions::default()
    })
    .unwrap();
    let imported = import(
        &trace,
        &EpisodeOptions {
            horizon: 2,
            normalisation: Normalisation::None,
            split: Split {
                train: 1440,
                validation: 0,
                test: 1440,
            },
            ..options(Construction::Interleaved)
        },
    )
    .unwrap();
    assert_eq!(imported.report.series, [2, 0, 2]);
    for set in [&imported.sets.train, &imported.sets.test] {
        let mut minutes: Vec<f64> = Vec::new();
        for episode in set.iter() {
            assert_eq!(episode.context(0), episode.context(1));
            minutes.push(episode.context(0)[0]);
        }
        minutes.sort_by(f64::total_cmp);
        assert!(minutes.iter().enumerate().all(|(i, m)| *m == i as f64));
    }
}
