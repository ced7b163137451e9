//! `laau import table`: what was understood, sets apart in time, separators and decimal commas.

use std::fmt::Write as _;

use serde_json::Value;

use crate::support::Bench;

/// Two hosts with a reading every minute of an hour, as stamps, one of them missing.
fn stamped() -> String {
    let mut text = String::from("when;host;load\n");
    for minute in (0..60).filter(|minute| *minute != 7) {
        for host in 0..2 {
            writeln!(text, "2024-03-01T06:{minute:02}:00Z;h{host};{}.5", minute + host).unwrap();
        }
    }
    text
}

const IMPORT: &str =
    "import table load.csv --series host --time when --values load --horizon 4 --split 10,4,4";

#[test]
fn a_dry_run_tells_what_was_understood_and_writes_nothing() {
    let bench = Bench::new();
    bench.write("load.csv", stamped());
    let told = bench.stdout(&format!("{IMPORT} --split-by time --gap 2m --dry-run"), "");
    let expected = "\
files            1
columns          when, host, load
separator        semicolon
series column    `host`
time column      `when`, stamps with a zone, as seconds since 1970
value columns    `load`
times            2024-03-01T06:00:00Z to 2024-03-01T06:59:00Z
step             60 seconds
readings         118
series           2
gaps             2
normalisation    percent of load, the same for every series
horizon          4
gap              120 seconds
";
    assert!(told.starts_with(expected), "{told}");
    assert!(
        told.contains(
            "train            10 episodes, drawn from 2 series, from 2024-03-01T06:00:00Z to before 2024-03-01T06:32:00Z\n"
        ),
        "{told}"
    );
    assert!(
        told.contains("\nleft out         22 readings, 0 series\n"),
        "{told}"
    );
    assert_eq!(told.matches("\nfirst of ").count(), 3, "{told}");
    assert!(told.ends_with("\nnothing was written\n"), "{told}");
    assert_eq!(std::fs::read_dir(bench.path()).unwrap().count(), 1);
    // With an output, too.
    bench.stdout(&format!("{IMPORT} --split-by time --dry-run -o sets"), "");
    assert_eq!(std::fs::read_dir(bench.path()).unwrap().count(), 1);
}

