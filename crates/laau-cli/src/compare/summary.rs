//! What is reported of each policy, and its JSON.

use std::collections::BTreeMap;

use laau_core::{GradientCounts, PolicyReport, Rollout};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::{Contest, Entry};

/// The figures of all policies; its JSON is `summary.json`.
#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) problem: String,
    pub(super) horizon: usize,
    /// In the order in which they were run.
    #[serde(serialize_with = "by_name")]
    pub(super) policies: Vec<PolicySummary>,
}

fn by_name<S: Serializer>(policies: &[PolicySummary], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(policies.len()))?;
    for policy in policies {
        map.serialize_entry(&policy.name, policy)?;
    }
    map.end()
}

/// The figures of one policy over all episodes and seeds.
#[derive(Serialize)]
pub(super) struct PolicySummary {
    #[serde(skip)]
    pub(super) name: String,
    pub(super) utility: f64,
    pub(super) fraction_of_opt: Option<f64>,
    #[serde(serialize_with = "one_or_several")]
    pub(super) remaining_percent: Vec<f64>,
    pub(super) quantiles: [f64; 5],
    pub(super) violations: usize,
    pub(super) failures: usize,
    pub(super) projections: usize,
    pub(super) unconverged: usize,
    pub(super) gradients: Option<GradientCounts>,
    pub(super) microseconds_per_decision: f64,
    /// Those of the first seed.
    parameters: BTreeMap<String, f64>,
    /// One entry per seed; the same figures in each for a policy that draws nothing.
    seeds: Vec<SeedSummary>,
}

/// The figures of one policy and seed.
#[derive(Serialize)]
struct SeedSummary {
    seed: u64,
    utility: f64,
    fraction_of_opt: Option<f64>,
    #[serde(serialize_with = "one_or_several")]
    remaining_percent: Vec<f64>,
    violations: usize,
    parameters: BTreeMap<String, f64>,
}

/// A number for one budget, a list for several.
fn one_or_several<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    match values {
        [one] => one.serialize(serializer),
        several => several.serialize(serializer),
    }
}

impl PolicySummary {
    pub(super) fn new(
        entry: &Entry,
        contest: &Contest,
        optimum: Option<&[Rollout]>,
        microseconds: f64,
    ) -> Self {
        let report = |rollouts: &[Rollout]| {
            // The same episodes again for every seed.
            let all: Vec<usize> = (0..rollouts.len())
                .map(|index| index % contest.test.len())
                .collect();
            PolicyReport::new(entry.name.as_str(), rollouts, &contest.test.select(&all), optimum)
        };
        let pooled: Vec<Rollout> = entry
            .runs
            .iter()
            .flat_map(|run| run.rollouts.iter().cloned())
            .collect();
        let whole = report(&pooled);
        let mut gradients: Option<GradientCounts> = None;
        for counts in entry.runs.iter().filter_map(|run| run.player.gradients) {
            let sum = gradients.get_or_insert_default();
            sum.exact += counts.exact;
            sum.approximate += counts.approximate;
        }
        let seeds = contest
            .seeds
            .iter()
            .enumerate()
            .map(|(position, &seed)| {
                let run = entry.run(position);
                let report = report(&run.rollouts);
                SeedSummary {
                    seed,
                    utility: report.utility,
                    fraction_of_opt: finite(report.fraction_of_opt),
                    remaining_percent: report.remaining_percent,
                    violations: report.violations,
                    parameters: run.player.parameters.clone(),
                }
            })
            .collect();
        Self {
            name: whole.name,
            utility: whole.utility,
            fraction_of_opt: finite(whole.fraction_of_opt),
            remaining_percent: whole.remaining_percent,
            quantiles: whole.quantiles,
            violations: whole.violations,
            failures: whole.failures,
            projections: whole.projections,
            unconverged: whole.unconverged,
            gradients,
            microseconds_per_decision: microseconds,
            parameters: entry.runs[0].player.parameters.clone(),
            seeds,
        }
    }
}

/// A fraction of an optimum that is zero says nothing.
fn finite(fraction: Option<f64>) -> Option<f64> {
    fraction.filter(|fraction| fraction.is_finite())
}

/// The mean utility per step of rollouts.
pub(super) fn mean_utility(rollouts: &[Rollout]) -> f64 {
    rollouts.iter().map(Rollout::utility).sum::<f64>() / rollouts.len().max(1) as f64
}
