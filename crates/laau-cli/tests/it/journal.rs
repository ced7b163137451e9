//! `laau decide --journal`.

use std::process::Command;

use crate::support::{Bench, Stream, contexts, run_command};

const START: &str = "decide --policy dgd --budget 60 --horizon 5 --journal day.jsonl";
const RESUME: &str = "decide --policy dgd --budget 60 --horizon 5 --journal day.jsonl --resume";
const WEIGHTS: [f64; 5] = [0.3, 0.1, 0.9, 0.2, 0.7];

/// The same episode without a journal.
fn uninterrupted(bench: &Bench) -> Vec<String> {
    let out = bench.stdout("decide --policy dgd --budget 60 --horizon 5", &contexts(&WEIGHTS));
    out.lines().map(str::to_owned).collect()
}

fn replayed(line: &str) -> String {
    format!("{},\"replayed\":true}}", line.strip_suffix('}').unwrap())
}

/// JSON has no infinite number.
#[test]
fn an_infinite_price_is_no_damage() {
    let bench = Bench::new();
    let decide = "decide --policy dgd --parameter start=1e308 --budget 60 --horizon 6 --journal day.jsonl";
    let first = bench.stdout(decide, &contexts(&[1e60, 0.3]));
    assert!(first.contains("\"multiplier\":[null]"), "{first}");
    let again = bench.stdout(decide, &contexts(&[0.5]));
    assert_eq!(again.lines().count(), 2 + 1 + 1, "{again}");
}

#[test]
fn a_resumed_stream_is_the_uninterrupted_one() {
    let bench = Bench::new();
    let whole = uninterrupted(&bench);
    let first = bench.stdout(START, &contexts(&WEIGHTS[..2]));
    assert_eq!(first.lines().collect::<Vec<_>>(), whole[..2]);
    let second = bench.stdout(RESUME, &contexts(&WEIGHTS[2..4]));
    let mut expected: Vec<String> = whole[..2].iter().map(|line| replayed(line)).collect();
    expected.push("{\"resumed_at\":2}".to_owned());
    expected.extend_from_slice(&whole[2..4]);
    assert_eq!(second.lines().collect::<Vec<_>>(), expected);
    let third = bench.stdout(RESUME, &contexts(&WEIGHTS[4..]));
    assert_eq!(third.lines().count(), 4 + 1 + 1);
    assert_eq!(third.lines().last().unwrap(), whole[4]);
    // An episode that is over can still be read, and no more.
    let run = bench.run(RESUME, &contexts(&[0.5]));
    assert_eq!(
        run.lines()[5..],
        [
            "{\"resumed_at\":5}",
            "{\"error\":\"the episode is over: all 5 steps are decided\",\"line\":1}"
        ]
    );
    assert_eq!(run.status, Some(1));
}

#[test]
fn one_command_starts_and_goes_on() {
    let bench = Bench::new();
    let whole = uninterrupted(&bench);
    let mut expected = Vec::new();
    for step in 0..5 {
        let out = bench.stdout(START, &contexts(&WEIGHTS[step..=step]));
        assert_eq!(out.lines().last().unwrap(), whole[step]);
        if step > 0 {
            expected = whole[..step].iter().map(|line| replayed(line)).collect();
            expected.push(format!("{{\"resumed_at\":{step}}}"));
        }
        assert_eq!(out.lines().collect::<Vec<_>>()[..expected.len()], expected);
    }
    let run = bench.run(
        "decide --policy dgd --budget 60 --horizon 5 --new --resume --journal x",
        "",
    );
    assert_eq!(run.status, Some(2));
    assert!(!bench.path().join("x").exists());
}

