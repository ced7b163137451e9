//! The same work with the tools that people would use instead, measured in turns with ours.

mod environment;
mod figures;
mod grid;
mod judge;
mod latest;
mod page;
mod targets;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use self::environment::Environment;
use self::worker::{Announced, Worker};
use crate::bench::{build, quantile};
use crate::cargo::build_release;

pub(crate) use self::latest::Latest;
pub(crate) use self::page::write_page;
#[cfg(test)]
pub(crate) use self::targets::tests;

/// How long a case runs at its turn, in seconds.
const TURN: f64 = 0.3;

/// How often a case of the grid is measured, at most: there are hundreds.
const GRID_ROUNDS: usize = 3;

/// Some words.
type Words = &'static [&'static str];

/// Stands for the program `laau` among a worker's arguments: such a worker measures ours itself, as a user runs it.
const PROGRAM: &str = "laau";

/// Python workers: file, further arguments, the peers that it stands for, and how the works begin that it does.
const WORKERS: &[(&str, Words, Words, Words)] = &[
    ("train_jax.py", &["f64"], &["jax"], &["train", "decision"]),
    ("train_jax.py", &["f32"], &["jax"], &["train"]),
    ("grid_jax.py", &["f64", "1"], &["jax"], &[grid::GRID]),
    ("grid_jax.py", &["f32", "1"], &["jax"], &[grid::GRID]),
    ("grid_jax.py", &["f64", "2"], &["jax"], &[grid::GRID]),
    ("grid_jax.py", &["f32", "2"], &["jax"], &[grid::GRID]),
    ("train_torch.py", &[], &["torch"], &["train", "decision"]),
    ("layer_jax.py", &[], &["jax", "jaxopt"], &["layer", "wide"]),
    ("layer_cvxpylayers.py", &[], &["cvxpylayers"], &["layer"]),
    ("layer_moreau.py", &[], &["moreau"], &["layer", "wide"]),
    ("solve_wide.py", &[], &["clarabel"], &["layer", "wide"]),
    (
        "solve.py",
        &[],
        &["clarabel", "cvxpy", "scipy", "moreau"],
        &["solve"],
    ),
    ("strict.py", &[], &["cvxpy"], &["strict"]),
    ("import_polars.py", &[PROGRAM], &["polars"], &["import"]),
];

/// Everything that a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// What was installed, by name.
    pub(crate) versions: BTreeMap<String, String>,
    /// Measured cases, by work, fastest first.
    pub(crate) cases: Vec<Timed>,
    /// Episodes with strict budgets.
    pub(crate) strict: Vec<Strictness>,
    /// What could not be measured, and why.
    pub(crate) failures: Vec<Failure>,
}

/// A case and its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timed {
    /// What is known of it besides its time.
    #[serde(flatten)]
    pub(crate) case: Case,
    /// The least time of a unit, in microseconds.
    pub(crate) least: f64,
    /// The median time of a unit, in microseconds.
    pub(crate) median: f64,
    /// Number of samples.
    pub(crate) samples: usize,
}

/// A case, as a worker tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    /// The worker's number for it.
    #[serde(default, skip_serializing)]
    pub(crate) id: usize,
    /// Who does it.
    pub(crate) peer: String,
    /// What is done.
    pub(crate) work: String,
    /// How.
    pub(crate) variant: String,
    /// `f64` or `f32`.
    pub(crate) precision: String,
    /// The worst relative error of an action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_action: Option<f64>,
    /// The worst relative error of a gradient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_gradient: Option<f64>,
    /// The most by which a budget is exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) violation: Option<f64>,
    /// The utility that training has reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) utility: Option<f64>,
    /// The most memory that a process held at once, in megabytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) megabytes: Option<f64>,
    /// The floating-point operations of a unit, as the algorithm needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) operations: Option<f64>,
}

/// How strictly episodes kept their budgets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Strictness {
    /// Who decided.
    pub(crate) peer: String,
    /// How.
    pub(crate) variant: String,
    /// Number of episodes.
    pub(crate) episodes: usize,
    /// Episodes that spent more than a budget, in exact arithmetic.
    pub(crate) overspent: usize,
    /// The most that was overspent.
    pub(crate) worst: f64,
    /// Episodes that were given up.
    pub(crate) aborted: usize,
    /// Why the first of them was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Something that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Who.
    pub(crate) peer: String,
    /// What.
    pub(crate) work: String,
    /// How.
    pub(crate) variant: String,
    /// Why not.
    pub(crate) reason: String,
    /// At which commit; a record has it for all, what is put together from several does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) commit: String,
}

