//! `cargo xtask audit`: random instances against certificates, by the package `laau-audit`; damaged files, by a test of laau-cli.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;

use laau_dashboard::cargo::cargo;

/// What the audit is asked; everything goes to the program as it is, except for `--only files`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct AuditArgs {
    /// `--seed S`, `--cases K`, `--minutes M`, `--only CHECK`, `--problem NAME`, `--case 0x…`; `--help` says more.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// Mutations per kind of file in a long audit; the tests make 100.
const MUTATIONS: &str = "2000";

/// Builds and runs the audit. The dev profile is that of the tests, so that what they built is used again.
///
/// `--only files` damages files instead, and a run of `--minutes` does so at its end.
pub(crate) fn run(arguments: &AuditArgs, root: &Path) -> anyhow::Result<()> {
    let arguments = &arguments.arguments;
    let only = value_of(arguments, "--only");
    if only != Some("files") {
        let audit = laau_dashboard::cargo::build("laau-audit", root)?;
        succeed(Command::new(audit).args(arguments).current_dir(root))?;
    }
    if only == Some("files") || (only.is_none() && value_of(arguments, "--minutes").is_some()) {
        let mut files = cargo();
        files
            // Of the workspace: a package alone has other features, and polars would be built again.
            .args(["test", "--quiet", "--workspace", "--test", "it", "--"])
            .args(["fuzz::", "--nocapture"])
            .env(
                "LAAU_FUZZ_MUTATIONS",
                value_of(arguments, "--cases").unwrap_or(MUTATIONS),
            )
            .env("LAAU_FUZZ_SEED", value_of(arguments, "--seed").unwrap_or("1"));
        succeed(files.current_dir(root))?;
    }
    Ok(())
}

/// The value of a flag, given as `--flag value` or `--flag=value`.
fn value_of<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    arguments
        .iter()
        .enumerate()
        .find_map(|(place, argument)| match argument.strip_prefix(flag)? {
            "" => arguments.get(place + 1).map(String::as_str),
            value => value.strip_prefix('='),
        })
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    if !command.status().context("cannot run the audit")?.success() {
        bail!("the audit failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_found_with_its_value_in_either_form() {
        let arguments = ["--only", "files", "--cases=7", "--onlyx"].map(str::to_owned);
        assert_eq!(value_of(&arguments, "--only"), Some("files"));
        assert_eq!(value_of(&arguments, "--cases"), Some("7"));
        assert_eq!(value_of(&arguments, "--seed"), None);
    }
}
