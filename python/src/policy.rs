//! Policies that are ready to decide.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use laau::core::{self, Document, Fitted, Guarded, GuardedDocument, Incumbent, Player, TrainedOn, Unrolled};
use laau::net::{Model, Summary};
use laau::registry::{self, PolicyKind};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays::array;
use crate::episode::Episode;
use crate::episodes::Episodes;
use crate::errors::{Raise as _, error};
use crate::options::to_python;
use crate::scripted::Scripted;
use crate::task::Task;
use crate::threads::interruptible;

/// A policy for a task, ready to decide.
#[pyclass(frozen, module = "laau", name = "Policy")]
#[expect(clippy::struct_field_names, reason = "it holds a policy of the core")]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) task: Py<Task>,
    pub(crate) policy: Arc<dyn core::Policy>,
    /// The numbers of steps that it is for; any, if there are none.
    pub(crate) horizons: Option<RangeInclusive<usize>>,
    /// The number of steps it was fitted on.
    pub(crate) horizon: Option<usize>,
    /// What is known of the episodes it was fitted on.
    pub(crate) trained_on: Option<TrainedOn>,
    /// The file that it would be, if it can be stored.
    pub(crate) file: Option<Vec<u8>>,
    /// How it is stored within another policy's file.
    pub(crate) document: Option<Document>,
    /// What is known about its fit, as JSON.
    pub(crate) about: String,
}

impl Policy {
    /// The policy of a trained model.
    pub(crate) fn of_model(
        name: &str,
        task: Py<Task>,
        model: Model,
        summary: &Summary,
        about: String,
    ) -> PyResult<Self> {
        let file = laau::net::model_to_bytes(&model, summary).raise()?;
        let (horizon, horizons) = (model.spec.horizon, model.spec.horizons());
        let solver = task.get().task.solver.clone();
        Ok(Self {
            policy: Arc::new(Unrolled::new(name, model, solver).raise()?),
            name: name.to_owned(),
            task,
            horizons: Some(horizons),
            horizon: Some(horizon),
            trained_on: summary.trained_on.clone(),
            document: Some(Document {
                kind: laau::net::Laau::DOCUMENT,
                bytes: file.clone(),
            }),
            file: Some(file),
            about,
        })
    }

    /// The policy of a model that was read.
    fn of_loaded(
        name: &str,
        task: Py<Task>,
        model: Model,
        summary: &Summary,
        about: String,
    ) -> PyResult<Self> {
        model.spec.check_problem(&*task.get().task.problem).raise()?;
        Self::of_model(name, task, model, summary, about)
    }

    /// The policy of a file that was read.
    fn of_deployed(task: Py<Task>, deployed: registry::Deployed, file: Vec<u8>) -> Self {
        Self {
            name: deployed.name,
            task,
            policy: deployed.policy,
            horizons: deployed.horizons,
            horizon: Some(deployed.horizon),
            trained_on: deployed.trained_on,
            file: Some(file),
            document: Some(deployed.document),
            about: "{}".to_owned(),
        }
    }

    /// The policy of a fit on some episodes.
    pub(crate) fn of_fit(
        name: &str,
        task: Py<Task>,
        fitted: Fitted,
        train: &core::Episodes,
    ) -> PyResult<Self> {
        let Player::Online(policy) = &fitted.player else {
            return Err(error(
                format!("policy `{name}` sees the whole episode, and cannot decide step by step"),
                "`laau.compare` reports it; choose an online policy here",
            ));
        };
        let policy = Arc::clone(policy);
        let file = registry::policy_to_bytes(name, &fitted, &task.get().spec, train).ok();
        let about = serde_json::json!({ "parameters": fitted.parameters, "gradients": fitted.gradients });
        Ok(Self {
            name: name.to_owned(),
            task,
            policy,
            horizons: None,
            horizon: Some(train.horizon()),
            trained_on: Some(TrainedOn::of(train)),
            file,
            document: fitted.document,
            about: about.to_string(),
        })
    }

    /// Refuses a number of steps that a model is not for.
    pub(crate) fn expect_horizon(&self, horizon: usize) -> PyResult<()> {
        match &self.horizons {
            Some(horizons) if !horizons.contains(&horizon) => Err(error(
                format!(
                    "the model is for episodes of {} to {} steps, not of {horizon}",
                    horizons.start(),
                    horizons.end()
                ),
                "choose such a horizon, or train with horizons=\"N..M\"",
            )),
            _ => Ok(()),
        }
    }

    /// The policy as one that needs no fit.
    pub(crate) fn ready(&self) -> Incumbent {
        Incumbent::Ready {
            policy: Arc::clone(&self.policy),
            document: self.document.clone(),
        }
    }
}

#[pymethods]
impl Policy {
    /// The name in tables.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The task it is for.
    #[getter]
    fn task(&self, py: Python<'_>) -> Py<Task> {
        self.task.clone_ref(py)
    }

    /// The number of steps of the episodes it was fitted on, if it was.
    #[getter]
    fn horizon(&self) -> Option<usize> {
        self.horizon
    }

