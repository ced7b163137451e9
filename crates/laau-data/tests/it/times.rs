//! The times of a table are of one kind: whole numbers, or stamps.

use laau_data::{
    EpisodeOptions, Error, Gap, Imported, Normalisation, OutOfRange, Split, SplitBy, Table, TableOptions,
    import, inspect_trace,
};
use polars::prelude::{DataType, IntoLazy as _, ParquetWriter, TimeUnit, col, df};

use crate::files::Folder;

fn open(paths: Vec<String>) -> Result<Imported, Error> {
    let table = Table::open(TableOptions {
        paths,
        ..TableOptions::default()
    })?;
    let options = EpisodeOptions {
        horizon: 1,
        normalisation: Normalisation::None,
        split: Split {
            train: 1,
            validation: 1,
            test: 0,
        },
        split_by: SplitBy::Time,
        gap: Gap::Steps(0),
        ..EpisodeOptions::default()
    };
    import(&table, &options)
}

fn refused(rows: &[&str]) -> String {
    let folder = Folder::new();
    let text = format!("series,time,value\n{}\n", rows.join("\n"));
    folder.strip(&open(vec![folder.write("t.csv", text)]).unwrap_err())
}

/// The first and the last time of a table of one series.
fn extent(times: [&str; 2]) -> Option<(i64, i64)> {
    let folder = Folder::new();
    let text = format!("series,time,value\na,{},1\na,{},2\n", times[0], times[1]);
    let table = Table::open(TableOptions {
        paths: vec![folder.write("t.csv", text)],
        ..TableOptions::default()
    });
    inspect_trace(&table.unwrap(), Normalisation::None, OutOfRange::Error)
        .unwrap()
        .times
}

#[test]
fn numbers_among_stamps_are_refused() {
    for number in ["300", "1740787500000", "300.0"] {
        assert_eq!(
            refused(&[
                "a,2025-03-01T00:00:00Z,1",
                "a,2025-03-01T00:05:00Z,2",
                &format!("b,{number},3")
            ]),
            format!(
                "t.csv, row 4, column `time`: expected an ISO 8601 time in whole seconds and with a zone, as the first time of the table is, \
                 found `{number}`"
            )
        );
    }
}

#[test]
fn stamps_with_and_without_a_zone_are_refused_beside_each_other() {
    assert_eq!(
        refused(&["a,2025-03-01T00:00:00+01:00,1", "b,2025-03-01T00:00:00,2"]),
        "t.csv, row 3, column `time`: expected an ISO 8601 time in whole seconds and with a zone, as the first time of the \
         table is, found `2025-03-01T00:00:00`"
    );
    assert_eq!(
        refused(&["a,2025-03-01,1", "b,2025-03-01T00:00:00Z,2"]),
        "t.csv, row 3, column `time`: expected an ISO 8601 time in whole seconds and without a zone, as the first time of the \
         table is, found `2025-03-01T00:00:00Z`"
    );
}

#[test]
fn files_with_numbers_of_two_units_are_refused() {
    let folder = Folder::new();
    let seconds = folder.write("1.csv", "series,time,value\na,1700000000,1\na,1700000300,2\n");
    let thousandths = folder.write(
        "2.csv",
        "series,time,value\nb,1700000000000,1\nb,1700000300000,2\n",
    );
    assert_eq!(
        folder.strip(&open(vec![seconds, thousandths]).unwrap_err()),
        "2.csv, row 2, column `time`: expected times since 1970 in one unit, found seconds in 1.csv and milliseconds: \
         `1700000000000` (if that is a count, give its step)"
    );
    let rows = folder.write("3.csv", "series,time,value\na,5,1\na,6,2\n");
    let dates = folder.write("4.csv", "series,time,value\nb,20240131,1\nb,20240201,2\n");
    assert_eq!(
        folder.strip(&open(vec![rows, dates]).unwrap_err()),
        "4.csv, row 2, column `time`: expected a date with dashes, such as 2024-01-31, found `20240131` (if that is a count, \
         give its step)"
    );
}

/// Counts may look like times since 1970 in one file and not in another. Whoever gives their step says what they are.
#[test]
fn counts_of_a_known_step_are_not_taken_for_times_since_1970() {
    let folder = Folder::new();
    let first = folder.write("1.csv", "series,time,value\na,3600000000,1\na,3660000000,2\n");
    let second = folder.write("2.csv", "series,time,value\nb,720000000000,1\nb,720060000000,2\n");
    let open = |step| {
        let table = TableOptions {
            paths: vec![first.clone(), second.clone()],
            step,
            ..TableOptions::default()
        };
        inspect_trace(&Table::open(table)?, Normalisation::None, OutOfRange::Error)
    };
    assert!(open(None).unwrap_err().to_string().contains("give its step"));
    assert_eq!(open(Some(60_000_000)).unwrap().counts.readings, 4);
}

#[test]
fn stamps_among_numbers_are_refused() {
    assert_eq!(
        refused(&["a,0,1", "a,300,2", "b,2025-03-01,3"]),
        "t.csv, row 4, column `time`: expected a whole number, as the first time of the table is, found `2025-03-01`"
    );
}

