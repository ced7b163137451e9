//! Numbers from Python and back.

use numpy::{
    IntoPyArray as _, PyArrayDyn, PyArrayMethods as _, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods as _,
};
use pyo3::prelude::*;

use crate::errors::{Raise as _, error};

/// An array of float64 whose rows follow each other in memory.
pub(crate) struct Numbers<'py> {
    what: &'static str,
    array: PyReadonlyArrayDyn<'py, f64>,
}

/// Takes an array as it is if it can be read in place; converts anything else without loss, or says why not.
pub(crate) fn numbers<'py>(what: &'static str, value: &Bound<'py, PyAny>) -> PyResult<Numbers<'py>> {
    let array = match value.cast::<PyArrayDyn<f64>>() {
        Ok(array) if is_plain(value) && is_readable(array) => array.clone(),
        _ => {
            let converted = value
                .py()
                .import("laau._arrays")?
                .call_method1("to_array", (what, value))?;
            converted.cast_into::<PyArrayDyn<f64>>()?
        }
    };
    let array = array.try_readonly().map_err(|_| {
        error(
            format!("{what} is being written to"),
            "wait for the other call to end",
        )
    })?;
    Ok(Numbers { what, array })
}

/// Whether its numbers follow each other, and each is where a processor may read it.
fn is_readable(array: &Bound<'_, PyArrayDyn<f64>>) -> bool {
    array.is_c_contiguous() && array.data().is_aligned()
}

/// Whether it is an array and not a kind of one, which may hide values, as one with a mask does.
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.get_type().is(value.py().get_type::<PyUntypedArray>())
}

impl Numbers<'_> {
    /// The numbers, row after row.
    pub(crate) fn values(&self) -> PyResult<&[f64]> {
        self.array.as_slice().map_err(|_| {
            error(
                format!("{} is not contiguous", self.what),
                "pass numpy.ascontiguousarray of it",
            )
        })
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// The exception for an array of another shape than was expected; `expected` is in words.
    pub(crate) fn wrong_shape(&self, expected: &str) -> PyErr {
        let found: Vec<String> = self.shape().iter().map(usize::to_string).collect();
        let comma = if found.len() == 1 { "," } else { "" };
        error(
            format!(
                "expected {} of shape {expected}, found ({}{comma})",
                self.what,
                found.join(", ")
            ),
            "reshape the array, or choose a task of these sizes",
        )
    }

    /// The number of rows of a table whose last dimensions are given; any number of dimensions may come before.
    pub(crate) fn rows(&self, last: &[usize], expected: &str) -> PyResult<usize> {
        let shape = self.shape();
        match shape.len().checked_sub(last.len()) {
            Some(before) if shape[before..] == *last => Ok(shape[..before].iter().product()),
            _ => Err(self.wrong_shape(expected)),
        }
    }

    /// A vector of finite numbers.
    pub(crate) fn finite(&self, length: usize) -> PyResult<&[f64]> {
        let values = self.vector(length)?;
        laau::core::expect_finite(self.what, values).raise()?;
        Ok(values)
    }

    /// One row: a vector of a length, or a number where the length is 1.
    pub(crate) fn vector(&self, length: usize) -> PyResult<&[f64]> {
        match self.shape() {
            [] if length == 1 => self.values(),
            [found] if *found == length => self.values(),
            _ => Err(self.wrong_shape(&format!("({length},)"))),
        }
    }
}

/// An array that takes over the numbers.
pub(crate) fn array<'py>(
    py: Python<'py>,
    values: Vec<f64>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    values.into_pyarray(py).reshape(shape.to_vec())
}
