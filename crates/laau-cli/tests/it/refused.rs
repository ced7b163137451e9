//! What would go wrong in silence is refused with a word, before any work is done.

use std::fmt::Write as _;

use crate::support::{Bench, command, contexts, run_command};

/// Episodes of five steps in `sets`.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.stdout("generate --horizon 5 --split 12,6,6 --seed 3 -o sets", "");
    bench
}

const TRAIN: &str =
    "train --train sets/train.parquet --validation sets/validation.parquet --phases 1:0.01 --quiet";
const COMPARE: &str =
    "compare --validation sets/validation.parquet --test sets/test.parquet --policies equal --quiet";

/// Checks that a command is refused with this sentence, and that no file is changed, added or removed.
fn check(bench: &Bench, arguments: &str, sentence: &str) {
    let before = files(bench);
    let run = bench.run(arguments, "");
    let told = run.stderr.lines().next().unwrap_or_default();
    assert_eq!(told, format!("error: {sentence}"), "laau {arguments}");
    assert!(
        run.stderr.lines().count() == 2 && run.stderr.contains("\nhint: "),
        "{}",
        run.stderr
    );
    assert_eq!(
        (run.stdout.as_str(), run.status),
        ("", Some(1)),
        "laau {arguments}"
    );
    assert_eq!(before, files(bench), "laau {arguments}");
}

