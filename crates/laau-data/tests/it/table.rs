//! Any table.

use laau_data::{
    Construction, EpisodeOptions, Normalisation, Split, Table, TableOptions, import, read_episodes,
    write_episodes,
};

use crate::files::Folder;

fn options() -> EpisodeOptions {
    EpisodeOptions {
        horizon: 2,
        normalisation: Normalisation::None,
        split: Split {
            train: 2,
            validation: 0,
            test: 0,
        },
        ..EpisodeOptions::default()
    }
}

fn contexts(options: TableOptions) -> Vec<Vec<f64>> {
    let imported = import(&Table::open(options).unwrap(), &self::options()).unwrap();
    let mut contexts: Vec<_> = imported
        .sets
        .train
        .iter()
        .map(|e| e.contexts().to_vec())
        .collect();
    contexts.sort_by(|a, b| a.partial_cmp(b).unwrap());
    contexts
}

#[test]
fn a_table_with_a_header_and_two_values() {
    let folder = Folder::new();
    let text = "cpu,host,note,at,mem\n1,\"a,1\",x,10,5\n3,b,,10,7\n2,\"a,1\",,15,6\n4,b,y,15,8\n";
    let found = contexts(TableOptions {
        paths: vec![folder.write("t.csv.gz", text)],
        series: "host".to_owned(),
        time: "at".to_owned(),
        values: vec!["mem".to_owned(), "cpu".to_owned()],
        ..TableOptions::default()
    });
    assert_eq!(found, [[5.0, 1.0, 6.0, 2.0], [7.0, 3.0, 8.0, 4.0]]);
}

#[test]
fn a_table_without_a_header() {
    let folder = Folder::new();
    let found = contexts(TableOptions {
        paths: vec![
            folder.write("2.csv", "5,a,3\n5,b,4\n"),
            folder.write("1.csv", "0,a,1\n0,b,2\n"),
        ],
        header: false,
        series: "2".to_owned(),
        time: "1".to_owned(),
        values: vec!["3".to_owned()],
        ..TableOptions::default()
    });
    assert_eq!(found, [[1.0, 3.0], [2.0, 4.0]]);
}

#[test]
fn a_table_in_parquet() {
    // an episodes table is a table of readings, too: series `episode`, time `step`
    let folder = Folder::new();
    let episodes = laau_core::Episodes::new(2, 1, 1, vec![1.0, 2.0, 3.0, 4.0], vec![5.0, 6.0]).unwrap();
    let path = folder.path().join("t.parquet");
    write_episodes(&path, &episodes).unwrap();
    let table = TableOptions {
        paths: vec![path.to_str().unwrap().to_owned()],
        series: "episode".to_owned(),
        time: "step".to_owned(),
        values: vec!["context".to_owned()],
        ..TableOptions::default()
    };
    assert_eq!(contexts(table.clone()), [[1.0, 2.0], [3.0, 4.0]]);
    let error = Table::open(TableOptions {
        time: "context".to_owned(),
        values: vec!["budget".to_owned()],
        ..table
    })
    .unwrap_err();
    assert_eq!(
        folder.strip(&error),
        "t.parquet, row 1, column `context`: expected a whole number or an ISO 8601 time in whole seconds, found a column of type f64 (cast it to Int64)"
    );
    assert_eq!(read_episodes(&path).unwrap(), episodes);
}

#[test]
fn a_table_in_another_order_can_be_sorted() {
    let folder = Folder::new();
    let table = TableOptions {
        paths: vec![
            folder.write("1.csv", "series,time,value\na,5,2\na,0,1\n"),
            folder.write("2.csv", "series,time,value\nb,0,3\nb,5,4\n"),
        ],
        ..TableOptions::default()
    };
    let error = import(&Table::open(table.clone()).unwrap(), &options()).unwrap_err();
    assert_eq!(
        folder.strip(&error),
        "1.csv, row 3, column `time`: expected ascending times, found 0 after 5 in series `a`"
    );
    let sorted = TableOptions { sort: true, ..table };
    assert_eq!(contexts(sorted.clone()), [[1.0, 2.0], [3.0, 4.0]]);
    let imported = import(
        &Table::open(sorted).unwrap(),
        &EpisodeOptions {
            construction: Construction::Interleaved,
            ..options()
        },
    )
    .unwrap();
    let mut pairs: Vec<Vec<f64>> = imported
        .sets
        .train
        .iter()
        .map(|e| {
            let mut pair = e.contexts().to_vec();
            pair.sort_by(f64::total_cmp);
            pair
        })
        .collect();
    pairs.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert_eq!(pairs, [[1.0, 3.0], [2.0, 4.0]]);
}

