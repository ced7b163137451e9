//! Ctrl-C: the work ends in good order at the first one, at once at the second.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::{Failure, reason};

/// The status of a process that Ctrl-C has ended, as shells count it.
pub(crate) const INTERRUPTED: u8 = 130;

/// A flag that is raised when the user, or the system, asks the process to end.
pub(crate) fn watch() -> Result<Arc<AtomicBool>, Failure> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first signal finds the flag down and raises it, the second one finds it raised.
        flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(&asked))
            .and_then(|_| flag::register(signal, Arc::clone(&asked)))
            .map_err(|error| {
                Failure::new(
                    format_args!("the signals of the process cannot be handled: {}", reason(&error)),
                    "run the command in an ordinary terminal or service",
                )
            })?;
    }
    Ok(asked)
}
