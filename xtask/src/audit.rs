//! `cargo xtask audit`: random instances against certificates; runs the package `laau-audit`.

use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;

use laau_dashboard::cargo::cargo;

/// What the audit is asked; everything goes to the program as it is.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct AuditArgs {
    /// `--seed S`, `--cases K`, `--minutes M`, `--only CHECK`, `--case 0x…`; `--help` says more.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// Builds and runs the audit. The dev profile is that of the tests, so that what they built is used again.
pub(crate) fn run(arguments: &AuditArgs, root: &Path) -> anyhow::Result<()> {
    let status = cargo()
        .args(["run", "--quiet", "--package", "laau-audit", "--"])
        .args(&arguments.arguments)
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the audit failed");
    }
    Ok(())
}
