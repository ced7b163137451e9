//! `laau experiment`: every kind, the same tables on every number of threads, and what is refused.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Bench, command, run_command};

const SMALL: &str = "train = 60\nvalidation = 30\ntest = 40\nphases = [[2, 5e-3]]\n";

/// One tiny experiment of every kind that runs on the paper's data.
const KINDS: &[(&str, &str)] = &[
    (
        "policies",
        "horizons = [6]\nconstructions = [\"consecutive\", \"interleaved\"]\npolicies = [\"opt\", \"equal\", \"mw\", \"rl\", \"ce\", \"laau\"]\n",
    ),
    (
        "ood",
        "horizons = [6]\nconstructions = [\"consecutive\"]\npolicies = [\"opt\", \"rl\", \"laau\"]\ntargets = [0.0, 0.1]\n",
    ),
    (
        "guard",
        "horizons = [6]\nconstructions = [\"consecutive\"]\npolicies = [\"laau-residual\"]\nlevel = 0.95\ntargets = [0.0, 0.1]\n",
    ),
    (
        "tsne",
        "horizons = [6]\nconstructions = [\"consecutive\"]\ntargets = [0.0]\n",
    ),
    (
        "online-learning",
        "horizons = [6]\nconstructions = [\"interleaved\"]\npolicies = [\"laau\", \"mw\"]\nlearning-rates = [1e-2]\n",
    ),
    (
        "generalisation",
        "horizons = [6]\nconstructions = [\"interleaved\"]\nsizes = [20, 60]\n",
    ),
    ("gradients", "horizons = [6]\ndirections = [10]\n"),
];

/// The files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn every_kind_writes_the_same_bytes_on_one_thread_and_on_three() {
    let bench = Bench::new();
    for (kind, keys) in KINDS {
        bench.write("e.toml", format!("kind = \"{kind}\"\n{keys}{SMALL}"));
        let tables = ["1", "3"].map(|threads| {
            let output = format!("{kind}-{threads}");
            let arguments = ["experiment", "e.toml", "--seeds", "1,0", "--output", &output];
            let mut command = command(bench.path(), &arguments);
            command
                .env("RAYON_NUM_THREADS", threads)
                .env("POLARS_MAX_THREADS", threads);
            let run = run_command(command, "");
            assert_eq!(run.status, Some(0), "{kind}: {}", run.stderr);
            assert_eq!(run.stdout, "");
            files(&bench.path().join(output))
        });
        let [one, three] = tables;
        assert!(!one.is_empty(), "{kind} wrote no table");
        assert!(one.values().all(|table| table.lines().count() > 1), "{kind}");
        assert_eq!(one, three, "{kind}");
    }
}

/// Experiments that play policies: behind guards, with the optimum as the reference alone, with a policy that is left out.
const BY_POLICY: &[&str] = &[
    "kind = \"policies\"\nhorizons = [4, 20]\nconstructions = [\"interleaved\"]\npolicies = [\"laau\", \"opt\", \"mw\", \"equal\", \"laau-residual\"]\nincumbents = [\"mw\", \"equal\"]\nguaranteed = true\n",
    "kind = \"policies\"\nhorizons = [4]\nconstructions = [\"consecutive\"]\npolicies = [\"equal\", \"laau\"]\nincumbents = [\"equal\"]\n",
    "kind = \"ood\"\nhorizons = [6]\nconstructions = [\"consecutive\"]\npolicies = [\"opt\", \"mw\", \"equal\", \"laau-residual\", \"laau\"]\nincumbents = [\"mw\", \"equal\"]\nguard-levels = [0.9, 0.95]\ntargets = [0.0, 0.1]\n",
    "kind = \"problem\"\nhorizons = [4]\npolicies = [\"opt\", \"cr-pursuit\", \"equal\", \"laau\"]\nincumbents = [\"equal\"]\nproblem = { name = \"wireless\" }\n",
];

#[test]
fn policies_that_are_played_apart_give_the_tables_of_those_played_together() {
    let bench = Bench::new();
    for text in BY_POLICY {
        bench.write("e.toml", format!("{text}{SMALL}"));
        let options = laau_cli::SweepOptions {
            seeds: vec![1, 0],
            ..laau_cli::SweepOptions::new(bench.path().join("e.toml"))
        };
        let sweep = laau_cli::Sweep::load(&options).unwrap();
        for cell in 0..sweep.cells().len() {
            // In any order; only that in which they are put together matters.
            let mut pieces: Vec<(usize, String)> = (0..sweep.pieces().len())
                .rev()
                .map(|piece| (piece, sweep.run_piece(cell, piece).unwrap()))
                .collect();
            pieces.sort();
            let pieces: Vec<String> = pieces.into_iter().map(|(_, text)| text).collect();
            assert_eq!(
                sweep.assemble(cell, &pieces).unwrap(),
                sweep.run(cell).unwrap(),
                "{text}"
            );
            assert!(sweep.assemble(cell, &pieces[1..]).is_err());
        }
        assert!(sweep.run_piece(0, sweep.pieces().len()).is_err());
    }
}

