//! All policies on the same episodes, by data set, horizon and seed.

use laau::core::{Parameter, PolicyReport, Report};
use laau::data::Construction;
use rayon::prelude::*;

use super::Study;
use super::tables::Tables;
use crate::failure::Failure;
use crate::progress::Progress;

/// The horizon whose single episodes are exported, as in the paper's Figure 5.
const DISTRIBUTION_HORIZON: usize = 20;

/// Fits and plays every policy; writes `policies.csv`, `parameters.csv` and `distribution.csv`.
pub(super) fn run(study: &Study<'_>, tables: &mut Tables) -> Result<(), Failure> {
    let Study {
        experiment,
        source,
        seeds,
        ..
    } = *study;
    let mut cells = Vec::new();
    for &construction in &experiment.constructions {
        for &horizon in &experiment.horizons {
            cells.extend(seeds.iter().map(|&seed| Cell {
                construction,
                horizon,
                seed,
            }));
        }
    }
    let progress = Progress::new(cells.len(), false);
    let results: Vec<Report> = cells
        .par_iter()
        .map(|cell| {
            let Cell {
                horizon,
                seed,
                construction,
            } = *cell;
            let sets = source.sets(experiment, horizon, construction, seed)?;
            let report = study.compare(&sets, seed).run()?;
            progress.done(format_args!(
                "{}, N = {horizon}, seed {seed}",
                source.name(construction)
            ));
            Ok(report)
        })
        .collect::<Result<_, Failure>>()?;
    progress.finish();
    for (cell, report) in cells.iter().zip(&results) {
        let data = source.name(cell.construction);
        for policy in &report.policies {
            export(policy, &data, *cell, seeds[0], tables);
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Cell {
    construction: Construction,
    horizon: usize,
    seed: u64,
}

fn export(report: &PolicyReport, data: &str, cell: Cell, first_seed: u64, tables: &mut Tables) {
    let Cell { horizon, seed, .. } = cell;
    let PolicyReport {
        name,
        utility,
        fraction_of_opt,
        remaining_percent,
        violations,
        projections,
        quantiles,
        ..
    } = report;
    let [_, lower_quartile, median, ..] = quantiles;
    let fraction = fraction_of_opt.unwrap_or(f64::NAN);
    let [remaining] = remaining_percent[..] else {
        return;
    };
    tables.add(
            "policies.csv",
            "data,horizon,policy,seed,utility,fraction_of_opt,lower_quartile,median,remaining_percent,violations,projections",
            &[
                &data,
                &horizon,
                name,
                &seed,
                utility,
                &fraction,
                lower_quartile,
                median,
                &remaining,
                violations,
                projections,
            ],
        );
    let mut parameters = report.parameters.clone();
    if let Some(counts) = report.gradients {
        parameters.insert("exact_gradients".to_owned(), Parameter::Count(counts.exact));
        parameters.insert(
            "approximate_gradients".to_owned(),
            Parameter::Count(counts.approximate),
        );
    }
    for (parameter, value) in &parameters {
        tables.add(
            "parameters.csv",
            "data,horizon,policy,seed,parameter,value",
            &[&data, &horizon, name, &seed, parameter, value],
        );
    }
    if horizon == DISTRIBUTION_HORIZON && seed == first_seed {
        for (episode, rollout) in report.runs[0].rollouts.iter().enumerate() {
            tables.add(
                "distribution.csv",
                "data,policy,episode,utility",
                &[&data, name, &episode, &rollout.utility()],
            );
        }
    }
}
