//! `laau decide` without a journal.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Bench, Stream, command, contexts, run_command};

const EQUAL: &str = "decide --policy equal --budget 250 --horizon 20";

#[test]
fn a_line_comes_out_for_every_line_in() {
    let bench = Bench::new();
    let out = bench.stdout(
        "decide --policy equal --budget 10 --horizon 4",
        &contexts(&[0.3, 0.1, 0.9, 0.2]),
    );
    assert_eq!(
        out,
        "{\"step\":0,\"action\":[2.5],\"remaining\":[7.5]}\n\
         {\"step\":1,\"action\":[2.5],\"remaining\":[5.0]}\n\
         {\"step\":2,\"action\":[2.5],\"remaining\":[2.5]}\n\
         {\"step\":3,\"action\":[2.5],\"remaining\":[0.0]}\n"
    );
}

#[test]
fn each_answer_comes_before_the_next_question() {
    let bench = Bench::new();
    let mut stream = Stream::start(bench.path(), EQUAL);
    for step in 0..20 {
        stream.say(&contexts(&[0.5]));
        let answer: Value = serde_json::from_str(&stream.hear().unwrap()).unwrap();
        assert_eq!(answer["step"], step);
    }
    assert!(stream.finish());
}

#[test]
fn policies_with_prices_tell_them() {
    let bench = Bench::new();
    for policy in ["dgd", "mw", "avg-lt", "ce"] {
        let arguments = format!("decide --policy {policy} --budget 250 --horizon 20");
        let out = bench.stdout(&arguments, &contexts(&[0.4, 0.6]));
        for (step, line) in out.lines().enumerate() {
            let answer: Value = serde_json::from_str(line).unwrap();
            assert_eq!(answer["step"], step);
            assert!(
                answer["multiplier"][0].as_f64().unwrap() > 0.0,
                "{policy}: {line}"
            );
            assert_eq!(answer.get("fallback"), None, "{policy}: {line}");
        }
    }
    let out = bench.stdout(
        "decide --policy cr-pursuit --budget 250 --horizon 20",
        &contexts(&[0.4]),
    );
    assert!(!out.contains("multiplier"), "{out}");
}

#[test]
fn parameters_change_what_is_decided() {
    let bench = Bench::new();
    let decide = |arguments: &str| bench.stdout(arguments, &contexts(&[0.4, 0.9, 0.6]));
    let slow = decide("decide --policy dgd --parameter step-size=0.1 --budget 250 --horizon 20");
    let fast = decide("decide --policy dgd --parameter step-size=5 --budget 250 --horizon 20");
    assert_ne!(slow, fast);
    let one = decide("decide --policy avg-lt --parameter multiplier=0.05 --budget 250 --horizon 20");
    assert!(
        one.starts_with("{\"step\":0,\"action\":[8.0],\"multiplier\":[0.05],"),
        "{one}"
    );
}

#[test]
fn problems_with_several_budgets_take_several() {
    let bench = Bench::new();
    let out = bench.stdout(
        "decide --problem log-utility --usage [[1,0],[0,2]] --policy equal --budget 10,20 --horizon 2",
        "{\"context\":[0.5,0.5]}\n{\"context\":[0.1,0.9]}\n",
    );
    assert_eq!(out.lines().count(), 2);
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last["remaining"], serde_json::json!([0.0, 0.0]));
}

#[test]
fn the_configuration_names_the_problem_and_flags_override_it() {
    let bench = Bench::new();
    bench.write("box.toml", "[problem]\nlower = 2\nupper = 3.0\n");
    let action = |arguments: &str| {
        let out = bench.stdout(arguments, &contexts(&[0.5]));
        serde_json::from_str::<Value>(&out).unwrap()["action"][0]
            .as_f64()
            .unwrap()
    };
    assert_eq!(
        action("decide --config box.toml --policy equal --budget 50 --horizon 10"),
        3.0
    );
    assert_eq!(
        action("decide --config box.toml --upper 4 --policy equal --budget 50 --horizon 10"),
        4.0
    );
}

#[test]
fn malformed_lines_are_answered_and_spend_nothing() {
    let bench = Bench::new();
    let input = [
        "{\"context\":[0.5]}",
        "",
        "hello",
        "{\"context\":[0.5,0.5]}",
        "{\"context\":[]}",
        "{\"context\":[NaN]}",
        "{\"context\":[1e999]}",
        "{\"context\":[-0.5]}",
        "{\"context\":[0.5],\"budget\":[1000]}",
        "{\"context\":\"0.5\"}",
        "{\"context\":[0.5]",
        "{\"context\":[0.5]}",
        "{\"context\":[0.5]}",
    ]
    .join("\n");
    let run = bench.run("decide --policy equal --budget 10 --horizon 2", &input);
    let malformed = "{\"error\":\"expected {\\\"context\\\":[…]}: ";
    assert_eq!(
        run.lines(),
        [
            "{\"step\":0,\"action\":[5.0],\"remaining\":[5.0]}",
            &format!("{malformed}EOF while parsing a value at column 0\",\"line\":2}}"),
            &format!("{malformed}expected value at column 1\",\"line\":3}}"),
            "{\"error\":\"expected 1 values for context, found 2\",\"line\":4}",
            "{\"error\":\"expected 1 values for context, found 0\",\"line\":5}",
            &format!("{malformed}expected value at column 13\",\"line\":6}}"),
            &format!("{malformed}number out of range at column 17\",\"line\":7}}"),
            "{\"error\":\"expected a non-negative value for context[0], found -0.5\",\"line\":8}",
            &format!(
                "{malformed}unknown field `budget`, expected `context` or `series` at column 25\",\"line\":9}}"
            ),
            &format!(
                "{malformed}invalid type: string \\\"0.5\\\", expected a sequence at column 16\",\"line\":10}}"
            ),
            &format!("{malformed}EOF while parsing an object at column 16\",\"line\":11}}"),
            "{\"step\":1,\"action\":[5.0],\"remaining\":[0.0]}",
            "{\"error\":\"the episode is over: all 2 steps are decided\",\"line\":13}",
        ]
    );
    assert_eq!(
        run.stderr,
        "error: 11 of 13 lines were refused, and spent nothing\n\
         hint: each was answered with an error object that says why\n"
    );
    assert_eq!(run.status, Some(1));
}

