//! `cargo xtask newcomer`: the README's way from nothing to decisions works as it is written, and so does a first day with a
//! table of one's own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use laau_dashboard::cargo::outside_of_cargo;

/// The heading over the newcomer's lines.
const HEADING: &str = "## From nothing to decisions";

/// The folder that the lines make and work in.
const FOLDER: &str = "first-steps";

/// Import, train, compare, evaluate, and a service that is killed and goes on.
const FIRST_DAY: &str = include_str!("first_day.sh");

/// Runs the lines one after the other in one shell, as someone who pastes them would; then the first day.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let readme = std::fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    let lines = lines(&readme)?;
    let folder = root.join(FOLDER);
    ensure!(
        !folder.exists(),
        "{} is there already; move it away, the README's lines make it",
        folder.display()
    );
    // The binary is installed beside the build, not into the user's own folder.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let home = target.join("newcomer");
    let mut path = vec![home.join("bin")];
    path.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let path: OsString = std::env::join_paths(path).context("the PATH is not usable")?;
    let shell = |script: &str, folder: &Path| {
        outside_of_cargo(Command::new("sh"))
            .args(["-e", "-x", "-c", script])
            .env("CARGO_INSTALL_ROOT", &home)
            .env("PATH", &path)
            .current_dir(folder)
            .status()
            .context("cannot run sh")
    };
    let status = shell(&script(&lines), root)?;
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    if !status.success() {
        bail!("a line of the README failed; the last one above");
    }
    println!("all {} lines of the README ran", lines.len());
    // A folder of its own, which stays for a look if something fails.
    let day = home.join("first-day");
    if day.exists() {
        std::fs::remove_dir_all(&day).with_context(|| format!("cannot remove {}", day.display()))?;
    }
    std::fs::create_dir_all(&day).with_context(|| format!("cannot make {}", day.display()))?;
    if !shell(FIRST_DAY, &day)?.success() {
        bail!(
            "the first day failed; the last line above, its files are in {}",
            day.display()
        );
    }
    println!("the first day went to its end: the service was killed, and its decisions are the same");
    Ok(())
}

/// The lines as a script; the binary is installed as the tests have built it, since a release build is long.
fn script(lines: &[&str]) -> String {
    lines
        .join("\n")
        .replace("cargo install ", "cargo install --debug ")
}

/// The commands of the first console block under the heading.
fn lines(readme: &str) -> anyhow::Result<Vec<&str>> {
    let section = readme
        .split_once(HEADING)
        .with_context(|| format!("README.md has no heading `{HEADING}`"))?
        .1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let block = section
        .split_once("```console\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .context("there is no console block under the heading")?
        .0;
    let lines: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    ensure!(!lines.is_empty(), "the console block has no commands");
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_readme_install_generate_train_compare_and_decide() {
        let readme = include_str!("../../README.md");
        let lines = lines(readme).unwrap();
        for step in [
            "cargo install",
            FOLDER,
            "laau generate",
            "laau train",
            "laau compare",
            "laau decide",
        ] {
            assert!(
                lines.iter().any(|line| line.contains(step)),
                "no line has `{step}`"
            );
        }
    }

    #[test]
    fn a_readme_without_the_path_is_an_error() {
        assert!(lines("# laau\n").unwrap_err().to_string().contains(HEADING));
        assert!(lines(&format!("{HEADING}\n\n## Next\n```console\n$ ls\n```\n")).is_err());
    }
}
