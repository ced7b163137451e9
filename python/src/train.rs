//! Training: offline, online, and fits of built-in policies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use laau::core::{self, Fit as _, FitObserver, FitSets, TrainedOn};
use laau::net::{Ending, EpochRecord, OnlineObserver, Round, Summary, TrainObserver};
use laau::registry::PolicyKind;
use pyo3::prelude::*;

use crate::episodes::Episodes;
use crate::errors::{Raise as _, error};
use crate::options::keys;
use crate::policy::Policy;
use crate::task::Task;
use crate::threads::interruptible;

/// Passes epochs on to Python, and stops when a signal or Python says so.
struct Watch<'a> {
    stop: &'a AtomicBool,
    progress: Option<&'a Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Watch<'_> {
    /// Tells Python; an exception there ends the work.
    fn tell(&mut self, record: String) {
        if let (Some(progress), None) = (self.progress, &self.raised) {
            self.raised = Python::attach(|py| progress.call1(py, (record,))).err();
        }
    }

    fn is_over(&self) -> bool {
        self.raised.is_some() || self.stop.load(Ordering::Relaxed)
    }
}

impl TrainObserver for Watch<'_> {
    fn epoch(&mut self, record: &EpochRecord, _: Duration) {
        self.tell(serde_json::to_string(record).unwrap_or_default());
    }

    fn should_stop(&mut self) -> bool {
        self.is_over()
    }
}

impl FitObserver for Watch<'_> {
    fn should_stop(&mut self) -> bool {
        self.is_over()
    }
}

/// Keeps the rounds.
struct Rounds<'a> {
    watch: Watch<'a>,
    rounds: Vec<Round>,
}

impl OnlineObserver for Rounds<'_> {
    fn round(&mut self, round: &Round) {
        self.rounds.push(round.clone());
    }

    fn should_stop(&mut self) -> bool {
        self.watch.is_over()
    }
}

/// Trains a model; the policy's file has the bytes of `laau train`'s.
#[pyfunction]
#[pyo3(signature = (task, train, validation, options, guard, level, progress))]
#[expect(clippy::too_many_arguments, reason = "the package names them all")]
pub(crate) fn train(
    py: Python<'_>,
    task: &Bound<'_, Task>,
    train: &Bound<'_, Episodes>,
    validation: &Bound<'_, Episodes>,
    options: &str,
    guard: Option<&Bound<'_, PyAny>>,
    level: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Policy> {
    let inner = &task.get().task;
    let (train, validation) = (&train.get().0, &validation.get().0);
    let options = laau_cli::options::train(&keys(options)?).raise()?;
    options.check(&*inner.problem, train).raise()?;
    inner.check_episodes("training episode", train).raise()?;
    inner.check_episodes("validation episode", validation).raise()?;
    let settings = &options.training;
    let trainer = settings.clone().check().raise()?;
    if !(0.0..=1.0).contains(&level) {
        return Err(error(
            format!("expected a share between 0 and 1 for guard_level, found {level}"),
            "0.95 is the default",
        ));
    }
    let guard = guard
        .map(|guard| incumbent(guard, task.get(), &options.training, train.horizon()))
        .transpose()?;
    let outcome = interruptible(py, |stop| {
        let mut watch = Watch {
            stop,
            progress: progress.as_ref(),
            raised: None,
        };
        let run = |watch: &mut Watch<'_>| -> Result<_, laau_cli::Refused> {
            let mut trainer = trainer;
            if let Some(incumbent) = &guard {
                let sets = FitSets { train, validation };
                let fitted = incumbent.fit(inner, sets, settings.seed, watch)?;
                trainer = trainer.with_guard(inner, fitted.player.online()?, level);
            }
            let mut model = options.laau.initial(inner, train, settings.seed)?;
            let layer = &*inner.solver;
            let trained = trainer.run(&mut model, layer, train, Some(validation), watch)?;
            Ok((model, trained))
        };
        let outcome = run(&mut watch);
        match watch.raised {
            Some(raised) => Err(raised),
            None => Ok(outcome),
        }
    })??;
    let (model, trained) = outcome.raise()?;
    let about = serde_json::json!({
        "ending": match trained.ending {
            Ending::Completed => "completed",
            Ending::EarlyStop => "early-stop",
            Ending::Stopped => "stopped",
        },
        "summary": trained.summary,
        "history": trained.history,
        "weights": model.spec.parameter_len(),
    });
    Policy::of_model(
        &options.laau.name,
        task.clone().unbind(),
        model,
        &trained.summary,
        about.to_string(),
    )
}

