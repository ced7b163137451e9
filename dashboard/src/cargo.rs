//! Cargo, run from here as a user would run it.

use std::process::Command;

/// A command that runs cargo.
#[must_use]
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    outside_of_cargo(Command::new(program))
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
    use super::*;

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
