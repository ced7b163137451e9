//! Distribution shift: what it does to policies, and what it looks like.

use laau::baselines::OptOptions;
use laau::core::tables::{GuardRow, PointRow, ShiftRow};
use laau::core::{Comparison, Episodes, FitSets, Fitted, Form, PolicyReport, Report, Run, Sets};
use laau::data::shift::{Shift, Shifted, add_noise, shift};
use laau::data::tsne::{EmbeddedSet, TsneOptions, tsne as embed};

use super::settings::Experiment;
use super::tables::{EpisodeKey, Tables};
use super::{Cell, GUARDED, HEADLINE_LEVEL, Study};
use crate::failure::Failure;
use laau::registry::PolicyKind;

/// Policies that do not learn from the training distribution: they are tuned on the default data, as in the paper.
const NOT_TRAINED: [PolicyKind; 4] = [
    PolicyKind::Opt,
    PolicyKind::Equal,
    PolicyKind::Mw,
    PolicyKind::Dgd,
];

/// Trains on shifted data, tests on the default; writes `ood.csv` and `guard.csv`.
pub(super) fn ood(study: &Study, cell: Cell, tables: &mut Tables) -> Result<(), Failure> {
    let Study {
        experiment,
        task,
        source,
        ..
    } = study;
    let Cell {
        construction,
        horizon,
        seed,
        ..
    } = cell;
    let target = cell.target();
    let sets = study.sets(cell)?;
    let (shifted, validation) = shift_sets(&sets, target, seed)?;
    let training = experiment.training(seed);
    let shifted_sets = FitSets {
        train: &shifted.episodes,
        validation: &validation,
    };
    let mut comparison = Comparison::new(task, &sets)
        .seeds([seed])
        .relative_to(OptOptions::default());
    for policy in &experiment.policies {
        let (name, fit) = (policy.name(), policy.fit(&training));
        comparison = if NOT_TRAINED.contains(policy) {
            comparison.with(name, fit)
        } else {
            comparison.with_fitted_on(name, fit, shifted_sets)
        };
    }
    let mut report = comparison.observed_by(&study.stop()).run()?;
    let rows = report.policies.iter().map(|policy| ShiftRow {
        data: source.name(construction),
        target,
        seed,
        policy: policy.name.clone(),
        utility: policy.utility,
        fraction_of_opt: policy.fraction_of_opt.unwrap_or(f64::NAN),
        achieved: shifted.distance,
        sliced: shifted.sliced,
    });
    let mut rows: Vec<ShiftRow> = rows.collect();
    let (guards, shown) = guards(study, &report, &sets, &source.name(construction), target)?;
    let headline = guards
        .iter()
        .filter(|row| row.level == HEADLINE_LEVEL && row.incumbent == experiment.incumbents[0].name());
    let first = rows[0].clone();
    rows.extend(headline.map(|row| ShiftRow {
        policy: format!("{}-guarded", row.policy),
        fraction_of_opt: row.fraction_of_opt,
        utility: row.utility,
        ..first.clone()
    }));
    rows.iter().try_for_each(|row| tables.add(row))?;
    guards.iter().try_for_each(|row| tables.add(row))?;
    let key = EpisodeKey {
        data: &source.name(construction),
        target,
        horizon,
        seed,
    };
    report.policies.extend(shown);
    tables.add_episodes(&key, &sets.test, &report);
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

/// The trained policies of a report behind every guard, as they were fitted; and the reports of the headline level.
fn guards(
    study: &Study,
    report: &Report,
    sets: &Sets,
    data: &str,
    target: f64,
) -> Result<(Vec<GuardRow>, Vec<PolicyReport>), Failure> {
    let Experiment {
        policies,
        incumbents,
        guard_levels,
        ..
    } = &study.experiment;
    let (mut rows, mut shown) = (Vec::new(), Vec::new());
    for policy in GUARDED.iter().filter(|policy| policies.contains(policy)) {
        for incumbent in incumbents {
            for &level in guard_levels {
                let (advice, beside) = (report.entry(policy.name())?, report.entry(incumbent.name())?);
                let [ours, theirs] = [advice, beside].map(|entry| &entry.runs[0].fitted);
                let fitted = Fitted::guarded(&study.task, ours, theirs, level, Form::Layer)?;
                let seed = report.seeds[0];
                let run = Run {
                    seed,
                    results: fitted.player.play(&study.task, &sets.test)?.iter().collect(),
                    rollouts: Vec::new(),
                    fitted,
                };
                let optimum = report.entry(PolicyKind::Opt.name())?;
                let optimum = Some(&optimum.runs[0].results);
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
                if level == HEADLINE_LEVEL && *incumbent == incumbents[0] {
                    shown.push(PolicyReport {
                        name: format!("{}-guarded", policy.name()),
                        ..played
                    });
                }
            }
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
