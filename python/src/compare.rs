//! Policies on the same episodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use laau::baselines::OptOptions;
use laau::core::{Comparison, ComparisonObserver, Report, Run, Sets, Unfitted};
use laau::registry::PolicyKind;
use pyo3::prelude::*;

use crate::episodes::Episodes;
use crate::errors::{Raise as _, error};
use crate::options::keys;
use crate::policy::Policy;
use crate::scripted::Scripted;
use crate::task::Task;
use crate::threads::interruptible;
use crate::train::incumbent;

/// Stops the comparison when a signal says so; tells Python of every policy that is done.
struct Watch<'a> {
    stop: &'a AtomicBool,
    progress: Option<&'a Py<PyAny>>,
}

impl ComparisonObserver for Watch<'_> {
    fn done(&self, policy: &str, run: &Run, elapsed: Duration) {
        let Some(progress) = self.progress else {
            return;
        };
        let told = (
            policy,
            run.seed,
            run.results.mean_utility(),
            elapsed.as_secs_f64(),
        );
        // Whoever watches does not end the work: that is what Ctrl-C is for.
        Python::attach(|py| {
            if let Err(error) = progress.call1(py, told) {
                error.write_unraisable(py, None);
            }
        });
    }

    fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Fits and plays policies: built-in ones by name (`None` as the object), policies that are ready, and Python's own.
/// Gives the report as JSON, as CSV, and why policies were left out.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the package names them all")]
pub(crate) fn compare(
    py: Python<'_>,
    task: &Bound<'_, Task>,
    sets: (Bound<'_, Episodes>, Bound<'_, Episodes>, Bound<'_, Episodes>),
    policies: Vec<(String, Option<Bound<'_, PyAny>>)>,
    seeds: Option<Vec<u64>>,
    options: &str,
    guard: Option<&Bound<'_, PyAny>>,
    level: f64,
    timed: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String, Vec<String>)> {
    let (task, inner) = (task.get(), &task.get().task);
    let options = laau_cli::options::train(&keys(options)?).raise()?;
    let sets = Sets {
        train: sets.0.get().0.clone(),
        validation: sets.1.get().0.clone(),
        test: sets.2.get().0.clone(),
    };
    options.check(&*inner.problem, &sets.train).raise()?;
    inner.check_episodes("training episode", &sets.train).raise()?;
    inner
        .check_episodes("validation episode", &sets.validation)
        .raise()?;
    let training = &options.training;
    let seeds = seeds.unwrap_or_else(|| vec![training.seed]);
    let named = !policies.is_empty();
    let policies = if named {
        policies
    } else {
        let all = PolicyKind::ALL.iter();
        all.map(|kind| (kind.name().to_owned(), None)).collect()
    };
    if let Some(twice) =
        (1..policies.len()).find(|&at| policies[..at].iter().any(|(name, _)| *name == policies[at].0))
    {
        return Err(error(
            format!("policy `{}` is named twice", policies[twice].0),
            "name each policy once",
        ));
    }
    let mut comparison = Comparison::new(inner, &sets)
        .seeds(seeds)
        .relative_to(OptOptions::default())
        .skip_inapplicable(!named);
    if timed {
        comparison = comparison.timed();
    }
    let mut guarded = Vec::new();
    for (name, object) in &policies {
        let Some(object) = object else {
            let kind: PolicyKind = name.parse::<PolicyKind>().raise()?;
            if named || kind.learns() {
                guarded.push(name.clone());
            }
            comparison = comparison.with(name, kind.fit(training));
            continue;
        };
        guarded.push(name.clone());
        comparison = if let Ok(policy) = object.cast::<Policy>() {
            task.expect_same(&policy.get().task.get().spec, &format!("policy `{name}`"))?;
            policy.get().expect_horizon(sets.test.horizon())?;
            comparison.with(name, policy.get().ready())
        } else {
            let scripted = Arc::new(Scripted::new(name.clone(), object)?);
            comparison.with(name, Unfitted(move |_: &_| Ok(Arc::clone(&scripted))))
        };
    }
    if let Some(guard) = guard {
        let name = match guard.cast::<Policy>() {
            Ok(_) => "incumbent".to_owned(),
            Err(_) => guard.extract()?,
        };
        if policies.iter().all(|(known, _)| *known != name) {
            comparison = comparison.with(&name, incumbent(guard, task, training, sets.test.horizon())?);
        }
        comparison = comparison.guarded(guarded, name, level);
    }
    let report: Report = interruptible(py, |stop| {
        let watch = Watch {
            stop,
            progress: progress.as_ref(),
        };
        comparison.observed_by(&watch).run()
    })?
    .raise()?;
    let json = serde_json::to_string(&report).map_err(|reason| error(reason.to_string(), ""))?;
    let names: Vec<&String> = report.policies.iter().map(|policy| &policy.name).collect();
    let json = format!("[{json}, {}]", serde_json::json!(names));
    let left_out = report.left_out.iter().map(|(_, error)| error.to_string());
    let failures = report.policies.iter().filter_map(|policy| {
        let error = policy.first_failure()?;
        Some(format!(
            "policy `{}` failed in {} steps; first: {error}",
            policy.name, policy.failures
        ))
    });
    Ok((json, report.to_csv(), left_out.chain(failures).collect()))
}
