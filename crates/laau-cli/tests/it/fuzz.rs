//! Damaged files of every kind, through the real binary: refused, or the same decisions.
//!
//! Never another decision, a panic, a hang, or more than 1 GiB of memory. `LAAU_FUZZ_MUTATIONS` is the number of mutations
//! per kind (100), `LAAU_FUZZ_SEED` their seed (1); `cargo xtask audit --only files` sets both.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use laau::core::Episodes;
use laau::net::{EpochRecord, Laau, Phase, TrainObserver, Training};
use laau::registry::ProblemSpec;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::support::{Bench, contexts};

/// The longest that a command may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// The most memory of a command, in KiB. Address space: what is reserved for threads counts, too.
const MEMORY: u64 = 1 << 20;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// A way to damage a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutation {
    Flip,
    Cut,
    Extend,
}

/// Damages a file in one way: one or a few bits, its end, or more behind it.
fn mutate(bytes: &[u8], rng: &mut ChaCha8Rng) -> (Mutation, Vec<u8>) {
    let mut bytes = bytes.to_vec();
    let length = bytes.len();
    match rng.random_range(0..10) {
        0..6 => {
            let bits = if rng.random_bool(0.75) {
                1
            } else {
                rng.random_range(2..9)
            };
            for _ in 0..bits {
                bytes[rng.random_range(0..length)] ^= 1 << rng.random_range(0..8);
            }
            (Mutation::Flip, bytes)
        }
        6..8 => {
            bytes.truncate(rng.random_range(0..length));
            (Mutation::Cut, bytes)
        }
        8 => {
            let more = rng.random_range(1..65);
            bytes.extend((0..more).map(|_| rng.random::<u8>()));
            (Mutation::Extend, bytes)
        }
        _ => {
            let from = rng.random_range(0..length);
            bytes.extend_from_within(from..);
            (Mutation::Extend, bytes)
        }
    }
}

