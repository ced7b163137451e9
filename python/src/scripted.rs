//! Policies that are written in Python.

use laau::core::{Agent, Error, Policy};
use numpy::PyArrayDyn;
use pyo3::prelude::*;

use crate::arrays::{array, numbers};

/// What a policy may observe when it decides: the past and the current step, never the future.
#[pyclass(frozen, module = "laau", name = "Observation")]
pub(crate) struct Observation {
    /// The current step, from 0.
    #[pyo3(get)]
    step: usize,
    /// Steps of the episode.
    #[pyo3(get)]
    horizon: usize,
    contexts: Vec<f64>,
    context_len: usize,
    budgets: Vec<f64>,
    remaining: Vec<f64>,
    available: Vec<f64>,
}

impl From<&laau::core::Observation<'_>> for Observation {
    fn from(seen: &laau::core::Observation<'_>) -> Self {
        Self {
            step: seen.step,
            horizon: seen.horizon,
            contexts: seen.contexts.to_vec(),
            context_len: seen.context_len,
            budgets: seen.budgets.to_vec(),
            remaining: seen.remaining.to_vec(),
            available: seen.available.to_vec(),
        }
    }
}

type Array<'py> = PyResult<Bound<'py, PyArrayDyn<f64>>>;

#[pymethods]
impl Observation {
    /// The contexts of the steps up to and including this one.
    #[getter]
    fn contexts<'py>(&self, py: Python<'py>) -> Array<'py> {
        let shape = [self.step + 1, self.context_len];
        array(py, self.contexts.clone(), &shape)
    }

    /// The context of this step.
    #[getter]
    fn context<'py>(&self, py: Python<'py>) -> Array<'py> {
        let context = self.contexts[self.step * self.context_len..].to_vec();
        array(py, context, &[self.context_len])
    }

    /// The budgets at the start of the episode.
    #[getter]
    fn budgets<'py>(&self, py: Python<'py>) -> Array<'py> {
        array(py, self.budgets.clone(), &[self.budgets.len()])
    }

    /// What remains of them, rounded down.
    #[getter]
    fn remaining<'py>(&self, py: Python<'py>) -> Array<'py> {
        array(py, self.remaining.clone(), &[self.remaining.len()])
    }

    /// What this step may use: what remains less the reserve of the steps to come.
    #[getter]
    fn available<'py>(&self, py: Python<'py>) -> Array<'py> {
        array(py, self.available.clone(), &[self.available.len()])
    }

    /// Steps after this one.
    #[getter]
    fn steps_left(&self) -> usize {
        self.horizon - 1 - self.step
    }

    fn __repr__(&self) -> String {
        format!(
            "Observation(step={}, horizon={}, context={:?}, available={:?})",
            self.step,
            self.horizon,
            &self.contexts[self.step * self.context_len..],
            self.available
        )
    }
}

/// A policy whose decisions Python makes: a callable, an object with `decide`, or one whose `begin` opens such an object
/// for every episode.
pub(crate) struct Scripted {
    name: String,
    object: Py<PyAny>,
}

impl Scripted {
    pub(crate) fn new(name: String, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let usable = object.is_callable() || object.hasattr("decide")? || object.hasattr("begin")?;
        if !usable {
            return Err(crate::errors::error(
                format!("policy `{name}` does not decide"),
                "give a function of an observation, an object with `decide`, or one whose `begin` opens such an object",
            ));
        }
        Ok(Self {
            name,
            object: object.clone().unbind(),
        })
    }
}

impl Policy for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        let opened = Python::attach(|py| {
            let object = self.object.bind(py);
            let agent = if object.hasattr("begin")? {
                object.call_method0("begin")?
            } else {
                object.clone()
            };
            let decide = if agent.hasattr("decide")? {
                agent.getattr("decide")?
            } else {
                agent.clone()
            };
            PyResult::Ok((agent.unbind(), decide.unbind()))
        });
        Box::new(ScriptedAgent {
            name: &self.name,
            opened: opened.map_err(|error| error.to_string()),
            multiplier: None,
        })
    }

    /// Python decides one step at a time anyway, and objects without `begin` may keep a state.
    fn is_sequential(&self) -> bool {
        true
    }
}

struct ScriptedAgent<'a> {
    name: &'a str,
    /// The object and what decides, or why there is none.
    opened: Result<(Py<PyAny>, Py<PyAny>), String>,
    multiplier: Option<Vec<f64>>,
}

impl Agent for ScriptedAgent<'_> {
    fn decide(&mut self, seen: &laau::core::Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let failed = |reason: String| Error::Policy {
            policy: self.name.to_owned(),
            reason,
        };
        let (agent, decide) = self.opened.as_ref().map_err(|reason| failed(reason.clone()))?;
        let decided = Python::attach(|py| {
            let answer = decide.bind(py).call1((Observation::from(seen),))?;
            let answer = numbers("action", &answer)?;
            action.copy_from_slice(answer.vector(action.len())?);
            let price = agent.bind(py).getattr_opt("multiplier")?;
            match price.filter(|price| !price.is_none() && !price.is_callable()) {
                Some(price) => {
                    let price = numbers("multiplier", &price)?;
                    Ok(Some(price.vector(seen.budgets.len())?.to_vec()))
                }
                None => PyResult::Ok(None),
            }
        });
        self.multiplier = decided.map_err(|error| failed(error.to_string()))?;
        Ok(())
    }

    fn multiplier(&self) -> Option<&[f64]> {
        self.multiplier.as_deref()
    }
}
