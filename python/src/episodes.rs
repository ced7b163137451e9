//! Sets of episodes.

use std::path::PathBuf;
use std::sync::Arc;

use laau::core;
use numpy::PyArrayDyn;
use pyo3::prelude::*;

use crate::arrays::{array, numbers};
use crate::errors::{Raise as _, error};
use crate::threads::expect_not_forked;

/// A set of episodes of one horizon: contexts and budgets.
#[pyclass(frozen, module = "laau", name = "Episodes")]
pub(crate) struct Episodes(pub(crate) core::Episodes);

#[pymethods]
impl Episodes {
    #[new]
    fn new(contexts: &Bound<'_, PyAny>, budgets: &Bound<'_, PyAny>) -> PyResult<Self> {
        let contexts = numbers("contexts", contexts)?;
        let budgets = numbers("budgets", budgets)?;
        let (count, horizon, context) = match *contexts.shape() {
            [count, horizon] => (count, horizon, 1),
            [count, horizon, context] => (count, horizon, context),
            _ => return Err(contexts.wrong_shape("(episodes, steps) or (episodes, steps, context)")),
        };
        let width = match *budgets.shape() {
            [found] if found == count => 1,
            [found, width] if found == count => width,
            _ => {
                return Err(
                    budgets.wrong_shape(&format!("({count},) or ({count}, budgets), as the contexts say"))
                );
            }
        };
        if count == 0 {
            return Err(error(
                "expected at least one episode, found none",
                "give some contexts",
            ));
        }
        let (contexts, budgets) = (contexts.values()?.to_vec(), budgets.values()?.to_vec());
        core::Episodes::new(horizon, context, width, contexts, budgets)
            .raise()
            .map(Self)
    }

    /// Reads an episodes table: Parquet or CSV.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        expect_not_forked()?;
        py.detach(|| laau::data::read_episodes(&path)).raise().map(Self)
    }

    /// Writes an episodes table: Parquet or CSV, by the ending.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        expect_not_forked()?;
        py.detach(|| laau::data::write_episodes(&path, &self.0)).raise()
    }

    /// Takes a frame with the columns of an episodes table: polars, pandas, Arrow, or a dictionary of columns.
    #[staticmethod]
    fn from_frame(frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        let tables = frame
            .py()
            .import("laau._frames")?
            .call_method1("tables_of", (frame,))?;
        let (contexts, budgets): (Bound<'_, PyAny>, Bound<'_, PyAny>) = tables.extract()?;
        Self::new(&contexts, &budgets)
    }

    /// The episodes table as a frame of polars or pandas.
    #[pyo3(signature = (frame=None))]
    fn to_frame<'py>(slf: &Bound<'py, Self>, frame: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("laau._frames")?
            .call_method1("frame_of", (slf, frame))
    }

    /// All contexts, (episodes, steps, context).
    #[getter]
    fn contexts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let shape = [self.0.len(), self.0.horizon(), self.0.context_len()];
        array(py, self.0.contexts().to_vec(), &shape)
    }

    /// All budgets, (episodes, budgets).
    #[getter]
    fn budgets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let shape = [self.0.len(), self.0.budget_len()];
        array(py, self.0.budgets().to_vec(), &shape)
    }

    /// Steps of every episode.
    #[getter]
    fn horizon(&self) -> usize {
        self.0.horizon()
    }

    /// The episodes at the given positions, in that order.
    fn select(&self, positions: Vec<usize>) -> PyResult<Self> {
        if positions.is_empty() {
            return Err(error(
                "expected at least one episode, found none",
                "name some positions",
            ));
        }
        match positions.iter().find(|position| **position >= self.0.len()) {
            Some(position) => Err(error(
                format!("no episode {position}: there are {}", self.0.len()),
                "episodes are counted from 0",
            )),
            None => Ok(Self(self.0.select(&positions))),
        }
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Pickled<'py>)> {
        let restore = py.import("laau._laau")?.getattr("restore_episodes")?;
        let scaling = self.0.scaling().map(serde_json::to_string).transpose();
        let scaling = scaling.map_err(|reason| error(reason.to_string(), ""))?;
        let series = self
            .0
            .series()
            .map(|names| names.iter().map(ToString::to_string).collect());
        let problem = self.0.problem().map(str::to_owned);
        Ok((
            restore,
            (self.contexts(py)?, self.budgets(py)?, scaling, series, problem),
        ))
    }

    fn __repr__(&self) -> String {
        format!(
            "Episodes({} episodes, {} steps, context of {}, {} budgets)",
            self.0.len(),
            self.0.horizon(),
            self.0.context_len(),
            self.0.budget_len()
        )
    }
}

/// Contexts, budgets, how the contexts were scaled, the series of the episodes, and the name of their problem.
type Pickled<'py> = (
    Bound<'py, PyArrayDyn<f64>>,
    Bound<'py, PyArrayDyn<f64>>,
    Option<String>,
    Option<Vec<String>>,
    Option<String>,
);

/// Episodes from what they were pickled as.
#[pyfunction]
pub(crate) fn restore_episodes(
    contexts: &Bound<'_, PyAny>,
    budgets: &Bound<'_, PyAny>,
    scaling: Option<&str>,
    series: Option<Vec<String>>,
    problem: Option<&str>,
) -> PyResult<Episodes> {
    let mut episodes = Episodes::new(contexts, budgets)?.0;
    if let Some(scaling) = scaling {
        let scaling: core::Scaling =
            serde_json::from_str(scaling).map_err(|reason| error(reason.to_string(), ""))?;
        episodes = episodes.with_scaling(scaling).raise()?;
    }
    if let Some(series) = series {
        let series = series.into_iter().map(Arc::from).collect();
        episodes = episodes.with_series(series).raise()?;
    }
    if let Some(problem) = problem {
        episodes = episodes.made_for(problem);
    }
    Ok(Episodes(episodes))
}
