//! Cargo, run from here as a user would run it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// A command that runs cargo.
#[must_use]
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    outside_of_cargo(Command::new(program))
}

/// The arguments that build a binary of the workspace with the settings and features of `cargo test --workspace`.
///
/// Whoever runs the tests after it, or it after the tests, compiles no dependency twice.
///
/// Without the default features, unless it is to serve: the service is compiled by those who serve.
fn as_the_tests_do(binary: &str, serving: bool) -> Vec<&str> {
    let mut arguments = vec!["build", "--workspace", "--bin", binary, "--locked"];
    if !serving {
        arguments.push("--no-default-features");
    }
    arguments.extend(["--features", "laau/conformance"]);
    arguments
}

/// Builds a binary of the workspace with the profile that tests use, in which our own crates are optimised.
///
/// # Errors
/// Cargo cannot be run, or the build fails.
pub fn build(binary: &str, root: &Path) -> anyhow::Result<PathBuf> {
    build_by(&as_the_tests_do(binary, false), "debug", binary, root)
}

/// Builds a binary of the workspace as [`build`] does, with its service.
///
/// # Errors
/// Cargo cannot be run, or the build fails.
pub fn build_serving(binary: &str, root: &Path) -> anyhow::Result<PathBuf> {
    build_by(&as_the_tests_do(binary, true), "debug", binary, root)
}

/// Builds a binary of a package as a user does, with the release profile.
///
/// # Errors
/// Cargo cannot be run, or the build fails.
pub fn build_release(package: &str, binary: &str, root: &Path) -> anyhow::Result<PathBuf> {
    let arguments = [
        "build",
        "--release",
        "--package",
        package,
        "--bin",
        binary,
        "--locked",
    ];
    build_by(&arguments, "release", binary, root)
}

fn build_by(arguments: &[&str], profile: &str, binary: &str, root: &Path) -> anyhow::Result<PathBuf> {
    let status = cargo()
        .args(arguments)
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the build failed");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target
        .join(profile)
        .join(format!("{binary}{}", std::env::consts::EXE_SUFFIX)))
}

/// Takes out of a command's environment what cargo told this program about its package.
///
/// Some build scripts (ring's among them) run again whenever these variables change, and with them everything that
/// depends on their crates is built again: for us that is all of polars.
#[must_use]
pub fn outside_of_cargo(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_about_a_package) {
            command.env_remove(name);
        }
    }
    command
}

fn is_about_a_package(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
        .iter()
        .any(|start| name.starts_with(start))
        || name == "CARGO_PRIMARY_PACKAGE"
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The libraries that cargo would build: package, settings, features.
    fn libraries(arguments: &[&str]) -> HashSet<String> {
        libraries_in(&crate::workspace_root(), arguments)
    }

    fn libraries_in(folder: &Path, arguments: &[&str]) -> HashSet<String> {
        let output = cargo()
            .args(arguments)
            .args(["--unit-graph", "-Z", "unstable-options"])
            .env("RUSTC_BOOTSTRAP", "1")
            .current_dir(folder)
            .output()
            .expect("cargo runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let graph: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        graph["units"]
            .as_array()
            .expect("units")
            .iter()
            .filter(|unit| {
                unit["mode"] == "build" && unit["target"]["crate_types"] != serde_json::json!(["bin"])
            })
            .map(|unit| {
                // Of a profile the name tells nothing: it is `test` here and `dev` there.
                let profile = &unit["profile"];
                format!(
                    "{} {} {} {} {} {} {}",
                    unit["pkg_id"],
                    unit["target"]["kind"],
                    profile["opt_level"],
                    profile["codegen_units"],
                    profile["debug_assertions"],
                    profile["debuginfo"],
                    unit["features"]
                )
            })
            .collect()
    }

    #[test]
    fn the_tests_compile_no_library_of_the_binary_again() {
        let tests = libraries(&["test", "--workspace", "--locked"]);
        assert!(tests.iter().any(|library| library.contains("polars-core@")));
        for (binary, serving) in [
            ("laau", false),
            ("laau", true),
            ("laau-audit", false),
            ("laau-siege", false),
        ] {
            let twice: Vec<String> = libraries(&as_the_tests_do(binary, serving))
                .difference(&tests)
                // Our own command line, with the service or without it, takes seconds.
                .filter(|library| !library.contains("/crates/laau-cli#"))
                .cloned()
                .collect();
            assert!(twice.is_empty(), "{binary}: {twice:#?}");
        }
    }

    #[test]
    fn the_python_extension_compiles_no_dependency_of_the_tests_again() {
        let package = |library: &str| library.split(' ').next().map(str::to_owned);
        let tests = libraries(&["test", "--workspace", "--locked"]);
        let known: HashSet<String> = tests.iter().filter_map(|library| package(library)).collect();
        let folder = crate::workspace_root().join("python");
        let python = libraries_in(&folder, &["build", "--features", "as-tests", "--locked"]);
        assert!(python.iter().any(|library| library.contains("polars-core@")));
        let again: Vec<&String> = python
            .difference(&tests)
            .filter(|library| library.contains("registry+"))
            .filter(|library| package(library).is_some_and(|package| known.contains(&package)))
            .collect();
        assert!(again.is_empty(), "{again:#?}");
    }

    #[test]
    fn only_what_is_about_a_package_is_taken_out() {
        // Tests are run by cargo, too: these are there.
        let command = outside_of_cargo(Command::new("cargo"));
        let removed: Vec<String> = command
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect();
        assert!(
            removed.iter().any(|name| name == "CARGO_MANIFEST_DIR"),
            "{removed:?}"
        );
        assert!(removed.iter().any(|name| name == "CARGO_PKG_NAME"), "{removed:?}");
        for kept in [
            "CARGO_TARGET_DIR",
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO",
            "PATH",
        ] {
            assert!(!is_about_a_package(kept), "{kept}");
        }
    }
}
