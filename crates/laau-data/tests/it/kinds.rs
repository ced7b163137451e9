//! Files of other kinds than are read are told as what they are.

use laau_data::{Error, Table, TableOptions, inspect_trace};
use laau_data::{Normalisation, OutOfRange};

use crate::files::{Folder, gzip};

fn refused(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let folder = Folder::new();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let table = Table::open(TableOptions {
        paths: vec![path.to_str().unwrap().to_owned()],
        ..TableOptions::default()
    });
    let error = table
        .and_then(|table| inspect_trace(&table, Normalisation::None, OutOfRange::Error))
        .unwrap_err();
    // Their hint would be to fetch the file again.
    assert!(
        !matches!(
            error,
            Error::Unreadable { .. }
                | Error::Empty {
                    has_header: false,
                    ..
                }
        ),
        "{error:?}"
    );
    let told = folder.strip(&error);
    assert!(!told.contains(char::is_control), "{told:?}");
    told
}

#[test]
fn an_archive_is_told_as_one() {
    let packed = |magic: &[u8]| [magic, &[0, 1, 2, 200].repeat(100)].concat();
    for (magic, kind) in [
        (
            b"PK\x03\x04".as_slice(),
            "a zip archive or a workbook: unpack it, or save it as separated text",
        ),
        (b"\xfd7zXZ\0", "a file packed with xz: unpack it first"),
        (b"BZh91AY&SY", "a file packed with bzip2: unpack it first"),
        (
            b"ARROW1\0\0",
            "a file of Arrow or Feather: save it as Parquet or as separated text",
        ),
        (
            b"PAR1\x15",
            "a Parquet file: unpack it if it is packed, and give it a name that ends with .parquet",
        ),
    ] {
        let expected = format!("t.csv: expected separated text, found {kind}");
        assert_eq!(refused("t.csv", packed(magic)), expected);
        assert_eq!(refused("t.csv", gzip(&packed(magic))), expected);
    }
}

#[test]
fn text_in_another_encoding_is_told_as_such() {
    let text = "series,time,value\ncafé,0,1\n";
    let latin: Vec<u8> = text.chars().map(|letter| letter as u8).collect();
    assert_eq!(
        refused("t.csv", latin),
        "t.csv: expected text in UTF-8, found other bytes in row 2: \
         if it is text in Latin-1 or the like, save it as UTF-8"
    );
    let wide = |mark: bool| {
        let marked = if mark {
            format!("\u{feff}{text}")
        } else {
            text.to_owned()
        };
        marked
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<u8>>()
    };
    for mark in [true, false] {
        assert_eq!(
            refused("t.csv", wide(mark)),
            "t.csv: expected separated text, found text in UTF-16: save it as UTF-8"
        );
    }
}

#[test]
fn other_files_than_parquet_under_its_name_are_told_as_what_they_are() {
    for (bytes, kind) in [
        (
            b"series,time,value\na,0,1\n".as_slice(),
            "text: give it a name that ends with .csv",
        ),
        (
            b"PK\x03\x04\0\0",
            "a zip archive or a workbook: unpack it, or save it as separated text",
        ),
        (b"", "an empty file"),
        (b"\x1f\x8b\x08\0", "a packed file: unpack it first"),
        (b"\x28\xb5\x2f\xfd", "a packed file: unpack it first"),
        // The first 1,024 bytes end within a letter.
        (
            format!("a{}", "é".repeat(600)).as_bytes(),
            "text: give it a name that ends with .csv",
        ),
    ] {
        assert_eq!(
            refused("t.parquet", bytes),
            format!("t.parquet: expected a Parquet file, as its name says, found {kind}")
        );
    }
}