#[test]
#[cfg(unix)]
fn only_a_regular_file_is_a_journal() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("folder")).unwrap();
    let made = Command::new("mkfifo").arg(bench.path().join("fifo")).status();
    assert!(made.unwrap().success());
    for name in ["/dev/full", "/dev/null", "folder", "fifo"] {
        for rest in ["", " --resume", " --new"] {
            bench.check_failure(
                &format!("decide --policy dgd --budget 60 --horizon 5 --journal {name}{rest}"),
                "",
                &format!(
                    "error: {name}: a journal is a regular file, and this is none\n\
                     hint: name a file on a disk, or a new one\n"
                ),
            );
        }
    }
}

#[test]
#[cfg(unix)]
fn a_journal_that_is_another_file_of_the_command_is_refused() {
    let bench = Bench::new();
    bench.write("in.jsonl", contexts(&WEIGHTS));
    bench.write("settings.toml", "");
    let decide = format!(
        "{} decide --policy dgd --budget 60 --horizon 5 --config settings.toml --journal",
        env!("CARGO_BIN_EXE_laau")
    );
    for (rest, name, file) in [
        ("in.jsonl < in.jsonl", "in.jsonl", "standard input"),
        ("out.jsonl < in.jsonl > out.jsonl", "out.jsonl", "standard output"),
        ("settings.toml < in.jsonl", "settings.toml", "--config"),
    ] {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{decide} {rest}")])
            .current_dir(bench.path());
        let run = run_command(shell, "");
        assert_eq!(
            run.stderr,
            format!(
                "error: {name}: --journal would overwrite the file of {file}\n\
                 hint: name another file with --journal\n"
            )
        );
        assert_eq!(run.status, Some(1));
    }
    assert_eq!(bench.read("in.jsonl"), contexts(&WEIGHTS).as_bytes());
}

#[test]
#[cfg(unix)]
fn a_journal_that_is_removed_replaced_or_changed_ends_the_service() {
    type Harm = fn(&std::path::Path);
    let harms: [(&str, Harm); 3] = [
        ("removed", |path| std::fs::remove_file(path).unwrap()),
        ("replaced", |path| {
            let copy = path.with_extension("copy");
            std::fs::copy(path, &copy).unwrap();
            std::fs::rename(copy, path).unwrap();
        }),
        ("changed by another program", |path| {
            let mut bytes = std::fs::read(path).unwrap();
            bytes.extend_from_slice(b"x");
            std::fs::write(path, bytes).unwrap();
        }),
    ];
    for (what, harm) in harms {
        let bench = Bench::new();
        let mut stream = Stream::start_with_errors(bench.path(), START);
        stream.say(&contexts(&WEIGHTS[..2]));
        assert!(stream.hear().is_some() && stream.hear().is_some());
        harm(&bench.path().join("day.jsonl"));
        stream.say(&contexts(&WEIGHTS[2..3]));
        assert_eq!(stream.hear(), None, "{what}");
        let (status, told) = stream.end();
        assert_eq!(
            told,
            format!(
                "error: day.jsonl: the journal was {what} after 2 decisions\n\
                 hint: no other decision was printed; put the file back as it was, then go on with --resume\n"
            )
        );
        assert_eq!(status, Some(1));
    }
}

#[test]
fn waiting_lines_share_a_sync_and_are_answered_in_their_order() {
    let bench = Bench::new();
    let weights: Vec<f64> = (0..300).map(|t| f64::from(t) / 300.0).collect();
    let arguments = "decide --policy dgd --budget 4000 --horizon 300";
    let mut input = contexts(&weights);
    input.insert(input.len() / 2 + 1, '\n');
    let plain = bench.run(arguments, &input);
    let journalled = bench.run(&format!("{arguments} --journal day.jsonl"), &input);
    assert_eq!(plain, journalled);
    assert!(
        journalled.stderr.contains("were refused"),
        "{}",
        journalled.stderr
    );
    let journal = String::from_utf8(bench.read("day.jsonl")).unwrap();
    assert!(journal.contains("\"batch\":"), "no line shared a sync");
    let again = bench.stdout(&format!("{arguments} --journal day.jsonl"), "");
    let decisions = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("{\"step\""));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected: Vec<String> = decisions(&plain.stdout)
        .iter()
        .map(|line| replayed(line))
        .collect();
    assert_eq!(decisions(&again), expected);
}

