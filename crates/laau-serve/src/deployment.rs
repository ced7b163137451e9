//! What an account decides with: problem, policy and guard, from its settings and the bytes of its files.

use std::collections::BTreeMap;
use std::sync::Arc;

use laau::baselines::Stored;
use laau::core::{Guarded, GuardedDocument, Policy, Task, TrainedOn};
use laau::registry::{self, PolicyKind, ProblemSpec, deployed_from_bytes};

use crate::account::{AccountSpec, PolicySource};
use crate::error::Error;

/// How far outside its training range a context is answered with a warning, in widths of the range; as `laau decide`.
const RANGE_FACTOR: f64 = 1.0;

/// The bytes of policy files, by the names that the settings give them.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// A policy, as far as it is known before a period begins.
enum Source {
    /// From a file: the same for every period.
    Ready {
        policy: Arc<dyn Policy>,
        /// Whether each of its decisions looks at all steps so far.
        pursues: bool,
    },
    /// By name: its parameters may follow from the budgets of a period.
    Named(PolicyKind, Vec<(String, Vec<f64>)>),
}

/// What an account decides with, in any of its periods.
pub(crate) struct Deployment {
    pub(crate) task: Task,
    policy: Source,
    guard: Option<(Source, f64)>,
    trained_on: Option<TrainedOn>,
}

impl Deployment {
    /// Reads the files that settings name, and completes the settings by what they know: problem and horizon.
    pub(crate) fn new(spec: &mut AccountSpec, files: &Files) -> Result<Self, Error> {
        let mut trained_on = None;
        let (policy, task) = match &spec.policy {
            PolicySource::File { file } => {
                let deployed = deployed_from_bytes(bytes(files, file)?, spec.problem.as_ref())?;
                let horizon = *spec.horizon.get_or_insert(deployed.horizon);
                check_horizon(file, deployed.horizons.as_ref(), horizon)?;
                spec.problem = Some(deployed.problem);
                trained_on = deployed.trained_on;
                let pursues = pursues(deployed.document.kind, &deployed.document.bytes);
                let policy = deployed.policy;
                (Source::Ready { policy, pursues }, deployed.task)
            }
            named @ PolicySource::Named { .. } => {
                let task = spec.problem.get_or_insert_default().task()?;
                (Source::named(named)?, task)
            }
        };
        let horizon = spec.horizon.ok_or_else(|| Error::Invalid {
            reason: "expected a horizon: a policy that is named has none of its own".to_owned(),
        })?;
        let guard = match &spec.guard {
            None => None,
            Some(guard) => {
                let incumbent = match &guard.policy {
                    PolicySource::File { file } => {
                        let problem: Option<&ProblemSpec> = spec.problem.as_ref();
                        let deployed = deployed_from_bytes(bytes(files, file)?, problem)?;
                        check_horizon(file, deployed.horizons.as_ref(), horizon)?;
                        check_scaling(trained_on.as_ref(), deployed.trained_on.as_ref())?;
                        Source::Ready {
                            pursues: pursues(deployed.document.kind, &deployed.document.bytes),
                            policy: deployed.policy,
                        }
                    }
                    named @ PolicySource::Named { .. } => Source::named(named)?,
                };
                Some((incumbent, guard.level))
            }
        };
        Ok(Self {
            task,
            policy,
            guard,
            trained_on,
        })
    }

    /// The steps that a decision looks at: this one, or all that have passed for a policy that finds their optimum anew each time.
    pub(crate) fn steps_seen(&self, problem: &ProblemSpec, horizon: usize) -> usize {
        let sources = std::iter::once(&self.policy).chain(self.guard.as_ref().map(|(source, _)| source));
        let pursues = |source: &Source| match source {
            Source::Ready { pursues, .. } => *pursues,
            Source::Named(kind, _) => *kind == PolicyKind::CrPursuit,
        };
        // Weighted fairness has an optimum that is kept up to date step by step.
        let is_kept = matches!(problem, ProblemSpec::WeightedFairness(_));
        if !is_kept && sources.into_iter().any(pursues) {
            horizon
        } else {
            1
        }
    }

