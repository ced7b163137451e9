//! An episode in progress.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use laau::core::{Agent, EpisodeRun, Policy, Problem, SmoothProblem};
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{array, numbers};
use crate::errors::{Raise as _, error, payment};
use crate::options::to_python;
use crate::scripted::Observation;
use crate::task::Task;

/// What an open episode borrows from.
struct Owner {
    problem: Arc<dyn SmoothProblem>,
    policy: Option<Arc<dyn Policy>>,
}

struct Open<'a> {
    run: EpisodeRun<'a>,
    agent: Option<Box<dyn Agent + 'a>>,
    action: Vec<f64>,
}

self_cell::self_cell!(
    struct Session {
        owner: Owner,

        #[not_covariant]
        dependent: Open,
    }
);

/// What was decided in a step.
struct Decided {
    step: usize,
    action: Vec<f64>,
    multiplier: Option<Vec<f64>>,
    remaining: Vec<f64>,
    fallback: Option<String>,
    guarded: bool,
}

impl Open<'_> {
    /// Decides and pays a step, as every other driver does: a policy that fails, or asks for what cannot be paid, gets the
    /// lower corner.
    fn decide(&mut self, context: &[f64]) -> Result<Option<Decided>, laau::core::Error> {
        let Some(agent) = &mut self.agent else {
            return Ok(None);
        };
        let number = self.run.step();
        let (_, fallback) = self.run.reveal(context)?.pay_by(&mut **agent, &mut self.action)?;
        Ok(Some(Decided {
            step: number,
            action: self.action.clone(),
            multiplier: agent.multiplier().map(<[f64]>::to_vec),
            remaining: self.run.remaining().to_vec(),
            fallback: fallback.map(|fallback| fallback.to_string()),
            guarded: agent.guarded(),
        }))
    }

    /// Pays an action that somebody else chose. The policy, if there is one, sees the step all the same.
    fn pay(&mut self, context: &[f64], action: &[f64]) -> Result<Vec<f64>, laau::core::Error> {
        let before = self.run.clone();
        let usage = self.run.reveal(context)?.pay(action)?.to_vec();
        if let Some(agent) = &mut self.agent {
            let mut seen = before;
            // Only its memory matters here, not what it would have done.
            let _ = agent.decide(&seen.reveal(context)?.observation(), &mut self.action);
        }
        Ok(usage)
    }
}

/// An episode in progress: contexts in, actions out, paid by the exact ledger.
#[pyclass(frozen, module = "laau", name = "Episode")]
pub(crate) struct Episode {
    session: Mutex<Session>,
    task: Py<Task>,
    horizon: usize,
}

impl Episode {
    pub(crate) fn open(
        py: Python<'_>,
        task: Py<Task>,
        policy: Option<Arc<dyn Policy>>,
        budgets: &Bound<'_, PyAny>,
        horizon: usize,
    ) -> PyResult<Self> {
        let budgets = numbers("budgets", budgets)?;
        let sizes = task.get().dimensions();
        let budgets = budgets.vector(sizes.budgets)?;
        let owner = Owner {
            problem: Arc::clone(&task.get().task.problem),
            policy,
        };
        let session = Session::try_new(owner, |owner| {
            let problem: &dyn Problem = &*owner.problem;
            Ok::<_, laau::core::Error>(Open {
                run: EpisodeRun::new(problem, horizon, budgets)?,
                agent: owner.policy.as_ref().map(|policy| policy.begin()),
                action: vec![0.0; sizes.actions],
            })
        });
        Ok(Self {
            session: Mutex::new(session.raise()?),
            task: task.clone_ref(py),
            horizon,
        })
    }

    /// A thread that waited here would hold the interpreter, which a policy in Python needs to go on.
    fn lock(&self) -> PyResult<MutexGuard<'_, Session>> {
        match self.session.try_lock() {
            Ok(session) => Ok(session),
            Err(TryLockError::Poisoned(session)) => Ok(session.into_inner()),
            Err(TryLockError::WouldBlock) => Err(error(
                "the episode is in use by another call",
                "open an episode per thread",
            )),
        }
    }
}

#[pymethods]
impl Episode {
    /// Decides and pays the next step.
    fn decide<'py>(&self, py: Python<'py>, context: &Bound<'_, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let context = numbers("context", context)?;
        let sizes = self.task.get().dimensions();
        let context = context.vector(sizes.context)?;
        let decided = self
            .lock()?
            .with_dependent_mut(|_, open| open.decide(context))
            .raise()?;
        let Some(decided) = decided else {
            return Err(error(
                "the episode has no policy to decide",
                "open it with `policy.begin`, or pay an action of your own",
            ));
        };
        let fields = PyDict::new(py);
        fields.set_item("step", decided.step)?;
        fields.set_item("action", array(py, decided.action, &[sizes.actions])?)?;
        let multiplier = decided.multiplier.map(|price| array(py, price, &[sizes.budgets]));
        fields.set_item("multiplier", multiplier.transpose()?)?;
        fields.set_item("remaining", array(py, decided.remaining, &[sizes.budgets])?)?;
        fields.set_item("fallback", decided.fallback)?;
        fields.set_item("guarded", decided.guarded)?;
        let class = py.import("laau._types")?.getattr("Decision")?;
        class.call((), Some(&fields))
    }

    /// Pays an action of your own in a context, all or nothing; gives its usage.
    fn pay<'py>(
        &self,
        py: Python<'py>,
        context: &Bound<'_, PyAny>,
        action: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let (context, action) = (numbers("context", context)?, numbers("action", action)?);
        let sizes = self.task.get().dimensions();
        let (context, action) = (context.vector(sizes.context)?, action.vector(sizes.actions)?);
        let usage = self
            .lock()?
            .with_dependent_mut(|_, open| open.pay(context, action))
            .map_err(payment)?;
        array(py, usage, &[sizes.budgets])
    }

    /// What a policy would observe in a context; spends nothing.
    fn observe(&self, context: &Bound<'_, PyAny>) -> PyResult<Observation> {
        let context = numbers("context", context)?;
        let context = context.vector(self.task.get().dimensions().context)?;
        self.lock()?
            .with_dependent_mut(|_, open| {
                let step = open.run.reveal(context)?;
                Ok::<_, laau::core::Error>(Observation::from(&step.observation()))
            })
            .raise()
    }

    /// What remains of each budget, rounded down.
    #[getter]
    fn remaining<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let remaining = self
            .lock()?
            .with_dependent(|_, open| open.run.remaining().to_vec());
        let length = remaining.len();
        array(py, remaining, &[length])
    }

    /// The next step, from 0; the horizon when the episode is over.
    #[getter]
    fn step(&self) -> PyResult<usize> {
        Ok(self.lock()?.with_dependent(|_, open| open.run.step()))
    }

    /// Steps of the episode.
    #[getter]
    fn horizon(&self) -> usize {
        self.horizon
    }

    /// Whether all steps have been taken.
    #[getter]
    fn is_over(&self) -> PyResult<bool> {
        Ok(self.step()? == self.horizon)
    }

    /// What a guard kept of its promise so far, by name; nothing without a guard.
    #[getter]
    fn certificate<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let kept = self.lock()?.with_dependent(|_, open| {
            let certificate = open.agent.as_ref().and_then(|agent| agent.certificate())?;
            let mut kept = serde_json::to_value(certificate).ok()?;
            kept["share"] = certificate.share().into();
            Some(kept.to_string())
        });
        kept.map(|kept| to_python(py, &kept)).transpose()
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("Episode(step {} of {})", self.step()?, self.horizon))
    }
}
