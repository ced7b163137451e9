//! `laau train` and `laau learn`.

#[cfg(unix)]
use std::fs::File;
#[cfg(unix)]
use std::io::{BufRead as _, BufReader};
#[cfg(unix)]
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Bench, command};

/// Episodes of five steps for training and validation.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.stdout("generate --horizon 5 --split 40,20,20 --seed 3 -o sets", "");
    bench
}

const TRAIN: &str = "train --train sets/train.parquet --validation sets/validation.parquet --quiet";

fn train(bench: &Bench, rest: &str) -> Value {
    serde_json::from_str(&bench.stdout(&format!("{TRAIN} {rest}"), "")).unwrap()
}

#[test]
fn a_model_is_trained_logged_and_can_decide() {
    let bench = bench();
    let told = train(
        &bench,
        "--phases 3:0.01,1:0.005 --log log.csv -o model.safetensors",
    );
    assert_eq!(told["model"], "model.safetensors");
    assert_eq!(told["problem"], "weighted-fairness");
    assert_eq!(told["horizon"], 5);
    assert_eq!(told["ending"], "completed");
    assert_eq!(told["epochs"], 4);
    assert_eq!(
        told["gradients"]["exact"].as_u64().unwrap() + told["gradients"]["approximate"].as_u64().unwrap(),
        800
    );
    let log = String::from_utf8(bench.read("log.csv")).unwrap();
    let rows: Vec<&str> = log.lines().collect();
    assert_eq!(rows.len(), 5);
    assert!(
        rows[0].starts_with("epoch,learning_rate,loss,validation_utility,"),
        "{log}"
    );
    assert!(
        rows[3].starts_with("3,0.01,") && rows[4].starts_with("4,0.005,"),
        "{log}"
    );
    // The best epoch is the one whose weights are kept.
    let best = usize::try_from(told["best_epoch"].as_u64().unwrap()).unwrap();
    let utility = rows[best].split(',').nth(3).unwrap().parse::<f64>().unwrap();
    assert_eq!(told["validation_utility"].as_f64().unwrap(), utility);
    assert!(!bench.path().join("model.safetensors.checkpoint").exists());
    let inspected = bench.stdout("inspect model.safetensors --format json", "");
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(inspected["training"]["epochs"], 4);
    bench.stdout(
        "decide --model model.safetensors --budget 60",
        "{\"context\":[0.5]}\n",
    );
}

#[test]
fn the_same_seed_and_settings_give_the_same_bytes_and_every_key_has_an_effect() {
    let bench = bench();
    let model = |name: &str, rest: &str| {
        train(&bench, &format!("--phases 1:0.01 {rest} -o {name}"));
        bench.read(name)
    };
    let first = model("a", "");
    assert_eq!(first, model("b", ""));
    let mut seen = vec![first];
    for rest in [
        "--seed 1",
        "--hidden 4",
        "--features history",
        "--output-function exp",
        "--form residual",
        "--network linear",
        "--network linear --norm-bound 0.01",
        "--spectral-bound 0.1",
        "--batch 7",
        "--optimiser sgd",
        "--gradient-clip 0.0001 --optimiser sgd",
        "--first-decay 0.5",
        "--precision f32",
    ] {
        let bytes = model("c", rest);
        assert!(!seen.contains(&bytes), "{rest}");
        seen.push(bytes);
    }
    // The file and the flag are the same setting.
    bench.write(
        "experiment.toml",
        "[model]\nhidden = [4]\n[training]\nphases = [[1, 0.01]]\n",
    );
    train(&bench, "--config experiment.toml -o d");
    assert_eq!(bench.read("d"), seen[2]);
    // Both engines give the same model, to rounding.
    let told = train(&bench, "--phases 1:0.01 --engine candle -o e");
    let fused = train(&bench, "--phases 1:0.01 -o f");
    let utility = |told: &Value| told["validation_utility"].as_f64().unwrap();
    assert!((utility(&told) - utility(&fused)).abs() < 1e-9);
}

#[test]
fn lines_are_written_where_there_is_no_terminal() {
    let bench = bench();
    let run = bench.run(
        "train --train sets/train.parquet --validation sets/validation.parquet --phases 20:0.01 -o model.safetensors",
        "",
    );
    assert_eq!(run.status, Some(0));
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(lines.len(), 10, "{}", run.stderr);
    assert!(lines[0].starts_with("epoch 2 of 20, loss "), "{}", run.stderr);
    assert!(lines[9].starts_with("epoch 20 of 20, loss "), "{}", run.stderr);
}

