//! Ctrl-C: the work ends in good order at the first one, at once at the second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

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

/// Ends a command that was asked to end; the sentence says what is left of its work.
pub(crate) fn check(asked: &AtomicBool, sentence: &str) -> Result<(), Failure> {
    if asked.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted {
            sentence: sentence.to_owned(),
            hint: "run the same command again".to_owned(),
        });
    }
    Ok(())
}

/// Does work that cannot be asked to end, in a thread that is left alone when the user asks.
pub(crate) fn wait<T: Send + 'static>(
    asked: &AtomicBool,
    sentence: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    /// A person does not notice it.
    const LOOK_EVERY: Duration = Duration::from_millis(20);
    let (sender, receiver) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        // Nobody listens any more if the user has asked.
        let _ = sender.send(work());
    });
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => check(asked, sentence)?,
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => {
                    return Err(Failure::new(
                        "the work ended without a result",
                        "this is a mistake in laau itself: please report it",
                    ));
                }
            },
        }
    }
}