#[test]
fn refused_lines_are_not_journalled() {
    let bench = Bench::new();
    let run = bench.run(START, "{\"context\":[-1]}\n{\"context\":[0.3]}\nnonsense\n");
    assert_eq!((run.status, run.lines().len()), (Some(1), 3));
    let resumed = bench.stdout(RESUME, "");
    assert_eq!(resumed.lines().count(), 2);
    assert!(resumed.ends_with("{\"resumed_at\":1}\n"), "{resumed}");
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let bench = Bench::new();
    bench.write("day.jsonl", "something else\n");
    bench.check_failure(
        &format!("{START} --new"),
        &contexts(&WEIGHTS),
        "error: day.jsonl: the journal exists already\n\
         hint: leave --new out to go on with its episode, or name a new file\n",
    );
    for arguments in [START, RESUME] {
        bench.check_failure(
            arguments,
            &contexts(&WEIGHTS),
            "error: day.jsonl: line 1 of the journal is damaged\n\
             hint: restore the file from a copy; to go on without it could spend a budget twice\n",
        );
    }
    assert_eq!(bench.read("day.jsonl"), b"something else\n");
    bench.write("day.jsonl", "something else without an end");
    assert_eq!(bench.run(RESUME, "").status, Some(1));
    assert_eq!(bench.read("day.jsonl"), b"something else without an end");
}

#[test]
fn a_missing_journal_or_folder_is_told() {
    let bench = Bench::new();
    bench.check_failure(
        RESUME,
        "",
        "error: day.jsonl: no such file or directory\nhint: leave --resume out to start a new journal\n",
    );
    bench.check_failure(
        "decide --policy dgd --budget 60 --horizon 5 --journal no/day.jsonl",
        "",
        "error: no/day.jsonl: no such file or directory\nhint: choose a folder that exists and is writable\n",
    );
}

#[test]
fn a_journal_of_another_episode_is_refused() {
    let bench = Bench::new();
    bench.stdout(START, &contexts(&WEIGHTS[..3]));
    let before = bench.read("day.jsonl");
    let hint = "hint: give the problem, horizon, budgets, policy and --raw as the episode began, or name a new file\n";
    for (arguments, difference) in [
        (
            "decide --policy dgd --budget 61 --horizon 5",
            "its budgets is [60.0], not [61.0]",
        ),
        (
            "decide --policy dgd --budget 60 --horizon 6",
            "its horizon is 5, not 6",
        ),
        (
            "decide --policy dgd --budget 60 --horizon 5 --upper 30",
            "its problem is {\"name\":\"weighted-fairness\",\"lower\":1.0,\"upper\":40.0}, \
             not {\"name\":\"weighted-fairness\",\"lower\":1.0,\"upper\":30.0}",
        ),
        (
            "decide --policy equal --budget 60 --horizon 5",
            "its policy is {\"name\":\"dgd\",\"parameters\":{\"start\":[1.0],\"step-size\":[1.0]}}, \
             not {\"name\":\"equal\"}",
        ),
    ] {
        bench.check_failure(
            &format!("{arguments} --journal day.jsonl --resume"),
            &contexts(&WEIGHTS[3..]),
            &format!("error: day.jsonl: the journal is of another episode: {difference}\n{hint}"),
        );
    }
    assert_eq!(bench.read("day.jsonl"), before);
}

