//! `cargo xtask serve`: the service under attack and under load, by the package `laau-siege` against the real binary.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use laau_dashboard::cargo::{build, build_release, build_serving};

/// What the siege is asked; everything goes to the program as it is, except for `--dev`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ServeArgs {
    /// `crash`, `naive`, `authority`, `fuzz` or `load` and its arguments; `--help` says more. `load --dev` measures a dev build.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// Builds the service and the siege, and runs it. What is measured is a release build; the rest uses what the tests built.
pub(crate) fn run(arguments: &ServeArgs, root: &Path) -> anyhow::Result<()> {
    let mut arguments = arguments.arguments.clone();
    let measures = arguments.first().is_some_and(|command| command == "load");
    let given = arguments.len();
    arguments.retain(|argument| argument != "--dev");
    let dev = arguments.len() < given;
    // Clients share the cores with what they measure: a slow client would be measured, and pgbench is a fast one.
    let siege = if measures && !dev {
        build_release("laau-siege", "laau-siege", root)?
    } else {
        build("laau-siege", root)?
    };
    let mut command = Command::new(siege);
    if measures && !dev {
        let laau = build_release("laau-cli", "laau", root)?;
        command.arg("--laau").arg(laau).args(&arguments);
        command
            .args(["--profile", "release", "--page"])
            .arg(root.join("docs/benchmarks.md"));
    } else {
        command
            .arg("--laau")
            .arg(build_serving("laau", root)?)
            .args(&arguments);
        if measures {
            command.args(["--profile", "dev"]);
        }
    }
    if arguments.first().is_some_and(|command| command == "fuzz") {
        command.arg("--root").arg(root);
    }
    if !command
        .current_dir(root)
        .status()
        .context("cannot run the siege")?
        .success()
    {
        bail!("the siege failed");
    }
    Ok(())
}
