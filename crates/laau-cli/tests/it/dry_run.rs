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
time column      `when`, ISO 8601, as seconds since 1970
value columns    `load`
times            2024-03-01T06:00:00Z to 2024-03-01T06:59:00Z
step             60
readings         118
series           2
gaps             2
normalisation    percent of load, the same for every series
horizon          4
";
    assert!(told.starts_with(expected), "{told}");
    assert!(
        told.contains(
            "train            10 episodes of 2 series, from 2024-03-01T06:00:00Z to before 2024-03-01T06:32:00Z\n"
        ),
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
