//! Tells the binary which commit it was built from.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=LAAU_COMMIT");
    // A package built from an archive has no repository; whoever packs it may name the commit.
    let named = std::env::var("LAAU_COMMIT")
        .ok()
        .filter(|commit| !commit.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    let version = match named.or_else(|| git(&["rev-parse", "--short=12", "HEAD"])) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=LAAU_VERSION={version}");
    // The log of HEAD grows with every commit and every checkout.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// What git answers, if there is a git and a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
