//! `laau evaluate`.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Bench, Run, command, run_command};

/// Twenty test episodes of five steps, two models, and what `compare` wrote.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.stdout("generate --horizon 5 --split 30,15,20 --seed 3 -o sets", "");
    bench.stdout(
        "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet \
         --policies opt,dgd,laau --phases 2:0.01 --quiet --format csv -o fitted",
        "",
    );
    for seed in [0, 1] {
        bench.run(
            &format!(
                "train --train sets/train.parquet --validation sets/validation.parquet --phases 2:0.01 --seed {seed} \
                 --quiet -o m{seed}.safetensors"
            ),
            "",
        );
    }
    bench
}

/// Runs `evaluate` on the test episodes with these arguments, as they are.
fn evaluate(bench: &Bench, rest: &[&str]) -> Run {
    let fixed = [
        "evaluate",
        "--test",
        "sets/test.parquet",
        "--quiet",
        "--format",
        "json",
    ];
    run_command(command(bench.path(), &[&fixed, rest].concat()), "")
}

/// The report of a run that must succeed, and what it said.
fn report(bench: &Bench, rest: &[&str]) -> (Value, String) {
    let run = evaluate(bench, rest);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    (serde_json::from_str(&run.stdout).unwrap(), run.stderr)
}

#[test]
fn saved_policies_have_the_figures_that_they_were_saved_with() {
    let bench = bench();
    let (found, told) = report(
        &bench,
        &[
            "--policy-file",
            "fitted/dgd.policy",
            "--policy-file",
            "again=fitted/dgd.policy",
            "--policy-file",
            "fitted/laau.policy",
            "--model",
            "m0.safetensors",
            "--model",
            "other=m1.safetensors",
            "-o",
            "report",
            "--steps",
        ],
    );
    assert_eq!(told, "");
    let before: Value = serde_json::from_slice(&bench.read("fitted/summary.json")).unwrap();
    // The model of seed 0 is the one that `compare` trained.
    for (name, of) in [
        ("opt", "opt"),
        ("dgd", "dgd"),
        ("again", "dgd"),
        ("laau", "laau"),
        ("m0", "laau"),
    ] {
        for figure in [
            "utility",
            "fraction_of_opt",
            "remaining_percent",
            "quantiles",
            "violations",
            "failures",
        ] {
            let (ours, theirs) = (&found["policies"][name][figure], &before["policies"][of][figure]);
            assert!(
                !ours.is_null() && ours == theirs,
                "{name}: {figure}: {ours} {theirs}"
            );
        }
    }
    assert_ne!(
        found["policies"]["other"]["utility"],
        found["policies"]["m0"]["utility"]
    );
    assert!(found["policies"]["m0"]["microseconds_per_decision"].as_f64() > Some(0.0));
    let mut files: Vec<String> = std::fs::read_dir(bench.path().join("report"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["rollouts.parquet", "steps.parquet", "summary.json"]);

    let (bare, _) = report(&bench, &["--no-opt", "--model", "m0.safetensors"]);
    assert!(bare["policies"].get("opt").is_none());
    assert!(bare["policies"]["m0"]["fraction_of_opt"].is_null());
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let bench = bench();
    bench.stdout("generate --horizon 6 --episodes 4 --seed 1 -o longer.parquet", "");
    bench.stdout(
        "generate --horizon 5 --split 30,15,20 --seed 3 --lower 2 -o two",
        "",
    );
    bench.stdout(
        "compare --train two/train.parquet --validation two/validation.parquet --test two/test.parquet --lower 2 \
         --policies dgd --quiet --format csv -o two",
        "",
    );
    let check = |arguments: &str, expected: &str| bench.check_failure(arguments, "", expected);
    check(
        "evaluate --test sets/test.parquet",
        "error: there is no policy to evaluate\nhint: name one with --model, --policy-file or --external\n",
    );
    check(
        "evaluate --test longer.parquet --model m0.safetensors",
        "error: longer.parquet: episodes of 6 steps, m0.safetensors has 5\nhint: make all episodes with the same --horizon\n",
    );
    check(
        "evaluate --test sets/test.parquet --model m0.safetensors --policy-file two/dgd.policy",
        "error: m0.safetensors and two/dgd.policy are for different problems: lower is 1.0 and 2.0\n\
         hint: evaluate policies of one problem; `laau inspect FILE` shows that of a model\n",
    );
    check(
        "evaluate --test sets/test.parquet --model m0.safetensors --problem trading",
        "error: m0.safetensors is for another problem than the flags say: `weighted-fairness` and `trading`\n\
         hint: leave the flags of the problem, or --config, out: the file has the problem and its parameters\n",
    );
    check(
        "evaluate --test sets/test.parquet --policy-file fitted/dgd.policy --policy-file two/dgd.policy",
        "error: two policies are called `dgd`\n\
         hint: give each a name of its own: --model NAME=FILE, --policy-file NAME=FILE, --external NAME=COMMAND\n",
    );
    check(
        "evaluate --test sets/test.parquet --model sets/train.parquet",
        "error: sets/train.parquet: file: expected a whole safetensors file: header too large\n\
         hint: models are written by `laau train`; this file is not one of them, or damaged\n",
    );
    check(
        "evaluate --test sets/test.parquet --policy-file missing.policy",
        "error: missing.policy: no such file or directory\n\
         hint: policy files are written by `laau compare -o DIR`; check the path and its permissions\n",
    );
    // What the files say may be said again.
    report(
        &bench,
        &["--model", "m0.safetensors", "--problem", "weighted-fairness"],
    );
}

#[cfg(unix)]
mod external {
    use super::*;

    /// Twenty test episodes of five steps.
    fn bench() -> Bench {
        let bench = Bench::new();
        bench.stdout("generate --horizon 5 --split 2,2,20 --seed 3 -o sets", "");
        bench
    }

    /// A program of the shell that does something for every line.
    fn each(does: &str) -> String {
        format!("mine=while read -r line; do {does}; done")
    }

    /// Steps that failed, were projected or violated, and what was said about the program.
    fn play(program: &str, more: &[&str]) -> ([u64; 3], String) {
        let bench = bench();
        let began = Instant::now();
        let (report, told) = report(&bench, &[&["--external", program], more].concat());
        assert!(began.elapsed() < Duration::from_secs(100), "{program}");
        let mine = &report["policies"]["mine"];
        let counts = ["failures", "projections", "violations"].map(|key| mine[key].as_u64().unwrap());
        assert!(mine["utility"].is_number() && mine["microseconds_per_decision"].is_null());
        (counts, told)
    }

    #[test]
    fn a_program_that_takes_the_protocol_at_its_word_is_the_policy_it_plays() {
        let bench = bench();
        // Everything at the first step, then the least: it has to read `available`, and to notice a new episode.
        bench.write(
            "mine.sh",
            r#"episode=0
            while read -r line; do
                available=${line##*available\":[}; action=1
                case $line in
                    "{\"episode\":$episode,\"horizon\":5,\"budgets\":["*"],\"step\":0,\"context\":["*"\"remaining\":["*)
                        episode=$((episode + 1)); action=${available%%.*}; [ $action -le 40 ] || action=40 ;;
                    "{\"step\":"[1-4]",\"context\":["*"\"remaining\":["*) ;;
                    *) exit 1 ;;
                esac
                echo "{\"action\":[$action],\"why\":\"a key of its own\"}"
            done"#,
        );
        let (found, told) = report(&bench, &["--external", "mine=sh mine.sh", "-o", "out", "--steps"]);
        assert_eq!(told, "");
        let mine = &found["policies"]["mine"];
        assert_eq!(mine["failures"], 0);
        assert_eq!(mine["projections"], 0);
        assert!(mine["utility"].as_f64() < found["policies"]["opt"]["utility"].as_f64());
        assert_eq!(mine["parameters"]["command"], "sh mine.sh");
    }

    #[test]
    fn an_action_that_cannot_be_paid_is_projected_and_counted() {
        // The budget of five steps pays more than once the greatest action.
        let ([failures, projections, violations], told) = play(&each(r#"echo '{"action":[1e9]}'"#), &[]);
        assert_eq!((failures, projections, violations), (0, 100, 0));
        assert_eq!(told, "");
    }

    #[test]
    fn an_object_without_an_action_is_a_failure_of_its_step() {
        for answer in [
            r#"{"error":"no idea"}"#,
            r#"{"action":[1,2]}"#,
            r#"{"action":["x"]}"#,
            r#"{"action":5}"#,
        ] {
            let (counts, told) = play(&each(&format!("echo '{answer}'")), &[]);
            assert_eq!(counts, [100, 0, 0], "{answer}");
            assert_eq!(told.lines().count(), 1, "{told}");
            assert!(
                told.starts_with(
                    "warning: policy `mine` failed in 100 steps; first: policy `mine`: the program answered"
                ),
                "{told}"
            );
        }
    }

    #[test]
    fn a_program_that_crashes_fails_and_is_started_ten_times() {
        let ([failures, ..], told) = play(r#"mine=read -r line; echo '{"action":[1]}'; exit 3"#, &[]);
        // The first step of ten episodes is answered.
        assert_eq!(failures, 100 - 10);
        assert!(
            told.contains("first: policy `mine`: the program ended, exit status: 3"),
            "{told}"
        );
        let ([failures, ..], told) = play("mine=no-such-program-anywhere", &[]);
        assert_eq!(failures, 100);
        assert!(told.contains("the program ended, exit status: 127"), "{told}");
    }

    #[test]
    fn a_silent_program_fails_within_its_time() {
        for program in [
            "mine=sleep 1000",
            "mine=cat > /dev/null",
            "mine=sleep 1000 | sleep 1000",
            "mine=exec <&-; sleep 1000",
        ] {
            let ([failures, ..], told) = play(program, &["--external-timeout", "0.02"]);
            assert_eq!(failures, 100, "{program}");
            assert!(
                told.contains("the program did not answer within 0.02 s"),
                "{program}: {told}"
            );
        }
    }

    /// Processes with a word in their command line.
    fn processes(marked: &str) -> Vec<std::path::PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if line.windows(marked.len()).any(|part| part == marked.as_bytes()) {
                found.push(entry.path());
            }
        }
        found
    }

    #[test]
    fn nothing_of_a_silent_program_is_left() {
        let marked = "4242.125";
        play(
            &format!("mine=sleep {marked} | sleep {marked}"),
            &["--external-timeout", "0.02"],
        );
        assert_eq!(processes(marked), [""; 0].map(std::path::PathBuf::from));
    }

    /// What it started holds its pipes open, and would hold those of whoever waits for the evaluation.
    #[test]
    fn nothing_that_a_program_started_is_left_when_it_ends_by_itself() {
        let marked = "4242.625";
        let answer = "echo '{\"action\":[1]}'";
        let (counts, told) = play(
            &format!("mine=sleep {marked} & while read -r line; do {answer}; done"),
            &[],
        );
        assert_eq!((counts, told.as_str()), ([0, 0, 0], ""));
        assert_eq!(processes(marked), [""; 0].map(std::path::PathBuf::from));
        // One that ends in the middle is noticed at once, and says how.
        let ([failures, ..], told) = play(
            &format!("mine=sleep {marked} & read -r line; {answer}; read -r line; exit 3"),
            &[],
        );
        assert_eq!(failures, 100 - 10);
        assert!(told.contains("the program ended, exit status: 3"), "{told}");
        assert_eq!(processes(marked), [""; 0].map(std::path::PathBuf::from));
    }

    #[test]
    fn a_program_that_babbles_fails() {
        for (program, reason) in [
            ("mine=yes".to_owned(), "the program"),
            (
                "mine=yes '{\"action\":[1]}'".to_owned(),
                "the program wrote a line that it was not asked for",
            ),
            (
                each("echo thinking; echo '{\"action\":[1]}'"),
                "the program answered `thinking`",
            ),
            (
                each("echo '{\"action\":[1],\"step\":7}'"),
                "the program answered step 7 when it was asked for step 0",
            ),
            ("mine=cat /dev/zero".to_owned(), "the program"),
        ] {
            // Noise without an end is only noticed by the clock; a line too many by when it comes.
            let timeout = if program.contains("/dev/zero") {
                "0.02"
            } else {
                "2"
            };
            let ([failures, ..], told) = play(&program, &["--external-timeout", timeout]);
            assert!(failures > 0, "{program}: {failures}");
            assert!(told.contains(reason), "{program}: {told}");
        }
    }

    #[test]
    fn the_binary_itself_takes_part_through_an_adapter() {
        let bench = bench();
        // One `laau decide` per episode, behind a shell that passes the contexts on.
        let laau = env!("CARGO_BIN_EXE_laau");
        let adapter = format!(
            "mine=while read -r line; do case $line in *budgets*) \
             budget=${{line#*budgets\\\":[}}; budget=${{budget%%]*}}; rm -f ask say; mkfifo ask say; exec 3<>ask 4<>say; \
             {laau} decide --policy equal --horizon 5 --budget $budget < ask > say 3>&- 4>&- & ;; esac; \
             context=${{line#*context\\\":}}; context=${{context%%]*}}; \
             echo \"{{\\\"context\\\":$context]}}\" >&3; read -r answer <&4; echo \"$answer\"; \
             case $answer in *step\\\":4*) exec 3>&- ;; esac; done"
        );
        bench.stdout("generate --horizon 5 --split 30,15,2 --seed 4 -o few", "");
        bench.stdout(
            "compare --train few/train.parquet --validation few/validation.parquet --test few/test.parquet \
             --policies equal --quiet --format csv -o fitted",
            "",
        );
        let run = run_command(
            command(
                bench.path(),
                &[
                    "evaluate",
                    "--test",
                    "few/test.parquet",
                    "--quiet",
                    "--format",
                    "json",
                    "--policy-file",
                    "fitted/equal.policy",
                    "--external",
                    &adapter,
                ],
            ),
            "",
        );
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(report["policies"]["mine"]["failures"], 0);
        assert_eq!(
            report["policies"]["mine"]["utility"],
            report["policies"]["equal"]["utility"]
        );
    }
}
