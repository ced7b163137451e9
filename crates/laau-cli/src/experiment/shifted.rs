//! Distribution shift: what it does to policies, and what it looks like.

use laau::core::tables::{GuardRow, PointRow, ShiftRow};
use laau::core::{Episodes, Fitted, Form, PolicyReport, Report, Run, Sets, guarded_name};
use laau::data::shift::{Shift, Shifted, add_noise, shift};
use laau::data::tsne::{EmbeddedSet, TsneOptions, tsne as embed};

use super::played::Played;
use super::settings::Experiment;
use super::tables::{EpisodeKey, Tables};
use super::{Cell, GUARDED, Study};
use crate::failure::Failure;
use laau::registry::PolicyKind;

/// Policies that do not learn from the training distribution: they are tuned on the default data, as in the paper.
pub(super) const NOT_TRAINED: [PolicyKind; 4] = [
    PolicyKind::Opt,
    PolicyKind::Equal,
    PolicyKind::Mw,
    PolicyKind::Dgd,
];

/// Trained on shifted data, tested on the default: writes `ood.csv`, `guard.csv` and `episodes.csv`.
pub(super) fn write(study: &Study, cell: Cell, played: Played, tables: &mut Tables) -> Result<(), Failure> {
    let Study { experiment, .. } = study;
    let Cell { horizon, seed, .. } = cell;
    let (target, data) = (cell.target(), study.source.name(cell.construction));
    let Played {
        sets,
        mut report,
        guards,
        ..
    } = played;
    let shifted = played.shifted.as_ref().map(|(shifted, _)| shifted);
    let rows = report.policies.iter().map(|policy| ShiftRow {
        data: data.clone(),
        target,
        seed,
        policy: policy.name.clone(),
        utility: policy.utility,
        fraction_of_opt: policy.fraction_of_opt.unwrap_or(f64::NAN),
        achieved: shifted.map_or(f64::NAN, |shifted| shifted.distance),
        sliced: shifted.map_or(f64::NAN, |shifted| shifted.sliced),
    });
    let mut rows: Vec<ShiftRow> = rows.collect();
    let (guards, shown) = guard_rows(study, &report, &sets, guards, &data, target)?;
    let headline = guards.iter().filter(|row| row.level == experiment.level);
    let first = rows[0].clone();
    rows.extend(headline.map(|row| ShiftRow {
        policy: headline_name(experiment, &row.policy, &row.incumbent),
        fraction_of_opt: row.fraction_of_opt,
        utility: row.utility,
        ..first.clone()
    }));
    rows.iter().try_for_each(|row| tables.add(row))?;
    guards.iter().try_for_each(|row| tables.add(row))?;
    let key = EpisodeKey {
        data: &data,
        target,
        horizon,
        seed,
    };
    report.policies.extend(shown);
    tables.add_episodes(&key, &sets.test, &report.policies);
    Ok(())
}

/// The training episodes moved by a distance, and the validation episodes by the same noise.
pub(super) fn shift_sets(sets: &Sets, target: f64, seed: u64) -> Result<(Shifted, Episodes), Failure> {
    let noise = Shift {
        seed,
        ..Shift::default()
    };
    let shifted = shift(&sets.train, &sets.train, target, &noise)?;
    let validation = add_noise(&sets.validation, shifted.mean, shifted.deviation, seed ^ 0x5eed)?;
    Ok((shifted, validation))
}

/// The policies that are played behind guards, in the order of their rows.
pub(super) fn guarded(experiment: &Experiment) -> impl Iterator<Item = PolicyKind> + '_ {
    let policies = &experiment.policies;
    GUARDED
        .into_iter()
        .filter(move |policy| policies.contains(policy))
}

/// The incumbents and levels of every guarded policy, in the order of their rows.
fn guards_of(experiment: &Experiment) -> impl Iterator<Item = (PolicyKind, f64)> + '_ {
    let levels = &experiment.guard_levels;
    (experiment.incumbents.iter())
        .flat_map(move |&incumbent| levels.iter().map(move |&level| (incumbent, level)))
}

