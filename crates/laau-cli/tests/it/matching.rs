//! What is used together has to match: normalisations, units, names, sizes.

use std::fmt::Write as _;

use crate::support::{Bench, contexts};
use crate::tripped::{COMPARE, TRAIN, bench, parsed};

#[test]
fn contexts_that_were_made_in_different_ways_are_refused() {
    let bench = Bench::new();
    let mut text = String::from("host,time,load\n");
    for time in 0..200 {
        writeln!(text, "a,{time},{}", time * 7 % 50 + 1).unwrap();
    }
    bench.write("load.csv", text);
    for normalisation in ["percent", "none"] {
        let command = format!(
            "import table load.csv --series host --time time --values load --horizon 5 --split 20,5,5 --split-by time --gap 1 \
             --budget 20:30 --normalisation {normalisation} -o {normalisation}"
        );
        let run = bench.run(&command, "");
        assert_eq!(run.status, Some(0), "{}", run.stderr);
    }
    let compare = "compare --train percent/train.parquet --validation percent/validation.parquet --policies equal,dgd -q";
    let run = bench.run(&format!("{compare} --test percent/test.parquet -o report"), "");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let train = |set: &str| {
        format!(
            "train --train {set}/train.parquet --validation {set}/validation.parquet --phases 1:0.01 -q -o {set}.safetensors"
        )
    };
    for set in ["percent", "none"] {
        assert_eq!(bench.run(&train(set), "").status, Some(0));
    }
    // Files of CSV do not say how their contexts were made.
    let mut plain = String::from("episode,step,context,budget\n");
    for step in 0..5 {
        writeln!(plain, "0,{step},0.5,100").unwrap();
    }
    bench.write("plain.csv", plain);
    for command in [
        &format!("{compare} --test none/test.parquet"),
        "evaluate --test plain.csv --model percent.safetensors --model none.safetensors",
        "evaluate --test plain.csv --model none.safetensors --guard report/equal.policy",
        "compare --train none/train.parquet --validation none/validation.parquet --policies equal -q --test plain.csv \
         --guard report/equal.policy",
        "evaluate --test none/test.parquet --model percent.safetensors",
        "evaluate --test none/test.parquet --policy-file report/dgd.policy",
        "learn --episodes none/test.parquet --model percent.safetensors",
        "evaluate --test none/test.parquet --model none.safetensors --guard report/equal.policy",
        "decide --budget 100 --model none.safetensors --guard report/equal.policy",
        &format!(
            "{} --guard report/equal.policy",
            train("none").replace("-o none", "-o other")
        ),
    ] {
        let run = bench.run(command, "");
        assert_eq!(run.status, Some(1), "laau {command}: {}", run.stderr);
        assert!(
            run.stderr
                .contains("were made of readings in different ways: normalisation `"),
            "laau {command}: {}",
            run.stderr
        );
    }
    for command in [
        "evaluate --test plain.csv --model none.safetensors -q",
        "evaluate --test plain.csv --policy-file report/equal.policy --guard report/dgd.policy -q",
    ] {
        let run = bench.run(command, "");
        assert_eq!(run.status, Some(0), "laau {command}: {}", run.stderr);
    }
}

#[test]
fn contexts_that_need_their_units_are_told_where_they_were_normalised() {
    let bench = Bench::new();
    let mut text = String::from("series,time,value\n");
    for time in 0..200 {
        writeln!(text, "a,{time},{}", 20 + time * 7 % 50).unwrap();
    }
    bench.write("prices.csv", text);
    for (normalisation, told) in [("min-max", true), ("none", false)] {
        bench.stdout(
            &format!(
                "import table prices.csv --horizon 5 --split 20,5,5 --split-by time --normalisation {normalisation} -o sets"
            ),
            "",
        );
        let run = bench.run(&format!("{COMPARE} --problem trading --policies equal"), "");
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let expected = "sets/train.parquet: contexts were made with --normalisation min-max, and `trading` takes readings as they are";
        assert_eq!(run.stderr.contains(expected), told, "{}", run.stderr);
    }
}

#[test]
fn a_fit_is_played_by_the_names_that_it_is_reported_with() {
    let bench = bench();
    let summary = parsed(&bench.stdout(
        &format!("{COMPARE} --policies dgd,mw,avg-lt --format json -o again"),
        "",
    ));
    let lines = contexts(&[0.31, 0.62, 0.05, 0.44, 0.97, 0.18, 0.73, 0.26]);
    for policy in ["dgd", "mw", "avg-lt"] {
        let parameters = summary["policies"][policy]["parameters"].as_object().unwrap();
        let mut named = format!("decide --policy {policy} --budget 100 --horizon 8");
        for name in ["step-size", "start", "price-scale", "multiplier"] {
            let Some(value) = parameters.get(name) else {
                continue;
            };
            let value = value.get(0).unwrap_or(value);
            write!(named, " --parameter {name}={value}").unwrap();
        }
        let fitted = format!("decide --policy-file again/{policy}.policy --budget 100");
        assert_eq!(
            bench.stdout(&named, &lines),
            bench.stdout(&fitted, &lines),
            "{named}"
        );
    }
    let told = bench.stdout("inspect again/dgd.policy", "");
    for name in ["step-size = ", "start = ", "price-scale = "] {
        assert!(told.contains(name), "{told}");
    }
    assert!(summary["policies"]["dgd"]["parameters"].get("eta").is_none());
}