#[test]
fn a_closed_output_ends_the_stream_silently_as_in_every_command() {
    let bench = Bench::new();
    for line in [EQUAL.to_owned(), format!("{EQUAL} --guard mw")] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = command(bench.path(), &line.split(' ').collect::<Vec<_>>())
            .stdin(Stdio::piped())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(contexts(&[0.5]).as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "laau {line}");
        assert_eq!(output.status.code(), Some(141), "laau {line}");
    }
}

#[test]
fn an_input_of_many_lines_gives_the_same_as_one_by_one() {
    let bench = Bench::new();
    let weights: Vec<f64> = (0..1000_u32).map(|t| f64::from(t * 37 % 101) / 101.0).collect();
    let arguments = "decide --policy mw --budget 12500 --horizon 1000";
    let whole = bench.stdout(arguments, &contexts(&weights));
    assert_eq!(whole.lines().count(), 1000);
    assert_eq!(whole, bench.stdout(arguments, &contexts(&weights)));
    let half = bench.stdout(arguments, &contexts(&weights[..500]));
    assert!(whole.starts_with(&half));
}

#[test]
fn bad_arguments_are_told_with_a_hint() {
    let bench = Bench::new();
    let check = |arguments: &str, expected: &str| bench.check_failure(arguments, "", expected);
    check(
        "decide --policy eqaul --budget 250 --horizon 20",
        "error: unknown policy `eqaul`\nhint: did you mean `equal`?\n",
    );
    check(
        "decide --policy opt --budget 250 --horizon 20",
        "error: policy `opt` sees the whole episode, and cannot decide step by step\n\
         hint: `laau compare` reports it; choose an online policy here\n",
    );
    check(
        "decide --policy laau --budget 250 --horizon 20",
        "error: policy `laau` needs data to learn from\n\
         hint: train a model with `laau train`, and give it with --model\n",
    );
    check(
        "decide --policy dgd --parameter stepsize=1 --budget 250 --horizon 20",
        "error: policy `dgd` has no parameter `stepsize`\nhint: did you mean `step-size`?\n",
    );
    check(
        "decide --policy dgd --parameter step-size=-1 --budget 250 --horizon 20",
        "error: policy `dgd`: expected a positive number for parameter `step-size`, found -1\n\
         hint: correct it, or leave --parameter step-size out for the default\n",
    );
    check(
        "decide --policy dgd --parameter step-size=big --budget 250 --horizon 20",
        "error: invalid value 'step-size=big' for '--parameter <KEY=VALUE>': expected a number after `step-size=`, \
         found `big`\nhint: see `laau decide --help`\n",
    );
    check(
        "decide --policy equal --budget 19.9 --horizon 20",
        "error: budget 0 is 19.9, below 20, the least that 20 steps use\n\
         hint: a budget of at least 20 pays every step\n",
    );
    check(
        "decide --policy equal --budget NaN --horizon 20",
        "error: expected a finite value for budgets[0], found NaN\n\
         hint: correct the value, or choose a problem that is defined there\n",
    );
    check(
        "decide --policy equal --budget 250,250 --horizon 20",
        "error: problem `weighted-fairness` has 1 budgets, --budget gives 2\n\
         hint: give one number per budget, separated by commas\n",
    );
    check(
        "decide --policy equal --budget 250 --horizon 0",
        "error: invalid value '0' for '--horizon <N>': 0 is not in 1..=2000000\nhint: see `laau decide --help`\n",
    );
    check(
        "decide --problem weighted-farness --policy equal --budget 250 --horizon 20",
        "error: unknown problem `weighted-farness`\nhint: did you mean `weighted-fairness`?\n",
    );
    check(
        "decide --alpha 2 --policy equal --budget 250 --horizon 20",
        "error: problem `weighted-fairness`: unknown field `alpha`, expected `lower` or `upper`\n\
         hint: `laau config --default` shows which problem has which keys\n",
    );
    check(
        "decide --lower 50 --policy equal --budget 2500 --horizon 20",
        "error: invalid problem `weighted-fairness`: expected finite bounds with lower <= upper, found [50, 40] for \
         action 0\nhint: see the keys of [problem] in `laau config --default`\n",
    );
    check(
        "decide --model missing.safetensors --budget 250",
        "error: missing.safetensors: no such file or directory\n\
         hint: models are written by `laau train -o FILE`; check the path and its permissions\n",
    );
}

#[test]
fn a_full_output_is_told() {
    let bench = Bench::new();
    let mut shell = std::process::Command::new("sh");
    shell
        .args([
            "-c",
            &format!("exec {} {EQUAL} > /dev/full", env!("CARGO_BIN_EXE_laau")),
        ])
        .current_dir(bench.path());
    let run = run_command(shell, &contexts(&[0.5]));
    assert_eq!(
        run.stderr,
        "error: standard output: no space left on device after 0 lines\n\
         hint: make room for the output; with a journal, the same command goes on\n"
    );
    assert_eq!(run.status, Some(1));
}