#[test]
fn patience_ends_a_run_early() {
    let bench = bench();
    // Nothing can get better with a step that does nothing.
    let told = train(
        &bench,
        "--phases 50:1e-300 --optimiser sgd --patience 2 -o model.safetensors",
    );
    assert_eq!(
        (told["ending"].as_str(), told["epochs"].as_u64()),
        (Some("early-stop"), Some(3))
    );
}

/// Begins a long run, interrupts it after some epochs, and gives what it said.
///
/// The log is a pipe that the run fills long before its end: it cannot get there before it is interrupted.
#[cfg(unix)]
fn interrupted(bench: &Bench, rest: &str) -> String {
    let log = bench.path().join("log");
    assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
    let arguments = format!("{TRAIN} {rest} --log log");
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let child = command(bench.path(), &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rows = BufReader::new(File::open(log).unwrap()).lines();
    // A heading and three epochs.
    assert_eq!(rows.by_ref().take(4).map_while(Result::ok).count(), 4);
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    rows.map_while(Result::ok).for_each(drop);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_goes_on_to_the_same_bytes() {
    let bench = bench();
    let long = "--phases 1600:0.001 -o model.safetensors";
    let told = interrupted(&bench, long);
    let words: Vec<&str> = told.lines().collect();
    assert!(words[0].starts_with("stopped after "), "{told}");
    assert!(
        words[0].ends_with(" of 1600 epochs, which are kept in model.safetensors.checkpoint"),
        "{told}"
    );
    assert_eq!(words[1], "hint: go on with the same command and --resume");
    assert!(!bench.path().join("model.safetensors").exists());

    // The checkpoint is not overwritten by accident, and is refused for another run.
    let check = |rest: &str, expected: &str| bench.check_failure(&format!("{TRAIN} {rest}"), "", expected);
    check(
        long,
        "error: model.safetensors.checkpoint: here is the checkpoint of a run that was interrupted\n\
         hint: go on with --resume, or remove the file to begin anew\n",
    );
    for (other, field) in [
        ("--seed 1", "seed"),
        ("--batch 5", "batch"),
        ("--gradient-clip 3", "gradient-clip"),
        ("--precision f32", "precision"),
        ("--hidden 10", "network"),
        ("--features history", "features"),
        ("--train sets/test.parquet", "training"),
    ] {
        let command = format!("{TRAIN} {long} --resume {other}");
        let command = match other.strip_prefix("--train ") {
            Some(file) => command.replace(other, "").replace("sets/train.parquet", file),
            None => command,
        };
        bench.check_failure(
            &command,
            "",
            &format!(
                "error: model.safetensors.checkpoint: the checkpoint is of another run: its `{field}` differs\n\
                 hint: give the settings and files of that run, or remove the checkpoint to begin anew\n"
            ),
        );
    }

    let resumed = train(&bench, &format!("{long} --resume --log resumed.csv"));
    let whole = train(
        &bench,
        &format!("{long} --log whole.csv").replace("model.safetensors", "whole.safetensors"),
    );
    assert_eq!(resumed["epochs"], 1600);
    assert_eq!(resumed["validation_utility"], whole["validation_utility"]);
    assert_eq!(bench.read("model.safetensors"), bench.read("whole.safetensors"));
    assert!(!bench.path().join("model.safetensors.checkpoint").exists());
    // The log has the whole history, but for the seconds.
    let rows = |name: &str| -> Vec<String> {
        let text = String::from_utf8(bench.read(name)).unwrap();
        text.lines()
            .map(|row| row.rsplit_once(',').unwrap().0.to_owned())
            .collect()
    };
    assert_eq!(rows("resumed.csv"), rows("whole.csv"));
}

#[test]
fn a_run_that_diverges_keeps_its_last_good_weights() {
    let bench = bench();
    // The first phase is sound, the second is not.
    let run = bench.run(
        &format!("{TRAIN} --phases 3:0.01,5:1e300 --optimiser sgd -o model.safetensors"),
        "",
    );
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
    assert!(
        run.stderr
            .starts_with("error: training diverged in epoch 4, batch "),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr
            .ends_with("; the best weights of the 3 epochs before are in model.safetensors\n"),
        "{}",
        run.stderr
    );
    assert!(!bench.path().join("model.safetensors.checkpoint").exists());
    let good = train(&bench, "--phases 3:0.01 --optimiser sgd -o good.safetensors");
    let inspected = |name: &str| -> Value {
        serde_json::from_str(&bench.stdout(&format!("inspect {name} --format json"), "")).unwrap()
    };
    assert_eq!(
        inspected("model.safetensors")["training"],
        inspected("good.safetensors")["training"]
    );
    assert_eq!(bench.read("model.safetensors"), bench.read("good.safetensors"));
    assert_eq!(good["epochs"], 3);

    let run = bench.run(
        &format!("{TRAIN} --phases 2:1e300 --optimiser sgd -o never.safetensors"),
        "",
    );
    assert!(
        run.stderr
            .ends_with("; nothing was learned, and nothing was written\n"),
        "{}",
        run.stderr
    );
    assert!(!bench.path().join("never.safetensors").exists());
    assert!(!bench.path().join("never.safetensors.checkpoint").exists());
}

#[test]
fn bad_input_of_training_is_told() {
    let bench = bench();
    bench.stdout("generate --horizon 7 --episodes 5 -o seven.parquet", "");
    bench.write(
        "poor.csv",
        "episode,step,context,budget\n0,0,0.5,60\n0,1,0.5,60\n1,0,0.5,1.5\n1,1,0.5,1.5\n",
    );
    bench.write("empty.csv", "episode,step,context,budget\n");
    let check = |arguments: &str, expected: &str| {
        bench.check_failure(arguments, "", expected);
        assert!(!bench.path().join("m").exists(), "{arguments}");
    };
    check(
        "train --train missing.parquet --validation sets/validation.parquet -o m",
        "error: missing.parquet: no such file or directory\nhint: check the path and its permissions\n",
    );
    check(
        "train --train sets/train.parquet --validation seven.parquet -o m",
        "error: seven.parquet: episodes of 7 steps, sets/train.parquet has 5\n\
         hint: make all episodes with the same --horizon\n",
    );
    check(
        "train --train poor.csv --validation sets/validation.parquet -o m",
        "error: poor.csv: episode 1: budget 0 is 1.5, below 2, the least that 2 steps use\n\
         hint: a budget of at least 2 pays every step; raise it, or lower --lower\n",
    );
    check(
        "train --train empty.csv --validation sets/validation.parquet -o m",
        "error: empty.csv: the table holds no episodes\nhint: make some with `laau generate` or `laau import`\n",
    );
    check(
        &format!("{TRAIN} --problem log-utility -o m"),
        "error: sets/train.parquet: the episodes were made for problem `weighted-fairness`, not for `log-utility`\n\
         hint: name their problem: --problem weighted-fairness\n",
    );
    check(
        &format!("{TRAIN} --resume -o m"),
        "error: m.checkpoint: there is no checkpoint to go on from\n\
         hint: leave --resume out to begin anew, or name the file with --checkpoint\n",
    );
    bench.write("torn.checkpoint", "no checkpoint");
    let run = bench.run(&format!("{TRAIN} --resume --checkpoint torn.checkpoint -o m"), "");
    assert!(
        run.stderr.starts_with("error: torn.checkpoint: "),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr
            .ends_with("\nhint: the file is no checkpoint, or damaged: name another with --checkpoint; without --resume the run begins anew\n"),
        "{}",
        run.stderr
    );
    for (path, reason) in [
        ("none/m", "no such file or directory"),
        ("sets", "is a directory"),
    ] {
        let run = bench.run(&format!("{TRAIN} -o {path}"), "");
        assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
        assert!(
            run.stderr
                .starts_with(&format!("error: {path}: {reason}\nhint: ")),
            "{}",
            run.stderr
        );
    }
    check(
        &format!("{TRAIN} --log none/log.csv -o m"),
        "error: none/log.csv: no such file or directory\n\
         hint: nothing was written; choose a folder that exists, is writable and has room\n",
    );
    check(
        &format!("{TRAIN} --batch 0 -o m"),
        "error: invalid `batch`: expected at least 1, found 0\n\
         hint: see the keys of [model] and [training] in `laau config --default`\n",
    );
    check(
        &format!("{TRAIN} --norm-bound 3 -o m"),
        "error: `norm-bound` in [model] is a key of network = \"linear\"\n\
         hint: leave it out, or choose --network linear\n",
    );
    check(
        &format!("{TRAIN} --phases fast -o m"),
        "error: invalid value 'fast' for '--phases <ROWS>': expected numbers, for example 1,2 or 1:2,3:4\n\
         hint: see `laau train --help`\n",
    );
    bench.write("bad.toml", "[training]\nbacth = 3\n");
    check(
        &format!("{TRAIN} --config bad.toml -o m"),
        "error: bad.toml, line 2: unknown key `bacth` in [training]\nhint: did you mean `batch`?\n",
    );
}

#[test]
fn a_cold_model_learns_while_it_serves() {
    let bench = bench();
    let csv = bench.stdout("learn --episodes sets/train.parquet -o learned.safetensors", "");
    let rows: Vec<Vec<f64>> = csv
        .lines()
        .skip(1)
        .map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect())
        .collect();
    assert_eq!(
        csv.lines().next(),
        Some("round,utility,running_utility,violations,failures,stepped")
    );
    assert_eq!(rows.len(), 40);
    let mut sum = 0.0;
    for (round, row) in rows.iter().enumerate() {
        sum += row[1];
        assert_eq!((row[0], row[3], row[4], row[5]), (round as f64, 0.0, 0.0, 1.0));
        assert!((row[2] - sum / (round + 1) as f64).abs() < 1e-12);
    }
    // The same rounds as JSON lines.
    let json = bench.stdout("learn --episodes sets/train.parquet --format json", "");
    for (line, row) in json.lines().zip(&rows) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["utility"].as_f64(), Some(row[1]));
        assert_eq!(line["running_utility"].as_f64(), Some(row[2]));
        assert_eq!(line["skipped"], Value::Null);
    }
    // What was learned is where the next stream begins.
    let warm = bench.stdout(
        "learn --episodes sets/test.parquet --model learned.safetensors --optimiser adam --learning-rate 0.001",
        "",
    );
    let cold = bench.stdout("learn --episodes sets/test.parquet", "");
    assert_eq!(warm.lines().count(), 21);
    assert_ne!(warm.lines().nth(1), cold.lines().nth(1));
    let other = bench.stdout("learn --episodes sets/test.parquet --seed 1", "");
    assert_ne!(other.lines().nth(1), cold.lines().nth(1));
}

