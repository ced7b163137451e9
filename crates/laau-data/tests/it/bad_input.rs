//! Every bad input has its message, with file, row and column.

use std::fmt::Write as _;

use laau_data::{
    AzureFunctions, AzureFunctionsOptions, AzureVm, AzureVmOptions, CpuReading, EpisodeOptions, Error,
    Imported, Irregular, Normalisation, OutOfRange, Split, Table, TableOptions, VmTableOptions, import,
};

use crate::azure_functions::invocations;
use crate::files::{Folder, gzip};

fn options() -> EpisodeOptions {
    EpisodeOptions {
        horizon: 2,
        split: Split {
            train: 1,
            validation: 0,
            test: 0,
        },
        ..EpisodeOptions::default()
    }
}

fn import_azure(options: AzureVmOptions) -> Result<Imported, Error> {
    import(&AzureVm::open(options)?, &self::options())
}

fn azure_options(path: String) -> AzureVmOptions {
    AzureVmOptions {
        paths: vec![path],
        ..AzureVmOptions::default()
    }
}

/// Checks the message of a readings file of Azure, plain and zipped.
fn azure(content: impl AsRef<[u8]>, expected: &str) {
    for name in ["a.csv", "a.csv.gz"] {
        let folder = Folder::new();
        let path = folder.write(name, content.as_ref());
        let error = import_azure(azure_options(path)).unwrap_err();
        assert_eq!(folder.strip(&error), format!("{name}{expected}"));
    }
}