#[test]
fn sets_are_apart_in_time_and_the_report_says_when() {
    let bench = Bench::new();
    bench.write("load.csv", stamped());
    let out = bench.stdout(&format!("{IMPORT} --split-by time --gap 2 -o sets"), "");
    let report: Value = serde_json::from_str(&out).unwrap();
    let time = |set: usize, end: usize| report["periods"][set][end].as_i64().unwrap();
    assert_eq!(time(1, 0) - time(0, 1), 120);
    assert_eq!(time(2, 0) - time(1, 1), 120);
    assert_eq!(report["step"], 60);
    let run = bench.run(&format!("{IMPORT} --gap soon --dry-run"), "");
    assert!(
        run.stderr
            .contains("expected a number of steps or a duration such as 30m, 6h or 1d, found `soon`"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_gap_is_a_duration_only_where_the_unit_of_times_is_known() {
    let bench = Bench::new();
    let table = |first: i64, minute: i64| {
        let mut text = String::from("when,host,load\n");
        for number in 0..60 {
            writeln!(text, "{},h,{number}", first + minute * number).unwrap();
        }
        bench.write("load.csv", text);
    };
    let import = format!("{} --split-by time --gap 2m", IMPORT.replace("10,4,4", "5,2,2"));
    // A minute since 1970 in seconds, milliseconds, microseconds and nanoseconds.
    for (per_second, name) in [
        (1, "seconds"),
        (1_000, "milliseconds"),
        (1_000_000, "microseconds"),
        (1_000_000_000, "nanoseconds"),
    ] {
        table(1_709_272_800 * per_second, 60 * per_second);
        let told = bench.stdout(&format!("{import} --dry-run"), "");
        let minute = 60 * per_second;
        assert!(
            told.contains(&format!("\nstep             {minute} {name}\n")),
            "{told}"
        );
        assert!(
            told.contains(&format!("\ngap              {} {name}\n", 2 * minute)),
            "{told}"
        );
        let first = 1_709_272_800 * per_second;
        let last = first + 59 * minute;
        assert!(
            told.contains(&format!(
                "\ntimes            {first} (2024-03-01T06:00:00Z) to {last} (2024-03-01T06:59:00Z)\n"
            )),
            "{told}"
        );
        // The periods, too.
        assert!(
            told.contains(&format!("series, from {first} (2024-03-01T06:00:00Z) to before ")),
            "{told}"
        );
        let report: Value = serde_json::from_str(&bench.stdout(&format!("{import} -o sets"), "")).unwrap();
        let time = |set: usize, end: usize| report["periods"][set][end].as_i64().unwrap();
        assert_eq!(time(1, 0) - time(0, 1), 2 * minute, "{name}");
        assert_eq!(time(2, 0) - time(1, 1), 2 * minute, "{name}");
    }
    // Minutes, or seconds since something else: nobody knows.
    table(0, 1);
    for rest in ["-o other", "--dry-run"] {
        let run = bench.run(&format!("{import} {rest}"), "");
        assert_eq!(
            run.stderr,
            "error: invalid gap: expected a number of steps, found a duration: the times, 0 to 59, are neither stamps nor since 1970, \
             and their unit is not known\n\
             hint: with --split-by time or both, --gap is a number of steps, or a duration where times are ISO 8601 or since 1970\n"
        );
        assert_eq!(run.status, Some(1));
    }
    assert!(!bench.path().join("other/train.parquet").exists());
    let told = bench.stdout(&format!("{} --dry-run", import.replace("2m", "2")), "");
    assert!(
        told.contains("\nstep             1, of a unit that is not known\n"),
        "{told}"
    );
    assert!(told.contains("\ngap              2 steps\n"), "{told}");
}

#[test]
fn what_was_understood_is_told_where_there_is_too_little_of_it() {
    let bench = Bench::new();
    bench.write("load.csv", stamped());
    let run = bench.run(
        &IMPORT
            .replace("--split 10,4,4", "--split 1000,4,4 --dry-run")
            .replace("--horizon 4", "--horizon 3"),
        "",
    );
    assert_eq!(run.status, Some(1));
    assert!(run.stdout.contains("readings       118\n"), "{}", run.stdout);
    assert!(run.stderr.contains("the trace is too short: "), "{}", run.stderr);
}

#[test]
fn decimal_commas_are_refused_with_a_hint() {
    let bench = Bench::new();
    bench.write("load.csv", stamped().replace(".5\n", ",5\n"));
    let run = bench.run(&format!("{IMPORT} --dry-run"), "");
    assert!(
        run.stderr
            .contains("row 2, column `load`: expected a finite number with a decimal point, found `0,5`"),
        "{}",
        run.stderr
    );
    bench.write("load.csv", stamped().replace(".5\n", ",5\n").replace(';', ","));
    let run = bench.run(&format!("{IMPORT} --dry-run"), "");
    assert!(
        run.stderr
            .contains("row 2: expected 3 columns, found more, the next is `5` (numbers have a decimal point"),
        "{}",
        run.stderr
    );
}

#[test]
fn hints_fit_what_is_wrong_and_do_what_they_say() {
    let bench = Bench::new();
    let import = "import table t.csv --horizon 2 --split 2,0,0 -o sets";
    for (rows, sentence, hint, remedy) in [
        (
            "a,5,2\na,0,1\nb,0,3\nb,5,4\n",
            "t.csv, row 3, column `time`: expected ascending times, found 0 after 5 in series `a`",
            "--sort true sorts a table in memory; rows of several hosts, users or shops need --series NAME; files of other traces must \
             be in the order of their times",
            "--sort true",
        ),
        (
            "a,0,1\na,5,200\nb,0,3\nb,5,4\n",
            "t.csv, row 3, column `value`: expected a value in [0, 100], found 200",
            "readings that are not percentages want --normalisation series-max, min-max or none; --out-of-range clamp is for a \
             few that stray",
            "--out-of-range clamp",
        ),
        (
            "a,0,1\na,5,2\na,7,2\na,12,2\nb,0,3\nb,5,4\n",
            "t.csv, row 4, column `time`: expected times in steps of 5, the first distance, found 2 after the last reading of series `a`",
            "round times that jitter to whole steps first; of a table, --step N with --irregular-times gap makes it a gap; of \
             azure-vm, --irregular gap does",
            "--step 5 --irregular-times gap",
        ),
        (
            "a,0,1\na,10,2\na,15,2\na,20,2\nb,0,3\nb,5,4\n",
            "t.csv, row 4, column `time`: expected times in steps of 10, the first distance, found 5 after the last reading of series `a`",
            "if a row is missing after the first one, give the step: --step 5",
            "--step 5",
        ),
        (
            "a,0,1\na,5,-2\nb,0,3\nb,5,4\n",
            "t.csv, row 3, column `value`: expected a value in [0, 100], found -2",
            "negative readings want --normalisation min-max or none; --out-of-range clamp is for a few that stray",
            "--normalisation min-max",
        ),
    ] {
        bench.write("t.csv", format!("series,time,value\n{rows}"));
        bench.check_failure(import, "", &format!("error: {sentence}\nhint: {hint}\n"));
        bench.stdout(&format!("{import} {remedy}"), "");
    }
}

#[test]
fn rows_of_several_series_without_their_column_are_told() {
    let bench = Bench::new();
    bench.write("t.csv", "host,time,value\na,0,1\nb,0,3\na,5,2\nb,5,4\n");
    let import = "import table t.csv --horizon 2 --split 2,0,0 -o sets";
    bench.check_failure(
        &format!("{import} --series="),
        "",
        "error: t.csv, row 3, column `time`: series `all` has a second reading at time 0\n\
         hint: keep one row per time; rows of several hosts, users or shops need --series NAME; local times come twice when clocks go \
         back: write them with their zone\n",
    );
    bench.stdout(&format!("{import} --series host"), "");
}

#[test]
fn series_without_an_episode_are_told() {
    let bench = Bench::new();
    bench.write("t.csv", "series,time,value\na,0,1\na,5,2\nb,0,3\n");
    let import = "import table t.csv --horizon 2 --split 1,0,0";
    for output in ["--dry-run", "-o sets"] {
        let run = bench.run(&format!("{import} {output}"), "");
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        assert!(
            run.stderr.starts_with("note: 1 of 2 series are in no episode: "),
            "{}",
            run.stderr
        );
    }
}

/// Readings that no window takes are a loss that the counts of series do not show.
#[test]
fn readings_that_are_in_no_episode_are_told_where_they_are_many() {
    let bench = Bench::new();
    let mut text = String::from("series,time,value\n");
    for series in 0..5 {
        // A quarter of an hour, and then an hour.
        let times = (0..40).map(|row| 900 * row).chain((11..91).map(|row| 3600 * row));
        for time in times {
            writeln!(text, "s{series},{time},{}", time % 97).unwrap();
        }
    }
    bench.write("t.csv", text);
    let import = "import table t.csv --horizon 4 --split 10,2,2";
    for output in ["--dry-run", "-o sets"] {
        let told = bench.run(&format!("{import} {output}"), "").stderr;
        assert_eq!(
            told,
            "note: 400 of 600 readings are in no episode; an episode takes readings that are a step of 900 apart, and \
             `--dry-run` counts the gaps\n"
        );
    }
    assert_eq!(
        bench
            .run(
                &format!("{} --stride 50 --dry-run", import.replace("10,2,2", "2,1,1")),
                ""
            )
            .stderr,
        ""
    );
}

#[test]
fn what_is_no_file_is_told() {
    let bench = Bench::new();
    bench.write("t.csv", "series,time,value\na,0,1\na,1,2\n");
    std::fs::create_dir(bench.path().join("part")).unwrap();
    bench.check_failure(
        "import table part --horizon 2 --split 1,0,0 --dry-run",
        "",
        "error: part: expected a file, found a folder: name the files in it, for example 'part/*.csv'\n\
         hint: the message says what the file is; text may be packed with gzip, zlib or zstd\n",
    );
    // A file that is named in two ways is one.
    let twice = bench.stdout(
        "import table t.csv ./t.csv --horizon 2 --split 1,0,0 --dry-run",
        "",
    );
    assert!(twice.contains("readings         2\n"), "{twice}");
    for (flag, expected) in [
        ("--budget 5", "a range, 10,15, or one per budget, 10:15,2:4"),
        (
            "--split 1,0",
            "three counts, for training, validation and test: 5000,1000,2000",
        ),
    ] {
        let run = bench.run(&format!("import table t.csv --dry-run {flag}"), "");
        assert!(
            run.stderr.contains(&format!(": expected {expected}\n")),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn cells_that_are_no_times_or_numbers_are_refused_with_the_form_that_is_read() {
    let bench = Bench::new();
    let import = "import table t.csv --horizon 2 --split 1,0,0 --normalisation none --dry-run";
    let stamps = "write times as 2024-03-01T08:00:00Z, 2024-03-01 08:00 or 2024-03-01, or number the rows; zones may follow as Z \
                  or +01:00";
    let fractional =
        "round the times to whole steps, or write them as whole numbers, such as milliseconds since 1970";
    let one_way = "write all times in one way: as stamps, all with a zone or all without one, or as whole numbers in one unit";
    let missing = "fill the cell in, or leave the row out: no episode spans a row that is missing";
    let decimals = "export numbers with a decimal point, and without separators of thousands";
    for (row, hint) in [
        ("a,01/31/2024,1", stamps),
        ("a,08:00,1", stamps),
        ("a,2024-01-31,1\na,2024-02-01T00:00:00Z,1", one_way),
        ("a,2024-01-31,1\na,86400,1", one_way),
        ("a,86400,1\na,2024-01-31,1", one_way),
        ("a,,1", missing),
        ("a,2024-01-31T00:00:00.1,1", fractional),
        ("a,0.5,1", fractional),
        (
            "a,20240131,1",
            "write dates as 2024-01-31; --step N says that these are counts, N from one row of a series to the next",
        ),
        ("a,0,", missing),
        ("a,0,NaN", missing),
        ("a,0,n/a", missing),
        ("a,0,null", missing),
        ("a,0,\"1,000\"", decimals),
        ("a,0,\"1,110.5\"", decimals),
        ("a,0,\"-1.110,5\"", decimals),
        ("a,0,1 110", decimals),
        (
            "a,0",
            "write every cell, empty ones too; if it is the last row, the file may be truncated: fetch it again",
        ),
    ] {
        bench.write("t.csv", format!("series,time,value\n{row}\n"));
        let run = bench.run(import, "");
        assert_eq!(run.status, Some(1), "{row}");
        assert!(
            run.stderr.ends_with(&format!("hint: {hint}\n")),
            "{row}: {}",
            run.stderr
        );
    }
}

#[test]
fn a_split_by_time_that_is_too_short_is_not_told_to_split_by_time() {
    let bench = Bench::new();
    bench.write("t.csv", "series,time,value\na,0,1\na,1,2\na,2,3\n");
    let import = "import table t.csv --horizon 2 --split 1,1,1 --normalisation none --dry-run";
    let by_series = bench.run(import, "").stderr;
    assert!(
        by_series.contains("hint: each set needs a series of its own: --split-by time"),
        "{by_series}"
    );
    for split in ["1,1,1", "1,0,0"] {
        let short = "import table t.csv --horizon 4 --normalisation none --dry-run --split";
        let too_short = bench.run(&format!("{short} {split}"), "").stderr;
        assert!(
            too_short.contains("hint: no run of readings is as long as the horizon"),
            "{too_short}"
        );
    }
    let by_time = bench.run(&format!("{import} --split-by time --gap 0"), "").stderr;
    assert!(
        by_time.contains("hint: no run of readings within a period is as long as the horizon"),
        "{by_time}"
    );
    // With two series, too, the default has none for the third set.
    let mut text = String::from("series,time,value\n");
    for time in 0..40 {
        write!(text, "a,{time},{time}\nb,{time},1\n").unwrap();
    }
    bench.write("t.csv", text);
    let two = bench.run(import, "").stderr;
    assert!(
        two.contains("hint: each set needs a series of its own: --split-by time"),
        "{two}"
    );
    bench.stdout(&format!("{import} --split-by time"), "");
    let many = import.replace("1,1,1", "50,1,1");
    let by_time = bench.run(&format!("{many} --split-by time"), "").stderr;
    assert!(
        by_time.contains("hint: ask for fewer episodes with --split, for a shorter"),
        "{by_time}"
    );
}

#[test]
fn negative_contexts_are_told() {
    let bench = Bench::new();
    bench.write("t.csv", "series,time,value\na,0,-999\na,1,2\n");
    let import = "import table t.csv --horizon 2 --split 1,0,0 --normalisation none";
    for rest in ["--dry-run", "-o sets"] {
        assert_eq!(
            bench.run(&format!("{import} {rest}"), "").stderr,
            "warning: negative contexts became 0: 1; --normalisation min-max would keep them apart\n"
        );
    }
    assert_eq!(
        bench.run(&format!("{import} --floor 0.5 --dry-run"), "").stderr,
        ""
    );
}

#[test]
fn budgets_are_given_as_to_the_workload() {
    let bench = Bench::new();
    bench.write("load.csv", stamped());
    let mut told: Vec<String> = [
        "--budget 10,12",
        "--budgets 10,12",
        "--budgets 10:12",
        "--budget 10:12",
    ]
    .iter()
    .map(|budget| bench.stdout(&format!("{IMPORT} --split-by time {budget} --dry-run"), ""))
    .collect();
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    let two = bench.stdout(
        &format!("{IMPORT} --split-by time --budget 10:10,2:2 --dry-run"),
        "",
    );
    assert!(two.contains("first of train: budgets 40.00 8.000; "), "{two}");
}
