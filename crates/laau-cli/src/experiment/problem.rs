//! All policies on the synthetic workload of any problem or on real data, with any number of budgets.

use std::path::PathBuf;

use laau::core::tables::{BudgetRow, LeftOutRow, ProblemRow, StepRow};
use laau::core::{Episode, PolicyReport, Rollout};
use laau::data::synthetic::GenerateOptions;
use laau::data::{Construction, Dataset, DatasetOptions};

use super::Study;
use super::cells::{Cells, Stop};
use super::data::Source;
use super::settings::Experiment;
use super::tables::{EpisodeKey, Tables};
use crate::failure::Failure;
use laau::registry::{ProblemSpec, ProblemWorkload};

/// The policies whose first test episode is exported step by step.
const SHOWN: &[&str] = &["opt", "equal", "laau"];

/// Fits and plays every policy on the workload of the problem, or on the real data that the experiment names; writes
/// `problems.csv`, `problem_budgets.csv`, `problem_left_out.csv`, `problem_episodes.csv` and `episodes.csv`.
pub(super) fn run(study: &Study<'_>, cells_of: &Cells<'_>) -> Result<(), Failure> {
    let Study {
        experiment,
        source,
        seeds,
        ..
    } = *study;
    if matches!(source, Source::Trace(_)) {
        return Err(Failure::new(
            "an experiment of kind `problem` runs on the workload of its problem, or on the data that it names",
            "leave --trace out; --data DIR is for real data",
        ));
    }
    let problem = problem_of(experiment)?;
    let mut laws: Vec<Law> = Vec::new();
    for name in &experiment.data {
        let folder = study.folder.ok_or_else(|| {
            Failure::new(
                format_args!("the experiment is about real data (`{name}`), and no folder of data is given"),
                "add --data DIR, a folder with carbon/, radio/, prices/ or llm/",
            )
        })?;
        laws.push(Law::Real(name.clone(), name.parse()?, folder.to_owned()));
    }
    if laws.is_empty() {
        laws.push(Law::Workload(Box::new(problem.workload(None, None)?)));
    }
    let mut cells = Vec::new();
    for law in &laws {
        for &horizon in &experiment.horizons {
            cells.extend(seeds.iter().map(|&seed| Cell { law, horizon, seed }));
        }
    }
    let name = |cell: &Cell<'_>| {
        format!(
            "{}, {}, N = {}, seed {}",
            problem.name(),
            cell.law.name(),
            cell.horizon,
            cell.seed
        )
    };
    cells_of.run(&cells, name, |cell, tables| play(study, cell, tables))
}

/// Where the episodes of a cell come from.
enum Law {
    Workload(Box<ProblemWorkload>),
    Real(String, Dataset, PathBuf),
}

impl Law {
    fn name(&self) -> &str {
        match self {
            Self::Workload(_) => "workload",
            Self::Real(name, ..) => name,
        }
    }
}

struct Cell<'a> {
    law: &'a Law,
    horizon: usize,
    seed: u64,
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

fn play(study: &Study<'_>, cell: &Cell<'_>, tables: &mut Tables) -> Result<(), Failure> {
    let Study { experiment, task, .. } = *study;
    let Cell { law, horizon, seed } = *cell;
    let sets = match law {
        Law::Workload(workload) => {
            let options = GenerateOptions {
                horizon,
                construction: experiment.construction,
                seed,
                ..GenerateOptions::default()
            };
            workload.generate_split(experiment.split(), &options)?
        }
        Law::Real(_, data, folder) => {
            let options = DatasetOptions {
                horizon,
                split: experiment.split(),
                budgets: None,
                seed,
            };
            data.sets(folder, &options)?
        }
    };
    let report = study
        .compare(&sets, seed)
        .skip_inapplicable(true)
        .observed_by(&Stop(study.asked))
        .run()?;
    let place = Place {
        problem: task.problem.name(),
        data: law.name(),
        construction: match experiment.construction {
            Construction::Consecutive => "consecutive",
            Construction::Interleaved => "interleaved",
        },
        horizon,
        seed,
    };
    // Reasons are the same for every seed, and one episode is enough to look at.
    let is_first = seed == study.seeds[0];
    for policy in &report.policies {
        export(&place, policy, tables)?;
        if is_first && SHOWN.contains(&policy.name.as_str()) {
            let first = sets.test.select(&[0]);
            let rollouts = policy.runs[0].fitted.player.play(task, &first)?;
            export_episode(&place, &policy.name, &first.get(0), &rollouts[0], tables)?;
        }
    }
    for (policy, reason) in report.left_out.iter().filter(|_| is_first) {
        tables.add(&LeftOutRow {
            problem: place.problem.to_owned(),
            data: place.data.to_owned(),
            policy: policy.clone(),
            reason: reason.to_string(),
        })?;
    }
    let key = EpisodeKey {
        data: &format!("{}:{}", place.problem, place.data),
        target: 0.0,
        horizon,
        seed,
    };
    tables.add_episodes(&key, &sets.test, &report);
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
