//! `cargo xtask python`: the wheel is built, installed and tested on a machine with Rust and Python.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use laau_dashboard::cargo::outside_of_cargo;
use laau_dashboard::venv::Venv;

/// What is tested.
#[derive(Debug, Args)]
pub(crate) struct PythonArgs {
    /// Also installs torch, jax, gymnasium, stable-baselines3 and ray: gigabytes.
    #[arg(long)]
    full: bool,
    /// With the build of the workspace's tests, whose dependencies are not compiled again; skipped, and said so, where there
    /// is no Python or no package to be had.
    #[arg(long, conflicts_with = "full")]
    check: bool,
}

/// The wheel is for people who do not want to wait.
const LARGEST_WHEEL: u64 = 30_000_000;

const MATURIN: &str = "maturin>=1.9,<2";

/// What checks style and types.
const CHECKERS: &[&str] = &["mypy", "ruff"];

/// What `--full` installs, each of it with what is of no use without it; what does not install is skipped, and said so.
const FULL: &[&[&str]] = &[
    &["torch"],
    &["jax"],
    &["gymnasium", "stable-baselines3"],
    &["ray[default]"],
    &["matplotlib"],
];

/// Builds, installs, tests.
pub(crate) fn run(arguments: &PythonArgs, root: &Path) -> anyhow::Result<()> {
    let package = root.join("python");
    let folder = package.join("target");
    let venv = match prepared(&folder.join("venv")) {
        Err(reason) if arguments.check => return skip(&format!("{reason:#}")),
        venv => venv.context("the package needs an environment of Python")?,
    };
    let fail = |reason: String| anyhow!(reason);
    let wheel = build(arguments, root, &venv)?;

    let path = wheel.display().to_string();
    venv.install(&[&format!("{path}[test]")]).map_err(fail)?;
    // The version is the same after a change: only this replaces what was installed before.
    venv.pip(&["--force-reinstall", "--no-deps"], &[&path])
        .map_err(fail)?;
    let groups = if arguments.full { FULL } else { &[] };
    for group in groups.iter().chain([&CHECKERS]) {
        if let Err(reason) = venv.install(group) {
            println!("{} did not install: {reason}", group.join(", "));
        }
    }
    let checks: [(&str, &[&str]); 4] = [
        ("pytest", &["-ra", "--strict-markers"]),
        ("ruff", &["check", "."]),
        ("ruff", &["format", "--check", "."]),
        ("mypy", &[]),
    ];
    // What the package computes is compared with the binary of the same build; its client asks the service in it.
    let binary = arguments
        .check
        .then(|| laau_dashboard::cargo::build_serving("laau", root));
    let binary = binary.transpose()?;
    for (program, flags) in checks {
        let began = Instant::now();
        println!("{program} {}", flags.join(" "));
        let mut command = outside_of_cargo(venv.command(program));
        command.envs(binary.iter().map(|path| ("LAAU_COMMAND", path)));
        let status = command.args(flags).current_dir(&package).status();
        match status {
            Ok(status) => ensure!(status.success(), "{program} failed"),
            Err(error) if program == "pytest" => return Err(error).context("cannot run pytest"),
            Err(_) => skip(&format!("{program} is not installed"))?,
        }
        println!("{program} took {:.0} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// An environment with what builds the wheel.
fn prepared(folder: &Path) -> anyhow::Result<Venv> {
    let venv = Venv::make(folder)?;
    venv.install(&[MATURIN]).map_err(|reason| anyhow!(reason))?;
    Ok(venv)
}

/// Builds the wheel, and measures it if it is one for people.
fn build(arguments: &PythonArgs, root: &Path, venv: &Venv) -> anyhow::Result<PathBuf> {
    let package = root.join("python");
    let began = Instant::now();
    let wheels = package.join("target/wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).with_context(|| format!("cannot empty {}", wheels.display()))?;
    }
    let mut command = outside_of_cargo(venv.command("maturin"));
    command.args(["build", "--locked", "--interpreter"]);
    command.arg(package.join("target/venv/bin/python"));
    command.args(profile(arguments));
    // The workspace's own: what both depend on is compiled once.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    command.arg("--target-dir").arg(target).arg("--out").arg(&wheels);
    run_in(&package, command, "maturin")?;
    let wheel = only_file(&wheels)?;
    let size = std::fs::metadata(&wheel)?.len();
    println!(
        "{}: {:.1} MB, built in {:.0} s",
        wheel.display(),
        size as f64 / 1e6,
        began.elapsed().as_secs_f64()
    );
    ensure!(
        arguments.check || size <= LARGEST_WHEEL,
        "the wheel has {size} bytes, more than {LARGEST_WHEEL}"
    );
    Ok(wheel)
}

/// The profile, and the features that let it share the dependencies of whatever was built before.
fn profile(arguments: &PythonArgs) -> &'static [&'static str] {
    if arguments.check {
        &["--profile", "dev", "--features", "as-tests"]
    } else {
        &["--release"]
    }
}

fn run_in(folder: &Path, mut command: Command, name: &str) -> anyhow::Result<()> {
    let status = command
        .current_dir(folder)
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(status.success(), "{name} failed");
    Ok(())
}

/// Says what was not tested, and tells the list that the continuous integration prints.
fn skip(reason: &str) -> anyhow::Result<()> {
    let line = format!("skipped: cargo xtask python: {reason}");
    println!("{line}");
    let Some(path) = std::env::var_os("LAAU_SKIPPED_LOG") else {
        return Ok(());
    };
    let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
    log.and_then(|mut log| writeln!(log, "{line}"))
        .context("cannot write to the file of LAAU_SKIPPED_LOG")
}

/// The file that maturin has left.
fn only_file(folder: &Path) -> anyhow::Result<PathBuf> {
    let mut files = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(Result::ok);
    let file = files.next().context("maturin has left no wheel")?;
    Ok(file.path())
}
