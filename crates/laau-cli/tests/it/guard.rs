//! `--guard`, in every command that has it.

use serde_json::Value;

use crate::support::{Bench, contexts};

const SETS: &str = "--train e/train.parquet --validation e/validation.parquet --test e/test.parquet";
const WEIGHTS: [f64; 6] = [0.3, 0.99, 0.1, 0.05, 0.9, 0.4];

fn bench() -> Bench {
    let bench = Bench::new();
    bench.stdout("generate --horizon 6 --split 200,40,30 --seed 3 -o e", "");
    bench
}

#[test]
fn a_comparison_shows_that_no_episode_falls_below_the_level() {
    let bench = bench();
    let out = bench.stdout(
        &format!("compare {SETS} --policies opt,equal,avg-lt,mw --guard mw --guard-level 0.9 -o report -q"),
        "",
    );
    assert!(out.lines().next().unwrap().contains("least share"), "{out}");
    let summary: Value = serde_json::from_slice(&bench.read("report/summary.json")).unwrap();
    for policy in ["equal-guarded", "avg-lt-guarded"] {
        let guard = &summary["policies"][policy]["guard"];
        assert_eq!(
            (guard["level"].as_f64(), &guard["form"]),
            (Some(0.9), &Value::from("layer"))
        );
        assert!(guard["share"].as_f64().unwrap() >= 0.9, "{guard}");
        assert!(guard["acted"].as_f64().unwrap() > 0.0, "{guard}");
        assert!(guard["margin"].as_f64().unwrap() >= -1e-12, "{guard}");
    }
    assert!(summary["policies"]["mw"]["guard"].is_null());
    assert!(summary["policies"]["mw-guarded"].is_null());

    // The guarded policy is deployed with its guard, and an incumbent of a file is what it was.
    let decide = |arguments: &str| bench.run(arguments, &contexts(&WEIGHTS)).stdout;
    let decided = decide("decide --policy-file report/equal-guarded.policy --budget 60");
    let from_file =
        "decide --policy equal --budget 60 --horizon 6 --guard report/mw.policy --guard-level 0.9";
    assert_eq!(decided, decide(from_file));
    assert!(decided.contains("\"guarded\":true"), "{decided}");
    let ready = bench.stdout(
        &format!(
            "compare {SETS} --policies equal --guard report/mw.policy --guard-level 0.9 -q --format csv"
        ),
        "",
    );
    let row = |text: &str, name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned();
        line.split(',').take(9).map(str::to_owned).collect::<Vec<_>>()
    };
    let utility = summary["policies"]["equal-guarded"]["utility"].as_f64().unwrap();
    assert_eq!(row(&ready, "equal-guarded")[1].parse(), Ok(utility));
}

#[test]
fn a_journal_carries_the_shadow_ledger_through_an_interruption() {
    let bench = Bench::new();
    let command = "decide --policy equal --budget 40 --horizon 6 --guard mw --guard-level 0.99";
    let whole = bench.run(command, &contexts(&WEIGHTS));
    assert_eq!(whole.status, Some(0));
    assert!(whole.stdout.contains("\"guarded\":true"), "{}", whole.stdout);
    let last = whole.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("guard: acted in ") && last.contains("0.99 promised"),
        "{last}"
    );
    let journal = format!("{command} --journal day");
    for step in 0..WEIGHTS.len() {
        let run = bench.run(&journal, &contexts(&WEIGHTS[step..=step]));
        assert_eq!(run.lines().last().unwrap(), &whole.lines()[step], "step {step}");
    }
    // Another level, or none, is another policy.
    for other in ["--guard mw --guard-level 0.98", ""] {
        let run = bench.run(
            &format!("decide --policy equal --budget 40 --horizon 6 {other} --journal day"),
            "",
        );
        assert_eq!(run.status, Some(1));
        assert!(run.stderr.contains("policy"), "{}", run.stderr);
    }
}

#[test]
fn what_cannot_guard_is_refused_with_a_hint() {
    let bench = Bench::new();
    let refused = |rest: &str, expected: &str| {
        let run = bench.run(
            &format!("decide --policy equal --budget 40 --horizon 6 {rest}"),
            "",
        );
        assert_ne!(run.status, Some(0), "{rest}");
        assert!(run.stderr.contains(expected), "{rest}: {}", run.stderr);
    };
    refused("--guard mww", "did you mean `mw`?");
    refused("--guard opt", "sees the whole episode");
    refused("--guard laau", "needs data to learn from");
    refused("--guard mw --guard-level 1.5", "between 0 and 1");
    refused("--guard-level 0.5", "--guard");
    bench.write("broken.policy", "{}");
    refused("--guard broken.policy", "not a policy file");
    bench.stdout(
        "generate --horizon 6 --split 20,10,5 --seed 3 --lower 2 -o two",
        "",
    );
    bench.stdout(
        "compare --train two/train.parquet --validation two/validation.parquet --test two/test.parquet \
         --lower 2 --policies mw -o two -q",
        "",
    );
    refused("--guard two/mw.policy", "another problem or other parameters");
}

#[test]
fn saved_policies_are_evaluated_behind_a_guard_and_models_trained_behind_one() {
    let bench = bench();
    let sets = "--train e/train.parquet --validation e/validation.parquet";
    let train = format!("train {sets} --phases 3:0.01 -q -o");
    bench.stdout(&format!("{train} plain.safetensors"), "");
    bench.stdout(
        &format!("{train} guarded.safetensors --guard equal --guard-level 0.99"),
        "",
    );
    assert_ne!(bench.read("plain.safetensors"), bench.read("guarded.safetensors"));
    let out = bench.stdout(
        "evaluate --test e/test.parquet --model plain.safetensors --model guarded.safetensors --guard equal \
         --guard-level 0.99 -q --format json",
        "",
    );
    let report: Value = serde_json::from_str(&out).unwrap();
    for policy in ["plain-guarded", "guarded-guarded"] {
        let share = &report["policies"][policy]["guard"]["share"];
        assert!(share.as_f64().unwrap() >= 0.99, "{policy}: {share}");
    }
    assert!(report["policies"]["equal"]["utility"].is_number());
    let run = bench.run(
        &format!("{train} x.safetensors --horizons 3..6 --guard equal"),
        "",
    );
    assert!(
        run.status == Some(1) && run.stderr.contains("one horizon"),
        "{}",
        run.stderr
    );
}