/// The row of a policy behind an incumbent's guard of the headline level.
fn headline_name(experiment: &Experiment, policy: &str, incumbent: &str) -> String {
    let place = experiment
        .incumbents
        .iter()
        .position(|kind| kind.name() == incumbent);
    guarded_name(policy, incumbent, place.unwrap_or_default())
}

/// A policy of a report behind every guard, as it was fitted.
pub(super) fn play_guards(
    study: &Study,
    report: &Report,
    sets: &Sets,
    policy: PolicyKind,
) -> Result<Vec<Run>, Failure> {
    let play = |(incumbent, level): (PolicyKind, f64)| -> Result<Run, Failure> {
        let (advice, beside) = (report.entry(policy.name())?, report.entry(incumbent.name())?);
        let [ours, theirs] = [advice, beside].map(|entry| &entry.runs[0].fitted);
        let fitted = Fitted::guarded(&study.task, ours, theirs, level, Form::Layer)?;
        Ok(Run {
            seed: report.seeds[0],
            results: fitted.player.play(&study.task, &sets.test)?.iter().collect(),
            rollouts: Vec::new(),
            fitted,
        })
    };
    guards_of(&study.experiment).map(play).collect()
}

/// The rows of policies behind guards, and the reports of the headline level.
fn guard_rows(
    study: &Study,
    report: &Report,
    sets: &Sets,
    guards: Vec<Run>,
    data: &str,
    target: f64,
) -> Result<(Vec<GuardRow>, Vec<PolicyReport>), Failure> {
    let experiment = &study.experiment;
    let (mut rows, mut shown) = (Vec::new(), Vec::new());
    let places = guarded(experiment)
        .flat_map(|policy| guards_of(experiment).map(move |(incumbent, level)| (policy, incumbent, level)));
    for ((policy, incumbent, level), run) in places.zip(guards) {
        let (advice, beside) = (report.entry(policy.name())?, report.entry(incumbent.name())?);
        let optimum = report.entry(PolicyKind::Opt.name())?;
        let optimum = Some(&optimum.runs[0].results);
        let seed = run.seed;
        let played = PolicyReport::new(policy.name(), vec![run], &[seed], &sets.test, optimum);
        let fraction = |entry: &PolicyReport| entry.fraction_of_opt.unwrap_or(f64::NAN);
        let guard = played.guard.as_ref();
        rows.push(GuardRow {
            data: data.to_owned(),
            target,
            seed,
            policy: policy.name().to_owned(),
            incumbent: incumbent.name().to_owned(),
            level,
            utility: played.utility,
            fraction_of_opt: fraction(&played),
            advice_alone: fraction(advice),
            incumbent_alone: fraction(beside),
            episodes: sets.test.len(),
            least_share: guard.and_then(|guard| guard.share),
            least_margin: guard.map_or(f64::NAN, |guard| guard.margin),
            allowance: guard.map_or(f64::NAN, |guard| guard.allowance),
            acted: guard.map_or(f64::NAN, |guard| guard.acted),
        });
        if level == experiment.level {
            shown.push(PolicyReport {
                name: headline_name(experiment, policy.name(), incumbent.name()),
                ..played
            });
        }
    }
    Ok((rows, shown))
}

/// Embeds training and testing episodes by t-SNE at every shift; writes `tsne.csv`.
pub(super) fn tsne(study: &Study, cell: Cell, tables: &mut Tables) -> Result<(), Failure> {
    let (seed, target) = (cell.seed, cell.target());
    let sets = study.sets(cell)?;
    let data = study.source.name(cell.construction);
    let shifted = shift(
        &sets.train,
        &sets.train,
        target,
        &Shift {
            seed,
            ..Shift::default()
        },
    )?;
    let options = TsneOptions {
        seed,
        ..TsneOptions::default()
    };
    for point in embed(&shifted.episodes, &sets.test, &options)? {
        let set = match point.set {
            EmbeddedSet::Training => "train",
            EmbeddedSet::Testing => "test",
        };
        tables.add(&PointRow {
            data: data.clone(),
            target,
            set: set.to_owned(),
            x: point.x,
            y: point.y,
        })?;
    }
    Ok(())
}
