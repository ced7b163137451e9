//! A problem by its name, with its solver.

use std::sync::Arc;

use laau::core::{Dimensions, Projection};
use laau::kkt::{InteriorPoint, Kink, Options};
use laau::registry::ProblemSpec;
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{array, numbers};
use crate::episode::Episode;
use crate::episodes::Episodes;
use crate::errors::{Raise as _, error};
use crate::options::{from_dict, keys, to_python};
use crate::threads::interruptible;

/// A problem with its parameters, and the solver of its steps.
#[pyclass(frozen, module = "laau", name = "Task")]
#[expect(clippy::struct_field_names, reason = "it holds a task of the core")]
pub(crate) struct Task {
    pub(crate) spec: ProblemSpec,
    pub(crate) task: laau::core::Task,
    /// What was given of the solver's options.
    solver: Option<Py<PyDict>>,
}

impl Task {
    pub(crate) fn of(spec: ProblemSpec) -> PyResult<Self> {
        let task = spec.task().raise()?;
        Ok(Self {
            spec,
            task,
            solver: None,
        })
    }

    pub(crate) fn dimensions(&self) -> Dimensions {
        self.task.problem.dimensions()
    }

    /// Refuses what was made for another problem.
    pub(crate) fn expect_same(&self, other: &ProblemSpec, what: &str) -> PyResult<()> {
        if self.spec == *other {
            return Ok(());
        }
        Err(error(
            format!("{what} is for another problem or other parameters"),
            "both must be for the same problem, with the same parameters",
        ))
    }
}

#[pymethods]
impl Task {
    /// A problem by its name; its parameters are the keys of `[problem]`, those of the solver replace its defaults.
    #[new]
    #[pyo3(signature = (name="weighted-fairness", *, solver=None, **parameters))]
    fn new(
        py: Python<'_>,
        name: &str,
        solver: Option<&Bound<'_, PyDict>>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut keys = from_dict(py, parameters)?;
        keys.insert("name".to_owned(), name.into());
        let mut made = Self::of(laau_cli::options::problem(&keys).raise()?)?;
        if let Some(solver) = solver.filter(|solver| !solver.is_empty()) {
            let options = solver_options(solver)?;
            let solver = InteriorPoint::new(Arc::clone(&made.task.problem), options).raise()?;
            made.task.solver = Box::new(solver);
        }
        made.solver = solver.map(|solver| solver.clone().unbind());
        Ok(made)
    }

    /// The problem's name.
    #[getter]
    fn name(&self) -> &'static str {
        self.spec.name()
    }

    /// All parameters, by name.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let json = serde_json::to_string(&self.spec).map_err(|reason| error(reason.to_string(), ""))?;
        to_python(py, &json)
    }

    /// The sizes: actions, budgets, context.
    #[getter]
    fn sizes(&self) -> (usize, usize, usize) {
        let Dimensions {
            actions,
            budgets,
            context,
        } = self.dimensions();
        (actions, budgets, context)
    }

    /// The least actions.
    #[getter]
    fn lower<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let lower = self.task.problem.lower().to_vec();
        array(py, lower, &[self.dimensions().actions])
    }

    /// The greatest actions.
    #[getter]
    fn upper<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let upper = self.task.problem.upper().to_vec();
        array(py, upper, &[self.dimensions().actions])
    }

    /// What a step uses at least.
    #[getter]
    fn least_usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let mut least = vec![0.0; self.dimensions().budgets];
        self.task.problem.least_usage(&mut least);
        array(py, least, &[self.dimensions().budgets])
    }

    /// The cost of an action in a context; the utility is its negative.
    fn cost(&self, action: &Bound<'_, PyAny>, context: &Bound<'_, PyAny>) -> PyResult<f64> {
        let (action, context) = (numbers("action", action)?, numbers("context", context)?);
        let sizes = self.dimensions();
        let (action, context) = (action.finite(sizes.actions)?, context.vector(sizes.context)?);
        self.task.problem.check_context(context).raise()?;
        Ok(self.task.problem.cost(action, context))
    }

    /// What an action uses of each budget in a context.
    fn usage<'py>(
        &self,
        py: Python<'py>,
        action: &Bound<'_, PyAny>,
        context: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let (action, context) = (numbers("action", action)?, numbers("context", context)?);
        let sizes = self.dimensions();
        let (action, context) = (action.finite(sizes.actions)?, context.vector(sizes.context)?);
        self.task.problem.check_context(context).raise()?;
        let mut usage = vec![0.0; sizes.budgets];
        self.task.problem.usage(action, context, &mut usage);
        array(py, usage, &[sizes.budgets])
    }

    /// An action that can be paid out of what is available: the given one where that is possible.
    fn project<'py>(
        &self,
        py: Python<'py>,
        action: &Bound<'_, PyAny>,
        context: &Bound<'_, PyAny>,
        available: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let (action, context) = (numbers("action", action)?, numbers("context", context)?);
        let available = numbers("available", available)?;
        let sizes = self.dimensions();
        let problem = &*self.task.problem;
        let context = context.vector(sizes.context)?;
        problem.check_context(context).raise()?;
        let mut payable = action.finite(sizes.actions)?.to_vec();
        let available = available.finite(sizes.budgets)?;
        Projection::new(problem).apply(problem, context, available, &mut payable);
        array(py, payable, &[sizes.actions])
    }

    /// Opens an episode without a policy: whoever pays decides.
    fn begin(slf: Py<Self>, py: Python<'_>, budgets: &Bound<'_, PyAny>, horizon: usize) -> PyResult<Episode> {
        Episode::open(py, slf, None, budgets, horizon)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.spec == other.spec
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Restored<'py>)> {
        let restore = py.import("laau._options")?.getattr("restore_task")?;
        let solver = self.solver.as_ref().map(|solver| solver.clone_ref(py));
        Ok((restore, (self.parameters(py)?, solver)))
    }

    fn __repr__(&self) -> String {
        let Dimensions {
            actions,
            budgets,
            context,
        } = self.dimensions();
        format!(
            "Task({}, {actions} actions, {budgets} budgets, context of {context})",
            self.spec.name()
        )
    }
}

/// Parameters and options of the solver: what a task is pickled as.
type Restored<'py> = (Bound<'py, PyAny>, Option<Py<PyDict>>);

/// The solver's options that can be given.
fn solver_options(given: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    for (key, value) in given {
        match key.extract::<String>()?.as_str() {
            "tolerance" => options.tolerance = value.extract()?,
            "max_iterations" => options.max_iterations = value.extract()?,
            "smoothing" => {
                options.kink = Kink::Smoothed {
                    barrier: value.extract()?,
                }
            }
            other => {
                return Err(error(
                    format!("unknown option `{other}` of the solver"),
                    "there are tolerance, max_iterations and smoothing",
                ));
            }
        }
    }
    Ok(options)
}

/// Makes episodes of the problem's synthetic workload: one set, or three that share no machine.
#[pyfunction]
pub(crate) fn generate(py: Python<'_>, task: &Bound<'_, Task>, options: &str) -> PyResult<Vec<Episodes>> {
    let task = task.get();
    let workload = laau_cli::options::workload(&task.spec, &keys(options)?).raise()?;
    workload.check(&*task.task.problem).raise()?;
    let sets = interruptible(py, |_| match workload.split {
        None => Ok(vec![workload.workload.generate(&workload.options)?]),
        Some(split) => {
            let sets = workload.workload.generate_split(split, &workload.options)?;
            Ok::<_, laau::data::Error>(vec![sets.train, sets.validation, sets.test])
        }
    })?;
    Ok(sets.raise()?.into_iter().map(Episodes).collect())
}
