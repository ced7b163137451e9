//! `cargo xtask python`: the wheel is built, installed and tested on a machine with Rust and Python.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use laau_dashboard::cargo::outside_of_cargo;
use laau_dashboard::venv::Venv;

/// What is tested.
#[derive(Debug, Args)]
pub(crate) struct PythonArgs {
    /// Also installs torch, jax, gymnasium and ray, and what checks style and types: gigabytes.
    #[arg(long)]
    full: bool,
}

/// The wheel is for people who do not want to wait.
const LARGEST_WHEEL: u64 = 30_000_000;

/// What `--full` installs, each of it with what is of no use without it; what does not install is skipped, and said so.
const FULL: &[&[&str]] = &[
    &["torch"],
    &["jax"],
    &["gymnasium", "stable-baselines3"],
    &["ray[default]"],
    &["matplotlib"],
    &["mypy", "ruff"],
];

/// Builds, installs, tests.
pub(crate) fn run(arguments: &PythonArgs, root: &Path) -> anyhow::Result<()> {
    let package = root.join("python");
    let target = package.join("target");
    let venv = Venv::make(&target.join("venv")).context("the package needs an environment of Python")?;
    let fail = |reason: String| anyhow!(reason);
    venv.install(&["maturin>=1.9,<2"]).map_err(fail)?;

    let began = Instant::now();
    let wheels = target.join("wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).with_context(|| format!("cannot empty {}", wheels.display()))?;
    }
    let built = outside_of_cargo(venv.command("maturin"))
        .args(["build", "--release", "--locked", "--interpreter"])
        .arg(target.join("venv/bin/python"))
        .arg("--out")
        .arg(&wheels)
        // The package has a target folder of its own, whatever the workspace was given.
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(&package)
        .status()
        .context("cannot run maturin")?;
    ensure!(built.success(), "maturin failed");
    let wheel = only_file(&wheels)?;
    let size = std::fs::metadata(&wheel)?.len();
    println!(
        "{}: {:.1} MB, built in {:.0} s",
        wheel.display(),
        size as f64 / 1e6,
        began.elapsed().as_secs_f64()
    );
    ensure!(
        size <= LARGEST_WHEEL,
        "the wheel has {size} bytes, more than {LARGEST_WHEEL}"
    );

    let path = wheel.display().to_string();
    venv.install(&[&format!("{path}[test]")]).map_err(fail)?;
    // The version is the same after a change: only this replaces what was installed before.
    venv.pip(&["--force-reinstall", "--no-deps"], &[&path])
        .map_err(fail)?;
    if arguments.full {
        for group in FULL {
            if let Err(reason) = venv.install(group) {
                println!("{} did not install: {reason}", group.join(", "));
            }
        }
    }
    let mut checks: Vec<(&str, &[&str])> = vec![("pytest", &["-ra", "--strict-markers"])];
    if arguments.full {
        checks.extend([
            ("ruff", &["check", "."] as &[&str]),
            ("ruff", &["format", "--check", "."]),
            ("mypy", &[]),
        ]);
    }
    for (program, flags) in checks {
        println!("{program} {}", flags.join(" "));
        let status = outside_of_cargo(venv.command(program))
            .args(flags)
            .current_dir(&package)
            .status();
        match status {
            Ok(status) => ensure!(status.success(), "{program} failed"),
            Err(error) if program == "pytest" => return Err(error).context("cannot run pytest"),
            Err(_) => println!("skipped: {program} is not installed"),
        }
    }
    Ok(())
}

/// The file that maturin has left.
fn only_file(folder: &Path) -> anyhow::Result<PathBuf> {
    let mut files = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(Result::ok);
    let file = files.next().context("maturin has left no wheel")?;
    Ok(file.path())
}