#[test]
fn a_header_without_rows_and_a_quote_without_its_end_are_told_as_such() {
    for end in ["", "\n", "\r\n"] {
        assert_eq!(
            refused("t.csv", format!("series,time,value{end}")),
            "t.csv: expected rows below the header, found none"
        );
    }
    assert_eq!(
        refused("t.csv", "series,time,\"value\na,0,1\n"),
        "t.csv, row 1: expected a quote that closes a cell, found the end of the file"
    );
    assert_eq!(
        refused("t.csv", "series,time,value\na,0,1\n\"b,5,1\n"),
        "t.csv, row 3: expected a quote that closes a cell, found the end of the file"
    );
}

#[test]
fn rows_between_two_quotes_that_do_not_belong_together_are_not_swallowed() {
    assert_eq!(
        refused(
            "t.csv",
            "series,time,value,note\na,0,1,\"broken\na,5,2,ok\na,10,3,\"fixed\na,15,4,ok\n"
        ),
        "t.csv, row 2: expected a quote that closes a cell, found text behind the next quote, which is on a later line"
    );
}

/// A quote that nobody meant to open, and one that ends a cell some rows later: what is between them reads as rows.
#[test]
fn rows_in_quotes_are_refused_and_lines_in_quotes_are_not() {
    for open in ["10,a,1,\"an inch", "10,a,\"1,b", "10,\"a,1,b"] {
        let rows =
            format!("time,series,value,note\n0,a,1,a\n5,a,1,b\n{open}\n15,a,1,b\n20,a,1,5\"\n25,a,1,b\n");
        assert_eq!(
            refused("t.csv", rows),
            "t.csv, row 4: expected a quote that closes a cell, found whole rows before the next quote"
        );
    }
    let folder = Folder::new();
    let rows = "time,value,note\n0,1,\"a,\n,b,\n5,5\"\r\n5,2,\"1\n2,3\"\n";
    let table = Table::open(TableOptions {
        paths: vec![folder.write("t.csv", rows)],
        series: String::new(),
        ..TableOptions::default()
    });
    let found = inspect_trace(&table.unwrap(), Normalisation::None, OutOfRange::Error).unwrap();
    assert_eq!(found.counts.readings, 2);
}

/// Two columns without a name are no fault, unless one of them is meant.
#[test]
fn a_column_that_is_meant_has_a_name_of_its_own() {
    let found = |time: &str, series: &str, rows: &str| {
        let folder = Folder::new();
        let table = Table::open(TableOptions {
            paths: vec![folder.write("t.csv", rows)],
            time: time.to_owned(),
            series: series.to_owned(),
            ..TableOptions::default()
        });
        let table = table.map_err(|error| folder.strip(&error))?;
        let found = inspect_trace(&table, Normalisation::None, OutOfRange::Error);
        Ok::<_, String>(found.unwrap().counts.readings)
    };
    let rows = ",series,,value\n0,a,7,1\n5,a,8,2\n10,a,9,3\n";
    assert_eq!(
        found("", "series", rows).unwrap_err(),
        "t.csv: two columns are called ``"
    );
    assert_eq!(
        found("", "series", &rows.replacen(",,", ",", 1).replace("a,", "a")),
        Ok(3)
    );
}

#[cfg(unix)]
#[test]
fn a_file_that_a_glob_would_pass_over_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;

    let folder = Folder::new();
    let read = folder.write("a1.csv", "series,time,value\na,0,1\na,5,2\n");
    let passed = folder.path().join(std::ffi::OsStr::from_bytes(b"a\xff.csv"));
    std::fs::copy(read, passed).unwrap();
    let open = |pattern: &str| {
        Table::open(TableOptions {
            paths: vec![format!("{}/{pattern}", folder.path().display())],
            ..TableOptions::default()
        })
    };
    let error = folder.strip(&open("a*.csv").unwrap_err());
    assert!(error.contains("expected a name in UTF-8"), "{error}");
    assert!(open("a1*.csv").is_ok());
}

