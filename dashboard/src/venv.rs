//! A virtual environment of Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// Where torch is without a graphics card's libraries; elsewhere it comes with gigabytes of them.
const TORCH_INDEX: &str = "https://download.pytorch.org/whl/cpu";

/// A folder with an interpreter and what is installed for it.
#[derive(Debug)]
pub struct Venv {
    folder: PathBuf,
}

impl Venv {
    /// Makes the environment, or takes the one that is there.
    ///
    /// # Errors
    /// Without Python 3, or without its module venv.
    pub fn make(folder: &Path) -> anyhow::Result<Self> {
        let venv = Self {
            folder: folder.to_owned(),
        };
        if !venv.program("python").is_file() {
            let status = Command::new("python3")
                .args(["-m", "venv"])
                .arg(folder)
                .status()
                .context("Python 3 is not installed")?;
            ensure!(status.success(), "python3 -m venv failed");
        }
        Ok(venv)
    }

    /// Installs packages, if they are not there; torch from its index for processors, if that can be reached.
    ///
    /// # Errors
    /// What pip says.
    pub fn install(&self, packages: &[&str]) -> Result<(), String> {
        println!("installing {}", packages.join(" "));
        if self.pip(&["--no-index"], packages).is_ok() {
            return Ok(());
        }
        let is_torch = |name: &&str| **name == *"torch" || name.starts_with("torch=");
        if packages.iter().any(is_torch)
            && self
                .pip(
                    &["--index-url", TORCH_INDEX, "--retries", "0", "--timeout", "10"],
                    packages,
                )
                .is_ok()
        {
            return Ok(());
        }
        self.pip(&[], packages)
    }

    /// Runs `pip install` with options.
    ///
    /// # Errors
    /// What pip says.
    pub fn pip(&self, options: &[&str], packages: &[&str]) -> Result<(), String> {
        let output = Command::new(self.program("python"))
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(options)
            .args(packages)
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
    }

    /// A command that runs a program of the environment.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.program(program));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }
}
