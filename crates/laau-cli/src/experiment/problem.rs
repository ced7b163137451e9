//! All policies on the synthetic workload of any problem or on real data, with any number of budgets.

use laau::core::tables::{BudgetRow, LeftOutRow, ProblemRow, StepRow};
use laau::core::{Episode, PolicyReport, Rollout, Sets};
use laau::data::synthetic::GenerateOptions;
use laau::data::{Construction, Dataset, DatasetOptions};

use super::data::Source;
use super::played::Played;
use super::settings::Experiment;
use super::tables::{EpisodeKey, Tables};
use super::{Cell, Study};
use crate::failure::Failure;
use laau::registry::ProblemSpec;

/// The policies whose first test episode is exported step by step.
pub(super) const SHOWN: &[&str] = &["opt", "equal", "laau"];

/// The episodes of a cell: from the workload of the problem, or from the real data that the experiment names.
pub(super) fn sets_of(study: &Study, cell: Cell) -> Result<Sets, Failure> {
    let experiment = &study.experiment;
    if let Some(name) = study.data_of(cell) {
        let folder = study.folder.as_deref().ok_or_else(|| no_folder(name))?;
        let options = DatasetOptions {
            horizon: cell.horizon,
            split: experiment.split(),
            budgets: None,
            seed: cell.seed,
        };
        return Ok(name.parse::<Dataset>()?.sets(folder, &options)?);
    }
    let options = GenerateOptions {
        horizon: cell.horizon,
        construction: cell.construction,
        seed: cell.seed,
        ..GenerateOptions::default()
    };
    let workload = problem_of(experiment)?.workload(None, None)?;
    Ok(workload.generate_split(experiment.split(), &options)?)
}

fn no_folder(name: &str) -> Failure {
    Failure::new(
        format_args!("the experiment is about real data (`{name}`), and no folder of data is given"),
        "add --data DIR, a folder with carbon/, radio/, prices/ or llm/",
    )
}

/// Refuses what an experiment of this kind cannot be run on, before any cell is.
pub(super) fn check(study: &Study) -> Result<(), Failure> {
    if matches!(study.source, Source::Trace(_)) {
        return Err(Failure::new(
            "an experiment of kind `problem` runs on the workload of its problem, or on the data that it names",
            "leave --trace out; --data DIR is for real data",
        ));
    }
    match (&study.experiment.data[..], &study.folder) {
        ([name, ..], None) => Err(no_folder(name)),
        _ => Ok(()),
    }
}

/// The problem that the experiment names.
pub(super) fn problem_of(experiment: &Experiment) -> Result<ProblemSpec, Failure> {
    experiment.problem.clone().ok_or_else(|| {
        Failure::new(
            "an experiment of kind `problem` names its problem",
            "write a section [problem] with its name, as in `laau config --default`",
        )
    })
}

/// What stands in the first columns of a row.
struct Place<'a> {
    problem: &'a str,
    data: &'a str,
    construction: &'static str,
    horizon: usize,
    seed: u64,
}

/// Writes `problems.csv`, `problem_budgets.csv`, `problem_left_out.csv`, `problem_episodes.csv` and `episodes.csv`.
pub(super) fn write(study: &Study, cell: Cell, played: &Played, tables: &mut Tables) -> Result<(), Failure> {
    let Study { experiment, task, .. } = study;
    let Cell { horizon, seed, .. } = cell;
    let Played { sets, report, .. } = played;
    let place = Place {
        problem: task.problem.name(),
        data: study.data_of(cell).unwrap_or("workload"),
        construction: match experiment.construction {
            Construction::Consecutive => "consecutive",
            Construction::Interleaved => "interleaved",
        },
        horizon,
        seed,
    };
    // Reasons are the same for every seed.
    let is_first = seed == study.seeds[0];
    for policy in &report.policies {
        export(&place, policy, tables)?;
        if let Some(rollout) = played.shown.get(&policy.name) {
            export_episode(&place, &policy.name, &sets.test.get(0), rollout, tables)?;
        }
    }
    for (policy, reason) in played.left_out.iter().filter(|_| is_first) {
        tables.add(&LeftOutRow {
            problem: place.problem.to_owned(),
            data: place.data.to_owned(),
            policy: policy.clone(),
            reason: reason.clone(),
        })?;
    }
    let key = EpisodeKey {
        data: &format!("{}:{}", place.problem, place.data),
        target: 0.0,
        horizon,
        seed,
    };
    tables.add_episodes(&key, &sets.test, &report.policies);
    Ok(())
}

fn export(place: &Place<'_>, report: &PolicyReport, tables: &mut Tables) -> Result<(), Failure> {
    let Place {
        problem,
        data,
        construction,
        seed,
        ..
    } = *place;
    tables.add(&ProblemRow {
        problem: problem.to_owned(),
        data: data.to_owned(),
        construction: construction.to_owned(),
        horizon: place.horizon,
        policy: report.name.clone(),
        seed,
        utility: report.utility,
        fraction_of_opt: report.fraction_of_opt.unwrap_or(f64::NAN),
        violations: report.violations,
        failures: report.failures,
        projections: report.projections,
        exact_gradients: report.gradients.map(|counts| counts.exact),
        approximate_gradients: report.gradients.map(|counts| counts.approximate),
    })?;
    for (budget, &remaining_percent) in report.remaining_percent.iter().enumerate() {
        tables.add(&BudgetRow {
            problem: problem.to_owned(),
            data: data.to_owned(),
            construction: construction.to_owned(),
            horizon: place.horizon,
            policy: report.name.clone(),
            seed,
            budget,
            remaining_percent,
        })?;
    }
    Ok(())
}

/// Writes contexts, actions, prices and what remains of the budgets, step by step.
fn export_episode(
    place: &Place<'_>,
    policy: &str,
    episode: &Episode<'_>,
    rollout: &Rollout,
    tables: &mut Tables,
) -> Result<(), Failure> {
    let mut add = |step: usize, quantity: &str, values: &[f64]| {
        values.iter().enumerate().try_for_each(|(index, &value)| {
            tables.add(&StepRow {
                problem: place.problem.to_owned(),
                data: place.data.to_owned(),
                policy: policy.to_owned(),
                step,
                quantity: quantity.to_owned(),
                index,
                value,
            })
        })
    };
    let (steps, budgets) = (episode.horizon(), episode.budgets().len());
    let mut remaining = episode.budgets().to_vec();
    for step in 0..steps {
        let of = |values: &[f64]| -> Vec<f64> {
            let width = values.len() / steps;
            values[step * width..][..width].to_vec()
        };
        add(step, "context", episode.context(step))?;
        add(step, "action", &of(&rollout.actions))?;
        add(step, "multiplier", &of(&rollout.multipliers))?;
        let usage = of(&rollout.usages);
        for budget in 0..budgets {
            remaining[budget] -= usage[budget];
        }
        let shares: Vec<f64> = remaining
            .iter()
            .zip(episode.budgets())
            .map(|(left, budget)| 100.0 * left / budget)
            .collect();
        add(step, "remaining_percent", &shares)?;
    }
    Ok(())
}
