//! All policies on the synthetic workload of any problem, with any number of budgets.

use laau_baselines::Setting;
use laau_core::{Episode, PolicyReport, Rollout};
use laau_data::Construction;
use laau_data::synthetic::{Generate, SyntheticSplit};
use rayon::prelude::*;

use super::data::Source;
use super::settings::Experiment;
use super::tables::Tables;
use crate::config::ProblemConfig;
use crate::failure::Failure;
use crate::registry::ProblemWorkload;
use crate::{output, registry};

/// The policies whose first test episode is exported step by step.
const SHOWN: &[&str] = &["opt", "equal", "laau"];

/// Fits and plays every policy; writes `problems.csv`, `problem_budgets.csv`, `problem_left_out.csv` and
/// `problem_episodes.csv`.
pub(super) fn run(
    experiment: &Experiment,
    setting: &Setting,
    source: &Source,
    seeds: &[u64],
    tables: &mut Tables,
) -> Result<(), Failure> {
    if matches!(source, Source::Trace(_)) {
        return Err(Failure::new(
            "an experiment of kind `problem` runs on the synthetic workload of its problem",
            "leave --trace out",
        ));
    }
    for policy in &experiment.policies {
        registry::check_policy(policy)?;
    }
    let workload = registry::workload(&problem_of(experiment)?, None, None)?;
    for &horizon in &experiment.horizons {
        let place = Place {
            construction: experiment.construction,
            horizon,
        };
        play(experiment, setting, &workload, place, seeds, tables)?;
    }
    Ok(())
}

/// The problem that the experiment names.
pub(super) fn problem_of(experiment: &Experiment) -> Result<ProblemConfig, Failure> {
    experiment.problem.clone().ok_or_else(|| {
        Failure::new(
            "an experiment of kind `problem` names its problem",
            "write a section [problem] with its name, as in `laau config --default`",
        )
    })
}

#[derive(Clone, Copy)]
struct Place {
    construction: Construction,
    horizon: usize,
}

/// The episodes of one seed, and how the offline optimum does on the last of them.
struct Field {
    seed: u64,
    sets: SyntheticSplit,
    optimum: Vec<Rollout>,
}

/// How a policy did on one field, or why it cannot play there.
enum Outcome {
    Played(Box<PolicyReport>, Vec<Rollout>),
    LeftOut(String),
}

fn play(
    experiment: &Experiment,
    setting: &Setting,
    workload: &ProblemWorkload,
    place: Place,
    seeds: &[u64],
    tables: &mut Tables,
) -> Result<(), Failure> {
    let fields: Vec<Field> = seeds
        .par_iter()
        .map(|&seed| field(experiment, setting, workload, place, seed))
        .collect::<Result<_, Failure>>()?;
    let jobs: Vec<(&Field, &String)> = fields
        .iter()
        .flat_map(|field| experiment.policies.iter().map(move |policy| (field, policy)))
        .collect();
    let outcomes: Vec<Outcome> = jobs
        .par_iter()
        .map(|(field, policy)| {
            let outcome = outcome(experiment, setting, field, policy)?;
            output::talk(format_args!(
                "  {}, N = {}, {policy}, seed {}",
                setting.problem.name(),
                place.horizon,
                field.seed
            ));
            Ok(outcome)
        })
        .collect::<Result<_, Failure>>()?;
    for ((field, policy), outcome) in jobs.into_iter().zip(&outcomes) {
        let problem = setting.problem.name();
        match outcome {
            Outcome::Played(report, rollouts) => {
                export(problem, place, field.seed, report, tables);
                if field.seed == seeds[0] && SHOWN.contains(&policy.as_str()) {
                    export_episode(problem, policy, &field.sets.test.get(0), &rollouts[0], tables);
                }
            }
            // The reason is the same for every seed.
            Outcome::LeftOut(reason) if field.seed == seeds[0] => tables.add(
                "problem_left_out.csv",
                "problem,policy,reason",
                &[&problem, policy, &quoted(reason)],
            ),
            Outcome::LeftOut(_) => {}
        }
    }
    Ok(())
}

