//! The exact ledger.

use std::sync::{Mutex, MutexGuard, PoisonError};

use laau::core;
use numpy::PyArrayDyn;
use pyo3::prelude::*;

use crate::arrays::{array, numbers};
use crate::errors::{Raise as _, payment};

/// Pays usage out of budgets, exactly: the real-number sum of all usage never exceeds a budget.
#[pyclass(frozen, module = "laau")]
pub(crate) struct Ledger(Mutex<core::Ledger>);

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, core::Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Ledger {
    #[new]
    fn new(budgets: &Bound<'_, PyAny>) -> PyResult<Self> {
        let budgets = numbers("budgets", budgets)?;
        let ledger = core::Ledger::new(budgets.values()?).raise()?;
        Ok(Self(Mutex::new(ledger)))
    }

    /// Pays a usage, all of it or, with an exception, nothing.
    fn spend(&self, usage: &Bound<'_, PyAny>) -> PyResult<()> {
        let usage = numbers("usage", usage)?;
        self.lock().spend(usage.values()?).map_err(payment)
    }

    /// What remains of each budget, rounded down.
    #[getter]
    fn remaining<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let remaining = self.lock().remaining().to_vec();
        let length = remaining.len();
        array(py, remaining, &[length])
    }

    fn __repr__(&self) -> String {
        format!("Ledger(remaining={:?})", self.lock().remaining())
    }
}
