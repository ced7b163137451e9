//! What is said about the commands, and about wrong ones.

use crate::support::{Bench, command};

const COMMANDS: [&str; 11] = [
    "generate",
    "import",
    "inspect",
    "train",
    "learn",
    "compare",
    "evaluate",
    "decide",
    "experiment",
    "config",
    "completions",
];

#[test]
fn every_command_has_help_with_an_example() {
    let bench = Bench::new();
    let serving: &[&str] = if cfg!(feature = "serve") {
        &["serve", "serve key"]
    } else {
        &[]
    };
    for name in ["", "import azure-vm", "import azure-functions", "import table"]
        .into_iter()
        .chain(COMMANDS)
        .chain(serving.iter().copied())
    {
        let help = bench.stdout(&format!("{name} --help"), "");
        assert!(help.contains("Example:\n  $ "), "laau {name} --help");
        assert!(help.contains("laau"), "laau {name} --help");
    }
}

#[test]
fn the_version_has_the_commit() {
    let version = Bench::new().stdout("--version", "");
    let number = env!("CARGO_PKG_VERSION");
    let rest = version
        .trim_end()
        .strip_prefix(&format!("laau {number}"))
        .unwrap();
    if !rest.is_empty() {
        let commit = rest
            .strip_prefix(" (")
            .and_then(|rest| rest.strip_suffix(')'))
            .unwrap();
        assert!(
            commit.len() >= 7 && commit.chars().all(|c| c.is_ascii_alphanumeric()),
            "{commit}"
        );
    }
}

#[test]
fn shells_get_completions_for_every_command() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = bench.stdout(&format!("completions {shell}"), "");
        for name in COMMANDS {
            assert!(script.contains(name), "{shell} does not know {name}");
        }
    }
}

#[test]
fn wrong_commands_and_flags_are_told_with_the_nearest() {
    let bench = Bench::new();
    let check = |arguments: &str, expected: &str| bench.check_failure(arguments, "", expected);
    check(
        "decode --budget 3",
        "error: unrecognized subcommand 'decode'\nhint: did you mean `decide`?\n",
    );
    check(
        "decide --policy equal --budgte 3 --horizon 2",
        "error: unexpected argument '--budgte' found\nhint: did you mean `--budget`?\n",
    );
    check(
        "decide --budget 3 --horizon 2",
        "error: nothing says who decides: expected --model FILE, --policy-file FILE or --policy NAME\n\
         hint: `laau train` writes models, `laau compare -o DIR` policy files; --policy equal needs neither\n",
    );
    check(
        "completions tcsh",
        "error: invalid value 'tcsh' for '<SHELL>' [possible values: bash, elvish, fish, powershell, zsh]\n\
         hint: did you mean `zsh`?\n",
    );
}

#[test]
fn the_default_configuration_runs_as_it_is() {
    let bench = Bench::new();
    let text = bench.stdout("config --default", "");
    insta::assert_snapshot!(text);
    bench.write("experiment.toml", &text);
    let plain = bench.stdout(
        "decide --policy dgd --budget 60 --horizon 5",
        "{\"context\":[0.5]}",
    );
    let configured = bench.stdout(
        "decide --config experiment.toml --policy dgd --budget 60 --horizon 5",
        "{\"context\":[0.5]}",
    );
    assert_eq!(plain, configured);
}

#[test]
fn bad_configurations_are_told_with_the_nearest_key() {
    let bench = Bench::new();
    let check = |toml: &str, expected: &str| {
        bench.write("bad.toml", toml);
        bench.check_failure(
            "decide --config bad.toml --policy equal --budget 60 --horizon 5",
            "",
            expected,
        );
    };
    check(
        "[problem]\nuper = 3.0\n",
        "error: bad.toml, line 2: unknown key `uper` in [problem]\nhint: did you mean `upper`?\n",
    );
    check(
        "[probelm]\nupper = 3.0\n",
        "error: bad.toml, line 1: unknown section [probelm]\nhint: did you mean `problem`?\n",
    );
    check(
        "problem = 3\n",
        "error: bad.toml, line 1: expected a section [problem], found a value\n\
         hint: write [problem] on a line of its own, and its keys below\n",
    );
    check(
        "[problem]\nupper = \"high\"\n",
        "error: bad.toml, line 2: [problem]: invalid type: string \"high\", expected f64 in `upper`\n\
         hint: `laau config --default` shows every key with a value that fits\n",
    );
    check(
        "[problem]\nupper = = 3\n",
        "error: bad.toml, line 2: extra `=`, expected nothing\nhint: the file is TOML; `laau config --default` shows one\n",
    );
    bench.check_failure(
        "decide --config missing.toml --policy equal --budget 60 --horizon 5",
        "",
        "error: missing.toml: no such file or directory\n\
         hint: `laau config --default` prints a configuration to start from\n",
    );
    bench.check_failure(
        "decide --upper high --policy equal --budget 60 --horizon 5",
        "",
        "error: invalid value 'high' for '--upper <X>': invalid float literal\nhint: see `laau decide --help`\n",
    );
}

#[test]
fn a_closed_pipe_ends_a_command_without_a_word() {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command(bench.path(), &["config", "--default"])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(141), &b""[..]));
}
