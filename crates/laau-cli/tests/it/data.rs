//! `laau generate`, `laau import` and `laau inspect`.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;

use crate::support::{Bench, command, run_command};

/// A table of three hosts with so many readings each.
fn readings(minutes: i32) -> String {
    let mut text = String::from("host,minute,cpu\n");
    for minute in 0..minutes {
        for host in 0..3 {
            writeln!(text, "h{host},{minute},{}", (minute * 7 + host * 31) % 100).unwrap();
        }
    }
    text
}

const IMPORT: &str =
    "import table load.csv --series host --time minute --values cpu --horizon 10 --split 4,2,2 -o out";

#[test]
fn generated_episodes_are_the_same_for_the_same_seed_and_others_for_another() {
    let bench = Bench::new();
    for (name, seed) in [("a.parquet", 1), ("b.parquet", 1), ("c.parquet", 2)] {
        bench.stdout(
            &format!("generate --horizon 5 --episodes 40 --seed {seed} -o {name}"),
            "",
        );
    }
    assert_eq!(bench.read("a.parquet"), bench.read("b.parquet"));
    assert_ne!(bench.read("a.parquet"), bench.read("c.parquet"));
    let out = bench.stdout("inspect a.parquet --format json", "");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["statistics"]["episodes"], 40);
    assert_eq!(value["statistics"]["horizon"], 5);
}

#[test]
fn generated_episodes_do_not_depend_on_the_number_of_threads() {
    let bench = Bench::new();
    for threads in ["1", "3"] {
        let name = format!("{threads}.csv");
        let mut command = command(
            bench.path(),
            &["generate", "--horizon", "5", "--episodes", "40", "-o", &name],
        );
        command
            .env("RAYON_NUM_THREADS", threads)
            .env("POLARS_MAX_THREADS", threads);
        assert_eq!(run_command(command, "").status, Some(0));
    }
    assert_eq!(bench.read("1.csv"), bench.read("3.csv"));
}

#[test]
fn a_split_is_three_tables_in_a_folder() {
    let bench = Bench::new();
    bench.stdout("generate --horizon 5 --split 4,2,3 -o sets/synthetic", "");
    for (name, episodes) in [("train", 4), ("validation", 2), ("test", 3)] {
        let out = bench.stdout(
            &format!("inspect sets/synthetic/{name}.parquet --format json"),
            "",
        );
        let value: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value["statistics"]["episodes"], episodes);
    }
}

#[test]
fn the_configuration_is_read_by_generate_too() {
    let bench = Bench::new();
    let text = bench
        .stdout("config --default", "")
        .replace("episodes = 5000", "episodes = 12");
    bench.write("small.toml", text);
    bench.stdout("generate --config small.toml -o small.csv", "");
    // A heading, and twelve episodes of twenty steps.
    assert_eq!(
        String::from_utf8(bench.read("small.csv"))
            .unwrap()
            .lines()
            .count(),
        1 + 12 * 20
    );
}

#[test]
fn a_table_becomes_episodes() {
    let bench = Bench::new();
    bench.write("load.csv", readings(60));
    let report: Value = serde_json::from_str(&bench.stdout(IMPORT, "")).unwrap();
    assert_eq!(report["trace"]["readings"], 180);
    assert_eq!(report["trace"]["series"], 3);
    for (name, episodes) in [("train", 4), ("validation", 2), ("test", 2)] {
        let out = bench.stdout(&format!("inspect out/{name}.parquet --format json"), "");
        let value: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value["kind"], "episodes");
        assert_eq!(value["statistics"]["episodes"], episodes);
        assert_eq!(value["statistics"]["horizon"], 10);
    }
    // The tables can be decided on: they are what `train` and `compare` read.
    let first = bench.read("out/train.parquet");
    bench.stdout(IMPORT, "");
    assert_eq!(bench.read("out/train.parquet"), first);
}

