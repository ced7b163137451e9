//! Where work is done while the interpreter is released, and how Ctrl-C reaches it.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::error;

/// A person does not notice it, and a training does not either.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The threads of this process. A process that was forked has none of its parent's, and gets its own.
pub(crate) fn pool() -> PyResult<Arc<ThreadPool>> {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    match &*pool {
        Some((owner, threads)) if *owner == process => Ok(Arc::clone(threads)),
        _ => {
            let threads = ThreadPoolBuilder::new().build();
            let threads = Arc::new(threads.map_err(|reason| PyRuntimeError::new_err(reason.to_string()))?);
            // A pool of another process cannot be joined: its threads are not here.
            std::mem::forget(pool.replace((process, Arc::clone(&threads))));
            Ok(threads)
        }
    }
}

/// Refuses in a forked process what polars does: its threads, which it has from its first work on, are its parent's.
pub(crate) fn expect_not_forked() -> PyResult<()> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    let process = std::process::id();
    if *FIRST.get_or_init(|| process) == process {
        return Ok(());
    }
    Err(error(
        "this process was forked from one that has read or written tables, and threads do not come along",
        "let multiprocessing \"spawn\" its processes, or hand episodes over instead of files",
    ))
}

/// Does work with the interpreter released. Signals are handled meanwhile: `work` is asked to stop by the flag when one
/// raises an exception, which is then the result.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> PyResult<T> {
    let pool = pool()?;
    let stop = AtomicBool::new(false);
    // A policy in Python that calls us is on a thread of the pool, which would wait for itself.
    if rayon::current_thread_index().is_some() {
        return py.detach(|| {
            let work = std::panic::AssertUnwindSafe(|| work(&stop));
            std::panic::catch_unwind(work).map_err(|panic| mistake(&*panic))
        });
    }
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, waiting) = channel();
            let (pool, stop) = (&pool, &stop);
            let worker = scope.spawn(move || {
                let result = pool.install(|| work(stop));
                // Whoever waits hears of the end in any case, when the sender is dropped.
                let _ = done.send(());
                result
            });
            let mut raised = None;
            while let Err(RecvTimeoutError::Timeout) = waiting.recv_timeout(LOOK_EVERY) {
                if raised.is_none() {
                    raised = Python::attach(|py| py.check_signals().err());
                    stop.store(raised.is_some(), Ordering::Relaxed);
                }
            }
            let result = worker.join().map_err(|panic| mistake(&*panic))?;
            raised.map_or(Ok(result), Err)
        })
    })
}

/// A panic is a mistake of ours; the interpreter outlives it.
fn mistake(panic: &(dyn Any + Send)) -> PyErr {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
    PyRuntimeError::new_err(format!(
        "this is a mistake in laau itself, please report it: {}",
        words.unwrap_or("no reason was given")
    ))
}
