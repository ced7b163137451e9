//! Readings in, decisions out: the normalisation and the range of the training go with models and policies.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::{Bench, contexts};

/// Twelve hosts, each with a range of readings of its own, as episodes and as a model of two epochs.
fn trained(normalisation: &str) -> Bench {
    let bench = Bench::new();
    let mut text = String::from("host,minute,load\n");
    for minute in 0..40 {
        for host in 0..12 {
            let load = (minute * 7 + host * 31) % 50 + host;
            writeln!(text, "h{host},{minute},{load}").unwrap();
        }
    }
    bench.write("load.csv", text);
    let run = bench.run(
        &format!(
            "import table load.csv --series host --time minute --values load --horizon 5 --split 40,16,16 \
             --normalisation {normalisation} -o sets"
        ),
        "",
    );
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let run = bench.run(
        "train --train sets/train.parquet --validation sets/validation.parquet --phases 2:0.01 -q -o m.safetensors",
        "",
    );
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    bench
}

fn constants(bench: &Bench, host: &str) -> (f64, f64) {
    let out = bench.stdout("inspect m.safetensors --format json", "");
    let model: Value = serde_json::from_str(&out).unwrap();
    let own = &model["training"]["trained_on"]["scaling"]["constants"]["per-series"][host][0];
    (own["offset"].as_f64().unwrap(), own["scale"].as_f64().unwrap())
}

#[test]
fn a_journal_of_readings_does_not_go_on_with_contexts() {
    let bench = trained("none");
    let decide = "decide --model m.safetensors --budget 60 --journal day.jsonl";
    let raw = format!("{decide} --raw");
    bench.stdout(&raw, "{\"context\":[20]}\n");
    let run = bench.run(decide, "{\"context\":[20]}\n");
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.contains("--raw"), "{}", run.stderr);
    let resumed = bench.stdout(&raw, "{\"context\":[31]}\n");
    assert_eq!(resumed.lines().count(), 3, "{resumed}");
}

/// The incumbent of an older import would see other contexts than it does alone.
#[test]
fn an_incumbent_with_other_constants_is_refused_for_readings() {
    let bench = trained("min-max");
    let compare = |sets: &str| {
        let run = bench.run(
            &format!(
                "compare --train {sets}/train.parquet --validation {sets}/validation.parquet --test {sets}/test.parquet --policies mw \
                 -q -o {sets}"
            ),
            "",
        );
        assert_eq!(run.status, Some(0), "{}", run.stderr);
    };
    let text = String::from_utf8(bench.read("load.csv")).unwrap();
    let mut older = String::from("host,minute,load\n");
    for row in text.lines().skip(1) {
        let (head, load) = row.rsplit_once(',').unwrap();
        writeln!(older, "{head},{}", load.parse::<f64>().unwrap() / 5.0).unwrap();
    }
    bench.write("older.csv", older);
    let import = "import table older.csv --series host --time minute --values load --horizon 5 --split 40,16,16 \
                  --normalisation min-max -o older";
    assert_eq!(bench.run(import, "").status, Some(0));
    compare("older");
    compare("sets");
    let lines = "{\"context\":[20],\"series\":\"h7\"}\n";
    let decide = "decide --model m.safetensors --budget 60 --raw --guard";
    let run = bench.run(&format!("{decide} older/mw.policy"), lines);
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.contains("has other constants"), "{}", run.stderr);
    for allowed in [format!("{decide} sets/mw.policy"), format!("{decide} mw")] {
        let run = bench.run(&allowed, lines);
        assert_eq!(
            (run.status, run.stdout.lines().count()),
            (Some(0), 1),
            "{}",
            run.stderr
        );
    }
    // With contexts, both see the same.
    let given = "decide --model m.safetensors --budget 60 --guard older/mw.policy";
    let run = bench.run(given, &contexts(&[0.3]));
    assert_eq!(
        (run.status, run.stdout.lines().count()),
        (Some(0), 1),
        "{}",
        run.stderr
    );
    // What goes on learning on other episodes takes readings as these do.
    bench.stdout(
        "learn --episodes older/train.parquet --model m.safetensors -o later.safetensors",
        "",
    );
    let scaling = |file: &str| -> Value {
        let told: Value =
            serde_json::from_str(&bench.stdout(&format!("inspect {file} --format json"), "")).unwrap();
        told["training"]["trained_on"]["scaling"].clone()
    };
    assert_ne!(scaling("m.safetensors"), scaling("later.safetensors"));
    let later = scaling("later.safetensors");
    let [new, old] = [&later, &scaling("m.safetensors")].map(|scaling| {
        scaling["constants"]["per-series"]["h7"][0]["scale"]
            .as_f64()
            .unwrap()
    });
    assert!((5.0 * new - old).abs() < 1e-9, "{new} {old}");
}