    /// The policy of a period, behind its guard if there is one.
    pub(crate) fn policy(&self, horizon: usize, budgets: &[f64]) -> Result<Arc<dyn Policy>, Error> {
        let ready = |source: &Source| match source {
            Source::Ready { policy, .. } => Ok(Arc::clone(policy)),
            Source::Named(kind, parameters) => {
                registry::untuned(*kind, parameters, &self.task, horizon, budgets)
                    .map(|untuned| Arc::from(untuned.policy))
            }
        };
        let policy = ready(&self.policy)?;
        let Some((incumbent, level)) = &self.guard else {
            return Ok(policy);
        };
        let problem = Arc::clone(&self.task.problem) as Arc<_>;
        let name = policy.name().to_owned();
        let guarded = Guarded::new(name, policy, ready(incumbent)?, problem, *level)?;
        Ok(Arc::new(guarded.in_layer(&self.task)))
    }

    #[cfg(test)]
    pub(crate) fn replace_policy(&mut self, policy: Arc<dyn Policy>) {
        let pursues = false;
        self.policy = Source::Ready { policy, pursues };
    }

    /// What is odd about a context, in words.
    pub(crate) fn warning(&self, context: &[f64]) -> Option<String> {
        self.trained_on.as_ref()?.outside(context, RANGE_FACTOR)
    }
}

impl Source {
    fn named(source: &PolicySource) -> Result<Self, Error> {
        match source {
            PolicySource::Named { name, parameters } => {
                let parameters = parameters
                    .iter()
                    .map(|(name, values)| (name.clone(), values.clone()));
                Ok(Self::Named(name.parse()?, parameters.collect()))
            }
            PolicySource::File { file } => Err(unknown_file(file)),
        }
    }
}

/// Whether a stored policy, or one of the two behind a guard, finds the optimum of all steps so far in each decision.
fn pursues(kind: &str, bytes: &[u8]) -> bool {
    match kind {
        Stored::KIND => matches!(serde_json::from_slice(bytes), Ok(Stored::CrPursuit { .. })),
        GuardedDocument::KIND => GuardedDocument::from_bytes(bytes).is_ok_and(|guarded| {
            [guarded.advice, guarded.incumbent]
                .iter()
                .any(|(kind, bytes)| pursues(kind, bytes))
        }),
        _ => false,
    }
}

fn bytes<'a>(files: &'a Files, name: &str) -> Result<&'a [u8], Error> {
    files
        .get(name)
        .map(Vec::as_slice)
        .ok_or_else(|| unknown_file(name))
}

fn unknown_file(name: &str) -> Error {
    Error::Invalid {
        reason: format!("no policy file `{name}`"),
    }
}

/// Refuses an incumbent whose contexts were made of readings in another way, where both are known to be made of readings.
fn check_scaling(advice: Option<&TrainedOn>, incumbent: Option<&TrainedOn>) -> Result<(), Error> {
    let advice = advice.and_then(|known| known.scaling.as_ref());
    let incumbent = incumbent.and_then(|known| known.scaling.as_ref());
    match advice.zip(incumbent).and_then(|(a, b)| a.difference(b)) {
        None => Ok(()),
        Some(difference) => Err(Error::Invalid {
            reason: format!(
                "expected a policy and a guard whose contexts were made of readings in one way, found {difference}"
            ),
        }),
    }
}

fn check_horizon(
    file: &str,
    trained: Option<&std::ops::RangeInclusive<usize>>,
    horizon: usize,
) -> Result<(), Error> {
    match trained {
        Some(trained) if !trained.contains(&horizon) => Err(Error::Invalid {
            reason: format!(
                "expected a horizon of {} to {} steps, for which `{file}` was trained, found {horizon}",
                trained.start(),
                trained.end()
            ),
        }),
        _ => Ok(()),
    }
}
