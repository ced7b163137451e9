//! Text is split into the cells that polars finds in it, and packed in any way it is the same text.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use laau_data::{EpisodeOptions, Normalisation, Split, Table, TableOptions, import};
use polars::prelude::{DataType, LazyCsvReader, LazyFileListReader as _, PlRefPath, Schema};
use proptest::prelude::*;

use crate::files::{Folder, gzip};

/// The series and values of a table, each row a series of its own, in the order of the series' names.
fn imported(path: &str, rows: usize) -> Vec<(String, f64)> {
    let options = EpisodeOptions {
        horizon: 1,
        normalisation: Normalisation::None,
        floor: 0.0,
        split: Split {
            train: rows,
            validation: 0,
            test: 0,
        },
        ..EpisodeOptions::default()
    };
    let table = Table::open(TableOptions {
        paths: vec![path.to_owned()],
        ..TableOptions::default()
    });
    let episodes = import(&table.unwrap(), &options).unwrap().sets.train;
    let series = episodes.series().unwrap().iter().map(ToString::to_string);
    let mut found: Vec<_> = series.zip(episodes.contexts().iter().copied()).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// The same, by polars alone.
fn scanned(path: &str) -> Vec<(String, f64)> {
    let names = ["note", "series", "time", "value"];
    let schema: Schema = names
        .map(|name| (name.into(), DataType::String))
        .into_iter()
        .collect();
    let frame = LazyCsvReader::new(PlRefPath::new(path))
        .with_schema(Some(Arc::new(schema)))
        .finish()
        .and_then(polars::prelude::LazyFrame::collect)
        .unwrap();
    let series = frame.column("series").unwrap().str().unwrap().iter();
    let values = frame.column("value").unwrap().str().unwrap().iter();
    let mut found: Vec<_> = series
        .zip(values)
        .map(|(series, value)| (series.unwrap().to_owned(), value.unwrap().trim().parse().unwrap()))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// A text as a cell, in quotes where it must stand in them, spaces around it are part of it, or it is told to.
fn cell(text: &str, quoted: bool) -> String {
    if quoted || text.contains([',', '"', '\n', '\r']) || text.trim_matches(' ') != text {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cells_are_those_of_polars(
        rows in prop::collection::vec(
            ("[a-zé,\" \n]{0,9}", "[a-z,\"\n ü]{0,30}", any::<[bool; 3]>(), 0.0..1e6f64, 0..3u8),
            1..40,
        ),
        line_end in prop_oneof![Just("\n"), Just("\r\n")],
        ends_with_one in any::<bool>(),
    ) {
        let mut text = format!("note,series,time,value{line_end}");
        for (index, (note, name, quoted, value, format)) in rows.iter().enumerate() {
            let value = match format {
                0 => value.to_string(),
                1 => format!("{value:e}"),
                _ => format!(" {value:.3}"),
            };
            let name = cell(&format!("{index}{name}"), quoted[1]);
            let end = if ends_with_one || index + 1 < rows.len() { line_end } else { "" };
            write!(text, "{},{name},7,{}{end}", cell(note, quoted[0]), cell(&value, quoted[2])).unwrap();
        }
        let folder = Folder::new();
        let path = folder.write("t.csv", &text);
        prop_assert_eq!(imported(&path, rows.len()), scanned(&path), "{:?}", text);
    }
}

#[test]
fn a_table_is_the_same_however_it_is_packed() {
    let mut rows = String::from("series,time,value\n");
    // More than one chunk of the reader, with rows of many lengths and line breaks in quotes.
    for i in 0..40_000 {
        writeln!(rows, "\"{}{i}\",{i},{}", "\n\"\"x,".repeat(i % 7), i as f64 / 7.0).unwrap();
    }
    let folder = Folder::new();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(rows.as_bytes()).unwrap();
    let (first, second) = rows.split_at(rows.len() / 3);
    let expected = imported(&folder.write("plain.csv", &rows), 40_000);
    assert_eq!(expected.len(), 40_000);
    for (name, value) in &expected {
        let number: f64 = name.rsplit(',').next().unwrap().parse().unwrap();
        assert_eq!(*value, number / 7.0, "{name}");
    }
    for (name, bytes) in [
        ("gzip.csv", gzip(rows.as_bytes())),
        (
            "two members.csv",
            [gzip(first.as_bytes()), gzip(second.as_bytes())].concat(),
        ),
        ("zlib.csv", zlib.finish().unwrap()),
        ("zstd.csv", zstd::encode_all(rows.as_bytes(), 1).unwrap()),
        (
            "byte order mark.csv",
            ["\u{feff}".as_bytes(), rows.as_bytes()].concat(),
        ),
    ] {
        assert_eq!(imported(&folder.write(name, bytes), 40_000), expected, "{name}");
    }
}

#[test]
fn a_quote_that_is_not_closed_is_refused() {
    let folder = Folder::new();
    let path = folder.write(
        "t.csv",
        "series,time,value\na,0,1\n\"b,1,2\n".to_owned() + &"c,2,3\n".repeat(9),
    );
    let options = TableOptions {
        paths: vec![path],
        ..TableOptions::default()
    };
    let error = import(&Table::open(options.clone()).unwrap(), &EpisodeOptions::default()).unwrap_err();
    assert_eq!(
        folder.strip(&error),
        "t.csv, row 3: expected a quote that closes a cell, found the end of the file"
    );
    let path = folder.write(
        "t.csv",
        "series,time,value\na,0,1\n\"".to_owned() + &"c,2,3\n".repeat(4_000_000),
    );
    let table = Table::open(TableOptions {
        paths: vec![path],
        ..options
    })
    .unwrap();
    assert_eq!(
        folder.strip(&import(&table, &EpisodeOptions::default()).unwrap_err()),
        "t.csv, row 3: expected a quote that closes a cell, found a row of more than 16777216 bytes"
    );
}
