//! What a file carries is not asked for again, and what it decides is not asked for in vain.

use serde_json::Value;

use crate::support::Bench;

const TRAIN: &str = "train --train sets/train.parquet --validation sets/validation.parquet --quiet";

/// Episodes of five steps in `sets`.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.stdout("generate --horizon 5 --split 12,6,6 --seed 3 -o sets", "");
    bench
}

/// Trains in the background until there is a checkpoint, and kills the run.
fn interrupt(bench: &Bench, arguments: &str, checkpoint: &str) {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let mut child = crate::support::command(bench.path(), &arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !bench.path().join(checkpoint).exists() {
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "ended before it could be interrupted"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_resumed_run_has_the_problem_of_its_checkpoint() {
    let bench = bench();
    let run = format!("{TRAIN} --phases 1000:0.01");
    let whole = bench.stdout(&format!("{run} --upper 30 --lower 0.5 -o whole"), "");
    interrupt(
        &bench,
        &format!("{run} --upper 30 --lower 0.5 -o m"),
        "m.checkpoint",
    );
    bench.check_failure(
        &format!("{run} --upper 40 --lower 0.5 -o m --resume"),
        "",
        "error: m.checkpoint: the checkpoint is of another run: its `parameters` differs\n\
         hint: give the settings and files of that run, or remove the checkpoint to begin anew\n",
    );
    let resumed: Value = serde_json::from_str(&bench.stdout(&format!("{run} -o m --resume"), "")).unwrap();
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(resumed["validation_utility"], whole["validation_utility"]);
    assert_eq!(bench.read("m"), bench.read("whole"));
    let inspected = bench.stdout("inspect m --kind model --format json", "");
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(inspected["spec"]["parameters"]["upper"], 30.0);
}

#[test]
fn flags_of_a_cold_start_are_refused_beside_a_model() {
    let bench = bench();
    bench.stdout(&format!("{TRAIN} --phases 1:0.01 -o m"), "");
    for (flag, value) in [
        ("hidden", "5"),
        ("form", "residual"),
        ("network", "linear"),
        ("seed", "3"),
        ("first-look", "4"),
    ] {
        bench.check_failure(
            &format!("learn --episodes sets/test.parquet --model m --{flag} {value}"),
            "",
            &format!(
                "error: m: the model is what it is; --{flag} has no effect\n\
                 hint: leave --{flag} out, or leave --model out to begin with a model of your own making\n"
            ),
        );
    }
    // A file of settings may be for other commands, too.
    bench.write("all.toml", "[model]\nhidden = [5]\n[learning]\nseed = 3\n");
    let out = bench.stdout(
        "learn --episodes sets/test.parquet --model m --config all.toml",
        "",
    );
    assert_eq!(out.lines().count(), 7);
}

#[test]
fn epochs_count_from_one_wherever_they_are_shown() {
    let bench = bench();
    // One epoch: whatever is best, it is the first.
    let told = bench.stdout(&format!("{TRAIN} --phases 1:0.01 --log log.csv -o m"), "");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["best_epoch"], 1);
    let log = String::from_utf8(bench.read("log.csv")).unwrap();
    assert!(log.lines().nth(1).unwrap().starts_with("1,"), "{log}");
    let text = bench.stdout("inspect m --kind model", "");
    let best = text.lines().find(|line| line.starts_with("best epoch")).unwrap();
    assert!(best.ends_with("  1"), "{text}");
    let json: Value =
        serde_json::from_str(&bench.stdout("inspect m --kind model --format json", "")).unwrap();
    assert_eq!(json["training"]["best_epoch"], 1);
    let compared = bench.stdout(
        "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet \
         --policies laau --phases 1:0.01 --format json --quiet",
        "",
    );
    let compared: Value = serde_json::from_str(&compared).unwrap();
    assert_eq!(
        compared["policies"]["laau"]["parameters"]["best_epoch"], 1.0,
        "{compared}"
    );
}

#[test]
fn whatever_is_written_is_described_by_whatever_name() {
    let bench = bench();
    let run = format!("{TRAIN} --phases 1000:0.01 --upper 30 --horizons 3..5");
    interrupt(&bench, &format!("{run} -o m"), "m.checkpoint");
    let once = format!("{TRAIN} --phases 1:0.01 --upper 30 --horizons 3..5 -o model.safetensors");
    bench.stdout(&once, "");
    bench.stdout(
        "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet \
         --policies dgd,laau --upper 30 --phases 1:0.01 --horizons 3..5 --quiet -o report",
        "",
    );
    bench.stdout(
        "decide --policy dgd --upper 30 --budget 60 --horizon 5 --journal day.jsonl",
        "{\"context\":[0.3]}\n{\"context\":[0.1]}\n",
    );
    for (file, kind, words) in [
        (
            "model.safetensors",
            "model",
            &[
                "of the problem      lower = 1, upper = 30\n",
                "horizon             3 to 5\n",
            ][..],
        ),
        (
            "m.checkpoint",
            "checkpoint",
            &["of the problem      lower = 1, upper = 30\n", " of 1000\n"],
        ),
        (
            "report/dgd.policy",
            "policy",
            &[
                "of the problem     lower = 1, upper = 30\n",
                "horizon            any; fitted at 5\n",
            ],
        ),
        (
            "report/laau.policy",
            "policy",
            &[
                "of the problem     lower = 1, upper = 30\n",
                "horizon            3 to 5\n",
            ],
        ),
        (
            "day.jsonl",
            "journal",
            &[
                "of the problem  lower = 1, upper = 30\n",
                "decisions       2 of 5\n",
                "budgets         60\n",
            ],
        ),
        ("report/summary.json", "report", &["dgd"]),
        ("sets/test.parquet", "episodes", &["episodes  6\n"]),
    ] {
        let told = bench.stdout(&format!("inspect {file}"), "");
        let first = told.lines().next().unwrap();
        assert!(
            first.starts_with("kind ") && first.ends_with(&format!("  {kind}")),
            "{told}"
        );
        for word in words {
            assert!(told.contains(word), "{file}: {told}");
        }
        let json: Value =
            serde_json::from_str(&bench.stdout(&format!("inspect {file} --format json"), "")).unwrap();
        assert_eq!(json["kind"].as_str().unwrap_or("report"), kind);
        // The name says nothing, or the wrong thing; a table is known by its ending.
        if kind != "episodes" {
            for name in ["x", "x.csv", "x.json", "x.safetensors"] {
                std::fs::copy(bench.path().join(file), bench.path().join(name)).unwrap();
                assert_eq!(
                    bench.stdout(&format!("inspect {name}"), ""),
                    told,
                    "{file} as {name}"
                );
            }
        }
    }
    // What is broken is said, and nothing is repaired.
    let journal = bench.read("day.jsonl");
    bench.write("day.jsonl", &journal[..journal.len() - 9]);
    let told = bench.stdout("inspect day.jsonl", "");
    assert!(told.contains("decisions       1 of 5\n"), "{told}");
    assert!(told.contains("line 3 is cut off or damaged"), "{told}");
    assert_eq!(bench.read("day.jsonl"), &journal[..journal.len() - 9]);
    for (name, sentence) in [
        ("torn.checkpoint", "torn.checkpoint: "),
        ("torn.jsonl", "torn.jsonl: no journal"),
    ] {
        bench.write(name, "nothing of ours");
        let run = bench.run(&format!("inspect {name}"), "");
        assert!(
            run.stderr.starts_with(&format!("error: {sentence}")),
            "{}",
            run.stderr
        );
        assert_eq!(run.status, Some(1));
    }
}
