//! A Python environment with the peers that install.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::Failure;
use super::latest::INSTALLATION;
use crate::venv::Venv;

/// Packages that are installed together: if one does not install, the others of its line are of no use.
const GROUPS: &[&[&str]] = &[
    &["numpy", "scipy", "mpmath"],
    &["jax", "jaxlib", "jaxopt"],
    &["torch"],
    &["cvxpy", "cvxpylayers", "diffcp", "scs", "ecos"],
    &["clarabel"],
    &["moreau"],
    &["polars"],
];

/// An environment, and what could not be installed into it.
#[derive(Debug)]
pub(super) struct Environment {
    venv: Venv,
    pub(super) failures: Vec<Failure>,
}

impl Environment {
    /// Makes the environment below a folder, or takes the one that is there, and installs what is missing of what the wanted peers
    /// need.
    pub(super) fn prepare(
        folder: &Path,
        requirements: &Path,
        wanted: &BTreeSet<&str>,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut environment = Self {
            venv: Venv::make(&folder.join("venv")).context("peers need an environment of Python")?,
            failures: Vec::new(),
        };
        let text = std::fs::read_to_string(requirements)
            .with_context(|| format!("cannot read {}", requirements.display()))?;
        let is_wanted = |group: &[&str]| group == GROUPS[0] || group.iter().any(|name| wanted.contains(name));
        for group in GROUPS.iter().filter(|group| is_wanted(group)) {
            let pinned: Vec<&str> = group.iter().filter_map(|name| pin(&text, name)).collect();
            if let Err(reason) = environment.venv.install(&pinned) {
                println!("{} did not install: {reason}", group.join(", "));
                environment.failures.extend(group.iter().map(|name| Failure {
                    peer: (*name).to_owned(),
                    work: INSTALLATION.to_owned(),
                    variant: String::new(),
                    reason: reason.clone(),
                    commit: String::new(),
                }));
            }
        }
        Ok(environment)
    }

    /// A command that runs a script in the environment.
    pub(super) fn python(&self, script: &Path) -> Command {
        let mut command = self.venv.command("python");
        command.arg(script);
        command
    }

    /// Runs a script to its end.
    pub(super) fn run(&self, script: &Path, arguments: &[&Path]) -> anyhow::Result<()> {
        let status = self.python(script).args(arguments).status()?;
        ensure!(status.success(), "{} failed", script.display());
        Ok(())
    }
}

/// The line of a package in the list of requirements.
fn pin<'a>(requirements: &'a str, name: &str) -> Option<&'a str> {
    requirements
        .lines()
        .map(str::trim)
        .find(|line| line.split_once("==").is_some_and(|(known, _)| known == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_and_every_pin_is_installed() {
        let path = crate::workspace_root().join("benches/peers/requirements.txt");
        let text = std::fs::read_to_string(path).unwrap();
        let names: Vec<&str> = GROUPS.concat();
        for name in &names {
            assert!(pin(&text, name).is_some(), "{name} has no version");
        }
        for line in text.lines() {
            assert!(
                names.iter().any(|name| pin(line, name).is_some()),
                "{line} is in no group"
            );
        }
    }
}