#[test]
fn a_torn_last_line_is_repaired_with_a_word() {
    let bench = Bench::new();
    let whole = uninterrupted(&bench);
    bench.stdout(START, &contexts(&WEIGHTS[..3]));
    let journal = bench.read("day.jsonl");
    let start_of_last = journal[..journal.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    for cut in [start_of_last + 1, start_of_last + 40, journal.len() - 2] {
        bench.write("day.jsonl", &journal[..cut]);
        let run = bench.run(RESUME, &contexts(&WEIGHTS[2..]));
        assert_eq!(run.status, Some(0));
        assert_eq!(
            run.stderr,
            "day.jsonl: repaired: line 4 was cut off; its decision was never printed\n"
        );
        assert_eq!(run.lines()[2], "{\"resumed_at\":2}");
        assert_eq!(run.lines()[3..], whole[2..]);
    }
    // Whole but for its end: the decision stands.
    bench.write("day.jsonl", &journal[..journal.len() - 1]);
    let run = bench.run(RESUME, &contexts(&WEIGHTS[3..]));
    assert_eq!(
        run.stderr,
        "day.jsonl: repaired: line 4 was whole but for its end\n"
    );
    assert_eq!(run.lines()[3], "{\"resumed_at\":3}");
    assert_eq!(run.lines()[4..], whole[3..]);
    assert_eq!(bench.stdout(RESUME, "").lines().count(), 6);
}

#[test]
fn damage_before_the_end_is_refused() {
    let bench = Bench::new();
    bench.stdout(START, &contexts(&WEIGHTS[..4]));
    let journal = String::from_utf8(bench.read("day.jsonl")).unwrap();
    let lines: Vec<&str> = journal.lines().collect();
    let damaged = |number: usize| {
        format!(
            "error: day.jsonl: line {number} of the journal is damaged\n\
             hint: restore the file from a copy; to go on without it could spend a budget twice\n"
        )
    };
    // A changed figure, a missing line, two lines swapped, a changed header, a last line that ends but is not sealed.
    let changed = journal.replacen("\"step\":1,", "\"step\":7,", 1);
    let missing = [lines[0], lines[1], lines[3], lines[4], ""].join("\n");
    let swapped = [lines[0], lines[2], lines[1], lines[3], lines[4], ""].join("\n");
    let header = journal.replacen("60.0", "90.0", 1);
    let last = format!("{}\n", journal.trim_end().strip_suffix('}').unwrap());
    for (content, number) in [(changed, 3), (missing, 3), (swapped, 2), (header, 1), (last, 5)] {
        bench.write("day.jsonl", &content);
        bench.check_failure(RESUME, "", &damaged(number));
        assert_eq!(bench.read("day.jsonl"), content.as_bytes());
    }
}

#[test]
fn a_second_process_on_the_same_journal_is_refused() {
    let bench = Bench::new();
    let mut first = Stream::start(bench.path(), START);
    first.say(&contexts(&WEIGHTS[..1]));
    assert!(first.hear().is_some());
    bench.check_failure(
        RESUME,
        &contexts(&WEIGHTS[1..]),
        "error: day.jsonl: the journal is in use by another process\n\
         hint: wait until that one has ended, or name another file\n",
    );
    assert!(first.finish());
    assert_eq!(bench.stdout(RESUME, "").lines().count(), 2);
}

#[test]
#[cfg(unix)]
fn a_journal_that_was_removed_is_not_started_anew_while_its_process_lives() {
    let bench = Bench::new();
    let journal = bench.path().join("day.jsonl");
    std::os::unix::fs::symlink("day.jsonl", bench.path().join("link")).unwrap();
    let mut first = Stream::start_with_errors(bench.path(), START);
    first.say(&contexts(&WEIGHTS[..1]));
    assert!(first.hear().is_some());
    std::fs::remove_file(&journal).unwrap();
    for rest in ["", " --new", " --resume"] {
        for name in ["day.jsonl", "link"] {
            bench.check_failure(
                &format!("{}{rest}", START.replace("day.jsonl", name)),
                &contexts(&WEIGHTS),
                &format!(
                    "error: {name}: the journal is in use by another process\n\
                     hint: wait until that one has ended, or name another file\n"
                ),
            );
            assert!(!journal.exists());
        }
    }
    first.say(&contexts(&WEIGHTS[1..2]));
    assert_eq!(first.hear(), None);
    assert_eq!(first.end().0, Some(1));
    // Nobody is left who could spend: what begins now is an episode of its own, and leaves no lock.
    assert_eq!(bench.stdout(START, &contexts(&WEIGHTS)).lines().count(), 5);
    assert!(!bench.path().join("day.jsonl.lock").exists());
}

#[test]
fn the_lock_of_a_process_that_was_killed_is_no_obstacle_and_other_files_are() {
    let bench = Bench::new();
    let mut killed = Stream::start(bench.path(), START);
    killed.say(&contexts(&WEIGHTS[..1]));
    assert!(killed.hear().is_some());
    drop(killed);
    assert!(bench.path().join("day.jsonl.lock").exists());
    assert_eq!(bench.stdout(START, "").lines().count(), 2);
    bench.write("day.jsonl.lock", "not ours");
    let run = bench.run(START, "");
    assert!(
        run.stderr
            .contains("day.jsonl.lock: a journal needs this name for its lock\n"),
        "{}",
        run.stderr
    );
    assert_eq!((run.stdout.as_str(), run.status), ("", Some(1)));
    assert_eq!(bench.read("day.jsonl.lock"), b"not ours");
}

#[test]
fn a_journal_of_an_absurd_size_is_refused_before_it_is_read() {
    let bench = Bench::new();
    bench.stdout(START, &contexts(&WEIGHTS[..2]));
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(bench.path().join("day.jsonl"))
        .unwrap();
    for length in [1_u64 << 18, 1 << 42] {
        file.set_len(length).unwrap();
        for arguments in [START, RESUME] {
            let run = bench.run(arguments, "");
            assert!(
                run.stderr.starts_with(&format!(
                    "error: day.jsonl: {length} bytes are more than the journal of an episode of 5 steps has"
                )),
                "{}",
                run.stderr
            );
            assert_eq!((run.stdout.as_str(), run.status), ("", Some(1)));
        }
        assert_eq!(file.metadata().unwrap().len(), length);
    }
}

#[test]
fn a_full_disk_prints_nothing_that_is_not_in_the_journal() {
    let bench = Bench::new();
    let weights: Vec<f64> = (0..40).map(|t| f64::from(t) / 40.0).collect();
    let whole = bench.stdout(
        "decide --policy dgd --budget 500 --horizon 40",
        &contexts(&weights),
    );
    // A file may grow to two blocks; the signal is ignored, so that a write says what a full disk would say.
    let mut shell = Command::new("sh");
    shell
        .args([
            "-c",
            &format!(
                "trap '' XFSZ; ulimit -f 2; exec {} decide --policy dgd --budget 500 --horizon 40 --journal day.jsonl",
                env!("CARGO_BIN_EXE_laau")
            ),
        ])
        .current_dir(bench.path());
    let run = run_command(shell, &contexts(&weights));
    let printed = run.lines().len();
    assert!(printed > 2 && printed < 40, "{printed} lines");
    assert!(whole.starts_with(&run.stdout));
    assert_eq!(
        run.stderr,
        format!(
            "error: day.jsonl: the journal cannot be written after {printed} decisions: file too large\n\
             hint: these decisions are safe, and no other was printed; make room, then go on with --resume\n"
        )
    );
    assert_eq!(run.status, Some(1));
    let rest = bench.stdout(
        "decide --policy dgd --budget 500 --horizon 40 --journal day.jsonl --resume",
        &contexts(&weights[printed..]),
    );
    let lines: Vec<&str> = rest.lines().collect();
    assert_eq!(lines[printed], format!("{{\"resumed_at\":{printed}}}"));
    let tail: Vec<&str> = whole.lines().skip(printed).collect();
    assert_eq!(lines[printed + 1..], tail);
}