/// All files of the folder and of those in it, with their content.
fn files(bench: &Bench) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut folders = vec![bench.path().to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push((path.clone(), std::fs::read(&path).unwrap_or_default()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn no_output_overwrites_an_input() {
    let bench = bench();
    bench.write("settings.toml", "[training]\nseed = 1\n");
    bench.stdout(&format!("{TRAIN} -o model.safetensors"), "");
    for (rest, sentence) in [
        (
            "-o sets/train.parquet",
            "sets/train.parquet: -o would overwrite the file of --train",
        ),
        (
            "-o sets/../sets/validation.parquet",
            "sets/../sets/validation.parquet: -o would overwrite the file of --validation",
        ),
        (
            "-o m --log sets/train.parquet",
            "sets/train.parquet: --log would overwrite the file of --train",
        ),
        (
            "-o m --checkpoint sets/train.parquet",
            "sets/train.parquet: --checkpoint would overwrite the file of --train",
        ),
        (
            "-o m --config settings.toml --log settings.toml",
            "settings.toml: --log would overwrite the file of --config",
        ),
        ("-o m --log ./m", "./m: -o and --log name the same file"),
        (
            "-o m --log m.checkpoint",
            "m.checkpoint: --checkpoint and --log name the same file",
        ),
        ("-o m --checkpoint m", "m: -o and --checkpoint name the same file"),
        ("-o no/m --log no/m", "no/m: -o and --log name the same file"),
    ] {
        check(&bench, &format!("{TRAIN} {rest}"), sentence);
    }
    for (arguments, sentence) in [
        (
            "learn --episodes sets/test.parquet -o sets/test.parquet",
            "sets/test.parquet: -o would overwrite the file of --episodes",
        ),
        (
            "learn --episodes sets/test.parquet --model model.safetensors -o model.safetensors",
            "model.safetensors: -o would overwrite the file of --model",
        ),
        (
            "generate --config settings.toml -o settings.toml",
            "settings.toml: -o would overwrite the file of --config",
        ),
    ] {
        check(&bench, arguments, sentence);
    }
}

#[test]
fn no_folder_of_outputs_holds_an_input_of_the_same_name() {
    let bench = bench();
    let mut rows = String::from("host,minute,cpu\n");
    for minute in 0..200 {
        writeln!(rows, "a,{minute},{}\nb,{minute},3\nc,{minute},4", minute % 100).unwrap();
    }
    std::fs::create_dir(bench.path().join("trace")).unwrap();
    bench.write("trace/train.parquet", &rows);
    check(
        &bench,
        "import table trace/* --series host --time minute --values cpu -o trace",
        "trace/train.parquet: -o would overwrite the file of PATH",
    );
    check(
        &bench,
        "import azure-vm sets/test.parquet --vm-table trace/train.parquet -o trace",
        "trace/train.parquet: -o would overwrite the file of --vm-table",
    );
    std::fs::create_dir(bench.path().join("report")).unwrap();
    std::fs::copy(
        bench.path().join("sets/train.parquet"),
        bench.path().join("report/rollouts.parquet"),
    )
    .unwrap();
    check(
        &bench,
        &format!("{COMPARE} --train report/rollouts.parquet -o report"),
        "report/rollouts.parquet: -o would overwrite the file of --train",
    );
    bench.write("tables.toml", "");
    check(
        &bench,
        "experiment tables.toml --trace sets/test.parquet --seeds 1,2,1 -o tables",
        "seed 1 is given twice",
    );
    std::fs::create_dir(bench.path().join("tables")).unwrap();
    bench.write("tables/policies.csv", &rows);
    check(
        &bench,
        "experiment tables.toml --trace tables/policies.csv -o tables",
        "tables/policies.csv: -o would overwrite the file of --trace",
    );
}

#[test]
#[cfg(unix)]
fn a_link_to_an_input_is_that_input() {
    use std::os::unix::fs::symlink;
    let bench = bench();
    let at = |name: &str| bench.path().join(name);
    symlink("sets/train.parquet", at("soft")).unwrap();
    std::fs::hard_link(at("sets/train.parquet"), at("hard")).unwrap();
    symlink("sets", at("folder")).unwrap();
    symlink("nothing-yet", at("dangling")).unwrap();
    for name in ["soft", "hard", "folder/train.parquet"] {
        for flag in ["-o", "-o m --log", "-o m --checkpoint"] {
            let last = flag.rsplit(' ').next().unwrap();
            check(
                &bench,
                &format!("{TRAIN} {flag} {name}"),
                &format!("{name}: {last} would overwrite the file of --train"),
            );
        }
    }
    check(
        &bench,
        &format!("{TRAIN} -o nothing-yet --log dangling"),
        "dangling: -o and --log name the same file",
    );
}

#[test]
#[cfg(unix)]
fn nothing_but_a_regular_file_is_replaced_by_an_output() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    let bench = bench();
    let folder = bench.path().join("out");
    std::fs::create_dir(&folder).unwrap();
    bench.write("old", "kept");
    bench.write("tables.toml", "");
    let train = format!("{TRAIN} -o");
    let checkpoint = format!("{TRAIN} -o m --checkpoint");
    let compare = format!("{COMPARE} --train sets/train.parquet --steps -o out");
    let import = "import table trace.csv --horizon 2 --split 2,1,1 -o out";
    let mut rows = String::from("series,time,value\n");
    for time in 0..9 {
        writeln!(rows, "a,{time},1\nb,{time},3\nc,{time},4").unwrap();
    }
    bench.write("trace.csv", &rows);
    for (arguments, name) in [
        (&*format!("{train} out/m"), "m"),
        (&*format!("{checkpoint} out/c"), "c"),
        (&*format!("{checkpoint} out/c --resume"), "c"),
        ("learn --episodes sets/test.parquet -o out/m", "m"),
        ("generate --horizon 5 --episodes 3 -o out/e.csv", "e.csv"),
        ("generate --horizon 5 --split 3,2,2 -o out", "validation.parquet"),
        (import, "test.parquet"),
        (&*compare, "summary.json"),
        (&*compare, "equal.policy"),
        (&*compare, "steps.parquet"),
        ("experiment tables.toml -o out", "policies.csv"),
    ] {
        let place = folder.join(name);
        symlink("../old", &place).unwrap();
        let link = format!("out/{name}: is a link, which the output would replace");
        check(&bench, arguments, &link);
        assert_eq!(std::fs::read_link(&place).unwrap().to_str(), Some("../old"));
        std::fs::remove_file(&place).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&place).status();
        assert!(made.unwrap().success());
        let run = bench.run(arguments, "");
        assert_eq!(
            run.stderr,
            format!(
                "error: out/{name}: is no regular file, and the output would replace it\n\
                 hint: name a file on a disk, or a new one\n"
            ),
            "laau {arguments}"
        );
        assert_eq!(
            (run.stdout.as_str(), run.status),
            ("", Some(1)),
            "laau {arguments}"
        );
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(Result::unwrap).collect();
        assert!(
            left.len() == 1 && left[0].file_type().unwrap().is_fifo(),
            "{left:?}"
        );
        std::fs::remove_file(&place).unwrap();
    }
    assert_eq!(bench.read("old"), b"kept");
}

#[test]
fn one_file_is_not_two_sets() {
    let bench = bench();
    std::fs::hard_link(
        bench.path().join("sets/test.parquet"),
        bench.path().join("other.parquet"),
    )
    .unwrap();
    check(
        &bench,
        "train --train sets/train.parquet --validation ./sets/train.parquet -o m",
        "./sets/train.parquet: --train and --validation are the same file",
    );
    check(
        &bench,
        &format!("{COMPARE} --train sets/test.parquet"),
        "sets/test.parquet: --train and --test are the same file",
    );
    check(
        &bench,
        &format!("{COMPARE} --train other.parquet"),
        "sets/test.parquet: --train and --test are the same file",
    );
    check(
        &bench,
        &format!("{COMPARE} --train sets/train.parquet --seeds 0,1,0"),
        "seed 0 is given twice",
    );
}

#[test]
fn parameters_outside_their_ranges_are_refused() {
    let bench = Bench::new();
    for (policy, parameter, expected, found) in [
        ("ce", "strength", "a number of at least 0", "-1"),
        ("dgd", "step-size", "a positive number", "0"),
        ("mw", "step-size", "a positive number", "-0.5"),
        ("dgd", "start", "a number of at least 0", "-1"),
        ("mw", "start", "a positive number", "0"),
        ("cr-pursuit", "ratio", "a number of at least 1", "0.99"),
        ("avg-lt", "multiplier", "a number of at least 0", "-0.1"),
    ] {
        check(
            &bench,
            &format!("decide --policy {policy} --parameter {parameter}={found} --budget 60 --horizon 5"),
            &format!("policy `{policy}`: expected {expected} for parameter `{parameter}`, found {found}"),
        );
    }
    check(
        &bench,
        "decide --policy avg-lt --parameter multiplier=0.1 --parameter mean-context=0.3 --budget 60 --horizon 5",
        "parameter `mean-context` has no effect beside `multiplier`",
    );
    for file in ["--model", "--policy-file"] {
        bench.check_failure(
            &format!("decide {file} x --parameter strength=1 --budget 60"),
            "",
            &format!(
                "error: the argument '{file} <FILE>' cannot be used with '--parameter <KEY=VALUE>'\n\
                 hint: see `laau decide --help`\n"
            ),
        );
    }
    bench.write("empty.toml", "");
    check(
        &bench,
        "decide --policy-file x.policy --config empty.toml --budget 60",
        "x.policy: the file has the problem; --config has no effect",
    );
}

#[test]
fn workloads_that_cannot_be_paid_are_refused() {
    let bench = Bench::new();
    for (rest, sentence) in [
        (
            "--budget 0.5,15",
            "problem `weighted-fairness` needs a budget 0 of at least 1 per step, the workload draws from 0.5 on",
        ),
        (
            "--lower 12",
            "problem `weighted-fairness` needs a budget 0 of at least 12 per step, the workload draws from 10 on",
        ),
        (
            "--problem log-utility --usage [[0.5,1],[2,2]] --lower 3 --budget 2,4",
            "problem `log-utility` needs a budget 0 of at least 3 per step, the workload draws from 2 on",
        ),
    ] {
        check(
            &bench,
            &format!("generate --horizon 5 {rest} -o out.csv"),
            sentence,
        );
    }
    bench.stdout("generate --horizon 5 --episodes 3 --budget 1,1 -o exact.csv", "");
    bench.stdout("learn --episodes exact.csv", "");
}

#[test]
fn a_usage_that_does_not_fit_the_actions_is_refused() {
    let bench = Bench::new();
    for (rest, sentence) in [
        (
            "--actions 2 --usage [[0.1]]",
            "invalid problem `log-utility`: expected 2 columns in row 0 of the usage, one per action, found 1",
        ),
        // As many numbers as there should be, in rows that do not fit.
        (
            "--usage [[1,1],[1,1,1],[1]]",
            "invalid problem `log-utility`: expected 2 columns in row 1 of the usage, one per action, found 3",
        ),
        (
            "--actions 99999999999",
            "invalid problem `log-utility`: expected at most 1000000 actions, found 99999999999",
        ),
    ] {
        check(
            &bench,
            &format!("decide --problem log-utility {rest} --policy equal --budget 60 --horizon 5"),
            sentence,
        );
    }
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let bench = Bench::new();
    bench.write("load.csv", "host,cpu,minute,cpu\na,1,0,2\na,1,1,2\n");
    check(
        &bench,
        "import table load.csv --series host --time minute --values cpu -o out",
        "load.csv: two columns are called `cpu`",
    );
    bench.write(
        "episodes.csv",
        "episode,step,context,budget,budget\n0,0,0.5,20,30\n",
    );
    check(
        &bench,
        "learn --episodes episodes.csv",
        "episodes.csv: two columns are called `budget`",
    );
    // A name that only looks like one that was made up is a name.
    bench.write(
        "fine.csv",
        "episode,step,context,budget,budget_duplicated_0\n0,0,0.5,20,30\n",
    );
    bench.stdout("learn --episodes fine.csv", "");
}

#[test]
fn sizes_beyond_memory_are_refused_with_the_number() {
    let bench = Bench::new();
    for rest in [
        "--horizon 1000000 --episodes 1000000000",
        "--horizon 9223372036854775807 --episodes 9223372036854775807",
        "--horizon 20 --episodes 5 --episodes-per-vm 1000000000000",
        "--horizon 10000000000 --episodes 5 --construction interleaved --episodes-per-vm 3",
        "--problem wireless --horizon 20 --split 1,1,1000000000000",
    ] {
        let run = bench.run(&format!("generate {rest} -o out.parquet"), "");
        assert!(
            run.stderr.starts_with("error: these episodes take about ")
                && run.stderr.contains(" GiB of memory, "),
            "{rest}: {}",
            run.stderr
        );
        assert_eq!(run.status, Some(1), "{rest}");
    }
    check(
        &bench,
        "generate --seed 18446744073709551615 -o out.parquet",
        "[workload]: u64 value was too large",
    );
    assert!(files(&bench).is_empty());
}

#[test]
#[cfg(unix)]
fn a_path_that_is_not_utf8_is_an_error_or_works() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let bench = bench();
    let name = |ending: &[u8]| OsStr::from_bytes(&[b"a\xff", ending].concat()).to_owned();
    let table = name(b".parquet");
    std::fs::copy(bench.path().join("sets/train.parquet"), bench.path().join(&table)).unwrap();
    let run = |arguments: &str, path: &OsStr| {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let mut command = command(bench.path(), &words);
        command.arg(path);
        run_command(command, &contexts(&[0.5]))
    };
    for arguments in [
        "inspect",
        "learn --episodes",
        "train --validation sets/validation.parquet -o m --train",
        "compare --validation sets/validation.parquet --test sets/test.parquet --train",
    ] {
        let run = run(arguments, &table);
        assert_eq!(
            run.stderr,
            "error: a\u{fffd}.parquet: tables are read by paths in UTF-8, and this one is not\n\
             hint: rename the file or its folder\n",
            "{arguments}"
        );
        assert_eq!(run.status, Some(1), "{arguments}");
    }
    let import = run("import table -o out", &table);
    assert_eq!(
        import.stderr,
        "error: `a\u{fffd}.parquet`: an argument that is not UTF-8\nhint: rename the file or its folder\n"
    );
    assert_eq!(import.status, Some(2));
    for arguments in [
        "decide --budget 60 --model",
        "decide --budget 60 --policy-file",
        "decide --budget 60 --horizon 5 --policy equal --config",
        "generate -o out.csv --config",
        "experiment -o tables",
    ] {
        let run = run(arguments, &table);
        assert!(
            run.stderr.starts_with("error: a\u{fffd}.parquet"),
            "{}",
            run.stderr
        );
        assert_eq!(run.status, Some(1), "{arguments}");
    }
    // What is written has any name.
    for (arguments, ending) in [
        ("generate --horizon 5 --episodes 3 -o", &b".csv"[..]),
        ("generate --horizon 5 --split 3,2,2 -o", b"sets"),
        (
            "train --train sets/train.parquet --validation sets/validation.parquet --phases 1:0.01 -q -o",
            b"model",
        ),
        (
            "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet \
             --policies equal -q -o",
            b"report",
        ),
        (
            "decide --policy equal --budget 60 --horizon 5 --journal",
            b"journal",
        ),
    ] {
        let run = run(arguments, &name(ending));
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{arguments}");
    }
}

