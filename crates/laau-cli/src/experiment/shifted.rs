//! Distribution shift: what it does to policies, and what it looks like.

use laau_baselines::OptOptions;
use laau_core::{Comparison, FitSets, Task};
use laau_data::Construction;
use laau_data::shift::{Shift, add_noise, shift};
use laau_data::tsne::{EmbeddedSet, TsneOptions, tsne as embed};
use rayon::prelude::*;

use super::data::Source;
use super::settings::Experiment;
use super::tables::Tables;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::registry;

/// Policies that do not learn from the training distribution: they are tuned on the default data, as in the paper.
const NOT_TRAINED: &[&str] = &["opt", "equal", "mw", "dgd"];

struct Row {
    policy: String,
    utility: f64,
    fraction: f64,
    achieved: f64,
    sliced: f64,
}

/// Trains on shifted data, tests on the default; writes `ood.csv`.
pub(super) fn ood(
    experiment: &Experiment,
    task: &Task,
    source: &Source,
    seeds: &[u64],
    tables: &mut Tables,
) -> Result<(), Failure> {
    let horizon = experiment.horizons.first().copied().unwrap_or(20);
    let mut cells: Vec<(Construction, f64, u64)> = Vec::new();
    for &construction in &experiment.constructions {
        for &target in &experiment.targets {
            cells.extend(seeds.iter().map(|&seed| (construction, target, seed)));
        }
    }
    let progress = Progress::new(cells.len(), false);
    let results: Vec<Vec<Row>> = cells
        .par_iter()
        .map(|&(construction, target, seed)| {
            let sets = source.sets(experiment, horizon, construction, seed)?;
            let noise = Shift {
                seed,
                ..Shift::default()
            };
            let shifted = shift(&sets.train, &sets.train, target, &noise)?;
            let validation = add_noise(&sets.validation, shifted.mean, shifted.deviation, seed ^ 0x5eed)?;
            let training = experiment.training(seed);
            let shifted_sets = FitSets {
                train: &shifted.episodes,
                validation: &validation,
            };
            let mut comparison = Comparison::new(task, &sets)
                .seeds([seed])
                .relative_to(OptOptions::default());
            for policy in &experiment.policies {
                let fit = registry::fitter(policy, &training)?;
                comparison = if NOT_TRAINED.contains(&policy.as_str()) {
                    comparison.with(policy, fit)
                } else {
                    comparison.with_fitted_on(policy, fit, shifted_sets)
                };
            }
            let report = comparison.run()?;
            let rows = report.policies.iter().map(|policy| Row {
                policy: policy.name.clone(),
                utility: policy.utility,
                fraction: policy.fraction_of_opt.unwrap_or(f64::NAN),
                achieved: shifted.distance,
                sliced: shifted.sliced,
            });
            let rows = rows.collect();
            progress.done(format_args!(
                "{}, d_W = {target}, seed {seed}",
                source.name(construction)
            ));
            Ok(rows)
        })
        .collect::<Result<_, Failure>>()?;
    progress.finish();
    for ((construction, target, seed), rows) in cells.iter().zip(&results) {
        let data = source.name(*construction);
        for row in rows {
            tables.add(
                "ood.csv",
                "data,target,achieved,sliced,policy,seed,utility,fraction_of_opt",
                &[
                    &data,
                    target,
                    &row.achieved,
                    &row.sliced,
                    &row.policy,
                    seed,
                    &row.utility,
                    &row.fraction,
                ],
            );
        }
    }
    Ok(())
}

/// Embeds training and testing episodes by t-SNE at every shift; writes `tsne.csv`.
pub(super) fn tsne(
    experiment: &Experiment,
    _: &Task,
    source: &Source,
    seeds: &[u64],
    tables: &mut Tables,
) -> Result<(), Failure> {
    let horizon = experiment.horizons.first().copied().unwrap_or(20);
    let seed = seeds[0];
    let progress = Progress::new(experiment.constructions.len() * experiment.targets.len(), false);
    for &construction in &experiment.constructions {
        let sets = source.sets(experiment, horizon, construction, seed)?;
        let data = source.name(construction);
        for &target in &experiment.targets {
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
                tables.add(
                    "tsne.csv",
                    "data,target,set,x,y",
                    &[&data, &target, &set, &point.x, &point.y],
                );
            }
            progress.done(format_args!("{data}, d_W = {target}"));
        }
    }
    progress.finish();
    Ok(())
}
