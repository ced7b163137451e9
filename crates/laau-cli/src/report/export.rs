//! The report's files.

use std::path::{Path, PathBuf};

use laau::core::{Episodes, Report, Rollout, column_names};
use laau::data::{TableColumn, Values, write_table};
use laau::registry::{ProblemSpec, policy_to_bytes};

use super::formats::json;
use crate::failure::Failure;
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
    places.extend(policies.map(|name| policy_file(folder, name)));
    places
}

fn policy_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.policy"))
}

/// Writes `summary.json`, `rollouts.parquet`, a policy file per policy and, if wanted, `steps.parquet`: all of them or none.
pub(super) fn write(
    folder: &Path,
    report: &Report,
    test: &Episodes,
    problem: &ProblemSpec,
    steps: bool,
) -> Result<(), Failure> {
    let mut staged = Staged::default();
    let place = folder.join("summary.json");
    let beside = staged.add(place.clone())?;
    std::fs::write(beside, json(report)?).map_err(|error| output::cannot_write(&place, &error))?;
    for policy in &report.policies {
        // Those of the first seed; the offline optimum and the like cannot be stored.
        let fitted = &policy.runs[0].fitted;
        if fitted.document.is_some() {
            let place = policy_file(folder, &policy.name);
            let beside = staged.add(place.clone())?;
            let bytes = policy_to_bytes(&policy.name, fitted, problem, test.horizon())?;
            std::fs::write(beside, bytes).map_err(|error| output::cannot_write(&place, &error))?;
        }
    }
    let mut add = |name: &str, columns: Vec<TableColumn>| {
        let place = folder.join(name);
        let beside = staged.add(place.clone())?;
        write_table(&beside, columns).map_err(|error| match error {
            laau::data::Error::Io { source, .. } => output::cannot_write(&place, &source),
            other => other.into(),
        })
    };
    add("rollouts.parquet", rollouts(report, test))?;
    if steps {
        add("steps.parquet", all_steps(report, test))?;
    }
    staged.commit()
}

/// Every rollout: policy, seed, episode. A policy that draws nothing has the same rows under each seed.
fn played(report: &Report) -> impl Iterator<Item = (&str, u64, usize, &Rollout)> {
    report.policies.iter().flat_map(|policy| {
        report
            .seeds
            .iter()
            .enumerate()
            .flat_map(move |(position, &seed)| {
                let rollouts = policy.run(position).rollouts.iter().enumerate();
                rollouts.map(move |(episode, rollout)| (policy.name.as_str(), seed, episode, rollout))
            })
    })
}

/// One row per policy, seed and episode.
fn rollouts(report: &Report, test: &Episodes) -> Vec<TableColumn> {
    let rows = || played(report);
    let counts =
        |count: fn(&Rollout) -> usize| Values::Counts(rows().map(|row| count(row.3) as u64).collect());
    let mut columns = vec![
        TableColumn::new(
            "policy",
            Values::Words(rows().map(|row| row.0.to_owned()).collect()),
        ),
        TableColumn::new("seed", Values::Counts(rows().map(|row| row.1).collect())),
        TableColumn::new(
            "episode",
            Values::Counts(rows().map(|row| row.2 as u64).collect()),
        ),
        TableColumn::new(
            "utility",
            Values::Numbers(rows().map(|row| row.3.utility()).collect()),
        ),
    ];
    let budgets = test.budget_len();
    for (m, name) in column_names("remaining", budgets).into_iter().enumerate() {
        columns.push(TableColumn::new(
            name,
            Values::Numbers(rows().map(|row| row.3.remaining[m]).collect()),
        ));
    }
    columns.push(TableColumn::new(
        "violations",
        counts(|rollout| rollout.violations),
    ));
    columns.push(TableColumn::new("failures", counts(|rollout| rollout.failures)));
    columns.push(TableColumn::new(
        "projections",
        counts(|rollout| rollout.projections),
    ));
    columns
}

/// One row per policy, seed, episode and step.
fn all_steps(report: &Report, test: &Episodes) -> Vec<TableColumn> {
    let horizon = test.horizon();
    let (budgets, context) = (test.budget_len(), test.context_len());
    let width = |rollout: &Rollout| rollout.actions.len() / horizon;
    let actions = played(report).next().map_or(0, |row| width(row.3));
    let rows = || played(report).flat_map(|row| (0..horizon).map(move |step| (row, step)));
    let mut columns = vec![
        TableColumn::new(
            "policy",
            Values::Words(rows().map(|(row, _)| row.0.to_owned()).collect()),
        ),
        TableColumn::new("seed", Values::Counts(rows().map(|(row, _)| row.1).collect())),
        TableColumn::new(
            "episode",
            Values::Counts(rows().map(|(row, _)| row.2 as u64).collect()),
        ),
        TableColumn::new(
            "step",
            Values::Counts(rows().map(|(_, step)| step as u64).collect()),
        ),
    ];
    for (k, name) in column_names("context", context).into_iter().enumerate() {
        let values = rows()
            .map(|(row, step)| test.get(row.2).context(step)[k])
            .collect();
        columns.push(TableColumn::new(name, Values::Numbers(values)));
    }
    for (j, name) in column_names("action", actions).into_iter().enumerate() {
        let values = rows()
            .map(|(row, step)| row.3.actions[step * actions + j])
            .collect();
        columns.push(TableColumn::new(name, Values::Numbers(values)));
    }
    for (m, name) in column_names("multiplier", budgets).into_iter().enumerate() {
        let values = rows()
            .map(|(row, step)| row.3.multipliers.get(step * budgets + m).copied())
            .collect();
        columns.push(TableColumn::new(name, Values::Optional(values)));
    }
    for (m, name) in column_names("usage", budgets).into_iter().enumerate() {
        let values = rows()
            .map(|(row, step)| row.3.usages[step * budgets + m])
            .collect();
        columns.push(TableColumn::new(name, Values::Numbers(values)));
    }
    columns.push(TableColumn::new(
        "utility",
        Values::Numbers(rows().map(|(row, step)| -row.3.costs[step]).collect()),
    ));
    columns
}
