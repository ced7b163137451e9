//! Instruction counts of the hot kernels, by valgrind's callgrind: the same on a busy machine as on an idle one.
//!
//! Callgrind is run directly on a small binary and told to collect inside one function only. A framework such as gungraun
//! would need a second program of exactly its own version installed beside valgrind; this needs valgrind alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::history::{Figure, Measure, first_line};
use crate::cargo::cargo;

/// What counts depend on besides the code. Counts compare only where all of it is equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Conditions {
    /// The compiler.
    pub(super) rustc: String,
    /// The instruction sets that kernels could choose from, as valgrind presents the processor.
    pub(super) processor: String,
    /// The counter.
    pub(super) valgrind: String,
    /// The C library, which has logarithms and copies.
    pub(super) libc: String,
}

/// Counts, and the conditions they hold under.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) conditions: Conditions,
    pub(super) instructions: BTreeMap<String, u64>,
}

/// How counts compare to a base.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// They do not compare; why.
    Incomparable(String),
    /// Nothing grew by more than the threshold; a line per kernel.
    Held(String),
    /// Something did.
    Grew(String),
}

/// Counts every kernel; `None` where valgrind is not installed.
pub(super) fn count(root: &Path, target: &Path, small: bool) -> anyhow::Result<Option<Counts>> {
    let Some(valgrind) = first_line("valgrind", &["--version"]) else {
        println!("instruction counts: skipped, no valgrind");
        return Ok(None);
    };
    let binary = build(root, target, "laau-counts")?;
    let mut list = Command::new(&binary);
    list.arg("list");
    if small {
        list.arg("small");
    }
    let names = text_of(&mut list)?;
    let mut counts = Counts {
        conditions: Conditions {
            rustc: first_line("rustc", &["--version"]).context("cannot run rustc")?,
            processor: String::new(),
            valgrind,
            libc: first_line("ldd", &["--version"]).unwrap_or_else(|| "unknown".to_owned()),
        },
        instructions: BTreeMap::new(),
    };
    let names: Vec<&str> = names.lines().collect();
    let counted = count_all(&binary, &names);
    ensure!(counted.len() == names.len(), "a kernel was not counted");
    for (name, counted) in names.iter().zip(counted) {
        let (instructions, processor) = counted?;
        counts.conditions.processor = processor;
        counts.instructions.insert((*name).to_owned(), instructions);
    }
    Ok(Some(counts))
}

/// Builds a binary of laau-benches for release: without the bench of laau-data, and so without polars, unless a release of
/// laau-data is there already, whose dependencies are then shared.
pub(crate) fn build(root: &Path, target: &Path, binary: &str) -> anyhow::Result<PathBuf> {
    let release = target.join("release");
    let mut command = cargo();
    command
        .args(["build", "--quiet", "--release", "--locked"])
        .args(["--package", "laau-benches", "--bin", binary])
        .current_dir(root);
    if !has_library(&release.join("deps"), "laau_data") {
        command.arg("--no-default-features");
    }
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "cannot build {binary}");
    Ok(release.join(binary))
}

fn has_library(folder: &Path, name: &str) -> bool {
    let start = format!("lib{name}-");
    std::fs::read_dir(folder).is_ok_and(|mut entries| {
        entries.any(|entry| {
            entry.is_ok_and(|entry| {
                let name = entry.file_name();
                name.to_string_lossy().starts_with(&start) && name.to_string_lossy().ends_with(".rlib")
            })
        })
    })
}

/// On every core: a count does not depend on what else runs.
fn count_all(binary: &Path, names: &[&str]) -> Vec<anyhow::Result<(u64, String)>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = names.get(index) else {
                return found;
            };
            let counted = count_one(binary, name);
            if let Ok((instructions, _)) = &counted {
                println!("{instructions:>12} instructions  {name}");
            }
            found.push((index, counted));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_default())
            .collect()
    });
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, counted)| counted).collect()
}

fn count_one(binary: &Path, name: &str) -> anyhow::Result<(u64, String)> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("callgrind.out");
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--toggle-collect=*counted_kernel*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(binary)
        .args(["run", name]);
    let processor = text_of(&mut command)?.trim().to_owned();
    let profile = std::fs::read_to_string(&out).context("callgrind wrote nothing")?;
    Ok((
        total(&profile).with_context(|| format!("{name}: callgrind counted nothing"))?,
        processor,
    ))
}

