//! `laau compare`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::support::{Bench, command, contexts, run_command};

const POLICIES: &str = "opt,equal,avg-lt,dgd,mw,cr-pursuit,rl,ce,dp,laau,laau-history,laau-residual";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.stdout("generate --horizon 5 --split 30,15,20 --seed 3 -o sets", "");
    bench
}

const COMPARE: &str = "compare --train sets/train.parquet --validation sets/validation.parquet \
                       --test sets/test.parquet --phases 2:0.01";

fn json(bench: &Bench, rest: &str) -> Value {
    let text = bench.stdout(&format!("{COMPARE} --quiet --format json {rest}"), "");
    serde_json::from_str(&text).unwrap()
}

/// The JSON without what the clock says.
fn without_time(mut value: Value) -> Value {
    for (_, policy) in value["policies"].as_object_mut().unwrap() {
        policy
            .as_object_mut()
            .unwrap()
            .remove("microseconds_per_decision")
            .unwrap();
    }
    value
}

#[test]
fn every_policy_is_compared_and_the_report_is_written() {
    let bench = bench();
    let run = bench.run(
        &format!("{COMPARE} --seeds 0,1 --format json -o report --steps"),
        "",
    );
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    // A line of progress per policy and seed; three models and the end-to-end network are trained twice.
    assert_eq!(run.stderr.lines().count(), 12 + 4, "{}", run.stderr);
    assert_eq!(run.stdout.as_bytes(), bench.read("report/summary.json"));
    let names: Vec<&str> = run
        .lines()
        .into_iter()
        .filter_map(|line| line.strip_prefix("    \"")?.strip_suffix("\": {"))
        .collect();
    assert_eq!(names.join(","), POLICIES);

    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (report["problem"].as_str(), report["horizon"].as_u64()),
        (Some("weighted-fairness"), Some(5))
    );
    for name in POLICIES.split(',') {
        let policy = &report["policies"][name];
        let figure = |key: &str| {
            policy[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{name}: {key}: {policy}"))
        };
        assert!(figure("fraction_of_opt") <= 1.0 + 1e-9, "{name}");
        assert!((0.0..=100.0).contains(&figure("remaining_percent")), "{name}");
        assert_eq!(figure("violations"), 0.0, "{name}");
        assert_eq!(figure("failures"), 0.0, "{name}");
        assert!(figure("microseconds_per_decision") > 0.0, "{name}");
        let quantiles: Vec<f64> = policy["quantiles"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_f64)
            .collect();
        assert!(
            quantiles.len() == 5 && quantiles.is_sorted(),
            "{name}: {quantiles:?}"
        );
        let seeds = policy["seeds"].as_array().unwrap();
        assert_eq!(seeds.len(), 2, "{name}");
        let [first, second] = [0, 1].map(|seed: usize| seeds[seed]["utility"].as_f64().unwrap());
        let mean = f64::midpoint(first, second);
        assert!((mean - figure("utility")).abs() < 1e-12, "{name}");
        let is_trained = name.starts_with("laau");
        assert_eq!(policy["gradients"].is_object(), is_trained, "{name}");
        assert_eq!(
            seeds[0]["utility"] != seeds[1]["utility"],
            is_trained || name == "rl",
            "{name}"
        );
    }
    assert_eq!(report["policies"]["opt"]["fraction_of_opt"], 1.0);
    assert!(report["policies"]["dgd"]["parameters"].as_object().unwrap().len() >= 2);

    // The tables can be read, and say the same.
    let mut files: Vec<String> = std::fs::read_dir(bench.path().join("report"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".policy"))
        .collect();
    files.sort();
    assert_eq!(files, ["rollouts.parquet", "steps.parquet", "summary.json"]);
    let inspected = bench.stdout("inspect report/summary.json", "");
    assert!(inspected.contains("laau-residual"), "{inspected}");
}