#[test]
fn azure_traces_are_read_by_their_layout() {
    let bench = Bench::new();
    let mut rows = String::new();
    for time in 0..40 {
        for vm in ["a", "b", "c"] {
            writeln!(rows, "{},{vm},1.0,9.0,{}", time * 300, 4.0 + f64::from(time % 5)).unwrap();
        }
    }
    bench.write("vm_cpu_readings-file-1-of-1.csv", rows);
    let report: Value = serde_json::from_str(&bench.stdout(
        "import azure-vm vm_cpu_readings-file-*.csv --horizon 10 --split 2,1,1 -o vm",
        "",
    ))
    .unwrap();
    assert_eq!(report["trace"]["readings"], 120);
    let out = bench.stdout("inspect vm_cpu_readings-file-1-of-1.csv", "");
    assert!(
        out.starts_with("kind      trace\nreadings  120\nseries    3\n"),
        "{out}"
    );

    let minutes: Vec<String> = (1..=1440).map(|minute| minute.to_string()).collect();
    let mut rows = format!("HashOwner,HashApp,HashFunction,Trigger,{}\n", minutes.join(","));
    for function in ["f", "g", "h"] {
        let counts: Vec<String> = (0..1440).map(|minute| (minute % 7).to_string()).collect();
        writeln!(rows, "o,a,{function},http,{}", counts.join(",")).unwrap();
    }
    bench.write("invocations_per_function_md.anon.d01.csv", rows);
    let report: Value = serde_json::from_str(&bench.stdout(
        "import azure-functions invocations_per_function_md.anon.d*.csv --normalisation series-max --split 20,5,5 -o fn",
        "",
    ))
    .unwrap();
    assert_eq!(report["trace"]["series"], 3);
    let out = bench.stdout("inspect invocations_per_function_md.anon.d01.csv", "");
    assert!(out.starts_with("kind      trace\nreadings  4320\n"), "{out}");
}

#[test]
fn a_table_is_described() {
    let bench = Bench::new();
    bench.write("load.csv", readings(20));
    let out = bench.stdout("inspect load.csv --series host --time minute --values cpu", "");
    insta::assert_snapshot!("inspect_table", out);
    bench.write(
        "episodes.csv",
        "episode,step,context,budget\n0,0,0.25,20\n0,1,0.75,20\n1,0,0.5,30\n1,1,0.5,30\n",
    );
    insta::assert_snapshot!("inspect_episodes", bench.stdout("inspect episodes.csv", ""));
}

#[test]
fn a_report_is_described() {
    let bench = Bench::new();
    bench.write(
        "summary.json",
        r#"{"problem":"weighted-fairness","horizon":20,"policies":{
            "opt":{"utility":0.7521,"fraction_of_opt":1.0,"remaining_percent":0.0,"quantiles":[0,0,0,0,0],"violations":0},
            "equal":{"utility":0.7301,"fraction_of_opt":0.9707,"remaining_percent":[0.1,2.0],"violations":3}}}"#,
    );
    insta::assert_snapshot!("inspect_report", bench.stdout("inspect summary.json", ""));
    bench.write("other.json", "{\"a\":1}");
    bench.check_failure(
        "inspect --kind report other.json",
        "",
        "error: other.json: no report: expected the keys problem, horizon and policies\n\
         hint: reports are the summary.json that `laau compare -o DIR` writes\n",
    );
}

