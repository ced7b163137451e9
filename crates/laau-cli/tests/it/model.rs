//! Models: decided with, described, refused.

use std::path::Path;
use std::sync::Arc;

use laau::core::problems::{LogUtility, WeightedFairness};
use laau::core::{Episodes, SmoothProblem, StepSolver};
use laau::kkt::{FairnessLayer, InteriorPoint, Options};
use laau::net::{Model, ModelSpec, Statistics, Summary};
use serde_json::Value;

use crate::support::{Bench, contexts};

/// Writes an untrained model for weighted fairness.
fn write_model(path: &Path, horizon: usize, seed: u64) {
    let problem = Arc::new(WeightedFairness::paper());
    let spec = ModelSpec::paper(&*problem, horizon);
    let weights = (0..horizon).map(|step| (step as f64 * 0.37).fract()).collect();
    let train = Episodes::new(horizon, 1, 1, weights, vec![12.5 * horizon as f64]).unwrap();
    write(path, spec, &mut FairnessLayer::new(problem), &train, seed);
}

fn write(path: &Path, spec: ModelSpec, layer: &mut dyn StepSolver, train: &Episodes, seed: u64) {
    let statistics = Statistics::fit(&spec, layer, train).unwrap();
    let model = Model::new(spec, statistics, seed).unwrap();
    laau::net::save_model(path, &model, &Summary::untrained(seed)).unwrap();
}

#[test]
fn a_model_decides_and_tells_its_prices() {
    let bench = Bench::new();
    write_model(&bench.path().join("model.safetensors"), 4, 0);
    let given = bench.stdout(
        "decide --model model.safetensors --budget 50 --horizon 4",
        &contexts(&[0.31, 0.5, 0.2, 0.9]),
    );
    let lines: Vec<Value> = given
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4);
    assert!(
        lines[..3]
            .iter()
            .all(|line| line["multiplier"][0].as_f64().unwrap() > 0.0)
    );
    // The last step is free: what is not used then is lost.
    assert_eq!(lines[3]["multiplier"][0], 0.0);
    let own = bench.stdout(
        "decide --model model.safetensors --budget 50",
        &contexts(&[0.31, 0.5, 0.2, 0.9]),
    );
    assert_eq!(own, given);
}

#[test]
fn a_journal_knows_its_model() {
    let bench = Bench::new();
    write_model(&bench.path().join("a.safetensors"), 4, 0);
    write_model(&bench.path().join("b.safetensors"), 4, 1);
    bench.stdout(
        "decide --model a.safetensors --budget 50 --journal day.jsonl",
        &contexts(&[0.31]),
    );
    let run = bench.run(
        "decide --model b.safetensors --budget 50 --journal day.jsonl --resume",
        "",
    );
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
    assert!(
        run.stderr.starts_with(
            "error: day.jsonl: the journal is of another episode: its policy is {\"name\":\"laau\",\"model\":\""
        ),
        "{}",
        run.stderr
    );
    // The same model under another name is the same model.
    std::fs::copy(
        bench.path().join("a.safetensors"),
        bench.path().join("c.safetensors"),
    )
    .unwrap();
    let resumed = bench.stdout(
        "decide --model c.safetensors --budget 50 --journal day.jsonl --resume",
        &contexts(&[0.5]),
    );
    assert_eq!(resumed.lines().count(), 3);
}

#[test]
fn a_model_of_another_problem_or_horizon_is_refused() {
    let bench = Bench::new();
    write_model(&bench.path().join("fair.safetensors"), 20, 0);
    let problem: Arc<dyn SmoothProblem> = Arc::new(LogUtility::new(2, 1, vec![1.0, 1.0], 1.0, 40.0).unwrap());
    let spec = ModelSpec::paper(&*problem, 2);
    let train = Episodes::new(2, 2, 1, vec![0.5, 0.2, 0.3, 0.9], vec![50.0]).unwrap();
    let mut layer = InteriorPoint::new(Arc::clone(&problem), Options::default()).unwrap();
    write(&bench.path().join("log.safetensors"), spec, &mut layer, &train, 0);
    let check = |arguments: &str, expected: &str| bench.check_failure(arguments, "", expected);
    check(
        "decide --model fair.safetensors --budget 250 --horizon 40",
        "error: fair.safetensors: the model is for 20 steps, --horizon asks for 40\n\
         hint: leave --horizon out, or train a model on episodes of 40 steps\n",
    );
    check(
        "decide --model log.safetensors --problem weighted-fairness --budget 50",
        "error: the model is for problem `log-utility` (2 actions, 1 budgets, context of 2), not for \
         `weighted-fairness` (1 actions, 1 budgets, context of 1)\nhint: name the model's problem: --problem log-utility\n",
    );
    check(
        "decide --model log.safetensors --problem log-utility --actions 3 --budget 50",
        "error: the model is for problem `log-utility` (2 actions, 1 budgets, context of 2), not for \
         `log-utility` (3 actions, 1 budgets, context of 3)\nhint: name the model's problem: --problem log-utility\n",
    );
    let out = bench.stdout(
        "decide --model log.safetensors --problem log-utility --budget 50",
        "{\"context\":[0.5,0.2]}\n",
    );
    assert!(out.starts_with("{\"step\":0,"), "{out}");
}

#[test]
fn a_model_is_described() {
    let bench = Bench::new();
    write_model(&bench.path().join("model.safetensors"), 20, 7);
    insta::assert_snapshot!("inspect_model", bench.stdout("inspect model.safetensors", ""));
}