#[test]
fn raw_readings_of_a_series_are_decided_as_their_contexts() {
    let bench = trained("min-max");
    let (offset, scale) = constants(&bench, "h7");
    // (minute * 7 + 217) % 50 + 7 takes its least and its greatest value within 40 minutes.
    assert_eq!((offset, scale), (7.0, 49.0));
    let decide = "decide --model m.safetensors --budget 60";
    let readings = [20.0, 31.0, 55.0];
    let contexts = contexts(&readings.map(|reading| (reading - offset) / scale));
    let raw: Vec<String> = readings
        .iter()
        .map(|reading| json!({"context": [reading], "series": "h7"}).to_string())
        .collect();
    let expected = bench.stdout(decide, &contexts);
    assert_eq!(
        bench.stdout(&format!("{decide} --raw"), &raw.join("\n")),
        expected
    );
    assert_eq!(
        bench
            .run(decide, &raw[0])
            .lines()
            .first()
            .map(|line| (*line).to_owned()),
        Some(json!({"error": "a line names its series with --raw alone", "line": 1}).to_string())
    );
}

#[test]
fn a_reading_of_an_unknown_series_is_refused_and_spends_nothing() {
    let bench = trained("series-max");
    let input =
        "{\"context\":[9],\"series\":\"h99\"}\n{\"context\":[9]}\n{\"context\":[9],\"series\":\"h1\"}\n";
    let run = bench.run("decide --model m.safetensors --budget 60 --raw", input);
    let lines = run.lines();
    assert_eq!(
        lines[0],
        "{\"error\":\"the reading cannot become a context: series `h99` was not in the training, or did not vary in it\",\
         \"line\":1}"
    );
    assert!(lines[1].contains("none is named"), "{}", lines[1]);
    assert!(lines[2].starts_with("{\"step\":0,"), "{}", lines[2]);
    assert_eq!(run.status, Some(1));
}

#[test]
fn a_reading_that_the_import_refuses_is_refused_here_too() {
    let bench = trained("percent");
    let decide = "decide --model m.safetensors --budget 60 --raw";
    let run = bench.run(decide, &contexts(&[-999.0, 101.0, 35.0]));
    let lines = run.lines();
    assert_eq!(run.status, Some(1));
    for (line, told) in [
        (lines[0], "`load` is -999, and `percent` takes at least 0"),
        (lines[1], "`load` is 101, and `percent` takes at most 100"),
    ] {
        assert!(line.contains(told), "{line}");
    }
    assert!(lines[2].starts_with("{\"step\":0,"), "{}", lines[2]);
    // What is raised to the floor is as far outside as it was.
    let bench = trained("min-max");
    let far = "{\"context\":[-999],\"series\":\"h7\"}\n";
    let run = bench.run("decide --model m.safetensors --budget 60 --raw", far);
    assert!(
        run.lines()[0].contains("far outside the training range"),
        "{}",
        run.stdout
    );
    let run = bench.run(
        "decide --model m.safetensors --budget 60 --raw --strict-range",
        far,
    );
    assert!(run.lines()[0].starts_with("{\"error\":"), "{}", run.stdout);
}