#[test]
fn bad_input_is_told_with_a_hint() {
    let bench = Bench::new();
    bench.write("load.csv", readings(60));
    bench.write("broken.csv", "host,minute,cpu\nh0,0,12\nh0,1,twelve\n");
    bench.write("noise.safetensors", "not a model");
    let check = |arguments: &str, expected: &str| bench.check_failure(arguments, "", expected);
    check(
        "inspect missing.parquet",
        "error: missing.parquet: no such file or directory\nhint: check the path and its permissions\n",
    );
    check(
        "import table missing.csv -o out",
        "error: no file matches `missing.csv`\n\
         hint: check the path; a pattern such as 'vm_cpu_readings-*.csv.gz' belongs in quotes\n",
    );
    check(
        "import table load.csv --series machine --time minute --values cpu -o out",
        "error: load.csv: expected a column `machine`, found host, minute, cpu\n\
         hint: name the columns with --time, --series and --values (by number, from 1, with --header false); separators are commas, \
         semicolons or tabs\n",
    );
    check(
        "import table load.csv --series host --time minute --values cpu --horizon 10 --split 400,2,2 -o out",
        "error: the trace is too short: 400 train episodes wanted, 6 available in 1 series (whole trace: 18 in 3 \
         series)\nhint: ask for fewer episodes with --split, or a shorter --horizon\n",
    );
    check(
        "import table broken.csv --series host --time minute --values cpu --horizon 1 --split 1,0,0 -o out",
        "error: broken.csv, row 3, column `cpu`: expected a finite number, found `twelve`\n\
         hint: correct the cell; see `laau import --help`\n",
    );
    check(
        "generate --horizon 0 -o a.parquet",
        "error: invalid horizon: expected at least 1, found 0\n\
         hint: `laau config --default` shows every key with a value that fits\n",
    );
    check(
        "generate --episodes 2 -o a.xlsx",
        "error: a.xlsx: an episodes table ends in .parquet, .pq or .csv\n\
         hint: name the output for example episodes.parquet\n",
    );
    check(
        "generate --episodes 2 -o no/folder/a.parquet",
        "error: no/folder/a.parquet: no such file or directory\n\
         hint: nothing was written; choose a folder that exists, is writable and has room\n",
    );
    check(
        "generate --constructoin interleaved -o a.parquet",
        "error: unexpected argument '--constructoin' found\nhint: did you mean `--construction`?\n",
    );
    check(
        "generate --construction woven -o a.parquet",
        "error: invalid value 'woven' for '--construction <NAME>': unknown variant `woven`, expected `consecutive` or `interleaved`\n\
         hint: see `laau generate --help`\n",
    );
    check(
        "inspect noise.safetensors",
        "error: noise.safetensors: file: expected a whole safetensors file: header too large\n\
         hint: models are written by `laau train`; this file is not one of them, or damaged\n",
    );
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let bench = Bench::new();
    bench.write("kept.parquet", "the file of yesterday");
    for name in ["kept.parquet", "new.csv"] {
        let mut shell = Command::new("sh");
        shell
            .args([
                "-c",
                &format!(
                    "trap '' XFSZ; ulimit -f 8; exec {} generate --episodes 3000 -o {name}",
                    env!("CARGO_BIN_EXE_laau")
                ),
            ])
            .current_dir(bench.path());
        let run = run_command(shell, "");
        assert_eq!(
            run.stderr,
            format!(
                "error: {name}: file too large\n\
                 hint: nothing was written; choose a folder that exists, is writable and has room\n"
            )
        );
        assert_eq!(run.status, Some(1));
    }
    let names: Vec<_> = std::fs::read_dir(bench.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["kept.parquet"]);
    assert_eq!(bench.read("kept.parquet"), b"the file of yesterday");
}

#[test]
fn a_table_with_time_stamps_and_without_series_is_imported() {
    let bench = Bench::new();
    let mut rows = String::from("when,load\n");
    for reading in 0..600 {
        let (day, minutes) = (1 + reading / 288, reading % 288 * 5);
        let (hour, minute) = (minutes / 60, minutes % 60);
        rows += &[
            &format!("2024-03-{day:02}T{hour:02}:{minute:02}:00Z,"),
            &(10 + minute).to_string(),
            "\n",
        ]
        .concat();
    }
    bench.write("load.csv", &rows);
    let import =
        "import table load.csv --series= --time when --values load --horizon 5 --split 10,0,0 -o sets";
    let report: serde_json::Value = serde_json::from_str(&bench.stdout(import, "")).unwrap();
    assert_eq!(
        (&report["available"], &report["trace"]["readings"]),
        (&120.into(), &600.into())
    );
    // The first reading of an hour is 10 percent, the next five minutes later 15.
    let inspected = bench.stdout("inspect sets/train.parquet", "");
    assert!(inspected.contains("0.1000"), "{inspected}");
    bench.write("comma.csv", rows.replace(",10\n", ",\"10,5\"\n"));
    let failure = bench.run(&import.replace("load.csv", "comma.csv"), "");
    assert!(
        failure.stderr.contains("a finite number with a decimal point") && failure.stderr.contains("10,5"),
        "{}",
        failure.stderr
    );
}
