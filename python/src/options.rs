//! Options as the Python package hands them over: JSON by the keys of the configuration.

use laau_cli::options::Keys;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::error;

/// Reads options; what JSON cannot say, the package has refused.
pub(crate) fn keys(json: &str) -> PyResult<Keys> {
    let mut keys: Keys = serde_json::from_str(json).map_err(|reason| {
        error(
            format!("the options are not readable: {reason}"),
            "give numbers, words and lists of them",
        )
    })?;
    // Nothing is the default.
    keys.retain(|_, value| !value.is_null());
    Ok(keys)
}

/// Options as keyword arguments; the package turns them into JSON.
pub(crate) fn from_dict(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Keys> {
    let Some(options) = options else {
        return Ok(Keys::new());
    };
    let json = py.import("laau._options")?.call_method1("to_json", (options,))?;
    keys(&json.extract::<String>()?)
}

/// JSON as Python's own lists and dictionaries.
pub(crate) fn to_python<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json,))
}
