#![doc = include_str!("../README.md")]
#![expect(clippy::print_stdout, reason = "the commands report on standard output")]

pub mod bench;
pub mod browser;
pub mod cargo;
pub mod git;
pub mod page;
mod peers;
pub mod venv;

use std::path::{Path, PathBuf};

/// The folder of the workspace: the parent of the running package's.
///
/// `cargo run` and `cargo test` name the package in the environment; without it, this package's folder at compile time is
/// used. Clones that share a target folder share the binary, so the environment comes first.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or(package.clone(), Path::to_path_buf)
}