#[test]
fn interleaved_episodes_refuse_a_table_in_order_of_series() {
    let folder = Folder::new();
    let table = TableOptions {
        paths: vec![folder.write("t.csv", "series,time,value\na,0,1\na,5,2\nb,0,3\nb,5,4\n")],
        ..TableOptions::default()
    };
    let error = import(
        &Table::open(table).unwrap(),
        &EpisodeOptions {
            construction: Construction::Interleaved,
            ..options()
        },
    )
    .unwrap_err();
    assert_eq!(
        folder.strip(&error),
        "t.csv, row 4, column `time`: expected ascending times, found 0 after 5 in series `b`"
    );
}

#[test]
fn spaces_and_signs_around_numbers_are_accepted() {
    let folder = Folder::new();
    let text = "series,time,value\na, 0, 1.5\na,+5 ,+2\nb,0,3e0\nb,5,\" 4\"\n";
    let found = contexts(TableOptions {
        paths: vec![folder.write("t.csv", text)],
        ..TableOptions::default()
    });
    assert_eq!(found, [[1.5, 2.0], [3.0, 4.0]]);
}

#[test]
fn a_row_with_more_cells_than_the_header_is_refused_even_if_the_last_is_empty() {
    let check = |text: &str, expected: &str| {
        let folder = Folder::new();
        let table = Table::open(TableOptions {
            paths: vec![folder.write("t.csv", text)],
            series: "host".to_owned(),
            values: vec!["cpu".to_owned()],
            ..TableOptions::default()
        });
        let error = table.and_then(|table| import(&table, &options())).unwrap_err();
        assert_eq!(folder.strip(&error), expected);
    };
    // A decimal comma, where the last column is empty.
    let empty = "the next is empty (a number has a decimal comma, or some rows end with a separator and the header or other \
                 rows do not)";
    let comma = format!("expected 4 columns, found more, {empty}");
    check(
        "host,time,cpu,note\nh0,0,9,7,\n",
        &format!("t.csv, row 2: {comma}"),
    );
    check(
        "host,time,cpu,note\nh0,0,9,\nh0,5,9,7,\n",
        &format!("t.csv, row 3: {comma}"),
    );
    check(
        "host,time,note,cpu\nh0,0,x,1\nh0,5,x,9,\n",
        &format!("t.csv, row 3: {comma}"),
    );
    check(
        "host,time,cpu,note,\nh0,0,9,\nh0,5,9,7,\n",
        &format!("t.csv, row 3: {comma}"),
    );
    // Behind the separator that ends the header is nothing.
    check(
        "host,time,cpu,\nh0,0,9,7\n",
        "t.csv, row 2: expected 3 columns, found more, the next is `7` (numbers have a decimal point, not a comma)",
    );
    check(
        "host,time,cpu,\nh0,0,9,,\n",
        &format!("t.csv, row 2: expected 3 columns, found more, {empty}"),
    );
}

#[test]
fn a_separator_may_end_every_row() {
    let folder = Folder::new();
    // Spreadsheets leave empty columns behind the others.
    for (header, end) in [("", ","), (",", ","), (",", ""), (",,,", ",,,"), (",,", "")] {
        let rows = ["a,0,1", "b,0,2", "a,5,3", "b,5,4"].map(|row| format!("{row}{end}\n"));
        let found = contexts(TableOptions {
            paths: vec![folder.write("t.csv", format!("series,time,value{header}\n{}", rows.concat()))],
            ..TableOptions::default()
        });
        assert_eq!(found, [[1.0, 3.0], [2.0, 4.0]]);
    }
}

