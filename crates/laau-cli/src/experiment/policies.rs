//! All policies on the same episodes, by data set, horizon and seed.

use laau_baselines::Setting;
use laau_core::{PolicyReport, Rollout};
use laau_data::Construction;
use rayon::prelude::*;

use super::data::Source;
use super::settings::Experiment;
use super::tables::Tables;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::registry;

/// The horizon whose single episodes are exported, as in the paper's Figure 5.
const DISTRIBUTION_HORIZON: usize = 20;

/// Fits and plays every policy; writes `policies.csv`, `parameters.csv` and `distribution.csv`.
pub(super) fn run(
    experiment: &Experiment,
    setting: &Setting,
    source: &Source,
    seeds: &[u64],
    tables: &mut Tables,
) -> Result<(), Failure> {
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
    let results: Vec<Vec<Played>> = cells
        .par_iter()
        .map(|cell| {
            let played = play(experiment, setting, source, *cell);
            let Cell {
                horizon,
                seed,
                construction,
            } = *cell;
            progress.done(format_args!(
                "{}, N = {horizon}, seed {seed}",
                source.name(construction)
            ));
            played
        })
        .collect::<Result<_, _>>()?;
    progress.finish();
    for (cell, played) in cells.iter().zip(&results) {
        let data = source.name(cell.construction);
        for policy in played {
            policy.export(&data, *cell, seeds[0], tables);
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

/// A policy's report and the utility of each of its episodes.
struct Played {
    report: PolicyReport,
    utilities: Vec<f64>,
}

fn play(
    experiment: &Experiment,
    setting: &Setting,
    source: &Source,
    cell: Cell,
) -> Result<Vec<Played>, Failure> {
    let Cell {
        construction,
        horizon,
        seed,
    } = cell;
    let sets = source.sets(experiment, horizon, construction, seed)?;
    let training = experiment.training(seed);
    let optimum =
        registry::fit("opt", setting, &sets.train, &sets.validation, &training)?.play(setting, &sets.test)?;
    let mut played = Vec::new();
    for name in &experiment.policies {
        let player = registry::fit(name, setting, &sets.train, &sets.validation, &training)?;
        let rollouts = player.play(setting, &sets.test)?;
        let mut report = PolicyReport::new(name.as_str(), &rollouts, &sets.test, Some(&optimum));
        report.parameters = player.parameters;
        report.gradients = player.gradients;
        played.push(Played {
            report,
            utilities: rollouts.iter().map(Rollout::utility).collect(),
        });
    }
    Ok(played)
}

impl Played {
    fn export(&self, data: &str, cell: Cell, first_seed: u64, tables: &mut Tables) {
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
        } = &self.report;
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
        let mut parameters: Vec<(String, f64)> = self.report.parameters.clone().into_iter().collect();
        if let Some(counts) = self.report.gradients {
            parameters.push(("exact_gradients".to_owned(), counts.exact as f64));
            parameters.push(("approximate_gradients".to_owned(), counts.approximate as f64));
        }
        for (parameter, value) in &parameters {
            tables.add(
                "parameters.csv",
                "data,horizon,policy,seed,parameter,value",
                &[&data, &horizon, name, &seed, parameter, value],
            );
        }
        if horizon == DISTRIBUTION_HORIZON && seed == first_seed {
            for (episode, utility) in self.utilities.iter().enumerate() {
                tables.add(
                    "distribution.csv",
                    "data,policy,episode,utility",
                    &[&data, name, &episode, utility],
                );
            }
        }
    }
}