/// An incumbent by its name, or a policy that is ready.
pub(crate) fn incumbent(
    guard: &Bound<'_, PyAny>,
    task: &Task,
    training: &laau::net::Training,
    horizon: usize,
) -> PyResult<Box<dyn core::Fit>> {
    if let Ok(policy) = guard.cast::<Policy>() {
        task.expect_same(&policy.get().task.get().spec, "the incumbent")?;
        policy.get().expect_horizon(horizon)?;
        return Ok(Box::new(policy.get().ready()));
    }
    let name: String = guard.extract()?;
    match name.parse::<PolicyKind>().raise()? {
        PolicyKind::Opt => Err(error(
            "policy `opt` sees the whole episode, and cannot be an incumbent",
            "guard by an online policy, for example guard=\"mw\"",
        )),
        kind => Ok(kind.fit(training)),
    }
}

/// Learns online; gives the policy after the last round, and the rounds as JSON.
#[pyfunction]
pub(crate) fn learn(
    py: Python<'_>,
    task: &Bound<'_, Task>,
    episodes: &Bound<'_, Episodes>,
    warm: Option<&Bound<'_, Policy>>,
    options: &str,
) -> PyResult<(Policy, String)> {
    let inner = &task.get().task;
    let episodes = &episodes.get().0;
    let options = laau_cli::options::learn(&keys(options)?).raise()?;
    inner.check_episodes("episode", episodes).raise()?;
    let warm = match warm {
        None => None,
        Some(policy) => {
            let policy = policy.get();
            task.get().expect_same(&policy.task.get().spec, "the model")?;
            let bytes = policy.file.as_deref().unwrap_or_default();
            let (model, summary) = laau::net::model_from_bytes(bytes).raise()?;
            if !model.spec.horizons().contains(&episodes.horizon()) {
                return Err(error(
                    format!(
                        "episodes of {} steps, the model is for others",
                        episodes.horizon()
                    ),
                    "learn from episodes of the model's horizon",
                ));
            }
            Some((model, summary))
        }
    };
    let done = interruptible(py, |stop| -> Result<_, laau_cli::Refused> {
        let (model, seed, trained_on) = if let Some((model, summary)) = warm {
            (model, summary.seed, summary.trained_on)
        } else {
            let look: Vec<usize> = (0..episodes.len().min(options.first_look)).collect();
            let model = options
                .laau
                .initial(inner, &episodes.select(&look), options.seed)?;
            (model, options.seed, None)
        };
        let mut learner = options.learning.check(model, inner.solver.clone())?;
        let watch = Watch {
            stop,
            progress: None,
            raised: None,
        };
        let mut rounds = Rounds {
            watch,
            rounds: Vec::new(),
        };
        learner.run(episodes, &mut rounds)?;
        let summary = Summary {
            trained_on: trained_on.or_else(|| Some(TrainedOn::of(episodes))),
            ..learner.summary(seed)
        };
        Ok((learner.model().clone(), summary, rounds.rounds))
    })?;
    let (model, summary, rounds) = done.raise()?;
    let column =
        |of: &dyn Fn(&Round) -> serde_json::Value| rounds.iter().map(of).collect::<serde_json::Value>();
    let table = serde_json::json!({
        "round": column(&|round| round.round.into()),
        "utility": column(&|round| round.utility.into()),
        "running_utility": column(&|round| round.running_utility.into()),
        "violations": column(&|round| round.violations.into()),
        "failures": column(&|round| round.failures.into()),
        "stepped": column(&|round| round.skipped.is_none().into()),
    });
    let about = serde_json::json!({ "summary": summary }).to_string();
    let policy = Policy::of_model(&options.laau.name, task.clone().unbind(), model, &summary, about)?;
    Ok((policy, table.to_string()))
}

/// Fits, tunes or trains a built-in policy, as `laau compare` does.
#[pyfunction]
pub(crate) fn fit(
    py: Python<'_>,
    task: &Bound<'_, Task>,
    name: &str,
    train: &Bound<'_, Episodes>,
    validation: &Bound<'_, Episodes>,
    options: &str,
) -> PyResult<Policy> {
    let inner = &task.get().task;
    let kind: PolicyKind = name.parse::<PolicyKind>().raise()?;
    let options = laau_cli::options::train(&keys(options)?).raise()?;
    let (train, validation) = (&train.get().0, &validation.get().0);
    options.check(&*inner.problem, train).raise()?;
    inner.check_episodes("training episode", train).raise()?;
    inner.check_episodes("validation episode", validation).raise()?;
    let seed = options.training.seed;
    let fitted = interruptible(py, |stop| {
        let mut watch = Watch {
            stop,
            progress: None,
            raised: None,
        };
        kind.fit(&options.training)
            .fit(inner, FitSets { train, validation }, seed, &mut watch)
    })?;
    Policy::of_fit(name, task.clone().unbind(), fitted.raise()?, train)
}
