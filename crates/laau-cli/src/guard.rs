//! `--guard`: the incumbent that a policy is guarded by.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use laau::core::{Certificate, Episodes, Fit, Guarded, Incumbent, Policy, Scaling, Task, TrainedOn};
use laau::net::Training;
use laau::registry::{self, Deployed, PolicyKind, ProblemSpec, digest};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output::Named;
use crate::saved::read_policy;
use crate::sets::{check_scaling, range};

/// The flags.
#[derive(Debug, Args)]
#[command(next_help_heading = "guard")]
pub(crate) struct GuardArgs {
    /// Never gains less than a share of what this policy would have gained: a name, or a policy file
    #[arg(long = "guard", value_name = "POLICY|FILE")]
    incumbent: Option<String>,
    /// That share, between 0 and 1
    #[arg(long = "guard-level", value_name = "SHARE", default_value_t = 0.95, requires = "incumbent",
          value_parser = level)]
    pub(crate) level: f64,
}

pub(crate) fn level(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(level) if (0.0..=1.0).contains(&level) => Ok(level),
        _ => Err(format!("expected a share between 0 and 1, found `{text}`")),
    }
}

/// The name of an incumbent from a file in a comparison; its file is not written again.
pub(crate) const INCUMBENT: &str = "incumbent";

/// What `--guard` names.
pub(crate) enum Source {
    /// A policy by its name.
    Kind(PolicyKind),
    /// A policy file, and the digest of its bytes.
    File(Box<Deployed>, String),
}

impl Source {
    /// How the contexts were made that the incumbent was fitted on, if it comes from a file that says it.
    fn scaling(&self) -> Option<&Scaling> {
        match self {
            Self::Kind(_) => None,
            Self::File(deployed, _) => deployed.trained_on.as_ref()?.scaling.as_ref(),
        }
    }

    /// The incumbent's name in a comparison.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Kind(kind) => kind.name(),
            Self::File(..) => INCUMBENT,
        }
    }

    /// A fit of the incumbent, for a comparison that has not fitted it anyway.
    pub(crate) fn fit(self, training: &Training) -> Box<dyn Fit> {
        match self {
            Self::Kind(kind) => kind.fit(training),
            Self::File(deployed, _) => Box::new(Incumbent::Ready {
                policy: deployed.policy,
                document: Some(deployed.document),
            }),
        }
    }
}

impl Source {
    /// The incumbent without a fit: a policy that is named has its default parameters, for the horizon and budgets of an
    /// episode.
    fn ready(self, task: &Task, horizon: usize, budgets: &[f64]) -> Result<Ready, Failure> {
        Ok(match self {
            Self::Kind(kind) => {
                let untuned = registry::untuned(kind, &[], task, horizon, budgets)?;
                Ready {
                    policy: Arc::from(untuned.policy),
                    name: kind.name().to_owned(),
                    file: None,
                    parameters: untuned.parameters,
                }
            }
            Self::File(deployed, digest) => Ready {
                policy: deployed.policy,
                name: deployed.name,
                file: Some(digest),
                parameters: BTreeMap::new(),
            },
        })
    }
}

/// An incumbent that can play.
struct Ready {
    policy: Arc<dyn Policy>,
    name: String,
    file: Option<String>,
    parameters: BTreeMap<String, Vec<f64>>,
}

/// What a journal knows a guard by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuardIdentity {
    level: f64,
    name: String,
    /// The SHA-256 of the incumbent's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<String, Vec<f64>>,
}

impl GuardArgs {
    /// Whether there is a guard.
    pub(crate) fn is_asked(&self) -> bool {
        self.incumbent.is_some()
    }