#[test]
fn cells_without_policies_have_no_pieces() {
    let bench = Bench::new();
    let (kind, keys) = KINDS[6];
    bench.write("e.toml", format!("kind = \"{kind}\"\n{keys}{SMALL}"));
    let options = laau_cli::SweepOptions::new(bench.path().join("e.toml"));
    let sweep = laau_cli::Sweep::load(&options).unwrap();
    assert!(sweep.pieces().is_empty());
    assert!(sweep.run_piece(0, 0).is_err());
    assert!(sweep.assemble(0, &[]).is_err());
}

#[test]
fn guards_of_the_command_line_replace_those_of_the_file() {
    let bench = Bench::new();
    bench.write("e.toml", format!("{}{SMALL}", BY_POLICY[1]));
    bench.run("experiment e.toml --seeds 0 -o kept", "");
    bench.run("experiment e.toml --seeds 0 --guard-level 1 -o whole", "");
    let rows = |folder: &str| files(&bench.path().join(folder))["policies.csv"].clone();
    assert!(rows("kept").contains(",laau-guarded,"));
    assert_ne!(rows("kept"), rows("whole"), "a level of 1 binds more than .95");
    bench.write(
        "e.toml",
        format!(
            "{}{SMALL}",
            BY_POLICY[1].replace("\"equal\", ", "\"equal\", \"mw\", ")
        ),
    );
    bench.run("experiment e.toml --seeds 0 --guard mw,equal -o both", "");
    let both = rows("both");
    assert!(both.contains(",laau-guarded,") && both.contains(",laau-guarded-by-equal,"));
    for (flag, words) in [
        ("--guard dgd", "not among the policies"),
        ("--guard-level 2", "between 0 and 1"),
    ] {
        let refused = bench.run(&format!("experiment e.toml --seeds 0 {flag} -o none"), "");
        assert_ne!(refused.status, Some(0));
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}

#[test]
fn a_guard_keeps_its_promise_whenever_it_was_put_there() {
    let bench = Bench::new();
    let (kind, keys) = KINDS[2];
    bench.write("e.toml", format!("kind = \"{kind}\"\n{keys}{SMALL}"));
    bench.run("experiment e.toml --seeds 0 -o tables", "");
    let table = std::fs::read_to_string(bench.path().join("tables/guard_training.csv")).unwrap();
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let columns = lines.next().unwrap();
    let at = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let (guard, share) = (at("guard"), at("least_share"));
    let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in lines {
        let of_guard = shares.entry(line[guard].to_owned()).or_default();
        of_guard.push(line[share].parse().unwrap());
    }
    for name in ["after", "during"] {
        assert!(shares[name].len() == 2 && shares[name].iter().all(|share| *share >= 0.95 - 1e-12));
    }
    // The incumbent is beside itself; the model alone promises nothing.
    assert!(shares["none"].len() == 4 && shares["none"].iter().any(|share| *share < 0.95));
}

#[test]
fn no_policy_of_an_experiment_overspends() {
    let bench = Bench::new();
    let (kind, keys) = KINDS[0];
    bench.write("e.toml", format!("kind = \"{kind}\"\n{keys}{SMALL}"));
    bench.run("experiment e.toml --seeds 0 -o tables", "");
    let table = std::fs::read_to_string(bench.path().join("tables/policies.csv")).unwrap();
    let columns: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let violations = columns.iter().position(|column| *column == "violations").unwrap();
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(rows.len(), 12);
    for row in rows {
        assert_eq!(row.split(',').nth(violations), Some("0"), "{row}");
    }
}

#[test]
fn what_is_no_experiment_is_refused_in_one_sentence() {
    let bench = Bench::new();
    let refused = |text: &str| {
        bench.write("e.toml", text);
        let run = bench.run("experiment e.toml -o tables", "");
        assert_eq!(run.status, Some(1), "{text}");
        assert!(run.stderr.contains("\nhint: "), "{}", run.stderr);
        assert!(!bench.path().join("tables/policies.csv").exists());
        run.stderr
    };
    assert!(refused("kind = \"policy\"\n").contains("policies"));
    assert!(
        refused(&format!("kind = \"policies\"\nhorizon = 3\n{SMALL}")).contains("unknown field `horizon`")
    );
    let unknown = format!(
        "kind = \"policies\"\nhorizons = [6]\nconstructions = [\"consecutive\"]\npolicies = [\"lauu\"]\n{SMALL}"
    );
    assert!(refused(&unknown).contains("lauu"));
    let missing = bench.run("experiment nowhere.toml -o tables", "");
    assert_eq!(missing.status, Some(1));
    assert!(missing.stderr.contains("nowhere.toml"), "{}", missing.stderr);
    assert!(missing.stderr.contains("experiments/"), "{}", missing.stderr);
}
