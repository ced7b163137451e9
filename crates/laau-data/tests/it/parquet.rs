//! Parquet with columns of every type, of which the wanted ones are read.
//!
//! The files are written by polars for Python, which has all types: series a, a, b, b, times 0, 5, 0, 5, values 1, 2, 3, 4 in two row
//! groups, and further columns. Two are written by pyarrow: one with categories, with times of a zone and with times that are
//! counted as floats, and one whose first row group is empty, beside a column that the streaming engine does not read.

use laau_data::{
    EpisodeOptions, Error, Imported, Normalisation, Split, Table, TableOptions, Trace as _, import,
    inspect_table, table_columns,
};

use crate::files::Folder;

const FURTHER: &[u8] = include_bytes!("../data/further.parquet");
const SHORT: &[u8] = include_bytes!("../data/short.parquet");
const CATEGORIES: &[u8] = include_bytes!("../data/categories.parquet");
const EMPTY_GROUP: &[u8] = include_bytes!("../data/empty-group.parquet");

fn run(bytes: &[u8], series: &str, value: &str) -> Result<Imported, String> {
    run_at(bytes, series, "time", value)
}

fn run_at(bytes: &[u8], series: &str, time: &str, value: &str) -> Result<Imported, String> {
    let folder = Folder::new();
    let imported = |path| {
        let table = Table::open(TableOptions {
            paths: vec![path],
            series: series.to_owned(),
            time: time.to_owned(),
            values: vec![value.to_owned()],
            ..TableOptions::default()
        })?;
        assert_eq!(table.values()[0].name, value);
        let options = EpisodeOptions {
            horizon: 2,
            normalisation: Normalisation::None,
            split: Split {
                train: 2,
                validation: 0,
                test: 0,
            },
            ..EpisodeOptions::default()
        };
        import(&table, &options)
    };
    imported(folder.write("t.parquet", bytes)).map_err(|error: Error| folder.strip(&error))
}

fn contexts(imported: &Imported) -> Vec<f64> {
    let mut contexts = imported.sets.train.contexts().to_vec();
    contexts.sort_by(f64::total_cmp);
    contexts
}

#[test]
fn columns_of_any_type_may_stand_beside_those_that_are_read() {
    let imported = run(FURTHER, "series", "value").unwrap();
    assert_eq!(contexts(&imported), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(imported.report.trace.readings, 4);
    let folder = Folder::new();
    let names = table_columns(folder.write("t.parquet", FURTHER).as_ref()).unwrap();
    assert_eq!(
        names,
        ["series", "time", "value", "price", "pair", "wide", "site", "both"]
    );
}

#[test]
fn a_category_is_a_text() {
    for (bytes, series) in [(FURTHER, "site"), (CATEGORIES, "series")] {
        let imported = run(bytes, series, "value").unwrap();
        assert_eq!(contexts(&imported), [1.0, 2.0, 3.0, 4.0]);
    }
}

#[test]
fn times_of_a_zone_are_times_and_told_where_they_are_refused() {
    let imported = run_at(CATEGORIES, "series", "at", "value").unwrap();
    assert_eq!(contexts(&imported), [1.0, 2.0, 3.0, 4.0]);
    for (time, expected, found) in [
        (
            "between",
            "row 2, column `between`: expected a time in whole seconds",
            "2024-03-01T00:05:00.250Z",
        ),
        (
            "far",
            "row 1, column `far`: expected a time in whole seconds",
            "292278994-08-17T07:12:55.807Z",
        ),
        (
            "float",
            "row 1, column `float`: expected a whole number or an ISO 8601 time in whole seconds",
            "a column of type f64 (cast it to Int64)",
        ),
    ] {
        assert_eq!(
            run_at(CATEGORIES, "series", time, "value").unwrap_err(),
            format!("t.parquet, {expected}, found {found}")
        );
    }
    let folder = Folder::new();
    let told = inspect_table(folder.write("t.parquet", CATEGORIES).as_ref()).unwrap();
    let column = |name| told.columns.iter().find(|column| column.name == name).unwrap();
    assert_eq!(
        column("between").words,
        Some(
            [
                "2024-03-01T00:00:00Z",
                "2024-03-01T00:05:00.250Z",
                "2024-03-01T00:05:00Z"
            ]
            .map(str::to_owned)
            .to_vec()
        )
    );
    assert_eq!(column("series").words, Some(vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn times_of_a_zone_are_refused_behind_stamps_without_one() {
    let folder = Folder::new();
    let paths = vec![
        folder.write("1.csv", "series,at,value\nc,2024-03-01T00:00:00,1\n"),
        folder.write("2.parquet", CATEGORIES),
    ];
    let table = Table::open(TableOptions {
        paths,
        time: "at".to_owned(),
        ..TableOptions::default()
    });
    assert_eq!(
        folder.strip(&table.unwrap_err()),
        "2.parquet, row 1, column `at`: expected an ISO 8601 time in whole seconds and without a zone, as the first time of the table \
         is, found a column of type datetime[ms, UTC]"
    );
}

#[test]
fn a_row_group_without_rows_is_not_the_end_of_the_file() {
    let imported = run(EMPTY_GROUP, "series", "value").unwrap();
    assert_eq!(contexts(&imported), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn a_column_of_a_type_that_is_not_read_is_named_and_not_called_damaged() {
    for (column, kind) in [
        ("price", "Decimal(10, 2) (cast it to Float64)"),
        ("wide", "Int128 (cast it to Float64)"),
        ("pair", "list[i64]"),
        ("both", "struct[1]"),
    ] {
        assert_eq!(
            run(FURTHER, "series", column).unwrap_err(),
            format!(
                "t.parquet, row 1, column `{column}`: expected a finite number, found a column of type {kind}"
            )
        );
    }
    let folder = Folder::new();
    let told = inspect_table(folder.write("t.parquet", FURTHER).as_ref()).unwrap_err();
    assert_eq!(
        folder.strip(&told),
        "t.parquet, row 1, column `price`: expected text, found a column of type Decimal(10, 2) (cast it to String)"
    );
}

#[test]
fn a_short_integer_is_named_and_does_not_matter_where_it_is_not_read() {
    assert_eq!(
        contexts(&run(SHORT, "series", "value").unwrap()),
        [1.0, 2.0, 3.0, 4.0]
    );
    for column in ["i8", "i16", "u8", "u16"] {
        assert_eq!(
            run(SHORT, "series", column).unwrap_err(),
            format!(
                "t.parquet, row 1, column `{column}`: expected a finite number, found a column of type {column} \
                 (cast it to Float64)"
            )
        );
    }
}

#[test]
fn a_file_that_ends_early_is_damaged() {
    for length in [8, 100, FURTHER.len() - 4] {
        let told = run(&FURTHER[..length], "series", "value").unwrap_err();
        assert!(
            told.starts_with("t.parquet: cannot be read after row 0: "),
            "{told}"
        );
    }
}