#[test]
fn a_line_that_never_ends_is_no_open_quote() {
    let long = format!("series,time,value\na,0,1\n{}", "[1,2,3]".repeat(3_000_000));
    assert_eq!(
        refused("t.csv", long),
        "t.csv: expected separated text, found more than 16777216 bytes without the end of row 3"
    );
    for (separator, shown) in [(";", ";"), ("\t", "\\t")] {
        let table = format!("sep={separator}\r\nseries;time;value\na;0;1\n").replace(';', separator);
        assert_eq!(
            refused("t.csv", &*table),
            format!(
                "t.csv: expected a table from the first line on, found `sep={shown}`, which is for Excel alone: delete that line"
            )
        );
    }
}

#[test]
fn names_may_have_spaces_around_them_and_begin_like_a_packed_file() {
    let folder = Folder::new();
    let table = Table::open(TableOptions {
        paths: vec![folder.write(
            "t.csv",
            "x^2, time, series ,\"value \"\n7, 0, a, 1\n7,5,\"a\",2\n7, 10, \"a\" ,3\n",
        )],
        ..TableOptions::default()
    });
    let found = inspect_trace(&table.unwrap(), Normalisation::None, OutOfRange::Error).unwrap();
    assert_eq!((found.counts.readings, found.times), (3, Some((0, 10))));
    assert_eq!(found.counts.series, 1);
}

#[test]
fn lone_carriage_returns_are_told_as_such() {
    let expected = "t.csv: expected lines that end with a line feed, found lone carriage returns: \
                    save it with the line ends of Unix or Windows";
    assert_eq!(refused("t.csv", "series,time,value\ra,0,1\ra,5,2\r"), expected);
    assert_eq!(refused("t.csv", "series,time,value\na,0,1\ra,5,2\r"), expected);
    let long = format!("series,time,value\r{}", "a,0,1\r".repeat(4_000_000));
    assert_eq!(refused("t.csv", long), expected);
}

#[test]
fn control_characters_are_written_out_in_messages() {
    assert_eq!(
        refused("t.csv", "series,time,value\na,0,\"1\r\n\u{1b}[31m\"\n"),
        "t.csv, row 2, column `value`: expected a finite number, found `1\\r\\n\\u{1b}[31m`"
    );
    assert_eq!(
        refused("t.csv", "series,time,value\n\"a\nb\",0,1\n\"a\nb\",0,1\n"),
        "t.csv, row 3, column `time`: series `a\\nb` has a second reading at time 0"
    );
    assert_eq!(
        refused("t.csv", "series,time,\"val\nue\"\na,0,1\n"),
        "t.csv: expected a column `value`, found series, time, val\\nue"
    );
}

#[test]
fn separators_in_a_quoted_name_do_not_count() {
    let folder = Folder::new();
    let table = Table::open(TableOptions {
        paths: vec![folder.write("t.csv", "time,series,\"va;l;u;e\"\n0,a,1\n5,a,2\n")],
        values: vec!["va;l;u;e".to_owned()],
        ..TableOptions::default()
    });
    let found = inspect_trace(&table.unwrap(), Normalisation::None, OutOfRange::Error).unwrap();
    assert_eq!((found.counts.readings, found.times), (2, Some((0, 5))));
}

/// The values that are read of a table with the columns `time`, `value` and what else its header names; or why it is refused.
fn values(text: &str) -> Result<u64, String> {
    let folder = Folder::new();
    let table = Table::open(TableOptions {
        paths: vec![folder.write("t.csv", text)],
        series: String::new(),
        ..TableOptions::default()
    });
    let found = table.and_then(|table| inspect_trace(&table, Normalisation::None, OutOfRange::Error));
    match found {
        Ok(found) => Ok(found.counts.readings),
        Err(error) => Err(folder.strip(&error)),
    }
}

#[test]
fn a_row_that_lacks_a_cell_is_refused() {
    for (text, row, expected, found) in [
        ("time,region,value,temp\n0,eu,10,1\n5,eu,20,2\n10,30,3\n", 4, 4, 3),
        ("time,value,temp\n0,68000,99\n5,68500,99\n10,690", 4, 3, 2),
        ("time,value,note,\n0,1\n", 2, 3, 2),
        ("time,value\n0,1\n\n5,2\n", 3, 2, 1),
    ] {
        assert_eq!(
            values(text).unwrap_err(),
            format!("t.csv, row {row}: expected {expected} columns, found {found}"),
            "{text}"
        );
    }
}

