//! All policies on the synthetic workload of any problem, with any number of budgets.

use std::time::Duration;

use laau::core::tables::{BudgetRow, LeftOutRow, ProblemRow, StepRow};
use laau::core::{ComparisonObserver, Episode, PolicyReport, Rollout, Run};
use laau::data::Construction;
use laau::data::synthetic::GenerateOptions;

use super::data::Source;
use super::settings::Experiment;
use super::tables::Tables;
use super::{Cell, Study};
use crate::failure::Failure;
use crate::output;
use laau::registry::ProblemSpec;

/// The policies whose first test episode is exported step by step.
const SHOWN: &[&str] = &["opt", "equal", "laau"];

/// Fits and plays every policy; writes `problems.csv`, `problem_budgets.csv`, `problem_left_out.csv` and
/// `problem_episodes.csv`.
pub(super) fn run(study: &Study, cell: Cell, tables: &mut Tables) -> Result<(), Failure> {
    let Study {
        experiment,
        task,
        seeds,
        ..
    } = study;
    let options = GenerateOptions {
        horizon: cell.horizon,
        construction: cell.construction,
        seed: cell.seed,
        ..GenerateOptions::default()
    };
    let workload = problem_of(experiment)?.workload(None, None)?;
    let sets = workload.generate_split(experiment.split(), &options)?;
    let problem = task.problem.name();
    let report = study
        .compare(&sets, cell.seed)
        .skip_inapplicable(true)
        .observed_by(&Watch {
            problem,
            horizon: cell.horizon,
        })
        .run()?;
    let is_first = cell.seed == seeds[0];
    for policy in &report.policies {
        export(problem, cell, policy, tables)?;
        if is_first && SHOWN.contains(&policy.name.as_str()) {
            let first = sets.test.select(&[0]);
            let rollouts = policy.runs[0].fitted.player.play(task, &first)?;
            export_episode(problem, &policy.name, &first.get(0), &rollouts[0], tables)?;
        }
    }
    // The reasons are the same for every seed.
    for (policy, reason) in report.left_out.iter().filter(|_| is_first) {
        tables.add(&LeftOutRow {
            problem: problem.to_owned(),
            policy: policy.clone(),
            reason: reason.to_string(),
        })?;
    }
    Ok(())
}

/// Refuses a trace: it is one of the paper's problem.
pub(super) fn check(source: &Source) -> Result<(), Failure> {
    match source {
        Source::Synthetic => Ok(()),
        Source::Trace(_) => Err(Failure::new(
            "an experiment of kind `problem` runs on the synthetic workload of its problem",
            "leave --trace out",
        )),
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

/// A line per policy that is done.
struct Watch<'a> {
    problem: &'a str,
    horizon: usize,
}

impl ComparisonObserver for Watch<'_> {
    fn done(&self, policy: &str, run: &Run, _: Duration) {
        output::talk(format_args!(
            "  {}, N = {}, {policy}, seed {}",
            self.problem, self.horizon, run.seed
        ));
    }
}

fn export(problem: &str, cell: Cell, report: &PolicyReport, tables: &mut Tables) -> Result<(), Failure> {
    let construction = match cell.construction {
        Construction::Consecutive => "consecutive",
        Construction::Interleaved => "interleaved",
    };
    tables.add(&ProblemRow {
        problem: problem.to_owned(),
        construction: construction.to_owned(),
        horizon: cell.horizon,
        policy: report.name.clone(),
        seed: cell.seed,
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
            construction: construction.to_owned(),
            horizon: cell.horizon,
            policy: report.name.clone(),
            seed: cell.seed,
            budget,
            remaining_percent,
        })?;
    }
    Ok(())
}

/// Writes contexts, actions, prices and what remains of the budgets, step by step.
fn export_episode(
    problem: &str,
    policy: &str,
    episode: &Episode<'_>,
    rollout: &Rollout,
    tables: &mut Tables,
) -> Result<(), Failure> {
    let mut add = |step: usize, quantity: &str, values: &[f64]| {
        values.iter().enumerate().try_for_each(|(index, &value)| {
            tables.add(&StepRow {
                problem: problem.to_owned(),
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
