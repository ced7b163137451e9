//! A Python environment with the peers that install.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::Failure;

/// Packages that are installed together: if one does not install, the others of its line are of no use.
const GROUPS: &[&[&str]] = &[
    &["numpy", "scipy", "mpmath"],
    &["jax", "jaxlib", "jaxopt"],
    &["torch"],
    &["cvxpy", "cvxpylayers", "diffcp", "scs", "ecos"],
    &["clarabel"],
    &["moreau"],
];

/// Where torch is without a graphics card's libraries; elsewhere it comes with gigabytes of them.
const TORCH_INDEX: &str = "https://download.pytorch.org/whl/cpu";

/// An environment, and what could not be installed into it.
#[derive(Debug)]
pub(super) struct Environment {
    folder: PathBuf,
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
            folder: folder.join("venv"),
            failures: Vec::new(),
        };
        if !environment.program("python").is_file() {
            let status = Command::new("python3")
                .args(["-m", "venv"])
                .arg(&environment.folder)
                .status()
                .context("peers need Python 3, which is not installed")?;
            ensure!(status.success(), "python3 -m venv failed");
        }
        let text = std::fs::read_to_string(requirements)
            .with_context(|| format!("cannot read {}", requirements.display()))?;
        let is_wanted = |group: &[&str]| group == GROUPS[0] || group.iter().any(|name| wanted.contains(name));
        for group in GROUPS.iter().filter(|group| is_wanted(group)) {
            let pinned: Vec<&str> = group.iter().filter_map(|name| pin(&text, name)).collect();
            if let Err(reason) = environment.install(&pinned) {
                println!("{} did not install: {reason}", group.join(", "));
                environment.failures.extend(group.iter().map(|name| Failure {
                    peer: (*name).to_owned(),
                    work: "installation".to_owned(),
                    variant: String::new(),
                    reason: reason.clone(),
                }));
            }
        }
        Ok(environment)
    }

    /// Installs pinned packages; torch from its index for processors, if that can be reached.
    fn install(&self, pinned: &[&str]) -> Result<(), String> {
        println!("installing {}", pinned.join(" "));
        let pip = |options: &[&str]| {
            let output = Command::new(self.program("python"))
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .args(options)
                .args(pinned)
                .output()
                .map_err(|error| error.to_string())?;
            if output.status.success() {
                return Ok(());
            }
            let talk = String::from_utf8_lossy(&output.stderr).into_owned();
            let told = talk
                .lines()
                .rev()
                .find(|line| line.contains("ERROR"))
                .unwrap_or(&talk);
            Err(told.trim().to_owned())
        };
        let installed = pip(&["--no-index"]).is_ok();
        if installed {
            return Ok(());
        }
        if pinned.iter().any(|name| name.starts_with("torch=="))
            && pip(&["--index-url", TORCH_INDEX, "--retries", "0", "--timeout", "10"]).is_ok()
        {
            return Ok(());
        }
        pip(&[])
    }

    /// A command that runs a script in the environment.
    pub(super) fn python(&self, script: &Path) -> Command {
        let mut command = Command::new(self.program("python"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script);
        command
    }

    /// Runs a script to its end.
    pub(super) fn run(&self, script: &Path, arguments: &[&Path]) -> anyhow::Result<()> {
        let status = self.python(script).args(arguments).status()?;
        ensure!(status.success(), "{} failed", script.display());
        Ok(())
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
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