#[test]
fn a_policy_file_takes_readings_too_and_both_files_are_described() {
    let bench = trained("percent");
    let run = bench.run(
        "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet \
         --policies avg-lt,laau --phases 1:0.01 -q -o report",
        "",
    );
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    for policy in ["avg-lt", "laau"] {
        let decide = format!("decide --policy-file report/{policy}.policy --budget 60");
        let raw = bench.stdout(&format!("{decide} --raw"), &contexts(&[35.0, 4.0]));
        assert_eq!(raw, bench.stdout(&decide, &contexts(&[0.35, 0.04])));
        let told = bench.stdout(&format!("inspect report/{policy}.policy"), "");
        assert!(
            told.contains("normalisation      percent of load, the same for every series\n"),
            "{told}"
        );
        assert!(told.contains("training contexts  0"), "{told}");
    }
    for file in ["m.safetensors", "sets/train.parquet"] {
        let told = bench.stdout(&format!("inspect {file}"), "");
        assert!(told.contains("percent of load"), "{told}");
    }
}

#[test]
fn a_model_of_contexts_that_were_no_readings_takes_none() {
    let bench = Bench::new();
    bench.stdout("generate --horizon 5 --split 20,5,5 -o sets", "");
    let train = "train --train sets/train.parquet --validation sets/validation.parquet --phases 1:0.01 -q -o m.safetensors";
    assert_eq!(bench.run(train, "").status, Some(0));
    bench.check_failure(
        "decide --model m.safetensors --budget 60 --raw",
        "",
        "error: m.safetensors: --raw needs the normalisation of the training episodes, and there is none\n\
             hint: give a model or a policy file that was made from episodes of `laau import`\n",
    );
    bench.check_failure(
        "decide --policy equal --horizon 5 --budget 60 --strict-range",
        "",
        "error: --policy: --strict-range needs the range of the training contexts, and there is none\n\
             hint: give a model or a policy file\n",
    );
}

#[test]
fn a_context_far_outside_the_training_range_is_answered_with_a_warning_or_refused() {
    let bench = trained("percent");
    let decide = "decide --model m.safetensors --budget 60";
    // A percentage where a fraction belongs.
    let input = contexts(&[0.35, 35.0, 0.2]);
    let run = bench.run(decide, &input);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let warned: Vec<bool> = run.lines().iter().map(|line| line.contains("warning")).collect();
    assert_eq!(warned, [false, true, false]);
    let second: Value = serde_json::from_str(run.lines()[1]).unwrap();
    let words = second["warning"].as_str().unwrap();
    assert!(
        words.starts_with("context[0] is 35, far outside the training range [0"),
        "{words}"
    );
    assert_eq!(
        run.stderr,
        "warning: contexts far outside the training range: 1; each was answered with a warning\n"
    );

    let run = bench.run(&format!("{decide} --strict-range"), &input);
    let answers: Vec<Value> = run
        .lines()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((run.status, answers.len()), (Some(1), 3));
    assert!(
        answers[1]["error"]
            .as_str()
            .unwrap()
            .starts_with("context[0] is 35")
    );
    assert_eq!(answers[2]["step"], 1, "the refused line spent nothing");

    let quiet = bench.run(&format!("{decide} --range-factor 1000"), &input);
    assert!(!quiet.stdout.contains("warning"), "{}", quiet.stdout);
}

#[test]
fn a_journal_goes_on_with_readings_and_warns_again() {
    let bench = trained("none");
    let decide = "decide --model m.safetensors --budget 60 --journal day.jsonl --raw";
    let first = bench.run(decide, &contexts(&[35.0, 1000.0]));
    let second = bench.run(&format!("{decide} --strict-range"), &contexts(&[20.0]));
    assert_eq!(second.status, Some(0), "{}", second.stderr);
    let lines = second.lines();
    assert_eq!(lines[1].replace(",\"replayed\":true", ""), first.lines()[1]);
    assert!(lines[3].starts_with("{\"step\":2,"), "{}", lines[3]);
}
