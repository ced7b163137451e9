//! The commit of the sources.

use std::path::Path;
use std::process::Command;

/// The commit of a folder's sources, with a mark behind it if they were changed since.
#[must_use]
pub fn commit(root: &Path, mark: &str) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(root)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    let name = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    if changed { format!("{name}{mark}") } else { name }
}
