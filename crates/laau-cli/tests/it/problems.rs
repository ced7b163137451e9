//! Every problem from its workload to decisions, through the real binary.

use serde_json::Value;

use crate::support::Bench;

/// A problem, its numbers of context entries and budgets, budgets of an episode of four steps, one context, and the
/// policies that are not for it.
struct Case {
    problem: &'static str,
    context: usize,
    budgets: &'static str,
    contexts: &'static str,
    left_out: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        problem: "vm-allocation",
        context: 5,
        budgets: "48,52,44,56",
        contexts: "0.3,0.4,0.2,0.2,0.2",
        left_out: &["dp"],
    },
    Case {
        problem: "wireless",
        context: 4,
        budgets: "20,16",
        contexts: "1,0.8,1.5,0.2",
        left_out: &["dp"],
    },
    Case {
        problem: "trading",
        context: 1,
        budgets: "12",
        contexts: "2.5",
        left_out: &[],
    },
    Case {
        problem: "power",
        context: 3,
        budgets: "20,13",
        contexts: "0.5,0.4,0.7",
        left_out: &["dp"],
    },
    Case {
        problem: "llm-tokens",
        context: 4,
        budgets: "16,22",
        contexts: "5,3,0.9,0.7",
        left_out: &["dp"],
    },
    Case {
        problem: "log-utility",
        context: 2,
        budgets: "90",
        contexts: "0.3,0.6",
        left_out: &["dp"],
    },
];

fn sets(case: &Case) -> Bench {
    let bench = Bench::new();
    let problem = case.problem;
    bench.stdout(
        &format!("generate --problem {problem} --horizon 4 --split 24,8,10 --seed 2 -o sets"),
        "",
    );
    bench
}

#[test]
fn every_problem_goes_from_its_workload_to_decisions() {
    for case in CASES {
        let (bench, problem) = (sets(case), case.problem);
        let budgets: Vec<f64> = case.budgets.split(',').map(|b| b.parse().unwrap()).collect();
        let seen: Value =
            serde_json::from_str(&bench.stdout("inspect sets/train.parquet --format json", "")).unwrap();
        let widths =
            ["contexts", "budgets_per_step"].map(|key| seen["statistics"][key].as_array().unwrap().len());
        assert_eq!(widths, [case.context, budgets.len()], "{problem}");

        bench.stdout(
            &format!(
                "train --problem {problem} --train sets/train.parquet --validation sets/validation.parquet --quiet \
                 --hidden 4 --phases 2:0.01 -o model.safetensors"
            ),
            "",
        );
        let model = bench.stdout("inspect model.safetensors", "");
        assert!(
            model.contains(&format!("problem             {problem}\n")),
            "{model}"
        );
        let line = format!("{{\"context\":[{}]}}\n", case.contexts).repeat(4);
        for policy in [
            "--model model.safetensors",
            "--policy dgd --horizon 4",
            "--policy equal --horizon 4",
        ] {
            let out = bench.stdout(
                &format!("decide --problem {problem} {policy} --budget {}", case.budgets),
                &line,
            );
            assert_eq!(out.lines().count(), 4, "{problem}, {policy}: {out}");
            let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
            assert!(last.get("fallback").is_none(), "{problem}, {policy}: {last}");
            for (left, budget) in last["remaining"].as_array().unwrap().iter().zip(&budgets) {
                let left = left.as_f64().unwrap();
                assert!((0.0..*budget).contains(&left), "{problem}, {policy}: {last}");
            }
        }
    }
}

#[test]
fn every_policy_is_compared_on_every_problem_or_says_why_not() {
    for case in CASES {
        let (bench, problem) = (sets(case), case.problem);
        let run = bench.run(
            &format!(
                "compare --problem {problem} --train sets/train.parquet --validation sets/validation.parquet \
                 --test sets/test.parquet --phases 1:0.01 --format json --quiet"
            ),
            "",
        );
        assert_eq!(run.status, Some(0), "{problem}: {}", run.stderr);
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        let policies = report["policies"].as_object().unwrap();
        assert_eq!(
            policies.len() + case.left_out.len(),
            12,
            "{problem}: {}",
            run.stderr
        );
        for name in case.left_out {
            let word = format!("left out: policy `{name}` ");
            assert!(run.stderr.contains(&word), "{problem}: {}", run.stderr);
        }
        let budgets = case.budgets.split(',').count();
        for (name, policy) in policies {
            assert_eq!(policy["violations"], 0, "{problem}, {name}");
            assert_eq!(policy["failures"], 0, "{problem}, {name}");
            assert!(
                policy["fraction_of_opt"].as_f64().unwrap() <= 1.0 + 1e-7,
                "{problem}, {name}: {policy}"
            );
            let left = &policy["remaining_percent"];
            let count = left.as_array().map_or(1, Vec::len);
            assert_eq!(count, budgets, "{problem}, {name}: {left}");
        }
    }
}

