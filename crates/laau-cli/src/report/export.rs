//! The report's files.

use std::path::{Path, PathBuf};

use laau::core::{Episodes, Report, Results, Rollout, Run, Sets, Task, column_names};
use laau::data::{Error, TableColumn, Values, write_table_in_blocks};
use laau::registry::{ProblemSpec, policy_to_bytes};

use super::formats::json;
use crate::failure::Failure;
use crate::guard::INCUMBENT;
use crate::output::{self, Staged};

/// Every file that may be written.
pub(super) fn places<'a>(
    folder: &Path,
    policies: impl Iterator<Item = &'a str>,
    steps: bool,
) -> Vec<PathBuf> {
    let fixed = ["summary.json", "rollouts.parquet"].into_iter();
    let mut places: Vec<PathBuf> = fixed
        .chain(steps.then_some("steps.parquet"))
        .map(|name| folder.join(name))
        .collect();
    for name in policies {
        places.push(policy_file(folder, name));
        places.push(policy_file(folder, &format!("{name}-guarded")));
    }
    places
}

fn policy_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.policy"))
}

/// Writes `summary.json`, `rollouts.parquet`, a policy file per policy and, if wanted, `steps.parquet`: all of them or none.
pub(super) fn write(
    folder: &Path,
    report: &Report,
    task: &Task,
    sets: &Sets,
    problem: &ProblemSpec,
    steps: bool,
) -> Result<(), Failure> {
    let test = &sets.test;
    let mut staged = Staged::default();
    let place = folder.join("summary.json");
    let beside = staged.add(place.clone())?;
    std::fs::write(beside, json(report)?).map_err(|error| output::cannot_write(&place, &error))?;
    for policy in &report.policies {
        // Those of the first seed; the offline optimum and the like cannot be stored.
        let fitted = &policy.runs[0].fitted;
        // An incumbent from a file is there already, and was not fitted on these episodes.
        if fitted.document.is_some() && policy.name != INCUMBENT {
            let place = policy_file(folder, &policy.name);
            let beside = staged.add(place.clone())?;
            let bytes = policy_to_bytes(&policy.name, fitted, problem, &sets.train)?;
            std::fs::write(beside, bytes).map_err(|error| output::cannot_write(&place, &error))?;
        }
    }
    let cannot = |place: &Path| {
        let place = place.to_owned();
        move |error: Error| match error {
            Error::Io { source, .. } => output::cannot_write(&place, &source),
            other => other.into(),
        }
    };
    let place = folder.join("rollouts.parquet");
    write_table_in_blocks(&staged.add(place.clone())?, |add| {
        played(report).try_for_each(|(name, seed, run)| add(episodes(name, seed, &run.results, test)))
    })
    .map_err(cannot(&place))?;
    if steps {
        let place = folder.join("steps.parquet");
        write_table_in_blocks(&staged.add(place.clone())?, |add| {
            played(report).try_for_each(|(name, seed, run)| {
                let mut first = 0;
                each_block(run, task, test, |rollouts| {
                    add(all_steps(name, seed, first, rollouts, test))?;
                    first += rollouts.len();
                    Ok(())
                })
            })
        })
        .map_err(cannot(&place))?;
    }
    staged.commit()
}

/// Files of other reports in a folder: steps, and policies if this report has some.
pub(super) fn of_others(folder: &Path, report: &Report, steps: bool) -> Vec<String> {
    let written: Vec<String> = (report.policies.iter())
        .filter(|policy| policy.runs[0].fitted.document.is_some())
        .map(|policy| format!("{}.policy", policy.name))
        .collect();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut others: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| match name.strip_suffix(".policy") {
            Some(policy) => !written.is_empty() && !written.contains(name) && policy != INCUMBENT,
            None => name == "steps.parquet" && !steps,
        })
        .collect();
    others.sort_unstable();
    others
}

/// Every policy with every seed. One that draws nothing has the same rows under each.
fn played(report: &Report) -> impl Iterator<Item = (&str, u64, &Run)> {
    report.policies.iter().flat_map(|policy| {
        let seeds = report.seeds.iter().enumerate();
        seeds.map(move |(position, &seed)| (policy.name.as_str(), seed, policy.run(position)))
    })
}