#[test]
fn dates_and_times_of_parquet_are_stamps() {
    use polars::prelude::{DataType, IntoLazy as _, ParquetWriter, TimeUnit, col, df};
    let folder = Folder::new();
    let path = folder.path().join("t.parquet");
    let days = [19_783_i64, 19_783, 19_784, 19_784];
    let write = |per_day: i64, kind: DataType, extra: i64| {
        let times: Vec<i64> = days.iter().map(|day| day * per_day + extra).collect();
        let frame =
            df!("series" => ["a", "b", "a", "b"], "time" => times, "value" => [1.0, 2.0, 3.0, 4.0]).unwrap();
        let mut frame = frame
            .lazy()
            .with_column(col("time").cast(kind))
            .collect()
            .unwrap();
        ParquetWriter::new(std::fs::File::create(&path).unwrap())
            .finish(&mut frame)
            .unwrap();
    };
    let table = TableOptions {
        paths: vec![path.to_str().unwrap().to_owned()],
        ..TableOptions::default()
    };
    let day = 86_400;
    for (per_day, kind) in [
        (1, DataType::Date),
        (day * 1_000, DataType::Datetime(TimeUnit::Milliseconds, None)),
        (day * 1_000_000, DataType::Datetime(TimeUnit::Microseconds, None)),
        (
            day * 1_000_000_000,
            DataType::Datetime(TimeUnit::Nanoseconds, None),
        ),
    ] {
        write(per_day, kind, 0);
        let trace = Table::open(table.clone()).unwrap();
        let statistics = laau_data::inspect_trace(
            &trace,
            laau_data::Normalisation::None,
            laau_data::OutOfRange::Error,
        )
        .unwrap();
        assert_eq!(statistics.times, Some((19_783 * day, 19_784 * day)));
        assert_eq!(statistics.step, Some(day));
        assert_eq!(
            laau_data::Trace::show_time(&trace, 19_783 * day),
            "2024-03-01T00:00:00"
        );
        assert_eq!(contexts(table.clone()), [[1.0, 3.0], [2.0, 4.0]]);
    }
    for (per_second, unit, part) in [
        (1_000, TimeUnit::Milliseconds, "001"),
        (1_000_000, TimeUnit::Microseconds, "000001"),
        (1_000_000_000, TimeUnit::Nanoseconds, "000000001"),
    ] {
        write(day * per_second, DataType::Datetime(unit, None), 1);
        let error = Table::open(table.clone()).unwrap_err();
        assert_eq!(
            folder.strip(&error),
            format!(
                "t.parquet, row 1, column `time`: expected a time in whole seconds, \
                 found 2024-03-01T00:00:00.{part}Z"
            )
        );
    }
}

#[test]
fn empty_lines_at_the_end_are_no_rows_and_before_the_end_they_are_refused() {
    let folder = Folder::new();
    let rows = "series,time,value\na,0,1\nb,0,2\na,5,3\nb,5,4\n";
    let many = "\n".repeat(3_000_000);
    for end in ["", "\n", "\n\n\n", "\r\n\r\n", "\n\r\n", &many] {
        let table = TableOptions {
            paths: vec![folder.write("t.csv", format!("{rows}{end}"))],
            ..TableOptions::default()
        };
        assert_eq!(contexts(table), [[1.0, 3.0], [2.0, 4.0]]);
    }
    for between in ["\n", "\r\n", "\n\n"] {
        let text = rows.replacen("b,0,2\n", &format!("b,0,2\n{between}"), 1);
        let table = TableOptions {
            paths: vec![folder.write("t.csv", text)],
            ..TableOptions::default()
        };
        let error = import(&Table::open(table).unwrap(), &options()).unwrap_err();
        let told = folder.strip(&error);
        assert_eq!(told, "t.csv, row 4: expected 3 columns, found 1");
    }
}