#[test]
fn a_missing_file() {
    let error = import_azure(azure_options("no/such/file.csv.gz".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "no file matches `no/such/file.csv.gz`");
    let error = import_azure(AzureVmOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "invalid paths: expected at least one file");
}

#[test]
fn an_empty_file() {
    azure(
        "",
        ": the file has no rows, expected columns timestamp, vmid, mincpu, maxcpu, avgcpu",
    );
}

#[test]
fn an_empty_line() {
    azure("0,a,,,5\n\n300,a,,,6\n", ", row 2: expected 5 columns, found 1");
}

#[test]
fn a_truncated_gzip() {
    let mut rows = String::new();
    for i in 0..200_000 {
        writeln!(rows, "{},vm{},,,{}", i / 10 * 300, i % 10, i % 100).unwrap();
    }
    let zipped = gzip(rows.as_bytes());
    for (kept, reason) in [
        (12, "incomplete deflate stream"),
        (zipped.len() / 2, "incomplete deflate stream"),
        (zipped.len() - 4, "unexpected end of file"),
    ] {
        let folder = Folder::new();
        let path = folder.write("a.csv", &zipped[..kept]);
        let message = folder.strip(&import_azure(azure_options(path)).unwrap_err());
        assert!(
            message.starts_with("a.csv: cannot be read after row "),
            "{message}"
        );
        assert!(message.ends_with(reason), "{message}");
    }
    let folder = Folder::new();
    let path = folder.write("a.csv", &zipped);
    assert_eq!(
        import_azure(azure_options(path)).unwrap().report.trace.readings,
        200_000
    );
}

#[test]
fn text_where_a_number_belongs() {
    azure(
        "0,a,,,5\n300,a,,,six\n",
        ", row 2, column `avgcpu`: expected a finite number, found `six`",
    );
    azure(
        "0,a,,,5\nlater,a,,,6\n",
        ", row 2, column `timestamp`: expected a whole number, found `later`",
    );
    azure(
        "0.5,a,,,5\n",
        ", row 1, column `timestamp`: expected a whole number, found `0.5`",
    );
}

#[test]
fn a_bad_cell_far_into_a_file_is_told_by_its_row() {
    let mut rows = String::new();
    for i in 0..150_000 {
        let cpu = if i == 123_456 { "high" } else { "5" };
        writeln!(rows, "{},vm{},,,{cpu}", i / 10 * 300, i % 10).unwrap();
    }
    azure(
        rows,
        ", row 123457, column `avgcpu`: expected a finite number, found `high`",
    );
}

#[test]
fn of_several_faults_the_one_of_the_first_row_is_told() {
    azure(
        "0,a,,,5\n300,a,,,six\nlater,a,,,7\n900,a,,,8,9\n",
        ", row 2, column `avgcpu`: expected a finite number, found `six`",
    );
    azure(
        "0,a,,,5\nlater,a,,,six\n",
        ", row 2, column `timestamp`: expected a whole number, found `later`",
    );
    azure(
        "0,a,,,5\nlater,a,,,6,7\n",
        ", row 2: expected 5 columns, found more, the next is `7` (numbers have a decimal point, not a comma)",
    );
}

#[test]
fn a_number_that_is_not_finite() {
    azure(
        "0,a,,,5\n300,a,,,NaN\n",
        ", row 2, column `avgcpu`: expected a finite number, found `NaN`",
    );
    azure(
        "0,a,,,5\n300,a,,,1e999\n",
        ", row 2, column `avgcpu`: expected a finite number, found `1e999`",
    );
}

#[test]
fn percents_out_of_range_are_refused_or_clamped_and_counted() {
    azure(
        "0,a,,,5\n300,a,,,-0.5\n",
        ", row 2, column `avgcpu`: expected a value in [0, 100], found -0.5",
    );
    azure(
        "0,a,,,100.5\n300,a,,,6\n",
        ", row 1, column `avgcpu`: expected a value in [0, 100], found 100.5",
    );
    let folder = Folder::new();
    let path = folder.write("a.csv", "0,a,,,-0.5\n300,a,,,100.5\n");
    let trace = AzureVm::open(azure_options(path)).unwrap();
    let clamp = EpisodeOptions {
        out_of_range: OutOfRange::Clamp,
        ..options()
    };
    let imported = import(&trace, &clamp).unwrap();
    assert_eq!(imported.sets.train.contexts(), [0.0, 1.0]);
    assert_eq!(imported.report.trace.clamped, 2);
}

#[test]
fn duplicate_and_unsorted_times() {
    azure(
        "0,a,,,5\n0,b,,,5\n0,a,,,6\n",
        ", row 3, column `timestamp`: series `a` has a second reading at time 0",
    );
    azure(
        "300,a,,,5\n0,a,,,6\n",
        ", row 2, column `timestamp`: expected ascending times, found 0 after 300 in series `a`",
    );
}

#[test]
fn a_header_where_none_belongs() {
    azure(
        "timestamp,vmid,mincpu,maxcpu,avgcpu\n0,a,,,5\n300,a,,,6\n",
        ", row 1, column `timestamp`: expected a whole number, found the header `timestamp`",
    );
}

#[test]
fn too_few_and_too_many_columns() {
    azure("0,a,,,5\n300,a\n", ", row 2: expected 5 columns, found 2");
    azure(
        "0,a,,,5\n300,a,,,6,7,8\n",
        ", row 2: expected 5 columns, found more, the next is `7` (numbers have a decimal point, not a comma)",
    );
    azure(
        "0,a,,,5\n300,,,,6\n",
        ", row 2, column `vmid`: expected the name of a machine, found nothing",
    );
}

#[test]
fn text_that_is_not_utf8() {
    azure(
        b"0,a,,,5\n300,\xff\xfe,,,6\n",
        ": expected text in UTF-8, found other bytes in row 2: if it is text in Latin-1 or the like, save it as UTF-8",
    );
}

#[test]
fn an_empty_column_that_is_asked_for() {
    let folder = Folder::new();
    let path = folder.write("a.csv", "0,a,,,5\n300,a,,,6\n");
    let error = import_azure(AzureVmOptions {
        reading: CpuReading::Minimum,
        ..azure_options(path)
    })
    .unwrap_err();
    assert_eq!(
        folder.strip(&error),
        "a.csv, row 1, column `mincpu`: expected a finite number, found nothing"
    );
}

#[test]
fn mixed_time_steps_are_refused_or_break_a_window_and_are_counted() {
    let folder = Folder::new();
    let path = folder.write(
        "a.csv",
        "0,a,,,5\n300,a,,,6\n550,a,,,7\n850,a,,,8\n1750,a,,,9\n2050,a,,,1\n",
    );
    let refused = import_azure(AzureVmOptions {
        irregular: Irregular::Error,
        ..azure_options(path.clone())
    })
    .unwrap_err();
    assert_eq!(
        folder.strip(&refused),
        "a.csv, row 3, column `timestamp`: expected times in steps of 300, found 250 after the last reading of series `a`"
    );
    let report = import_azure(azure_options(path)).unwrap().report;
    assert_eq!(
        (report.trace.irregular, report.trace.gaps, report.available),
        (1, 1, 3)
    );
    let path = folder.write("t.csv", "series,time,value\na,0,5\na,10,6\na,25,7\n");
    let error = import_table(TableOptions {
        paths: vec![path.clone()],
        ..TableOptions::default()
    })
    .unwrap_err();
    assert_eq!(
        folder.strip(&error),
        "t.csv, row 4, column `time`: expected times in steps of 10, the first distance, found 15 after the last reading of series `a`"
    );
    let error = import_table(TableOptions {
        paths: vec![path],
        step: Some(0),
        ..TableOptions::default()
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid step: expected a positive distance in time, found 0"
    );
}

fn import_table(table: TableOptions) -> Result<Imported, Error> {
    let options = EpisodeOptions {
        normalisation: Normalisation::None,
        ..options()
    };
    import(&Table::open(table)?, &options)
}

#[test]
fn tables_without_their_columns() {
    let check = |content: &str, expected: &str| {
        let folder = Folder::new();
        let path = folder.write("t.csv", content);
        let error = import_table(TableOptions {
            paths: vec![path],
            ..TableOptions::default()
        })
        .unwrap_err();
        assert_eq!(folder.strip(&error), expected);
    };
    check(
        "",
        "t.csv: the file has no rows, expected columns named in a header",
    );
    check(
        "series,time,value\n",
        "t.csv: expected rows below the header, found none",
    );
    check(
        "series,time,cpu\na,0,1\n",
        "t.csv: expected a column `value`, found series, time, cpu",
    );
    check(
        "series,time,value\n,0,1\n",
        "t.csv, row 2, column `series`: expected the name of a series, found nothing",
    );
    check(
        "series,time,value\na,0,\"1,5\"\n",
        "t.csv, row 2, column `value`: expected a finite number with a decimal point, found `1,5`",
    );
    let error = Table::open(TableOptions {
        values: vec!["time".to_owned()],
        ..TableOptions::default()
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid columns: expected different columns, found `time` twice"
    );
}

#[test]
fn a_bad_table_of_machines() {
    let check = |content: &str, expected: &str| {
        let folder = Folder::new();
        let paths = vec![folder.write("a.csv", "0,a,,,5\n300,a,,,6\n")];
        let path = folder.write("vmtable.csv", content);
        let vm_table = Some(VmTableOptions {
            path,
            ..VmTableOptions::default()
        });
        let error = import_azure(AzureVmOptions {
            paths,
            vm_table,
            ..AzureVmOptions::default()
        })
        .unwrap_err();
        assert_eq!(folder.strip(&error), expected);
    };
    check(
        "a,s,d,0,600,9,5,8,Interactive,many,4\n",
        "vmtable.csv, row 1, column `vmcorecount`: expected a size such as 4, 1.75 or >24, found `many`",
    );
    check(
        "a,s,d,0,600,9,5,8,Interactive,2,4\na,s,d,0,600,9,5,8,Interactive,2,4\n",
        "vmtable.csv, row 2, column `vmid`: expected each machine once, found `a` again",
    );
    check(
        "a,s,d,0,600,9,5,8,Interactive\n",
        "vmtable.csv, row 1: expected 11 columns, found 9",
    );
    check(
        "a,s,d,0,600,9,5,8,Interactive,,4\n",
        "vmtable.csv, row 1, column `vmcorecount`: expected a size such as 4, 1.75 or >24, found nothing",
    );
}

#[test]
fn a_bad_functions_trace() {
    let check = |name: &str, content: String, expected: &str| {
        let folder = Folder::new();
        let path = folder.write(name, content);
        let error = AzureFunctions::open(&AzureFunctionsOptions {
            invocations: vec![path],
            ..AzureFunctionsOptions::default()
        })
        .and_then(|trace| import(&trace, &options()))
        .unwrap_err();
        assert_eq!(folder.strip(&error), expected);
    };
    let good = invocations(&[("f", |_| 1)]);
    check(
        "invocations.csv",
        good.clone(),
        "invalid file name: expected a day such as `.d07.` in `invocations.csv`",
    );
    check(
        "i.d01.csv",
        good.replacen(",1440\n", "\n", 1),
        "i.d01.csv: expected a column `1440`, found HashOwner, HashApp, HashFunction, Trigger, 1, 2, 3, 4, 5, 6, 7, 8, \
         9, 10, 11, 12, 13, 14, 15, 16, 17…",
    );
    check(
        "i.d01.csv",
        good.replacen("http,1,", "http,-1,", 1),
        "i.d01.csv, row 2, column `1`: expected a count from 0 to 4294967295, found -1",
    );
    check(
        "i.d01.csv",
        good.replacen("http,1,1,", "http,1,x,", 1),
        "i.d01.csv, row 2, column `2`: expected a whole number, found `x`",
    );
    check(
        "i.d01.csv",
        invocations(&[("f", |_| 1), ("f", |_| 1)]),
        "i.d01.csv, row 3, column `HashFunction`: expected ascending times, found 0 after 1439 in series `o/a/f`",
    );
}

#[test]
fn a_trace_that_is_too_short() {
    let folder = Folder::new();
    let path = folder.write("a.csv", "0,a,,,5\n300,a,,,6\n0,b,,,5\n300,b,,,6\n");
    let trace = AzureVm::open(azure_options(path)).unwrap();
    let error = import(
        &trace,
        &EpisodeOptions {
            horizon: 2,
            ..EpisodeOptions::default()
        },
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the trace is too short: 5000 train episodes wanted, 1 available in 1 series \
         (whole trace: 2 in 2 series)"
    );
}
