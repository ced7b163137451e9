//! What people tripped over on a first day: each was accepted in silence, told badly, or overwrote something.

use std::fs::File;

use serde_json::{Value, json};

use crate::support::{Bench, contexts};

pub(crate) const TRAIN: &str =
    "train --train sets/train.parquet --validation sets/validation.parquet --quiet";
pub(crate) const COMPARE: &str = "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet --quiet";

/// Episodes of eight steps in `sets`, a model `m`, and a report with the policy files of `equal`, `mw` and `laau`.
pub(crate) fn bench() -> Bench {
    let bench = Bench::new();
    bench.stdout("generate --horizon 8 --split 40,10,10 --seed 1 -o sets", "");
    bench.stdout(&format!("{TRAIN} --phases 2:0.005 -o m"), "");
    bench.stdout(
        &format!("{COMPARE} --policies equal,mw,laau --phases 1:0.005 -o report --steps"),
        "",
    );
    bench
}

pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn episodes_of_another_problem_are_refused() {
    let bench = Bench::new();
    bench.stdout("generate --problem trading --horizon 4 --split 9,4,4 -o sets", "");
    bench.check_failure(
        &format!("{TRAIN} -o m"),
        "",
        "error: sets/train.parquet: the episodes were made for problem `trading`, not for `weighted-fairness`\n\
         hint: name their problem: --problem trading\n",
    );
    bench.stdout(&format!("{TRAIN} --problem trading --phases 1:0.01 -o m"), "");
    bench.stdout("generate --horizon 4 --split 9,4,4 -o fairness", "");
    for command in [
        "learn --episodes fairness/test.parquet --model m",
        "evaluate --test fairness/test.parquet --model m",
    ] {
        bench.check_failure(
            command,
            "",
            "error: fairness/test.parquet: the episodes were made for problem `weighted-fairness`, not for `trading`\n\
             hint: give episodes of `trading`, or a model or a policy file for `weighted-fairness`\n",
        );
    }
}

#[test]
fn a_budget_far_outside_the_training_is_told_or_refused() {
    let bench = bench();
    // Training drew budgets of 10 to 15 per step.
    for (budget, told) in [("100", None), ("24", Some("3")), ("400", Some("50"))] {
        let decide = format!("decide --model m --budget {budget}");
        let run = bench.run(&decide, &contexts(&[0.3]));
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let words = told
            .map(|per_step| format!("budget 0 is {per_step} per step, far outside the training range [10."));
        match &words {
            None => assert_eq!(run.stderr, ""),
            Some(words) => assert!(
                run.stderr.starts_with(&format!("warning: {words}")),
                "{}",
                run.stderr
            ),
        }
        let strict = bench.run(&format!("{decide} --strict-range"), &contexts(&[0.3]));
        assert_eq!(
            strict.status,
            Some(i32::from(told.is_some())),
            "{}",
            strict.stderr
        );
        assert_eq!(
            strict.stdout.is_empty(),
            told.is_some(),
            "it is refused before the first step"
        );
    }
    let told = bench.stdout("inspect m", "");
    assert!(told.contains("\nbudgets per step    10."), "{told}");
}

#[test]
fn budgets_that_never_bind_are_told() {
    let bench = Bench::new();
    bench.stdout("generate --horizon 4 --split 9,4,4 --budget 41,50 -o sets", "");
    let run = bench.run(&format!("{TRAIN} --phases 1:0.01 -o m"), "");
    assert_eq!(run.status, Some(0));
    assert!(
        run.stderr
            .starts_with("warning: sets/train.parquet: no budget binds: "),
        "{}",
        run.stderr
    );
}

#[test]
fn a_guard_is_not_overwritten_by_its_comparison_nor_written_again() {
    let bench = bench();
    std::fs::create_dir(bench.path().join("v")).unwrap();
    std::fs::copy(
        bench.path().join("report/mw.policy"),
        bench.path().join("v/incumbent.policy"),
    )
    .unwrap();
    let before = bench.read("v/incumbent.policy");
    let run = bench.run(
        &format!("{COMPARE} --policies equal --guard v/incumbent.policy -o v"),
        "",
    );
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(bench.read("v/incumbent.policy"), before);
    // The policy of a guard that is named is fitted, and its file written.
    bench.write("v/mw.policy", bench.stdout("config --default", ""));
    bench.check_failure(
        &format!("{COMPARE} --policies equal --guard mw --config v/mw.policy -o v"),
        "",
        "error: v/mw.policy: -o would overwrite the file of --config\nhint: name another file with -o\n",
    );
}