#[test]
fn a_model_decides_in_the_box_it_was_trained_for() {
    let bench = Bench::new();
    bench.stdout(
        "generate --horizon 3 --split 20,5,5 --seed 1 --lower 0.5 --upper 200 --budget 100,150 -o sets",
        "",
    );
    bench.stdout(
        "train --train sets/train.parquet --validation sets/validation.parquet --lower 0.5 --upper 200 \
         --phases 1:0.01 --quiet -o m.safetensors",
        "",
    );
    let context = &contexts(&[0.9, 0.9, 0.9]);
    let without = bench.stdout(
        "decide --model m.safetensors --budget 5000 --range-factor 99",
        context,
    );
    let with = bench.stdout(
        "decide --model m.safetensors --lower 0.5 --upper 200 --budget 5000 --range-factor 99",
        context,
    );
    assert_eq!(without, with);
    assert!(without.contains("\"action\":[200.0]"), "{without}");
    bench.check_failure(
        "decide --model m.safetensors --upper 40 --budget 5000",
        context,
        "error: the model is for another problem: invalid `parameters`: expected lower = 0.5, upper = 200, found \
         lower = 0.5, upper = 40\nhint: leave the flags of the problem out: the model's file has its parameters\n",
    );
    let inspected = bench.stdout("inspect m.safetensors", "");
    assert!(inspected.contains("lower = 0.5, upper = 200"), "{inspected}");
    bench.stdout("learn --model m.safetensors --episodes sets/test.parquet", "");
}

#[test]
fn a_damaged_model_is_never_played() {
    let bench = Bench::new();
    bench.stdout("generate --horizon 3 --split 20,5,5 --seed 1 -o sets", "");
    bench.stdout(
        "train --train sets/train.parquet --validation sets/validation.parquet --phases 1:0.01 --quiet -o m.safetensors",
        "",
    );
    let bytes = std::fs::read(bench.path().join("m.safetensors")).unwrap();
    let context = "{\"context\":[0.9]}\n";
    for step in 0..40 {
        let mut damaged = bytes.clone();
        let place = step * bytes.len() / 40 + step;
        damaged[place % bytes.len()] ^= 1 << (step % 8);
        bench.write("d.safetensors", &damaged);
        let run = bench.run("decide --model d.safetensors --budget 40", context);
        assert_eq!(run.status, Some(1), "byte {place}: {}", run.stdout);
        assert!(run.stderr.starts_with("error: d.safetensors: "), "{}", run.stderr);
    }
}

#[test]
fn a_model_of_several_horizons_decides_and_is_evaluated_at_each_of_them() {
    let bench = Bench::new();
    for horizon in [3, 4, 6, 7] {
        bench.stdout(
            &format!("generate --horizon {horizon} --split 40,10,10 --seed 1 -o h{horizon}"),
            "",
        );
    }
    let train = "train --train h6/train.parquet --validation h6/validation.parquet --phases 2:0.01 --quiet";
    let told = bench.stdout(&format!("{train} --horizons 3..6 -o any.safetensors"), "");
    assert!(told.contains(r#""horizon":6,"shortest_horizon":3"#), "{told}");
    let inspected = bench.stdout("inspect any.safetensors", "");
    assert!(inspected.contains("3 to 6"), "{inspected}");
    for horizon in [3, 4, 6] {
        let decide = format!("decide --model any.safetensors --horizon {horizon} --budget 50");
        let lines = bench.stdout(&decide, &contexts(&vec![0.4; horizon]));
        assert_eq!(lines.lines().count(), horizon);
        bench.stdout(
            &format!("evaluate --test h{horizon}/test.parquet --model any.safetensors --quiet"),
            "",
        );
    }
    let check = |arguments: &str, expected: &str| bench.check_failure(arguments, "", expected);
    check(
        "decide --model any.safetensors --horizon 7 --budget 50",
        "error: any.safetensors: the model is for 3 to 6 steps, --horizon asks for 7\n\
         hint: train a model with other --horizons\n",
    );
    check(
        "decide --model any.safetensors --budget 50",
        "error: any.safetensors: the model is for 3 to 6 steps\n\
         hint: say how many the episode has with --horizon\n",
    );
    check(
        "evaluate --test h7/test.parquet --model any.safetensors",
        "error: h7/test.parquet: episodes of 7 steps, any.safetensors has 3 to 6\n\
         hint: make all episodes with the same --horizon\n",
    );
    check(
        &format!("{train} --horizons 3..7 -o out.safetensors"),
        "error: h6/train.parquet: episodes of 6 steps, --horizons has 7\n\
         hint: make all episodes with the same --horizon\n",
    );
    for bad in ["6..3", "0..6", "6", "a..b"] {
        let run = bench.run(&format!("{train} --horizons {bad} -o out.safetensors"), "");
        assert_eq!(run.status, Some(2), "{bad}");
        assert!(run.stderr.contains("for example 10..40"), "{}", run.stderr);
    }

    // What `compare` trains so is stored so.
    bench.stdout(
        "compare --train h6/train.parquet --validation h6/validation.parquet --test h6/test.parquet --policies laau \
         --phases 2:0.01 --horizons 3..6 --quiet --format csv -o report",
        "",
    );
    bench.stdout(
        "evaluate --test h4/test.parquet --policy-file report/laau.policy --quiet",
        "",
    );
    check(
        "decide --policy-file report/laau.policy --horizon 7 --budget 50",
        "error: report/laau.policy: the model is for 3 to 6 steps, --horizon asks for 7\n\
         hint: train a model with other --horizons\n",
    );
}