#[test]
fn budgets_can_be_given_one_by_one_and_mistakes_are_told() {
    let bench = Bench::new();
    bench.write("ranges.toml", "[workload]\nbudget = [[3.0, 4.0], [2.0, 2.5]]\n");
    bench.stdout(
        "generate --config ranges.toml --problem wireless --horizon 5 --episodes 30 -o a.csv",
        "",
    );
    let seen: Value = serde_json::from_str(&bench.stdout("inspect a.csv --format json", "")).unwrap();
    let range = |budget: usize| {
        let values = &seen["statistics"]["budgets_per_step"][budget];
        (values["min"].as_f64().unwrap(), values["max"].as_f64().unwrap())
    };
    for (budget, (low, high)) in [(0, (3.0, 4.0)), (1, (2.0, 2.5))] {
        let (least, most) = range(budget);
        assert!(low <= least && most <= high && most > least, "{least} {most}");
    }
    bench.check_failure(
        "generate --problem wireless --budget 3,4 -o b.csv",
        "",
        "error: expected 2 ranges of budgets for problem `wireless`, found 1\n\
         hint: give one range per budget: --budget 10,15 for one, --budget 3:7,3:5 for two\n",
    );
    bench.check_failure(
        "generate --problem trading --scale 2 -o b.csv",
        "",
        "error: the workload of problem `trading` has no readings to scale\nhint: leave --scale out\n",
    );
    bench.check_failure(
        "generate --problem tradding -o b.csv",
        "",
        "error: unknown problem `tradding`\nhint: did you mean `trading`?\n",
    );
}

#[test]
fn an_experiment_on_a_problem_writes_a_table_with_every_budget() {
    let bench = Bench::new();
    let text = "kind = \"problem\"\nhorizons = [4]\nconstruction = \"interleaved\"\n\
                policies = [\"opt\", \"equal\", \"dp\", \"laau\"]\n\
                train = 20\nvalidation = 8\ntest = 9\nphases = [[2, 5e-3]]\n[problem]\nname = \"power\"\n";
    bench.write("e.toml", text);
    let run = bench.run("experiment e.toml --seeds 1,2 -o tables", "");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let table = |name: &str| String::from_utf8(bench.read(&format!("tables/{name}.csv"))).unwrap();
    let problems = table("problems");
    // Three policies that apply, two seeds, a heading.
    assert_eq!(problems.lines().count(), 7, "{problems}");
    assert!(
        problems
            .lines()
            .skip(1)
            .all(|row| row.starts_with("power,workload,interleaved,4,"))
    );
    let of_laau: Vec<&str> = problems.lines().filter(|row| row.contains(",laau,")).collect();
    assert!(of_laau.iter().all(|row| row.contains(",0,0,0,")), "{problems}");
    assert_eq!(table("problem_budgets").lines().count(), 13);
    let left_out = table("problem_left_out");
    assert!(
        left_out
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("power,workload,dp,\"policy `dp` "),
        "{left_out}"
    );
    // Two policies are shown, each step with three entries of context, two actions, prices of LAAU and what remains.
    let episode = table("problem_episodes");
    for quantity in ["context", "action", "multiplier", "remaining_percent"] {
        let rows = episode
            .lines()
            .filter(|row| row.contains(&format!(",{quantity},")));
        assert!(rows.count() >= 4 * 2, "{quantity}");
    }

    bench.write("nameless.toml", text.split("[problem]").next().unwrap());
    bench.check_failure(
        "experiment nameless.toml -o tables",
        "",
        "error: an experiment of kind `problem` names its problem\n\
         hint: write a section [problem] with its name, as in `laau config --default`\n",
    );
    bench.check_failure(
        "experiment e.toml -o tables --trace readings.csv",
        "",
        "error: an experiment of kind `problem` runs on the workload of its problem, or on the data that it names\n\
         hint: leave --trace out; --data DIR is for real data\n",
    );
}