#[test]
fn a_damaged_table_is_told_without_the_words_of_a_panic() {
    let bench = bench();
    let mut whole = bench.read("sets/train.parquet");
    // With the digest under another name, the table is that of another program, and left to the decoder.
    let name = b"laau.digest";
    let place = whole.windows(name.len()).position(|found| found == name).unwrap();
    whole[place..][..name.len()].copy_from_slice(b"OTHER_TOOLS");
    // A generator of its own, so that the damage is the same everywhere.
    let mut state = 7_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let mut damaged: Vec<Vec<u8>> = (0..20)
        .map(|_| {
            let mut bytes = whole.clone();
            for _ in 0..12 {
                let place = bytes.len() - 8 - below(700.min(bytes.len() - 8));
                bytes[place] ^= 1 << below(8);
            }
            bytes
        })
        .collect();
    // The number of rows, 60, is written as 120; where it says 62, the decoder panics.
    let counts = (0..whole.len()).filter(|place| whole[*place] == 120);
    damaged.extend(counts.map(|place| {
        let mut bytes = whole.clone();
        bytes[place] = 124;
        bytes
    }));
    let mut gave_up = 0;
    for bytes in damaged {
        bench.write("damaged.parquet", &bytes);
        let run = bench.run("inspect damaged.parquet", "");
        assert!(
            matches!(run.status, Some(0 | 1)),
            "{:?}: {}",
            run.status,
            run.stderr
        );
        if run.status == Some(1) {
            gave_up += usize::from(run.stderr.contains("the file is damaged: the decoder gave up"));
            assert!(
                run.stderr.starts_with("error: damaged.parquet") && run.stderr.lines().count() == 2,
                "{}",
                run.stderr
            );
        }
    }
    assert!(gave_up > 0, "the decoder never panicked");
}