#[test]
fn bad_input_of_learning_is_told() {
    let bench = bench();
    bench.stdout("generate --horizon 7 --episodes 5 -o seven.parquet", "");
    train(&bench, "--phases 1:0.01 -o model.safetensors");
    bench.check_failure(
        "learn --episodes seven.parquet --model model.safetensors",
        "",
        "error: seven.parquet: episodes of 7 steps, model.safetensors has 5\n\
         hint: make all episodes with the same --horizon\n",
    );
    bench.check_failure(
        "learn --episodes seven.parquet --problem trading --model model.safetensors",
        "",
        "error: the model is for problem `weighted-fairness` (1 actions, 1 budgets, context of 1), not for \
         `trading` (1 actions, 1 budgets, context of 1)\nhint: name the model's problem: --problem weighted-fairness\n",
    );
    bench.check_failure(
        "learn --episodes seven.parquet --model missing.safetensors",
        "",
        "error: missing.safetensors: no such file or directory\nhint: models are written by `laau train -o FILE`; check the path and its permissions\n",
    );
    bench.check_failure(
        "learn --episodes seven.parquet --learning-rate 0",
        "",
        "error: invalid `learning_rate`: expected a positive number, found 0\n\
         hint: see the keys of [model] and [training] in `laau config --default`\n",
    );
    bench.check_failure(
        "learn --episodes seven.parquet --first-look 0",
        "",
        "error: invalid `first-look`: expected at least 1, found 0\n\
         hint: a cold model is normalised by the first episodes; one is enough\n",
    );
    bench.check_failure(
        "learn --episodes seven.parquet -o none/model.safetensors",
        "",
        "error: none/model.safetensors: no such file or directory\n\
         hint: nothing was written; choose a folder that exists, is writable and has room\n",
    );
    // A reader that goes away ends the run.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command(bench.path(), &["learn", "--episodes", "seven.parquet"])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(141), &b""[..]));
}

#[test]
fn a_step_that_would_kill_the_model_is_not_taken_and_nothing_is_written() {
    let bench = Bench::new();
    bench.stdout("generate --horizon 5 --episodes 8 -o e.parquet", "");
    for rate in ["1e308", "1e20"] {
        let run = bench.run(
            &format!("learn --episodes e.parquet --learning-rate {rate} -o dead.safetensors"),
            "",
        );
        assert_eq!(run.status, Some(1), "{rate}");
        assert!(
            run.stderr.starts_with(
                "error: nothing was learned in 8 rounds, and nothing was written: the step leads to a weight of "
            ),
            "{}",
            run.stderr
        );
        assert!(!bench.path().join("dead.safetensors").exists());
    }
}