    /// The policy's name, if it was named: a comparison fits it and writes its file.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        let kind: PolicyKind = self.incumbent.as_deref()?.parse().ok()?;
        Some(kind.name())
    }

    /// The policy file, if one was named.
    pub(crate) fn named(&self) -> Option<Named<'_>> {
        let incumbent = self.incumbent.as_deref()?;
        let is_name = incumbent.parse::<PolicyKind>().is_ok();
        (!is_name).then_some(("--guard", Path::new(incumbent)))
    }

    /// The incumbent; a file must be for the same problem, for as many steps, and for contexts that were made in the same way.
    pub(crate) fn read(
        &self,
        problem: &ProblemSpec,
        horizon: usize,
        scaling: Option<&Scaling>,
    ) -> Result<Option<Source>, Failure> {
        let Some(incumbent) = &self.incumbent else {
            return Ok(None);
        };
        let unknown = match incumbent.parse::<PolicyKind>() {
            Ok(PolicyKind::Opt) => {
                return Err(Failure::new(
                    "policy `opt` sees the whole episode, and cannot be an incumbent",
                    "guard by an online policy, for example --guard mw",
                ));
            }
            Ok(kind) => return Ok(Some(Source::Kind(kind))),
            Err(error) => error,
        };
        let path = Path::new(incumbent);
        if let Err(missing) = path.metadata() {
            // A path, and not a name with a letter too many.
            if incumbent.contains(['/', '.']) {
                let hint =
                    "a guard takes the name of a policy, or a policy file: `laau compare -o DIR` writes them";
                return Err(Failure::file(path, &missing, hint));
            }
            return Err(unknown.into());
        }
        let (deployed, bytes) = read_policy(
            path,
            "a guard takes a policy file: `laau compare -o DIR` writes them",
        )?;
        if deployed.problem != *problem {
            return Err(Failure::new(
                format_args!(
                    "{}: the incumbent is for another problem or other parameters",
                    path.display()
                ),
                "`laau inspect FILE` shows them; both policies must be for the same problem",
            ));
        }
        if let Some(trained) = deployed
            .horizons
            .as_ref()
            .filter(|trained| !trained.contains(&horizon))
        {
            return Err(Failure::new(
                format_args!(
                    "{}: the incumbent is a model for {} steps, the episodes have {horizon}",
                    path.display(),
                    range(trained)
                ),
                "guard by a policy that plays any number of steps, or by a model for as many",
            ));
        }
        let source = Source::File(Box::new(deployed), digest(&bytes));
        check_scaling(("--guard", source.scaling()), ("what it guards", scaling))?;
        Ok(Some(source))
    }

    /// The incumbent and its name in a comparison of policies that are not fitted.
    pub(crate) fn unfitted(
        &self,
        problem: &ProblemSpec,
        task: &Task,
        test: &Episodes,
        scaling: Option<&Scaling>,
    ) -> Result<Option<(&'static str, Incumbent)>, Failure> {
        let Some(source) = self.read(problem, test.horizon(), scaling)? else {
            return Ok(None);
        };
        let name = source.name();
        let ready = source.ready(task, test.horizon(), test.get(0).budgets())?;
        Ok(Some((name, Incumbent::ready(ready.policy))))
    }

    /// Puts a policy behind the guard, if there is one; an incumbent that is named has its default parameters.
    pub(crate) fn deploy(
        &self,
        policy: Arc<dyn Policy>,
        problem: &ProblemSpec,
        task: &Task,
        horizon: usize,
        budgets: &[f64],
        (trained_on, raw): (Option<&TrainedOn>, bool),
    ) -> Result<(Arc<dyn Policy>, Option<GuardIdentity>), Failure> {
        let scaling = trained_on.and_then(|known| known.scaling.as_ref());
        let Some(source) = self.read(problem, horizon, scaling)? else {
            return Ok((policy, None));
        };
        if raw
            && let (Some(ours), Some(theirs)) = (scaling, source.scaling())
            && ours.constants != theirs.constants
        {
            // The incumbent would see other contexts than it does alone, and the share of its gain would be that of nobody.
            return Err(Failure::new(
                format_args!(
                    "--guard: the incumbent makes other contexts of the same readings: its `{}` has other constants",
                    ours.kind
                ),
                "fit both on episodes of one import, or leave --raw out and give contexts",
            ));
        }
        let Ready {
            policy: incumbent,
            name,
            file,
            parameters,
        } = source.ready(task, horizon, budgets)?;
        let problem = Arc::clone(&task.problem) as Arc<_>;
        let guarded = Guarded::new(policy.name().to_owned(), policy, incumbent, problem, self.level)?;
        let identity = GuardIdentity {
            level: self.level,
            name,
            file,
            parameters,
        };
        Ok((Arc::new(guarded.in_layer(task)), Some(identity)))
    }
}

/// What a guard did, for people.
pub(crate) fn words(certificate: &Certificate, steps: usize) -> String {
    let share = certificate.share().map_or_else(
        || "the incumbent gained nothing".to_owned(),
        |share| format!("{share:.4} of the incumbent's gain"),
    );
    let mut text = format!(
        "guard: acted in {} of {steps} steps; {share}, {} promised; least margin {:.3e}",
        certificate.acted, certificate.level, certificate.margin
    );
    for (count, what) in [
        (certificate.rounded, "rounded"),
        (certificate.advice_failures, "without advice"),
        (certificate.incumbent_failures, "without an incumbent's action"),
    ] {
        if count > 0 {
            text.extend(["; ", &count.to_string(), " ", what]);
        }
    }
    text
}
