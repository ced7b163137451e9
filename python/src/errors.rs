//! Errors of the core as Python exceptions, in the same words.

use laau::core::Error as CoreError;
use laau_cli::Refused;
use pyo3::prelude::*;

mod python {
    pyo3::import_exception!(laau._errors, Error);
    pyo3::import_exception!(laau._errors, Overspend);
}

/// An exception with a sentence and a hint.
pub(crate) fn error(sentence: impl Into<String>, hint: impl Into<String>) -> PyErr {
    python::Error::new_err((sentence.into(), hint.into()))
}

/// Gives any error of the libraries as an exception.
pub(crate) trait Raise<T> {
    /// The value, or the exception.
    fn raise(self) -> PyResult<T>;
}

impl<T, E: Into<Refused>> Raise<T> for Result<T, E> {
    fn raise(self) -> PyResult<T> {
        self.map_err(|error| {
            let Refused { sentence, hint } = error.into();
            self::error(sentence, hint)
        })
    }
}

/// The exception of a payment: one that a budget does not cover has a class of its own.
pub(crate) fn payment(error: CoreError) -> PyErr {
    if let CoreError::Overspend { .. } = error.root() {
        return python::Overspend::new_err((
            error.to_string(),
            "nothing was paid; ask for an action that uses at most what is available",
        ));
    }
    let Refused { sentence, hint } = error.into();
    self::error(sentence, hint)
}
