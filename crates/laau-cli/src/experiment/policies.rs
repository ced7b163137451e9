//! All policies on the same episodes, by data set, horizon and seed.

use laau::core::tables::{EpisodeRow, ParameterRow, PolicyRow};
use laau::core::{Parameter, PolicyReport};

use super::played::Played;
use super::tables::{EpisodeKey, Tables};
use super::{Cell, Study};
use crate::failure::Failure;

/// The horizon whose single episodes are exported, as in the paper's Figure 5.
const DISTRIBUTION_HORIZON: usize = 20;

/// Writes `policies.csv`, `parameters.csv`, `distribution.csv` and `episodes.csv`.
pub(super) fn write(study: &Study, cell: Cell, played: &Played, tables: &mut Tables) -> Result<(), Failure> {
    let Cell { horizon, seed, .. } = cell;
    let data = study.source.name(cell.construction);
    let is_first = seed == study.seeds[0];
    for policy in &played.report.policies {
        add(tables, policy, &data, cell, is_first)?;
    }
    let key = EpisodeKey {
        data: &data,
        target: 0.0,
        horizon,
        seed,
    };
    tables.add_episodes(&key, &played.sets.test, &played.report.policies);
    Ok(())
}

fn add(
    tables: &mut Tables,
    report: &PolicyReport,
    data: &str,
    cell: Cell,
    is_first: bool,
) -> Result<(), Failure> {
    let Cell { horizon, seed, .. } = cell;
    let [_, lower_quartile, median, ..] = report.quantiles;
    let (data, policy) = (data.to_owned(), report.name.clone());
    tables.add(&PolicyRow {
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
    })?;
    let mut parameters = report.parameters.clone();
    if let Some(counts) = report.gradients {
        parameters.insert("exact_gradients".to_owned(), Parameter::Count(counts.exact));
        parameters.insert(
            "approximate_gradients".to_owned(),
            Parameter::Count(counts.approximate),
        );
    }
    for (parameter, value) in parameters {
        tables.add(&ParameterRow {
            data: data.clone(),
            horizon,
            policy: policy.clone(),
            seed,
            parameter,
            value: value.to_string(),
        })?;
    }
    if horizon == DISTRIBUTION_HORIZON && is_first {
        for (episode, &utility) in report.runs[0].results.utilities.iter().enumerate() {
            tables.add(&EpisodeRow {
                data: data.clone(),
                policy: policy.clone(),
                episode,
                utility,
            })?;
        }
    }
    Ok(())
}
