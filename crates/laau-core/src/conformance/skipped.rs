//! A test that lacks what it needs says so.

use std::io::Write as _;

/// Records that a test cannot run here because something that it needs is missing.
///
/// Prints a line to standard error, and appends it to the file that the environment variable `LAAU_SKIPPED_LOG` names, so
/// that a CI run can list what it did not test although libtest captures the output of a passing test.
#[expect(clippy::print_stderr, reason = "a skipped test is news for people")]
pub fn skipped(test: &str, reason: &str) {
    let line = format!("skipped: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("LAAU_SKIPPED_LOG") {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
        log.and_then(|mut log| log.write_all(line.as_bytes()))
            .expect("the file of LAAU_SKIPPED_LOG can be written");
    }
}
