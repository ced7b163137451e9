//! `cargo xtask tidy`: the promises of ARCHITECTURE.md, executed.

mod crates;
mod files;
mod licences;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use cargo_metadata::MetadataCommand;

/// Runs every check and prints what is broken.
pub(crate) fn run() -> anyhow::Result<()> {
    let metadata = MetadataCommand::new().exec().context("cargo metadata failed")?;
    let root = metadata.workspace_root.clone().into_std_path_buf();
    let mut findings = crates::check(&metadata);
    findings.extend(licences::check(&metadata));
    let tracked = tracked_files(&root)?;
    for path in &tracked {
        // What is not text is not read; a deleted file that is still tracked is not there to be checked.
        if let Ok(text) = std::fs::read_to_string(root.join(path)) {
            findings.extend(files::check(path, &text));
        }
    }
    findings.sort();
    if findings.is_empty() {
        println!(
            "tidy: {} crates and {} files are as they should be",
            metadata.workspace_members.len(),
            tracked.len()
        );
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    bail!("{} findings", findings.len())
}

/// The files that git tracks, relative to the root.
pub(crate) fn tracked_files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    if !output.status.success() {
        bail!(
            "git ls-files failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .collect())
}