#[test]
fn a_least_action_of_zero_is_taken_where_it_is_zero() {
    let bench = Bench::new();
    for problem in ["trading", "wireless", "llm-tokens"] {
        bench.stdout(
            &format!("generate --problem {problem} --lower 0 --horizon 4 --episodes 2 -o e.parquet"),
            "",
        );
        bench.check_failure(
            &format!("generate --problem {problem} --lower 1 --horizon 4 --episodes 2 -o f.parquet"),
            "",
            &format!("error: problem `{problem}`: the least action is 0, found lower = 1\nhint: leave --lower out\n"),
        );
    }
    // Beside a file that has other bounds, too.
    bench.stdout(
        "generate --problem trading --upper 7 --horizon 4 --split 6,3,3 -o sets",
        "",
    );
    bench.stdout(
        &format!("{TRAIN} --problem trading --upper 7 --phases 1:0.01 -o m"),
        "",
    );
    let decide = "decide --model m --budget 12";
    let lines = contexts(&[1.0]);
    assert_eq!(
        bench.stdout(&format!("{decide} --lower 0"), &lines),
        bench.stdout(decide, &lines)
    );
    let run = bench.run(
        "generate --problem vm-allocation --actions 1000000 --horizon 4 --episodes 2 -o f.parquet",
        "",
    );
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("expected at most 10000 actions, found 1000000"),
        "{}",
        run.stderr
    );
}

#[test]
fn what_is_left_of_another_report_is_told() {
    let bench = bench();
    let run = bench.run(&format!("{COMPARE} --policies equal -o report"), "");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(
        run.stderr,
        "note: report also holds laau.policy, mw.policy, steps.parquet, which this report is not about\n"
    );
    let run = bench.run(
        &format!("{COMPARE} --policies equal,mw,laau --phases 1:0.005 --steps -o report"),
        "",
    );
    assert_eq!((run.status, &*run.stderr), (Some(0), ""));
}

#[test]
fn everything_that_commands_print_is_described() {
    let bench = bench();
    let told = bench.stdout(&format!("{TRAIN} --phases 1:0.005 -o n"), "");
    bench.write("train.json", told);
    bench.write(
        "compared.csv",
        bench.stdout(&format!("{COMPARE} --policies equal --format csv"), ""),
    );
    bench.write(
        "compared.json",
        bench.stdout(&format!("{COMPARE} --policies equal --format json"), ""),
    );
    for format in ["csv", "json"] {
        let rounds = bench.stdout(
            &format!("learn --episodes sets/test.parquet --model m --format {format}"),
            "",
        );
        bench.write(&format!("rounds.{format}"), rounds);
    }
    for (file, expected) in [
        ("train.json", "weights "),
        ("compared.csv", "fraction_of_opt"),
        ("compared.json", "report"),
        ("rounds.csv", "running_utility"),
        ("rounds.json", "utility"),
    ] {
        let told = bench.stdout(&format!("inspect {file}"), "");
        assert!(told.contains(expected), "{file}: {told}");
        assert!(parsed(&bench.stdout(&format!("inspect {file} --format json"), "")).is_object());
    }
    // A table with other names is still sent to its flags.
    bench.write("t.csv", "series,when,value\na,0,1\n");
    assert!(
        bench
            .run("inspect t.csv --time at", "")
            .stderr
            .contains("expected a column `at`")
    );
}

#[test]
fn an_unknown_key_is_told_with_its_line() {
    let bench = Bench::new();
    for (text, expected) in [
        (
            "[problem]\nlower = 2\n\n[training]\nbatsch = 3\n",
            "bad.toml, line 5: unknown key `batsch` in [training]",
        ),
        (
            "\n[trainning]\nbatch = 3\n",
            "bad.toml, line 2: unknown section [trainning]",
        ),
        (
            "training = 3\n",
            "bad.toml, line 1: expected a section [training], found a value",
        ),
        (
            "[training]\nbatch = 3\nbatch = 4\n",
            "bad.toml, line 3: duplicate key",
        ),
    ] {
        bench.write("bad.toml", text);
        let run = bench.run(
            "decide --config bad.toml --policy equal --budget 60 --horizon 5",
            "",
        );
        assert_eq!(run.status, Some(1));
        assert!(
            run.stderr.starts_with(&format!("error: {expected}")),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn constants_of_more_series_than_a_model_can_hold_are_refused_before_it_is_trained() {
    let bench = Bench::new();
    let mut text = String::from("series,time,value\n");
    for series in 0..300 {
        let name = format!("{series:0>60000}");
        write!(text, "{name},0,1\n{name},1,{}\n", 2 + series).unwrap();
    }
    bench.write("t.csv", text);
    let import = "import table t.csv --horizon 2 --split 20,10,10 --normalisation series-max -o sets";
    assert_eq!(bench.run(import, "").status, Some(0));
    let run = bench.run(&format!("{TRAIN} -o m"), "");
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("the constants of 300 series take 17 MB"),
        "{}",
        run.stderr
    );
    assert!(!bench.path().join("m").exists());
}

#[test]
fn a_table_that_is_not_of_episodes_is_sent_to_the_import() {
    let bench = bench();
    bench.write("load.csv", "host,minute,load\na,0,1\n");
    bench.check_failure(
        "train --train load.csv --validation sets/validation.parquet -o n",
        "",
        "error: load.csv: expected a column `context`, found host, minute, load\n\
         hint: this is a table, but not of episodes: make some of it with `laau import table`\n",
    );
}

#[test]
fn a_minibatch_is_at_most_the_set() {
    let bench = bench();
    let train = |batch: &str, file: &str| {
        bench.stdout(&format!("{TRAIN} --phases 2:0.005 --batch {batch} -o {file}"), "");
        bench.stdout(&format!("inspect {file} --format json"), "")
    };
    // There are 40 episodes, and eight gigabytes of places in a minibatch of 10⁹.
    let digests = [train("40", "a"), train("1000000000", "b")].map(|text| parsed(&text)["summary"].clone());
    assert_eq!(digests[0], digests[1]);
}