fn field(
    experiment: &Experiment,
    setting: &Setting,
    workload: &ProblemWorkload,
    place: Place,
    seed: u64,
) -> Result<Field, Failure> {
    let options = Generate {
        horizon: place.horizon,
        construction: place.construction,
        seed,
        ..Generate::default()
    };
    let sets = workload.generate_split(experiment.split(), &options)?;
    let training = experiment.training(seed);
    let optimum =
        registry::fit("opt", setting, &sets.train, &sets.validation, &training)?.play(setting, &sets.test)?;
    Ok(Field { seed, sets, optimum })
}

fn outcome(
    experiment: &Experiment,
    setting: &Setting,
    field: &Field,
    policy: &str,
) -> Result<Outcome, Failure> {
    let Field { seed, sets, optimum } = field;
    let fitted = registry::fit(
        policy,
        setting,
        &sets.train,
        &sets.validation,
        &experiment.training(*seed),
    );
    let player = match fitted {
        Ok(player) => player,
        Err(Failure::NotApplicable { sentence, .. }) => return Ok(Outcome::LeftOut(sentence)),
        Err(failure) => return Err(failure),
    };
    let rollouts = player.play(setting, &sets.test)?;
    let mut report = PolicyReport::new(policy, &rollouts, &sets.test, Some(optimum));
    report.gradients = player.gradients;
    Ok(Outcome::Played(Box::new(report), rollouts))
}

fn export(problem: &str, place: Place, seed: u64, report: &PolicyReport, tables: &mut Tables) {
    let count = |count: Option<u64>| count.map_or(String::new(), |count| count.to_string());
    let construction = match place.construction {
        Construction::Consecutive => "consecutive",
        Construction::Interleaved => "interleaved",
    };
    tables.add(
        "problems.csv",
        "problem,construction,horizon,policy,seed,utility,fraction_of_opt,violations,failures,projections,\
         exact_gradients,approximate_gradients",
        &[
            &problem,
            &construction,
            &place.horizon,
            &report.name,
            &seed,
            &report.utility,
            &report.fraction_of_opt.unwrap_or(f64::NAN),
            &report.violations,
            &report.failures,
            &report.projections,
            &count(report.gradients.map(|counts| counts.exact)),
            &count(report.gradients.map(|counts| counts.approximate)),
        ],
    );
    for (budget, remaining) in report.remaining_percent.iter().enumerate() {
        tables.add(
            "problem_budgets.csv",
            "problem,construction,horizon,policy,seed,budget,remaining_percent",
            &[
                &problem,
                &construction,
                &place.horizon,
                &report.name,
                &seed,
                &budget,
                remaining,
            ],
        );
    }
}

/// Writes contexts, actions, prices and what remains of the budgets, step by step.
fn export_episode(
    problem: &str,
    policy: &str,
    episode: &Episode<'_>,
    rollout: &Rollout,
    tables: &mut Tables,
) {
    let mut add = |step: usize, quantity: &str, values: &[f64]| {
        for (index, value) in values.iter().enumerate() {
            tables.add(
                "problem_episodes.csv",
                "problem,policy,step,quantity,index,value",
                &[&problem, &policy, &step, &quantity, &index, value],
            );
        }
    };
    let (steps, budgets) = (episode.horizon(), episode.budgets().len());
    let mut remaining = episode.budgets().to_vec();
    for step in 0..steps {
        let of = |values: &[f64]| -> Vec<f64> {
            let width = values.len() / steps;
            values[step * width..][..width].to_vec()
        };
        add(step, "context", episode.context(step));
        add(step, "action", &of(&rollout.actions));
        add(step, "multiplier", &of(&rollout.multipliers));
        let usage = of(&rollout.usages);
        for budget in 0..budgets {
            remaining[budget] -= usage[budget];
        }
        let shares: Vec<f64> = remaining
            .iter()
            .zip(episode.budgets())
            .map(|(left, budget)| 100.0 * left / budget)
            .collect();
        add(step, "remaining_percent", &shares);
    }
}

/// A value that may contain commas.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