    /// What is known about its fit, by name.
    #[getter]
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.about)
    }

    /// Opens an episode.
    #[pyo3(signature = (budgets, horizon=None))]
    fn begin(slf: &Bound<'_, Self>, budgets: &Bound<'_, PyAny>, horizon: Option<usize>) -> PyResult<Episode> {
        let policy = slf.get();
        let Some(horizon) = horizon.or(policy.horizon) else {
            return Err(error(
                "the number of steps is not known",
                "name it: begin(budgets, horizon=20)",
            ));
        };
        policy.expect_horizon(horizon)?;
        let task = policy.task.clone_ref(slf.py());
        Episode::open(slf.py(), task, Some(Arc::clone(&policy.policy)), budgets, horizon)
    }

    /// The same policy behind a guard: it gains at least a share of what the incumbent would have gained.
    #[pyo3(signature = (incumbent, level=0.95))]
    fn guarded(&self, py: Python<'_>, incumbent: &Bound<'_, Self>, level: f64) -> PyResult<Self> {
        let incumbent = incumbent.get();
        let task = self.task.get();
        task.expect_same(&incumbent.task.get().spec, "the incumbent")?;
        let problem = Arc::clone(&task.task.problem) as Arc<_>;
        let guarded = Guarded::new(
            self.name.clone(),
            Arc::clone(&self.policy),
            Arc::clone(&incumbent.policy),
            problem,
            level,
        );
        let guarded = guarded.raise()?.in_layer(&task.task);
        let stored = |policy: &Self| {
            let document = policy.document.as_ref()?;
            Some((document.kind.to_owned(), document.bytes.clone()))
        };
        let document = stored(self).zip(stored(incumbent)).map(|(advice, incumbent)| {
            GuardedDocument {
                level,
                form: core::Form::Layer,
                advice,
                incumbent,
            }
            .to_document()
        });
        let horizons = match (self.horizons.clone(), incumbent.horizons.clone()) {
            (Some(ours), Some(theirs)) => {
                Some(*ours.start().max(theirs.start())..=*ours.end().min(theirs.end()))
            }
            (ours, theirs) => ours.or(theirs),
        };
        // A file holds one guard.
        let parts = [self, incumbent].map(|policy| policy.document.as_ref());
        let is_simple = parts
            .iter()
            .flatten()
            .all(|part| part.kind != GuardedDocument::KIND);
        let stored = document.as_ref().filter(|_| is_simple).zip(self.horizon);
        let file = stored.and_then(|(document, horizon)| {
            let trained_on = self.trained_on.clone();
            registry::document_to_bytes(&self.name, document, &task.spec, horizon, trained_on).ok()
        });
        Ok(Self {
            name: self.name.clone(),
            task: self.task.clone_ref(py),
            policy: Arc::new(guarded),
            horizons,
            horizon: self.horizon,
            trained_on: self.trained_on.clone(),
            file,
            document,
            about: self.about.clone(),
        })
    }

    /// Plays all episodes; gives arrays by name.
    fn play<'py>(&self, py: Python<'py>, episodes: &Bound<'py, Episodes>) -> PyResult<Bound<'py, PyDict>> {
        let (task, episodes) = (&self.task.get().task, &episodes.get().0);
        self.expect_horizon(episodes.horizon())?;
        let player = Player::Online(Arc::clone(&self.policy));
        let rollouts = interruptible(py, |_| player.play(task, episodes))?.raise()?;
        let sizes = task.problem.dimensions();
        let (count, steps) = (episodes.len(), episodes.horizon());
        let result = PyDict::new(py);
        let flat =
            |of: fn(&core::Rollout) -> &[f64]| rollouts.iter().flat_map(of).copied().collect::<Vec<_>>();
        let tables: [(&str, Vec<f64>, Vec<usize>); 4] = [
            (
                "actions",
                flat(|played| &played.actions),
                vec![count, steps, sizes.actions],
            ),
            (
                "usages",
                flat(|played| &played.usages),
                vec![count, steps, sizes.budgets],
            ),
            ("costs", flat(|played| &played.costs), vec![count, steps]),
            (
                "remaining",
                flat(|played| &played.remaining),
                vec![count, sizes.budgets],
            ),
        ];
        for (name, values, shape) in tables {
            result.set_item(name, array(py, values, &shape)?)?;
        }
        let multipliers = flat(|played| &played.multipliers);
        if multipliers.len() == count * steps * sizes.budgets {
            let shape = [count, steps, sizes.budgets];
            result.set_item("multipliers", array(py, multipliers, &shape)?)?;
        }
        let utilities: Vec<f64> = rollouts.iter().map(core::Rollout::utility).collect();
        result.set_item("utility", array(py, utilities, &[count])?)?;
        let sum = |of: fn(&core::Rollout) -> usize| rollouts.iter().map(of).sum::<usize>();
        result.set_item("violations", sum(|played| played.violations))?;
        result.set_item("failures", sum(|played| played.failures))?;
        let failure = rollouts.iter().find_map(|played| played.first_failure.as_ref());
        result.set_item("first_failure", failure.map(ToString::to_string))?;
        let shares: Option<Vec<f64>> = rollouts
            .iter()
            .map(|played| played.certificate.map(|kept| kept.share().unwrap_or(f64::NAN)))
            .collect();
        if let Some(shares) = shares {
            result.set_item("guard_share", array(py, shares, &[count])?)?;
        }
        Ok(result)
    }

    /// Writes the file that the command line would write: a model, or a policy file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        let Some(file) = &self.file else {
            return Err(error(
                format!("policy `{}` cannot be stored", self.name),
                "store what was trained or fitted, by itself or behind one guard",
            ));
        };
        laau::net::write_atomically(&path, file).raise()
    }

    /// A policy is pickled as its file.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Pickled<'py>)> {
        let Some(file) = &self.file else {
            return Err(PyTypeError::new_err(format!(
                "policy `{}` cannot be pickled: only what was trained, fitted or loaded can",
                self.name
            )));
        };
        let restore = py.import("laau._laau")?.getattr("restore_policy")?;
        let (file, task) = (PyBytes::new(py, file), self.task.clone_ref(py));
        Ok((restore, (file, self.name.clone(), task, self.about.clone())))
    }

    fn __repr__(&self) -> String {
        format!("Policy({}, {})", self.name, self.task.get().spec.name())
    }
}

