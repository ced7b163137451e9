//! All policies on the same episodes, by data set, horizon and seed.

use laau::core::tables::{EpisodeRow, ParameterRow, PolicyRow};
use laau::core::{Parameter, PolicyReport};
use laau::data::Construction;

use super::Study;
use super::cells::{Cells, Stop};
use super::tables::EpisodeKey;
use crate::failure::Failure;

/// The horizon whose single episodes are exported, as in the paper's Figure 5.
const DISTRIBUTION_HORIZON: usize = 20;

/// Fits and plays every policy; writes `policies.csv`, `parameters.csv`, `distribution.csv` and `episodes.csv`.
pub(super) fn run(study: &Study<'_>, cells_of: &Cells<'_>) -> Result<(), Failure> {
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
    let name = |cell: &Cell| {
        let data = source.name(cell.construction);
        format!("{data}, N = {}, seed {}", cell.horizon, cell.seed)
    };
    cells_of.run(&cells, name, |cell, tables| {
        let Cell {
            horizon,
            seed,
            construction,
        } = *cell;
        let sets = source.sets(experiment, horizon, construction, seed)?;
        let report = study.compare(&sets, seed).observed_by(&Stop(study.asked)).run()?;
        let data = source.name(construction);
        let mut rows = Rows::default();
        for policy in &report.policies {
            rows.add(policy, &data, *cell, seeds[0]);
        }
        rows.policies.iter().try_for_each(|row| tables.add(row))?;
        rows.parameters.iter().try_for_each(|row| tables.add(row))?;
        rows.episodes.iter().try_for_each(|row| tables.add(row))?;
        let key = EpisodeKey {
            data: &data,
            target: 0.0,
            horizon,
            seed,
        };
        tables.add_episodes(&key, &sets.test, &report);
        Ok(())
    })
}

#[derive(Clone, Copy)]
struct Cell {
    construction: Construction,
    horizon: usize,
    seed: u64,
}

/// What is kept of a cell; its rollouts would be too many.
#[derive(Default)]
struct Rows {
    policies: Vec<PolicyRow>,
    parameters: Vec<ParameterRow>,
    episodes: Vec<EpisodeRow>,
}

impl Rows {
    fn add(&mut self, report: &PolicyReport, data: &str, cell: Cell, first_seed: u64) {
        let Cell { horizon, seed, .. } = cell;
        let [_, lower_quartile, median, ..] = report.quantiles;
        let (data, policy) = (data.to_owned(), report.name.clone());
        self.policies.push(PolicyRow {
            data: data.clone(),
            horizon,
            policy: policy.clone(),
            seed,
            utility: report.utility,
            fraction_of_opt: report.fraction_of_opt.unwrap_or(f64::NAN),
            lower_quartile,
            median,
            remaining_percent: report.remaining_percent[0],
            violations: report.violations,
            projections: report.projections,
        });
        let mut parameters = report.parameters.clone();
        if let Some(counts) = report.gradients {
            parameters.insert("exact_gradients".to_owned(), Parameter::Count(counts.exact));
            parameters.insert(
                "approximate_gradients".to_owned(),
                Parameter::Count(counts.approximate),
            );
        }
        for (parameter, value) in parameters {
            self.parameters.push(ParameterRow {
                data: data.clone(),
                horizon,
                policy: policy.clone(),
                seed,
                parameter,
                value: value.to_string(),
            });
        }
        if horizon == DISTRIBUTION_HORIZON && seed == first_seed {
            for (episode, &utility) in report.runs[0].results.utilities.iter().enumerate() {
                self.episodes.push(EpisodeRow {
                    data: data.clone(),
                    policy: policy.clone(),
                    episode,
                    utility,
                });
            }
        }
    }
}
