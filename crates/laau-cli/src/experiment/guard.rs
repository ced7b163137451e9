//! A guard put before a trained policy against one that the policy was trained behind.

use laau::baselines::{DualDescentOptions, OptOptions};
use laau::core::tables::GuardTrainingRow;
use laau::core::{Comparison, Episodes, Fit as _, FitSets, Guard, Incumbent, PolicyReport, Task};
use laau::net::Laau;
use laau::registry::PolicyKind;

use super::shifted::shift_sets;
use super::tables::Tables;
use super::{Cell, Study};
use crate::failure::Failure;

/// Trains every model without a guard and behind one, on default and on shifted data; writes `guard_training.csv`.
pub(super) fn run(study: &Study, cell: Cell, tables: &mut Tables) -> Result<(), Failure> {
    let rows = rows(study, cell)?;
    rows.iter().try_for_each(|row| tables.add(row))
}

/// One cell: the incumbent, and every model without a guard, with one after training and with one during it.
fn rows(study: &Study, cell: Cell) -> Result<Vec<GuardTrainingRow>, Failure> {
    let Study { experiment, task, .. } = study;
    let (seed, target) = (cell.seed, cell.target());
    let sets = study.sets(cell)?;
    let (shifted, validation) = shift_sets(&sets, target, seed)?;
    let to_fit = FitSets {
        train: &shifted.episodes,
        validation: &validation,
    };
    // Tuned on the default data, as a policy in production is.
    let mw = DualDescentOptions::mw().fit(task, sets.to_fit(), 0, &mut ())?;
    let incumbent = Incumbent::ready(mw.player.online()?);
    let mut comparison = Comparison::new(task, &sets)
        .seeds([seed])
        .relative_to(OptOptions::default())
        .with("mw", DualDescentOptions::mw());
    let mut kinds = vec![("mw", "none")];
    for policy in &experiment.policies {
        let laau = model(*policy)?.trained_by(experiment.training(seed));
        let name = policy.name();
        let after = Guard::new(laau.clone(), incumbent.clone(), experiment.level)?;
        let during = laau.clone().guarded_by(incumbent.clone(), experiment.level);
        comparison = comparison
            .with_fitted_on(name, laau, to_fit)
            .with_fitted_on(format!("{name}, guarded after"), after, to_fit)
            .with_fitted_on(format!("{name}, guarded during"), during, to_fit);
        kinds.extend([(name, "none"), (name, "after"), (name, "during")]);
    }
    let report = comparison.observed_by(&study.stop()).run()?;
    let of_incumbent = gains(task, &report.policies[0], &sets.test);
    let row = |(policy, (name, guard)): (&PolicyReport, (&str, &str))| {
        let shares = gains(task, policy, &sets.test)
            .into_iter()
            .zip(&of_incumbent)
            .map(|(gain, incumbent)| gain / incumbent);
        GuardTrainingRow {
            data: study.source.name(cell.construction),
            target,
            policy: name.to_owned(),
            guard: guard.to_owned(),
            level: policy.guard.as_ref().map(|guard| guard.level),
            seed,
            utility: policy.utility,
            fraction_of_opt: policy.fraction_of_opt.unwrap_or(f64::NAN),
            least_share: shares.fold(f64::INFINITY, f64::min),
            acted: policy.guard.as_ref().map(|guard| guard.acted),
        }
    };
    Ok(report.policies.iter().zip(kinds).map(row).collect())
}

fn model(policy: PolicyKind) -> Result<Laau, Failure> {
    match policy {
        PolicyKind::Laau => Ok(Laau::paper()),
        PolicyKind::LaauHistory => Ok(Laau::history()),
        PolicyKind::LaauResidual => Ok(Laau::residual()),
        other => Err(Failure::new(
            format_args!("`{other}` is not trained behind a guard"),
            "take laau, laau-history or laau-residual",
        )),
    }
}

/// What a policy gains over the lower corner, episode by episode.
fn gains(task: &Task, report: &PolicyReport, test: &Episodes) -> Vec<f64> {
    let problem = &*task.problem;
    let utilities = report.runs[0].results.utilities.iter();
    (utilities.zip(test.iter()))
        .map(|(utility, episode)| {
            let steps = 0..episode.horizon();
            let corner: f64 = steps
                .map(|step| problem.cost(problem.lower(), episode.context(step)))
                .sum();
            corner + utility * episode.horizon() as f64
        })
        .collect()
}