/// The rollouts of a run, some at a time: those that were kept, or the same ones played again.
fn each_block(
    run: &Run,
    task: &Task,
    test: &Episodes,
    mut each: impl FnMut(&[Rollout]) -> Result<(), Error>,
) -> Result<(), Error> {
    /// A few megabytes.
    const BLOCK: usize = 1024;
    if run.rollouts.is_empty() {
        let player = &run.fitted.player;
        return player.play_in_blocks(task, test, |rollouts| each(&rollouts));
    }
    run.rollouts.chunks(BLOCK).try_for_each(each)
}

fn column(name: impl Into<String>, values: Values) -> TableColumn {
    TableColumn::new(name, values)
}

/// One row per episode.
fn episodes(name: &str, seed: u64, results: &Results, test: &Episodes) -> Vec<TableColumn> {
    let rows = results.len();
    let mut columns = vec![
        column("policy", Values::Words(vec![name.to_owned(); rows])),
        column("seed", Values::Counts(vec![seed; rows])),
        column("episode", Values::Counts((0..rows as u64).collect())),
        column("utility", Values::Numbers(results.utilities.clone())),
    ];
    for (m, name) in column_names("remaining", test.budget_len())
        .into_iter()
        .enumerate()
    {
        let remaining = (0..rows).map(|episode| results.remaining_of(episode)[m]);
        columns.push(column(name, Values::Numbers(remaining.collect())));
    }
    for (name, steps) in [
        ("violations", &results.violations),
        ("failures", &results.failures),
        ("projections", &results.projections),
    ] {
        let counts = steps.iter().map(|steps| u64::from(*steps));
        columns.push(column(name, Values::Counts(counts.collect())));
    }
    columns
}

/// One row per step of some episodes.
fn all_steps(name: &str, seed: u64, first: usize, rollouts: &[Rollout], test: &Episodes) -> Vec<TableColumn> {
    let horizon = test.horizon();
    let (budgets, context) = (test.budget_len(), test.context_len());
    let actions = rollouts
        .first()
        .map_or(0, |rollout| rollout.actions.len() / horizon);
    let rows = || {
        let episodes = rollouts.iter().enumerate();
        episodes.flat_map(|(index, rollout)| (0..horizon).map(move |step| (first + index, rollout, step)))
    };
    let numbers = |value: &dyn Fn(usize, &Rollout, usize) -> f64| {
        Values::Numbers(
            rows()
                .map(|(episode, rollout, step)| value(episode, rollout, step))
                .collect(),
        )
    };
    let mut columns = vec![
        column("policy", Values::Words(rows().map(|_| name.to_owned()).collect())),
        column("seed", Values::Counts(rows().map(|_| seed).collect())),
        column(
            "episode",
            Values::Counts(rows().map(|row| row.0 as u64).collect()),
        ),
        column("step", Values::Counts(rows().map(|row| row.2 as u64).collect())),
    ];
    for (k, name) in column_names("context", context).into_iter().enumerate() {
        columns.push(column(
            name,
            numbers(&|episode, _, step| test.get(episode).context(step)[k]),
        ));
    }
    for (j, name) in column_names("action", actions).into_iter().enumerate() {
        columns.push(column(
            name,
            numbers(&|_, rollout, step| rollout.actions[step * actions + j]),
        ));
    }
    for (m, name) in column_names("multiplier", budgets).into_iter().enumerate() {
        let prices = rows().map(|(_, rollout, step)| rollout.multipliers.get(step * budgets + m).copied());
        columns.push(column(name, Values::Optional(prices.collect())));
    }
    for (m, name) in column_names("usage", budgets).into_iter().enumerate() {
        columns.push(column(
            name,
            numbers(&|_, rollout, step| rollout.usages[step * budgets + m]),
        ));
    }
    columns.push(column(
        "utility",
        numbers(&|_, rollout, step| -rollout.costs[step]),
    ));
    columns
}