/// The total of a callgrind profile.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().find_map(|line| {
        line.strip_prefix("totals:")
            .or_else(|| line.strip_prefix("summary:"))
    })?;
    line.split_whitespace()
        .next()?
        .parse()
        .ok()
        .filter(|count| *count > 0)
}

fn text_of(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!(
            "{:?} failed: {}",
            command,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

impl Counts {
    /// Reads a base.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("{} is not a base", path.display()))
    }

    /// Writes a base.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        std::fs::write(path, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// As figures of a record.
    pub(super) fn figures(&self) -> impl Iterator<Item = Figure> {
        self.instructions.iter().map(|(id, count)| Figure {
            id: id.clone(),
            measure: Measure::Instructions,
            value: *count as f64,
            low: *count as f64,
            high: *count as f64,
        })
    }

    /// Compares to a base; a growth beyond `threshold` percent is too much.
    pub(super) fn against(&self, base: &Self, threshold: f64) -> Verdict {
        let (here, there) = (&self.conditions, &base.conditions);
        for (what, here, there) in [
            ("compiler", &here.rustc, &there.rustc),
            ("processor", &here.processor, &there.processor),
            ("valgrind", &here.valgrind, &there.valgrind),
            ("C library", &here.libc, &there.libc),
        ] {
            if here != there {
                return Verdict::Incomparable(format!(
                    "the base was counted with another {what}: {there}, not {here}"
                ));
            }
        }
        let (mut lines, mut grew) = (String::new(), false);
        for (name, count) in &self.instructions {
            let note = match base.instructions.get(name) {
                None => "not in the base".to_owned(),
                Some(before) => {
                    let percent = 100.0 * (*count as f64 / *before as f64 - 1.0);
                    let too_much = percent > threshold;
                    grew |= too_much;
                    let mark = if too_much { "  GREW" } else { "" };
                    format!("{before:>12} before  {percent:>+7.2} %{mark}")
                }
            };
            // A string takes whatever is written to it.
            let _ = writeln!(lines, "{count:>12} now {note}  {name}");
        }
        if grew {
            Verdict::Grew(lines)
        } else {
            Verdict::Held(lines)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> Counts {
        Counts {
            conditions: Conditions {
                rustc: "rustc 1".to_owned(),
                processor: "x86_64+avx2".to_owned(),
                valgrind: "valgrind-3".to_owned(),
                libc: "libc 2".to_owned(),
            },
            instructions: pairs
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        }
    }

    #[test]
    fn growth_beyond_the_threshold_is_found() {
        let base = counts(&[("a", 1000), ("b", 1000)]);
        assert!(matches!(
            counts(&[("a", 1029), ("b", 900)]).against(&base, 3.0),
            Verdict::Held(_)
        ));
        let Verdict::Grew(lines) = counts(&[("a", 1031), ("b", 900)]).against(&base, 3.0) else {
            panic!("a grew by 3.1 percent")
        };
        assert!(
            lines.contains("+3.10 %  GREW  a") && lines.contains("-10.00 %  b"),
            "{lines}"
        );
    }

    #[test]
    fn a_kernel_that_the_base_does_not_have_is_no_growth() {
        let verdict = counts(&[("a", 1000), ("new", 5)]).against(&counts(&[("a", 1000)]), 3.0);
        assert!(matches!(verdict, Verdict::Held(lines) if lines.contains("not in the base  new")));
    }

    #[test]
    fn counts_of_other_conditions_do_not_compare() {
        let base = counts(&[("a", 1)]);
        let mut other = counts(&[("a", 100)]);
        other.conditions.rustc = "rustc 2".to_owned();
        let Verdict::Incomparable(why) = other.against(&base, 3.0) else {
            panic!("another compiler")
        };
        assert_eq!(
            why,
            "the base was counted with another compiler: rustc 1, not rustc 2"
        );
    }

    #[test]
    fn a_profile_has_a_total() {
        assert_eq!(
            total("events: Ir\nfn=(1) x\n16 400\nsummary: 412\n\ntotals: 412\n"),
            Some(412)
        );
        assert_eq!(total("events: Ir\ntotals: 0\n"), None);
        assert_eq!(total("nothing"), None);
    }

    #[test]
    fn the_committed_base_is_one() {
        let base = Counts::read(&crate::workspace_root().join("benches/base.json")).unwrap();
        assert!(base.instructions.values().all(|count| *count > 1000));
    }
}