/// What a worker is called, by its script and its further arguments.
fn name_of(script: &str, arguments: &[&str]) -> String {
    format!("{script} {}", arguments.join(" ")).trim().to_owned()
}

/// Installs, draws the instances, starts every worker, measures in turns. Of all works those that begin with one of these words; with
/// no word all.
pub(crate) fn compare(
    root: &Path,
    target: &Path,
    rounds: usize,
    words: &[String],
) -> anyhow::Result<Comparison> {
    let is_wanted = |work: &str| words.is_empty() || words.iter().any(|word| work.starts_with(word.as_str()));
    let chosen: Vec<_> = WORKERS
        .iter()
        .filter(|(.., works)| works.iter().any(|work| is_wanted(work)))
        .collect();
    let folder = target.join("peers");
    let scripts = root.join("benches").join("peers");
    let wanted: BTreeSet<&str> = chosen
        .iter()
        .flat_map(|(_, _, peers, _)| *peers)
        .copied()
        .collect();
    let environment = Environment::prepare(&folder, &scripts.join("requirements.txt"), &wanted)?;
    let data = folder.join("data");
    std::fs::create_dir_all(&data)?;
    let mut comparison = Comparison {
        failures: environment.failures.clone(),
        ..Comparison::default()
    };
    let mut workers = Vec::new();
    let mut cases: Vec<(usize, Case)> = Vec::new();
    let mut commands = Vec::new();
    if chosen
        .iter()
        .any(|(_, arguments, ..)| !arguments.contains(&PROGRAM))
    {
        environment
            .run(&scripts.join("instances.py"), &[&data])
            .context("cannot draw the instances")?;
        let mut command = std::process::Command::new(build(root, target, "laau-peer")?);
        command.arg(&data);
        commands.push(("laau".to_owned(), command, &["laau"][..]));
    }
    for (script, arguments, peers, _) in chosen {
        let mut command = environment.python(&scripts.join(script));
        command.arg(&data);
        for argument in *arguments {
            match *argument {
                PROGRAM => command.arg(build_release("laau-cli", "laau", root)?),
                argument => command.arg(argument),
            };
        }
        commands.push((name_of(script, arguments), command, *peers));
    }
    for (name, command, peers) in commands {
        println!("starting {name}");
        match Worker::start(command, &folder.join(format!("{name}.log"))) {
            Ok((worker, announced)) => {
                let Announced {
                    cases: found,
                    strict,
                    failed,
                    versions,
                } = announced;
                let found = found.into_iter().filter(|case| is_wanted(&case.work));
                cases.extend(found.map(|case| (workers.len(), case)));
                if is_wanted("strict") {
                    comparison.strict.extend(strict.iter().map(judge::judge));
                }
                let failed = failed.into_iter().filter(|failure| is_wanted(&failure.work));
                comparison.failures.extend(failed);
                comparison.versions.extend(versions);
                workers.push(worker);
            }
            Err(error) => comparison.failures.extend(peers.iter().map(|peer| Failure {
                peer: (*peer).to_owned(),
                work: name.clone(),
                variant: String::new(),
                reason: format!("{error:#}"),
                commit: String::new(),
            })),
        }
    }

    let works: BTreeSet<String> = cases.iter().map(|(_, case)| case.work.clone()).collect();
    for work in works {
        let chosen: Vec<&(usize, Case)> = cases.iter().filter(|(_, case)| case.work == work).collect();
        let rounds = if work.starts_with(grid::GRID) {
            rounds.min(GRID_ROUNDS)
        } else {
            rounds
        };
        println!("{work}: {} cases, {rounds} rounds", chosen.len());
        let mut samples = vec![Vec::new(); chosen.len()];
        for round in 0..rounds {
            let outdone = if round > 0 && work.starts_with(grid::GRID) {
                grid::outdone(&chosen, &samples)
            } else {
                vec![false; chosen.len()]
            };
            for (((worker, case), samples), outdone) in chosen.iter().zip(&mut samples).zip(outdone) {
                if !outdone {
                    samples.extend(workers[*worker].measure(case.id, TURN)?);
                }
            }
        }
        let mut timed: Vec<Timed> = chosen
            .iter()
            .zip(samples)
            .map(|((_, case), samples)| summarise(case, samples))
            .collect();
        timed.sort_by(|a, b| a.least.total_cmp(&b.least));
        comparison.cases.extend(timed);
    }
    Ok(comparison)
}

fn summarise(case: &Case, mut samples: Vec<f64>) -> Timed {
    samples.sort_by(f64::total_cmp);
    Timed {
        case: case.clone(),
        least: samples[0] * 1e6,
        median: quantile(&samples, 0.5) * 1e6,
        samples: samples.len(),
    }
}
