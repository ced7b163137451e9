//! Checks of slice lengths.

use laau_core::Error;

/// Checks that a slice has the expected length.
pub(crate) fn expect_length(what: &'static str, slice: &[f64], expected: usize) -> Result<(), Error> {
    if slice.len() == expected {
        Ok(())
    } else {
        Err(Error::WrongLength {
            what,
            expected,
            found: slice.len(),
        })
    }
}