#[test]
fn the_guard_is_what_was_named_whatever_else_is_called_like_it() {
    let bench = bench();
    let evaluate = "evaluate --test sets/test.parquet --policy-file report/laau.policy --quiet --format json";
    let guarded = |more: &str| {
        let report = parsed(&bench.stdout(&format!("{evaluate} {more}"), ""));
        report["policies"]["laau-guarded"]["utility"].clone()
    };
    let expected = guarded("--guard equal");
    assert!(expected.is_number(), "{expected}");
    assert_eq!(
        guarded("--policy-file equal=report/mw.policy --guard equal"),
        expected
    );
    let by_file = guarded("--guard report/equal.policy");
    assert_eq!(
        guarded("--policy-file incumbent=report/mw.policy --guard report/equal.policy"),
        by_file
    );
    let failed = bench.run(
        &format!("{evaluate} --policy-file laau-guarded=report/mw.policy --guard equal"),
        "",
    );
    assert_eq!(failed.status, Some(1));
    assert!(
        failed
            .stderr
            .starts_with("error: behind the guard, `laau` would be called like another policy\n"),
        "{}",
        failed.stderr
    );
}

#[test]
fn a_guard_for_another_number_of_steps_is_refused() {
    let bench = bench();
    let expected = "error: report/laau.policy: the incumbent is a model for 8 steps, the episodes have 9\n\
                    hint: guard by a policy that plays any number of steps, or by a model for as many\n";
    bench.check_failure(
        "decide --policy mw --budget 80 --horizon 9 --guard report/laau.policy",
        "",
        expected,
    );
    bench.stdout("generate --horizon 9 --split 9,4,4 -o sets", "");
    for command in [format!("{TRAIN} -o n"), format!("{COMPARE} --policies mw")] {
        bench.check_failure(&format!("{command} --guard report/laau.policy"), "", expected);
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_no_table_of_episodes() {
    let bench = bench();
    let made = std::process::Command::new("mkfifo")
        .arg(bench.path().join("pipe.csv"))
        .status();
    assert!(made.unwrap().success());
    for command in [
        "evaluate --policy-file report/mw.policy --test pipe.csv",
        "train --validation sets/validation.parquet -o n --train pipe.csv",
        "learn --episodes pipe.csv",
        "inspect pipe.csv",
    ] {
        bench.check_failure(
            command,
            "",
            "error: pipe.csv: this is a pipe or a device\n\
             hint: write it to a file first: tables are read more than once\n",
        );
    }
}

#[test]
fn a_training_that_can_only_saturate_writes_no_such_model() {
    let bench = bench();
    let run = bench.run(&format!("{TRAIN} --phases 3:1e30 -o hot"), "");
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("training diverged in epoch 1"),
        "{}",
        run.stderr
    );
    assert!(!bench.path().join("hot").exists());
}

#[test]
fn absurd_counts_are_refused_with_the_number() {
    let bench = bench();
    let most = i64::MAX;
    for (command, told) in [
        (
            format!("{TRAIN} -o n --batch {most}"),
            format!("expected at most 1000000000, found {most}"),
        ),
        (
            format!("{COMPARE} --policies laau --batch {most}"),
            format!("expected at most 1000000000, found {most}"),
        ),
        (
            format!("{TRAIN} -o n --phases {most}:0.1"),
            format!("expected at most 1000000000 epochs, found {most}"),
        ),
        (
            format!("{COMPARE} --policies laau --phases {most}:0.1,{most}:0.1"),
            "epoch".to_owned(),
        ),
    ] {
        let run = bench.run(&command, "");
        assert_eq!(run.status, Some(1), "laau {command}: {}", run.stderr);
        assert!(run.stderr.contains(&told), "laau {command}: {}", run.stderr);
    }
}

#[test]
fn a_file_that_is_too_large_for_what_it_should_be_is_not_read_whole() {
    let bench = bench();
    File::create(bench.path().join("large"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    for command in [
        "decide --budget 80 --model large",
        "decide --budget 80 --policy-file large",
        "decide --budget 80 --horizon 8 --policy mw --guard large",
        "decide --budget 80 --horizon 8 --policy mw --config large",
        "inspect large --kind report",
        "learn --episodes sets/test.parquet --model large",
    ] {
        let run = bench.run(command, "");
        assert_eq!(run.status, Some(1), "laau {command}: {}", run.stderr);
        assert!(
            run.stderr
                .starts_with("error: large: expected at most 256 MB, found more\n"),
            "laau {command}: {}",
            run.stderr
        );
    }
}

#[test]
fn a_long_file_of_zeros_is_no_journal() {
    let bench = Bench::new();
    bench.write("day.jsonl", vec![0; 1 << 20]);
    let run = bench.run(
        "decide --policy equal --budget 80 --horizon 8 --journal day.jsonl",
        "",
    );
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(bench.read("day.jsonl").len(), 1 << 20);
}

#[cfg(unix)]
#[test]
fn a_journal_on_a_link_that_leads_nowhere_is_told() {
    let bench = Bench::new();
    std::os::unix::fs::symlink("nothing", bench.path().join("day.jsonl")).unwrap();
    bench.check_failure(
        "decide --policy equal --budget 80 --horizon 8 --journal day.jsonl",
        "",
        "error: day.jsonl: the journal is a link that leads nowhere\n\
         hint: remove the link, or name the file that it should lead to\n",
    );
}

#[test]
fn everything_that_is_written_can_be_inspected() {
    let bench = bench();
    bench.stdout(&format!("{TRAIN} --phases 2:0.005 --log log.csv -o n"), "");
    bench.write(
        "rounds.csv",
        bench.stdout("learn --episodes sets/test.parquet", ""),
    );
    for (file, rows, column) in [
        ("report/rollouts.parquet", 30, "violations"),
        ("report/steps.parquet", 240, "multiplier"),
        ("log.csv", 2, "learning_rate"),
        ("rounds.csv", 10, "running_utility"),
    ] {
        let found = parsed(&bench.stdout(&format!("inspect {file} --format json"), ""));
        assert_eq!(
            (&found["kind"], &found["table"]["rows"]),
            (&json!("figures"), &json!(rows)),
            "{file}"
        );
        let columns = found["table"]["columns"].as_array().unwrap();
        assert!(
            columns.iter().any(|found| found["name"] == column),
            "{file}: {found}"
        );
    }
    let told = bench.stdout("inspect report/steps.parquet", "");
    assert!(told.contains("equal laau mw\n"), "{told}");
    // A step of `equal` has no price.
    let steps = parsed(&bench.stdout("inspect report/steps.parquet --format json", ""));
    let columns = steps["table"]["columns"].as_array().unwrap();
    let price = columns
        .iter()
        .find(|found| found["name"] == "multiplier")
        .unwrap();
    assert_eq!(price["missing"], 80, "{price}");

    let policy = bench.stdout("inspect report/mw.policy", "");
    assert!(
        policy.contains("\nfitted             mirror = entropic, "),
        "{policy}"
    );
    bench.check_failure(
        "inspect report",
        "",
        "error: report: this is a folder\nhint: its report is report/summary.json\n",
    );
    bench.write("red.csv", "redbox,time,value\na,0,1\na,1,2\n");
    let table = bench.stdout("inspect red.csv --series redbox", "");
    assert!(table.contains("readings"), "{table}");
    bench.write("budgets.laau", b"redb\x1a\x0a\xa9\x0d\x0a and more");
    let run = bench.run("inspect budgets.laau", "");
    assert!(
        run.stderr
            .starts_with("error: budgets.laau: this is a store of `laau serve`\n"),
        "{}",
        run.stderr
    );
}

#[test]
fn files_that_are_mixed_up_are_told_apart() {
    let bench = bench();
    bench.check_failure(
        "decide --budget 80 --model report/mw.policy",
        "",
        "error: report/mw.policy: this is a policy file, not a model\nhint: name it with --policy-file\n",
    );
    bench.check_failure(
        "decide --budget 80 --model m --guard report/mv.policy",
        "",
        "error: report/mv.policy: no such file or directory\n\
         hint: a guard takes the name of a policy, or a policy file: `laau compare -o DIR` writes them\n",
    );
    for (command, hint) in [
        ("decide --budget 80 --policy-file m", "name it with --model"),
        (
            "evaluate --test sets/test.parquet --policy-file m",
            "name it with --model",
        ),
        ("inspect m --kind policy", "leave --kind out"),
        (
            "decide --budget 80 --model m --guard m",
            "a guard takes a policy file: `laau compare -o DIR` writes them",
        ),
    ] {
        bench.check_failure(
            command,
            "",
            &format!("error: m: this is a model, not a policy file\nhint: {hint}\n"),
        );
    }
    bench.check_failure(
        "learn --episodes sets/test.parquet --model report/mw.policy",
        "",
        "error: report/mw.policy: this is a policy file, not a model\nhint: models are written by `laau train -o FILE`\n",
    );
}

#[test]
fn a_report_may_be_written_beside_the_policies_that_it_is_about() {
    let bench = bench();
    let command = "evaluate --test sets/test.parquet --policy-file report/mw.policy -q -o report";
    let before = bench.read("report/mw.policy");
    assert_eq!(bench.run(command, "").status, Some(0));
    assert_eq!(bench.read("report/mw.policy"), before);
}

#[test]
fn sets_of_different_normalisations_are_refused_whichever_does_not_say() {
    let bench = bench();
    let rows = (0..80).fold(String::from("time,value\n"), |rows, time| {
        rows + &format!("{time},{}\n", 20 + time * 7 % 50)
    });
    bench.write("t.csv", rows);
    for kind in ["min-max", "series-max"] {
        bench.stdout(
            &format!(
                "import table t.csv --series= --normalisation {kind} --horizon 8 --split 3,3,3 --split-by time -o {kind}"
            ),
            "",
        );
    }
    bench.stdout("generate --horizon 8 --episodes 5 -o plain.csv", "");
    let run = bench.run(
        "compare --train plain.csv --validation min-max/validation.parquet --test series-max/test.parquet \
         --policies equal --lower 2 -q",
        "",
    );
    assert_eq!(run.status, Some(1), "{}", run.stdout);
    assert!(
        run.stderr.contains("normalisation `min-max` and `series-max`"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_default_configuration_goes_with_any_network() {
    let bench = bench();
    bench.write("c.toml", bench.stdout("config --default", ""));
    let run = bench.run(
        "train --config c.toml --network linear --phases 1:0.01 --train sets/train.parquet \
         --validation sets/validation.parquet -o n -q",
        "",
    );
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let bench = bench();
    for (status, command, told) in [
        (
            2,
            "generate --episodes 5 --split 3,2,1 -o x",
            "cannot be used with",
        ),
        (
            2,
            "generate --part test --split 3,2,1 -o x",
            "cannot be used with",
        ),
        (
            1,
            "train --train sets/train.parquet --validation sets/validation.parquet -o n --network linear --hidden 3",
            "`hidden` in [model] is a key of network = \"mlp\"",
        ),
        (
            1,
            "decide --policy dgd --budget 80 --horizon 8 --range-factor 3",
            "--range-factor needs the range of the training contexts",
        ),
        (
            2,
            "decide --policy dgd --budget 80",
            "nothing says how many steps the episode has",
        ),
        (
            2,
            "evaluate --test sets/test.parquet",
            "there is no policy to evaluate",
        ),
    ] {
        let run = bench.run(command, "");
        assert_eq!(run.status, Some(status), "laau {command}");
        assert!(run.stderr.contains(told), "laau {command}: {}", run.stderr);
    }
}

#[test]
fn a_flag_for_one_set_wins_over_a_split_in_a_file() {
    let bench = Bench::new();
    bench.write("w.toml", "[workload]\nsplit = [3, 2, 1]\nhorizon = 4\n");
    for (flags, episodes) in [("--episodes 5", 5), ("--part test --episodes 4", 4)] {
        bench.stdout(&format!("generate --config w.toml {flags} -o one.parquet"), "");
        let told = bench.stdout("inspect one.parquet --format json", "");
        assert_eq!(parsed(&told)["statistics"]["episodes"], episodes, "{flags}");
    }
    bench.stdout("generate --config w.toml -o three", "");
    assert!(bench.path().join("three/validation.parquet").is_file());
}

#[test]
fn a_program_that_fails_shows_in_the_table() {
    let bench = bench();
    let evaluate = "evaluate --test sets/test.parquet --no-opt --quiet --policy-file report/mw.policy";
    let run = bench.run(&format!("{evaluate} --external false"), "");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let heading = run.stdout.lines().next().unwrap();
    assert!(heading.contains("failures"), "{heading}");
    let without = bench.stdout(evaluate, "");
    assert!(!without.contains("failures"), "{without}");
}