#[test]
fn rows_end_alike() {
    const HINT: &str = "(a number has a decimal comma, or some rows end with a separator and the header or other rows do not)";
    for header in ["time,value,note,", "time,value,note,,,"] {
        let ends = header.trim_start_matches("time,value,note");
        // A decimal comma, `9,7`, before and behind rows that show what it is.
        for rows in [
            ["0,9,7ENDS", "5,9,ok", "10,8,ok"],
            ["0,9,ok", "5,9,7ENDS", "10,8,ok"],
        ] {
            let rows = rows.map(|row| row.replace("ENDS", ends));
            let text = format!("{header}\n{}\n", rows.join("\n"));
            let row = 2 + rows.iter().position(|row| row.ends_with(ends)).unwrap();
            assert_eq!(
                values(&text).unwrap_err(),
                format!("t.csv, row {row}: expected 3 columns, found more, the next is empty {HINT}"),
                "{text}"
            );
        }
        for end in ["", ends] {
            let rows = ["0,9,a", "5,9,", "10,8,"].map(|row| format!("{row}{end}\n"));
            assert_eq!(
                values(&format!("{header}\n{}", rows.concat())),
                Ok(3),
                "{header} {end}"
            );
        }
    }
    assert_eq!(values("time,value\n0,1,\n5,2,\n"), Ok(2));
    assert_eq!(
        values("time,value\n0,1,\n5,2\n").unwrap_err(),
        format!("t.csv, row 2: expected 2 columns, found more, the next is empty {HINT}")
    );
}

#[test]
fn rows_between_two_stray_quotes_are_not_swallowed() {
    let expected = |row: u64| {
        Err(format!(
            "t.csv, row {row}: expected a quote that closes a cell, found whole rows before the next quote"
        ))
    };
    for (text, row) in [
        (
            "time,value,note,\n0,1,a\n5,1,b\n10,1,\"an inch\n15,1,b\n20,1,5\"\n25,1,b\n",
            4,
        ),
        (
            "time,value,note,\n0,1,a,\n5,1,\"an inch\n15,1,b,\n20,1,5\",\n25,1,b,\n",
            3,
        ),
        (
            "time,note,value\n0,a,1,\n5,\"a,1,\n10,a,1,\n15,a\",1,\n20,a,1,\n",
            3,
        ),
    ] {
        assert_eq!(values(text), expected(row), "{text}");
    }
    // Lines of a text that are no rows, in the first row as in others.
    for text in [
        "time,value,note\n0,1,\"dims\nx,5,y\nend\"\n5,2,ok\n10,2,ok\n",
        "time,value,note\n0,1,ok\n5,2,\"dims\nx,5,y\n3,4\nend\"\n10,2,ok\n",
    ] {
        assert_eq!(values(text), Ok(3), "{text}");
    }
}

#[test]
fn bytes_of_another_encoding_are_told_with_their_row() {
    assert_eq!(
        refused(
            "t.csv",
            b"series,time,value,note\na,0,1,\"x\ny\nz\"\na,5,1,caf\xe9\n"
        ),
        "t.csv: expected text in UTF-8, found other bytes in row 3: if it is text in Latin-1 or the like, save it as UTF-8"
    );
    // What is wrong before it comes first.
    assert_eq!(
        refused("t.csv", b"series,time,value\na,0,x\na,5,caf\xe9\n"),
        "t.csv, row 2, column `value`: expected a finite number, found `x`"
    );
}

#[test]
fn a_carriage_return_in_a_text_is_not_what_is_wrong_elsewhere() {
    assert_eq!(
        values("time,value,note\n0,abc,foo\rbar\n").unwrap_err(),
        "t.csv, row 2, column `value`: expected a finite number, found `abc`"
    );
    assert_eq!(values("time,value,note\n0,1,foo\rbar\n5,2,\n"), Ok(2));
}