/// A policy's file, its name, its task and what is known about its fit.
type Pickled<'py> = (Bound<'py, PyBytes>, String, Py<Task>, String);

/// Reads a model or a policy file.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, path: PathBuf) -> PyResult<Policy> {
    let bytes = std::fs::read(&path).map_err(|reason| {
        error(
            format!("{}: {reason}", path.display()),
            "check the path and its permissions",
        )
    })?;
    if is_model(&bytes) {
        let (model, summary) = laau::net::load_model(&path).raise()?;
        let task = Task::of(laau_cli::options::problem_of_model(&model.spec).raise()?)?;
        let about = serde_json::to_string(&summary).unwrap_or_default();
        return Policy::of_loaded("laau", Py::new(py, task)?, model, &summary, about);
    }
    let deployed = registry::policy_from_bytes(&bytes).map_err(|reason| {
        error(
            format!("{}: {reason}", path.display()),
            "models are written by `laau train`, policy files by `laau compare -o DIR`",
        )
    })?;
    let task = Py::new(py, Task::of(deployed.problem.clone())?)?;
    Ok(Policy::of_deployed(task, deployed, bytes))
}

/// A policy from what it was pickled as.
#[pyfunction]
pub(crate) fn restore_policy(file: Vec<u8>, name: &str, task: Py<Task>, about: String) -> PyResult<Policy> {
    if is_model(&file) {
        let (model, summary) = laau::net::model_from_bytes(&file).raise()?;
        return Policy::of_loaded(name, task, model, &summary, about);
    }
    let deployed = registry::policy_from_bytes(&file).raise()?;
    task.get().expect_same(&deployed.problem, "the policy")?;
    Ok(Policy {
        about,
        name: name.to_owned(),
        ..Policy::of_deployed(task, deployed, file)
    })
}

/// Whether a file is a model: the length of its header comes first, and then the header.
fn is_model(file: &[u8]) -> bool {
    const HEADER_AT: usize = 8;
    file.get(HEADER_AT) == Some(&b'{')
}

/// A built-in policy that needs no data, for an episode of known horizon and budgets.
#[pyfunction]
pub(crate) fn untuned(
    task: Py<Task>,
    name: &str,
    horizon: usize,
    budgets: Vec<f64>,
    parameters: Vec<(String, Vec<f64>)>,
) -> PyResult<Policy> {
    let kind: PolicyKind = name.parse::<PolicyKind>().raise()?;
    let found = budgets.len();
    let expected = task.get().dimensions().budgets;
    if found != expected || horizon == 0 {
        return Err(error(
            format!("expected {expected} budgets and at least one step, found {found} and {horizon}"),
            "name the budgets and the number of steps of the episode",
        ));
    }
    let made = registry::untuned(kind, &parameters, &task.get().task, horizon, &budgets).raise()?;
    Ok(Policy {
        name: name.to_owned(),
        task,
        policy: Arc::from(made.policy),
        horizons: None,
        horizon: Some(horizon),
        trained_on: None,
        file: None,
        document: None,
        about: serde_json::json!({ "parameters": made.parameters }).to_string(),
    })
}

/// A policy that is written in Python.
#[pyfunction]
pub(crate) fn scripted(task: Py<Task>, name: String, object: &Bound<'_, PyAny>) -> PyResult<Policy> {
    Ok(Policy {
        policy: Arc::new(Scripted::new(name.clone(), object)?),
        name,
        task,
        horizons: None,
        horizon: None,
        trained_on: None,
        file: None,
        document: None,
        about: "{}".to_owned(),
    })
}
