//! Calls into polars, whose panics at damaged files become errors.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is told where polars panics.
pub(crate) const DAMAGED: &str = "the file is damaged: the decoder gave up";

/// Polars panicked.
pub(crate) struct Panicked;

/// Decoders that are at work.
static DECODING: AtomicUsize = AtomicUsize::new(0);

/// Calls polars, whose decoder panics at some damaged files. Its panics become errors, without their text on standard error;
/// those of everybody else are told as ever.
pub(crate) fn decode<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_decoder = || {
                panic
                    .location()
                    .is_some_and(|place| place.file().contains("polars"))
                    || std::thread::current()
                        .name()
                        .is_some_and(|name| name.starts_with("async-executor") || name.starts_with("polars"))
            };
            if DECODING.load(Ordering::Relaxed) == 0 || !is_decoder() {
                told(panic);
            }
        }));
    });
    DECODING.fetch_add(1, Ordering::Relaxed);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    DECODING.fetch_sub(1, Ordering::Relaxed);
    outcome.map_err(|_| Panicked)
}