/// Runs a command within bounds of time and memory; gives its status and its standard output.
fn bounded(folder: &Path, arguments: &str, input: &str) -> (Option<i32>, String) {
    let limit = if cfg!(target_os = "linux") {
        format!("ulimit -v {MEMORY}; ")
    } else {
        String::new()
    };
    std::fs::write(folder.join("input"), input).unwrap();
    let mut child = Command::new("sh")
        .args(["-c", &format!("{limit}exec \"$0\" {arguments} < input > output")])
        .arg(env!("CARGO_BIN_EXE_laau"))
        .current_dir(folder)
        // Each thread reserves address space, and there is no work for many.
        .envs(["RAYON_NUM_THREADS", "POLARS_MAX_THREADS"].map(|name| (name, "2")))
        .env("MALLOC_ARENA_MAX", "2")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let output = std::fs::read(folder.join("output")).unwrap();
            return (status.code(), String::from_utf8_lossy(&output).into_owned());
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("laau {arguments}: no end after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Damages a file many times; tells how it went. A command on it must be refused without output, or `is_same` must hold for its output.
#[expect(clippy::print_stdout, reason = "figures of a long run")]
fn fuzz(
    bench: &Bench,
    name: &str,
    arguments: &str,
    input: &str,
    is_same: impl Fn(Mutation, &str) -> bool,
) -> (u64, u64) {
    let whole = bench.read(name);
    let mut rng = ChaCha8Rng::seed_from_u64(setting("LAAU_FUZZ_SEED", 1));
    let (mut refused, mut same) = (0, 0);
    for number in 0..setting("LAAU_FUZZ_MUTATIONS", 100) {
        let (mutation, bytes) = mutate(&whole, &mut rng);
        bench.write(name, &bytes);
        match bounded(bench.path(), arguments, input) {
            (Some(1 | 2), output) if output.is_empty() => refused += 1,
            (Some(0), output) if is_same(mutation, &output) => same += 1,
            (status, output) => {
                let kept = std::env::temp_dir().join(format!("laau-fuzz-{number}-{name}"));
                std::fs::write(&kept, &bytes).unwrap();
                panic!(
                    "{name}, mutation {number}, {mutation:?}: {status:?}, {output}; kept as {}",
                    kept.display()
                );
            }
        }
    }
    bench.write(name, whole);
    println!("{name}: {refused} refused, {same} the same");
    (refused, same)
}

/// Sets of episodes, and a model of two epochs.
fn trained() -> Bench {
    let bench = Bench::new();
    bench.stdout("generate --horizon 5 --split 12,6,6 -o .", "");
    assert_eq!(bench.run(&format!("{TRAIN} -o model"), "").status, Some(0));
    bench
}

const TRAIN: &str = "train --train train.parquet --validation validation.parquet --phases 2:0.01 -q";

/// Checks that a whole file works, then that no damaged one gives another output.
fn same_output(bench: &Bench, name: &str, arguments: &str, input: &str) {
    let (status, expected) = bounded(bench.path(), arguments, input);
    assert_eq!(status, Some(0), "laau {arguments}");
    let (refused, _) = fuzz(bench, name, arguments, input, |_, output| output == expected);
    assert!(refused > 0);
}

#[test]
fn a_damaged_model_is_refused_or_decides_the_same() {
    let bench = trained();
    let input = contexts(&[0.31, 0.5, 0.2, 0.9, 0.4]);
    same_output(&bench, "model", "decide --model model --budget 60", &input);
}

#[test]
fn a_damaged_policy_file_is_refused_or_decides_the_same() {
    let bench = trained();
    let compare = "compare --train train.parquet --validation validation.parquet --test test.parquet \
                   --policies mw -q -o .";
    assert_eq!(bench.run(compare, "").status, Some(0));
    let input = contexts(&[0.31, 0.5, 0.2, 0.9, 0.4]);
    same_output(
        &bench,
        "mw.policy",
        "decide --policy-file mw.policy --budget 60",
        &input,
    );
}

#[test]
fn damaged_episodes_are_refused_or_learned_from_the_same() {
    let bench = trained();
    // Every round depends on all contexts and budgets of its episode.
    same_output(
        &bench,
        "test.parquet",
        "learn --episodes test.parquet --model model",
        "",
    );
}

#[test]
fn a_damaged_journal_is_refused_or_holds_the_same_decisions() {
    let bench = Bench::new();
    let decide = "decide --policy dgd --budget 60 --horizon 5 --journal day.jsonl";
    let decided = bench.stdout(decide, &contexts(&[0.31, 0.5, 0.2]));
    let expected: Vec<String> = decided
        .lines()
        .map(|line| line.replace('}', ",\"replayed\":true}"))
        .collect();
    fuzz(&bench, "day.jsonl", decide, "", |mutation, output| {
        let mut lines: Vec<&str> = output.lines().collect();
        let resumed = lines.pop();
        // What was cut off is as if it had never been; anything else must still be there.
        let whole = lines.len() == expected.len() || mutation == Mutation::Cut;
        whole
            && resumed == Some(&*format!("{{\"resumed_at\":{}}}", lines.len()))
            && lines
                .iter()
                .zip(&expected)
                .all(|(found, expected)| found == expected)
    });
}

/// Ends a run after its first epoch.
struct OneEpoch(bool);

impl TrainObserver for OneEpoch {
    fn epoch(&mut self, _: &EpochRecord, _: Duration) {
        self.0 = true;
    }

    fn should_stop(&mut self) -> bool {
        self.0
    }
}

/// Writes the checkpoint of `TRAIN` after one of its two epochs.
fn checkpoint(bench: &Bench) {
    let read = |name: &str| -> Episodes { laau::data::read_episodes(&bench.path().join(name)).unwrap() };
    let (train, validation) = (read("train.parquet"), read("validation.parquet"));
    let task = ProblemSpec::default().task().unwrap();
    let training = Training {
        phases: vec![Phase {
            epochs: 2,
            learning_rate: 0.01,
        }],
        ..Training::paper()
    };
    let mut model = Laau::paper().initial(&task, &train, training.seed).unwrap();
    let trainer = training.check().unwrap();
    let trainer = trainer.with_checkpoint(bench.path().join("run.checkpoint"));
    let mut observer = OneEpoch(false);
    let trained = trainer
        .run(
            &mut model,
            &*task.solver,
            &train,
            Some(&validation),
            &mut observer,
        )
        .unwrap();
    assert_eq!(trained.history.len(), 1);
}

#[test]
fn a_damaged_checkpoint_is_refused_or_goes_on_to_the_same_model() {
    let bench = trained();
    checkpoint(&bench);
    let resume = format!("{TRAIN} --resume --checkpoint run.checkpoint -o again");
    let whole = bench.read("run.checkpoint");
    assert_eq!(bounded(bench.path(), &resume, "").0, Some(0));
    assert_eq!(bench.read("again"), bench.read("model"));
    bench.write("run.checkpoint", whole);
    fuzz(&bench, "run.checkpoint", &resume, "", |_, _| {
        bench.read("again") == bench.read("model")
    });
}

#[test]
fn a_damaged_configuration_is_refused_or_read() {
    let bench = Bench::new();
    let text = bench.stdout("config --default", "");
    bench.write("laau.toml", text);
    let decide = "decide --config laau.toml --policy equal --budget 60 --horizon 5";
    fuzz(&bench, "laau.toml", decide, &contexts(&[0.31]), |_, _| true);
}

/// Files of others have no digest: another reading may pass, but nothing that ends the process.
#[test]
fn a_damaged_table_of_another_program_is_refused_or_read() {
    let bench = Bench::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../laau-data/tests/data");
    for (name, rest) in [
        ("further", "--values value"),
        ("short", "--values value"),
        ("categories", "--time at --values value"),
    ] {
        let table = format!("{name}.parquet");
        bench.write(&table, std::fs::read(data.join(&table)).unwrap());
        let import =
            format!("import table {table} --horizon 2 --split 1,0,0 --normalisation none --dry-run {rest}");
        assert_eq!(bounded(bench.path(), &import, "").0, Some(0), "{import}");
        let (refused, _) = fuzz(&bench, &table, &import, "", |_, _| true);
        assert!(refused > 0);
    }
}