#[test]
fn files_with_times_of_two_kinds_are_refused_whatever_their_order() {
    let folder = Folder::new();
    let numbers = folder.write("1.csv", "series,time,value\na,0,1\na,300,2\n");
    let stamps = folder.write("2.csv", "series,time,value\nb,2025-03-01T00:00:00Z,1\n");
    for paths in [[numbers.clone(), stamps.clone()], [stamps, numbers]] {
        assert_eq!(
            folder.strip(&open(paths.to_vec()).unwrap_err()),
            "2.csv, row 2, column `time`: expected a whole number, as the first time of the table is, \
             found `2025-03-01T00:00:00Z`"
        );
    }
}

#[test]
fn parquet_columns_with_times_of_two_kinds_are_refused() {
    let folder = Folder::new();
    let write = |name: &str, kind: DataType| {
        let path = folder.path().join(name);
        let frame =
            df!("series" => ["a", "a"], "time" => [19_000_i64, 20_000], "value" => [1.0, 2.0]).unwrap();
        let mut frame = frame
            .lazy()
            .with_column(col("time").cast(kind))
            .collect()
            .unwrap();
        ParquetWriter::new(std::fs::File::create(&path).unwrap())
            .finish(&mut frame)
            .unwrap();
        path.to_str().unwrap().to_owned()
    };
    let stamps = folder.write("1.csv", "series,time,value\nb,2025-03-01T00:00:00Z,1\n");
    let dates = write("2.parquet", DataType::Date);
    let numbers = write("3.parquet", DataType::Int64);
    let words = write("4.parquet", DataType::String);
    let naive = write("5.parquet", DataType::Datetime(TimeUnit::Milliseconds, None));
    assert_eq!(
        folder.strip(&open(vec![dates.clone(), numbers.clone()]).unwrap_err()),
        "3.parquet, row 1, column `time`: expected an ISO 8601 time in whole seconds and without a zone, as the first time of the table is, \
         found a column of type i64"
    );
    assert_eq!(
        folder.strip(&open(vec![stamps.clone(), words.clone()]).unwrap_err()),
        "4.parquet, row 1, column `time`: expected an ISO 8601 time in whole seconds and with a zone, as the first time of the table is, \
         found `19000`"
    );
    for other in [dates.clone(), naive] {
        let told = folder.strip(&open(vec![stamps.clone(), other]).unwrap_err());
        assert!(
            told.contains("and with a zone, as the first time of the table is, found a column of type date"),
            "{told}"
        );
    }
    assert_eq!(open(vec![dates]).unwrap().report.trace.readings, 2);
    // Numbers as text are numbers. The rows come twice, which is told as such.
    let twice = open(vec![numbers, words]).unwrap_err();
    assert!(matches!(twice, Error::UnsortedTime { .. }), "{twice}");
}

#[test]
fn a_part_of_a_second_is_accepted_if_it_is_zero() {
    let day = Some((1_742_860_800, 1_742_860_860));
    assert_eq!(
        extent(["2025-03-25T00:00:00.0Z", "2025-03-25T00:01:00.000000000Z"]),
        day
    );
    assert_eq!(extent(["1742860800.0", "1742860860.000"]), day);
    for (first, second) in [
        ("2025-03-25T00:00:00Z", "2025-03-25T00:00:00.250Z"),
        ("1742860800", "1742860800.25"),
    ] {
        let what = if first.contains('T') {
            "a time in whole seconds"
        } else {
            "a whole number"
        };
        assert_eq!(
            refused(&[&format!("a,{first},1"), &format!("a,{second},2")]),
            format!("t.csv, row 3, column `time`: expected {what}, found `{second}`")
        );
        assert_eq!(
            refused(&[&format!("a,{second},1")]),
            format!("t.csv, row 2, column `time`: expected {what}, found `{second}`")
        );
    }
}

#[test]
fn dates_in_digits_are_refused_unless_their_step_is_given() {
    let rows = "series,time,value\na,20240131,1\na,20240201,2\n";
    let folder = Folder::new();
    let table = |step| {
        Table::open(TableOptions {
            paths: vec![folder.write("t.csv", rows)],
            step,
            ..TableOptions::default()
        })
    };
    assert_eq!(
        folder.strip(&table(None).unwrap_err()),
        "t.csv, row 2, column `time`: expected a date with dashes, such as 2024-01-31, found `20240131` \
         (if that is a count, give its step)"
    );
    assert!(table(Some(1)).is_ok());
}

#[test]
fn a_stamp_has_two_digits_in_each_field() {
    for stamp in [
        "2024-03-01T6:5:7",
        "2024-03-01T0006:0006:0007",
        "2024-3-01T06:05:07",
    ] {
        assert_eq!(
            refused(&[&format!("a,{stamp},1")]),
            format!(
                "t.csv, row 2, column `time`: expected a whole number or an ISO 8601 time in whole seconds, found `{stamp}`"
            )
        );
    }
}

#[test]
fn shuffled_rows_are_told_as_unsorted_though_their_steps_contradict_each_other_first() {
    assert_eq!(
        refused(&["a,600,1", "a,1500,2", "a,1800,3", "b,0,1", "a,900,4", "b,300,1"]),
        "t.csv, row 6, column `time`: expected ascending times, found 900 after 1800 in series `a`"
    );
    assert_eq!(
        refused(&["a,600,1", "a,1500,2", "a,1800,3", "b,0,1", "b,300,1"]),
        "t.csv, row 4, column `time`: expected times in steps of 900, the first distance, found 300 after the last reading of series `a`"
    );
}