#[test]
fn a_folder_and_a_wrong_key_are_told_with_their_places() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("episodes")).unwrap();
    bench.check_failure(
        "evaluate --test episodes --external true",
        "",
        "error: episodes: this is a folder\nhint: name a file in it, for example episodes/train.parquet\n",
    );
    bench.write(
        "bad.toml",
        "[problem]\nlower = 2\n\n[training]\nbatch = 3\nphases = 3\n",
    );
    bench.check_failure(
        "train --config bad.toml --train a --validation b -o c",
        "",
        "error: bad.toml, line 6: [training]: invalid type: integer `3`, expected a sequence in `phases`\n\
         hint: `laau config --default` shows every key with a value that fits\n",
    );
}

#[test]
fn a_network_beyond_memory_is_refused_with_the_number() {
    let bench = Bench::new();
    // A minibatch is never larger than the set.
    bench.stdout("generate --horizon 200000 --split 4,2,2 --seed 3 -o e", "");
    for (hidden, expected) in [
        ("400000 --batch 1000000000", "GiB are free"),
        ("3000,3000", "expected at most 4193304 weights"),
        ("9223372036854775807,2", "expected at most"),
        ("4000000000,4000000000", "expected at most"),
    ] {
        let run = bench.run(
            &format!("train --train e/train.parquet --validation e/test.parquet --hidden {hidden} -o m -q"),
            "",
        );
        assert_eq!(run.status, Some(1), "{hidden}: {}", run.stderr);
        assert!(run.stderr.contains(expected), "{hidden}: {}", run.stderr);
    }
}