#[test]
fn the_figures_do_not_depend_on_the_number_of_threads() {
    let bench = bench();
    let policies = "opt,dgd,rl,ce,laau";
    let runs = ["1", "3"].map(|threads| {
        let folder = format!("report{threads}");
        let arguments = format!("{COMPARE} --quiet --format json --policies {policies} -o {folder}");
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let mut command = command(bench.path(), &arguments);
        command
            .env("RAYON_NUM_THREADS", threads)
            .env("POLARS_MAX_THREADS", threads);
        let run = run_command(command, "");
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        (
            without_time(serde_json::from_str(&run.stdout).unwrap()),
            bench.read(&format!("{folder}/rollouts.parquet")),
        )
    });
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn a_subset_of_policies_has_the_same_figures_in_every_format() {
    let bench = bench();
    let report = json(&bench, "--policies equal,laau");
    let utility = |name: &str| report["policies"][name]["utility"].as_f64().unwrap();
    // The fraction of the optimum is known although the optimum was not asked for.
    assert!(report["policies"]["equal"]["fraction_of_opt"].as_f64().unwrap() < 1.0);
    assert_eq!(report["policies"].as_object().unwrap().len(), 2);

    let csv = bench.stdout(
        &format!("{COMPARE} --quiet --format csv --policies equal,laau"),
        "",
    );
    let cells: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(cells.len(), 3);
    assert!(cells.iter().all(|row| row.len() == cells[0].len()), "{csv}");
    assert_eq!(cells[1][1].parse::<f64>().unwrap(), utility("equal"));
    assert_eq!(cells[2][1].parse::<f64>().unwrap(), utility("laau"));

    let markdown = bench.stdout(
        &format!("{COMPARE} --quiet --format markdown --policies equal,laau"),
        "",
    );
    assert_eq!(markdown.lines().count(), 4);
    assert!(
        markdown.lines().all(|line| line.matches('|').count() == 12),
        "{markdown}"
    );
    let table = bench.stdout(&format!("{COMPARE} --quiet --policies equal,laau"), "");
    let heading: Vec<&str> = table
        .lines()
        .next()
        .unwrap()
        .split("  ")
        .filter(|cell| !cell.is_empty())
        .collect();
    let heading: Vec<&str> = heading.into_iter().map(str::trim).collect();
    assert_eq!(
        heading,
        [
            "policy",
            "utility",
            "of opt",
            "remaining %",
            "min",
            "25%",
            "50%",
            "75%",
            "max",
            "violations",
            "µs/decision"
        ]
    );
    assert_eq!(table.lines().count(), 3);
}

#[test]
fn the_tables_say_what_the_summary_says() {
    let bench = bench();
    let report = json(&bench, "--policies laau -o report --steps");
    let laau = &report["policies"]["laau"];
    let mean = |table: &str, index: usize| {
        let out = bench.stdout(&format!("inspect report/{table} --format json"), "");
        let found: Value = serde_json::from_str(&out).unwrap();
        let value = &found["statistics"]["values"][index];
        (value["count"].as_u64().unwrap(), value["mean"].as_f64().unwrap())
    };
    let (episodes, utility) = mean(
        "rollouts.parquet --series policy --time episode --values utility",
        0,
    );
    assert_eq!(episodes, 20);
    assert!((utility - laau["utility"].as_f64().unwrap()).abs() < 1e-12);
    let steps = "steps.parquet --series episode --time step --values utility,usage,action,multiplier,context";
    let (rows, utility) = mean(steps, 0);
    assert_eq!(rows, 100);
    assert!((utility - laau["utility"].as_f64().unwrap()).abs() < 1e-12);
    // This problem uses what it acts, and the last step is free.
    assert_eq!(mean(steps, 1), mean(steps, 2));
    assert!(mean(steps, 3).1 > 0.0);
}

#[test]
fn policies_that_are_not_for_the_problem_are_left_out_unless_named() {
    let bench = Bench::new();
    // Two actions, and a context of two entries.
    let mut text = String::from("episode,step,context_0,context_1,budget\n");
    for episode in 0..6 {
        for step in 0..3 {
            let weight = |offset: i32| f64::from((episode * 7 + step * 5 + offset) % 9 + 1) / 10.0;
            writeln!(text, "{episode},{step},{},{},40", weight(0), weight(4)).unwrap();
        }
    }
    for set in ["train", "validation", "test"] {
        bench.write(&format!("log-{set}.csv"), &text);
    }
    let compare = "compare --problem log-utility --train log-train.csv --validation log-validation.csv --test log-test.csv --phases 1:0.01";
    let run = bench.run(&format!("{compare} --quiet --format json"), "");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let left_out: Vec<&str> = run.stderr.lines().collect();
    assert!(
        left_out
            .iter()
            .any(|line| line.starts_with("left out: policy `dp` is not applicable: ")),
        "{}",
        run.stderr
    );
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let policies = report["policies"].as_object().unwrap();
    assert_eq!(policies.len() + left_out.len(), 12, "{}", run.stderr);
    assert!(policies.contains_key("laau") && !policies.contains_key("dp"));
    assert!(policies.values().all(|policy| policy["violations"] == 0));

    let run = bench.run(&format!("{compare} --quiet --policies equal,dp"), "");
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
    assert!(
        run.stderr.starts_with("error: policy `dp` is not applicable: ")
            && run
                .stderr
                .ends_with("\nhint: leave the policy out, or choose another problem\n"),
        "{}",
        run.stderr
    );
}

#[test]
fn several_budgets_have_a_list_of_remainders() {
    let bench = Bench::new();
    let mut text = String::from("episode,step,context_0,context_1,budget_0,budget_1\n");
    for episode in 0..4 {
        for step in 0..3 {
            let weight = f64::from((episode * 7 + step * 5) % 9 + 1) / 10.0;
            writeln!(text, "{episode},{step},{weight},0.5,40,60").unwrap();
        }
    }
    for set in ["train", "validation", "test"] {
        bench.write(&format!("two-{set}.csv"), &text);
    }
    let out = bench.stdout(
        "compare --problem log-utility --usage 1:0.5,0.5:1 --train two-train.csv --validation two-validation.csv --test two-test.csv \
         --policies opt,equal --quiet --format json -o report --steps",
        "",
    );
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        report["policies"]["equal"]["remaining_percent"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn bad_input_of_a_comparison_is_told_and_nothing_is_written() {
    let bench = bench();
    bench.stdout("generate --horizon 7 --episodes 5 -o seven.parquet", "");
    let check = |arguments: &str, expected: &str| {
        bench.check_failure(arguments, "", expected);
        assert!(!bench.path().join("report").exists(), "{arguments}");
    };
    check(
        &format!("{COMPARE} --policies opt,euqal -o report"),
        "error: unknown policy `euqal`\nhint: did you mean `equal`?\n",
    );
    check(
        &format!("{COMPARE} --policies opt,transformer -o report"),
        "error: unknown policy `transformer`\nhint: known are opt, equal, avg-lt, dgd, mw, cr-pursuit, rl, \
         ce, dp, laau, laau-history and laau-residual\n",
    );
    // Another name for dgd, once.
    check(
        &format!("{COMPARE} --policies opt,lyapunov -o report"),
        "error: unknown policy `lyapunov`\nhint: known are opt, equal, avg-lt, dgd, mw, cr-pursuit, rl, \
         ce, dp, laau, laau-history and laau-residual\n",
    );
    check(
        &format!("{COMPARE} --policies equal,opt,equal -o report"),
        "error: policy `equal` is named twice\nhint: name each policy once\n",
    );
    check(
        "compare --train sets/train.parquet --validation sets/validation.parquet --test seven.parquet -o report",
        "error: seven.parquet: episodes of 7 steps, sets/train.parquet has 5\n\
         hint: make all episodes with the same --horizon\n",
    );
    check(
        "compare --train sets/train.parquet --validation sets/validation.parquet --test missing.parquet -o report",
        "error: missing.parquet: no such file or directory\nhint: check the path and its permissions\n",
    );
    check(
        &format!("{COMPARE} --problem power -o report"),
        "error: sets/train.parquet: the episodes were made for problem `weighted-fairness`, not for `power`\n\
         hint: name their problem: --problem weighted-fairness\n",
    );
    let run = bench.run(&format!("{COMPARE} --lower 16 -o report"), "");
    assert!(
        run.stderr
            .starts_with("error: sets/train.parquet: episode 0: budget 0 is "),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.ends_with(
            ", below 80, the least that 5 steps use\n\
             hint: a budget of at least 80 pays every step; raise it, or lower --lower\n"
        ),
        "{}",
        run.stderr
    );
}

#[test]
fn a_report_that_cannot_be_written_leaves_nothing() {
    let bench = bench();
    bench.write("file", "");
    let run = bench.run(&format!("{COMPARE} --quiet --policies equal -o file/report"), "");
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
    assert_eq!(
        run.stderr,
        "error: file/report: not a directory\n\
         hint: nothing was written; choose a folder that exists, is writable and has room\n"
    );
    assert_eq!(bench.read("file"), b"");
    let run = bench.run(&format!("{COMPARE} --quiet --policies equal --steps"), "");
    assert_eq!(run.status, Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_on_a_full_disk_is_told() {
    let bench = bench();
    for arguments in [
        format!("{COMPARE} --quiet --policies equal"),
        "learn --episodes sets/test.parquet".to_owned(),
        "learn --episodes sets/test.parquet --format json".to_owned(),
    ] {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(bench.path(), &words).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "error: standard output: no space left on device\n\
             hint: what was written is incomplete; make room and run the command again\n",
            "{arguments}"
        );
    }
}

/// Policies that can be stored.
const FITTED: [&str; 11] = [
    "equal",
    "avg-lt",
    "dgd",
    "mw",
    "cr-pursuit",
    "rl",
    "ce",
    "dp",
    "laau",
    "laau-history",
    "laau-residual",
];

/// The bits of the actions of every policy, from a table of the steps of one episode.
fn played(steps: &std::path::Path) -> BTreeMap<String, Vec<u64>> {
    use laau::data::{EpisodeOptions, Normalisation, Split, Table, TableOptions};
    // A policy is a series, a step a time, an action a reading: all of them are one window each.
    let table = Table::open(TableOptions {
        paths: vec![steps.to_str().unwrap().to_owned()],
        series: "policy".to_owned(),
        time: "step".to_owned(),
        values: vec!["action".to_owned()],
        ..TableOptions::default()
    });
    let options = EpisodeOptions {
        horizon: 12,
        normalisation: Normalisation::None,
        split: Split {
            train: FITTED.len() + 1,
            validation: 0,
            test: 0,
        },
        ..EpisodeOptions::default()
    };
    let sets = laau::data::import(&table.unwrap(), &options).unwrap().sets;
    let names = sets.train.series().unwrap();
    let actions = sets
        .train
        .iter()
        .map(|episode| episode.contexts().iter().map(|x| x.to_bits()).collect());
    names.iter().map(ToString::to_string).zip(actions).collect()
}

#[test]
fn every_policy_ends_on_contexts_that_are_next_to_nothing() {
    let bench = Bench::new();
    // What is near the least number that there is, and what has no square.
    let tiny = [1e-200, 5e-324, 0.5, 5e-324, 1e-200, 0.0, 1e-308, 1e-200];
    for (name, episodes) in [("train", 6), ("validation", 3), ("test", 2)] {
        let mut rows = String::from("episode,step,context,budget\n");
        for episode in 0..episodes {
            for step in 0..4 {
                let context = tiny[(3 * episode + step) % tiny.len()];
                writeln!(rows, "{episode},{step},{context:e},50").unwrap();
            }
        }
        bench.write(&format!("{name}.csv"), rows);
    }
    let run = bench.run(
        "compare --train train.csv --validation validation.csv --test test.csv --phases 1:0.01 --quiet --format json -o report",
        "",
    );
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    for name in FITTED {
        assert_eq!(report["policies"][name]["violations"], 0, "{name}");
        let out = bench.stdout(
            &format!("decide --policy-file report/{name}.policy --budget 50"),
            &contexts(&tiny[..4]),
        );
        assert_eq!(out.matches("{\"step\":").count(), 4, "{name}: {out}");
    }
    for name in ["equal", "avg-lt", "dgd", "mw", "cr-pursuit", "ce"] {
        let decide = format!("decide --policy {name} --budget 50 --horizon 8");
        let out = bench.stdout(&decide, &contexts(&tiny));
        assert_eq!(out.matches("{\"step\":").count(), 8, "{name}: {out}");
    }
}

#[test]
fn the_policy_that_wins_is_deployed_as_it_was_compared() {
    let bench = Bench::new();
    bench.stdout(
        "generate --horizon 12 --split 30,8,1 --seed 2 --upper 30 -o sets",
        "",
    );
    bench.stdout(
        "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet \
         --upper 30 --phases 1:0.01 --quiet --steps -o report",
        "",
    );
    let test = laau::data::read_episodes(&bench.path().join("sets/test.parquet")).unwrap();
    let (contexts, budget) = (contexts(test.contexts()), test.budgets()[0]);
    let played = played(&bench.path().join("report/steps.parquet"));
    for name in FITTED {
        let out = bench.stdout(
            &format!("decide --policy-file report/{name}.policy --budget {budget}"),
            &contexts,
        );
        let actions: Vec<u64> = out
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["action"][0]
                    .as_f64()
                    .unwrap()
            })
            .map(f64::to_bits)
            .collect();
        assert_eq!(actions, played[name], "{name}: {out}");
        assert!(
            !out.contains("fallback") && !out.contains("error"),
            "{name}: {out}"
        );
    }
    assert!(!bench.path().join("report/opt.policy").exists());
    bench.check_failure(
        "decide --policy-file report/mw.policy --upper 40 --budget 50",
        "",
        "error: report/mw.policy: the file has the problem and its parameters\n\
         hint: leave the flags of the problem out\n",
    );
    let text = std::fs::read_to_string(bench.path().join("report/mw.policy")).unwrap();
    bench.write("bad.policy", text.replacen("0.", "1.", 1));
    bench.check_failure(
        "decide --policy-file bad.policy --budget 50",
        "",
        "error: bad.policy: its digest does not match: the file is damaged\n\
         hint: policy files are written by `laau compare -o DIR`\n",
    );
}
