//! Ctrl-C: a word, status 130, and no left-overs; what is finished is kept.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Bench, Stream};

/// Sends Ctrl-C.
fn interrupt(stream: &Stream) {
    let sent = Command::new("kill")
        .args(["-INT", &stream.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// The names in a folder, hidden ones, too.
fn names(bench: &Bench, folder: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(bench.path().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const NOTHING: &str = "stopped; nothing was written\nhint: run the same command again\n";

#[test]
fn generate_leaves_nothing() {
    let bench = Bench::new();
    let stream = Stream::start_with_errors(
        bench.path(),
        "generate --horizon 1000 --episodes 10000 -o out.csv",
    );
    std::thread::sleep(Duration::from_millis(400));
    interrupt(&stream);
    assert_eq!(stream.end(), (Some(130), NOTHING.to_owned()));
    assert!(names(&bench, ".").is_empty(), "{:?}", names(&bench, "."));
}

#[test]
fn import_leaves_nothing() {
    let bench = Bench::new();
    let mut rows = String::from("host,minute,cpu\n");
    for minute in 0..40_000 {
        for host in 0..30 {
            writeln!(rows, "h{host},{minute},{}", (minute * 7 + host * 31) % 100).unwrap();
        }
    }
    bench.write("load.csv", rows);
    let stream = Stream::start_with_errors(
        bench.path(),
        "import table load.csv --series host --time minute --values cpu --horizon 10 --split 4000,200,200 -o out",
    );
    // The folder is made just before the trace is read.
    while !bench.path().join("out").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
    interrupt(&stream);
    assert_eq!(stream.end(), (Some(130), NOTHING.to_owned()));
    assert_eq!(names(&bench, "."), ["load.csv"]);
}

#[test]
fn compare_keeps_the_policies_that_are_done() {
    let bench = Bench::new();
    bench.stdout("generate --horizon 20 --split 2000,200,200 --seed 1 -o sets", "");
    let mut stream = Stream::start_with_errors(
        bench.path(),
        "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet \
         --policies equal,laau --seeds 0,1 --phases 5000:0.001 --format json -o report",
    );
    let line = stream.hear_error().unwrap();
    assert!(line.starts_with("equal, seed 0: "), "{line}");
    interrupt(&stream);
    let mut json = String::new();
    while let Some(line) = stream.hear() {
        json += &line;
    }
    let (status, told) = stream.end();
    assert_eq!(
        told,
        "stopped: the comparison is incomplete, without laau\n\
         hint: the 1 policies that were finished are reported, and in report\n"
    );
    assert_eq!(status, Some(130));
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["unfinished"], serde_json::json!(["laau"]));
    assert_eq!(report["policies"].as_object().unwrap().len(), 1);
    assert!(report["policies"]["equal"]["utility"].is_number());
    assert_eq!(
        names(&bench, "report"),
        ["equal.policy", "rollouts.parquet", "summary.json"]
    );
    let summary: Value = serde_json::from_slice(&bench.read("report/summary.json")).unwrap();
    assert_eq!(summary, report);
    bench.stdout("inspect report/summary.json", "");
}

#[test]
fn evaluate_ends_while_a_program_thinks() {
    let bench = Bench::new();
    bench.stdout("generate --horizon 5 --episodes 20 --seed 1 -o test.parquet", "");
    // It is there when it has been started; it never answers.
    bench.write("mine.sh", "#!/bin/sh\ntouch started\nexec sleep 1000\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.path().join("mine.sh"), mode).unwrap();
    let stream = Stream::start_with_errors(
        bench.path(),
        "evaluate --test test.parquet --quiet --external-timeout 600 --external ./mine.sh -o out",
    );
    while !bench.path().join("started").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&stream);
    let (status, told) = stream.end();
    assert_eq!(
        (status, told.as_str()),
        (
            Some(130),
            "stopped: nothing was reported\nhint: run the same command again\n"
        )
    );
    assert!(!bench.path().join("out").exists());
}
