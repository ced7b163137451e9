//! `cargo xtask reproduce`: every figure of the paper, from one command.

mod claims;
pub(crate) mod docs;
mod fits;
mod golden;
mod look;
mod manifest;
mod page;
mod problems;
mod report;
pub(crate) mod samples;
pub(crate) mod theory;
pub(crate) mod verdicts;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use laau_core::tables::EPISODES_FILE;

use self::manifest::{Finished, Manifest, is_the_papers};
use crate::figures;

/// What to reproduce.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Small sizes, for a first look and for CI
    #[arg(long)]
    quick: bool,
    /// Run everything on a real trace, too: Azure VM readings (files, or a pattern in quotes)
    #[arg(long, value_name = "PATH")]
    trace: Option<String>,
    /// Run only the experiments whose name begins so (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Folder of real data (carbon/, radio/, prices/, llm/); experiments on real data are skipped without it
    #[arg(long, value_name = "DIR", conflicts_with = "golden")]
    data: Option<PathBuf>,
    /// Seeds of data, weights and shuffles: numbers and ranges, such as 0..9 [default: 0..9, with --quick 0..2]
    #[arg(long, value_name = "SEEDS")]
    seeds: Option<String>,
    /// Write the documents from the run: docs/reproduction.md, the tables of the README and of the pages of problems, figures
    #[arg(long, conflicts_with = "quick")]
    write_docs: bool,
    /// Run finished experiments again
    #[arg(long)]
    fresh: bool,
    /// What to do with the tables of a quick run that are kept in experiments/golden
    #[arg(long, requires = "quick", conflicts_with_all = ["only", "trace"])]
    golden: Option<Golden>,
    /// Where to write
    #[arg(long, short, default_value = "reproduction")]
    output: PathBuf,
}

/// What a quick run is to the tables that are kept.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Golden {
    /// Compare with them, and fail if they differ
    Check,
    /// Replace them
    Bless,
}

/// Runs what is not finished yet, draws the figures, writes the page.
pub(crate) fn run(arguments: &ReproduceArgs, root: &Path) -> anyhow::Result<()> {
    let (experiments, skipped) = experiments(root, arguments)?;
    for name in &skipped {
        println!("{name} is skipped: it needs real data (--data DIR)");
    }
    println!("building the binary");
    let binary = laau_dashboard::cargo::build("laau", root)?;
    let folder = &arguments.output;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut manifest = open_manifest(arguments, root, folder)?;
    manifest.skipped = skipped;

    let mut work: Vec<(&Experiment, &str, Option<&str>)> = experiments
        .iter()
        .map(|e| (e, if e.needs_data() { "real" } else { "synthetic" }, None))
        .collect();
    if let Some(trace) = arguments.trace.as_deref() {
        let on_trace = experiments.iter().filter(|e| is_the_papers(&e.table));
        work.extend(on_trace.map(|e| (e, "trace", Some(trace))));
    }
    let started = Instant::now();
    for (done, (experiment, data, trace)) in work.iter().enumerate() {
        if manifest.has(&experiment.name, data, &experiment.checksum) {
            println!(
                "[{}/{}] {} on {data}: finished before",
                done + 1,
                work.len(),
                experiment.name
            );
            continue;
        }
        let left = if done == 0 {
            String::new()
        } else {
            let seconds = started.elapsed().as_secs_f64() / done as f64 * (work.len() - done) as f64;
            format!(", about {seconds:.0} s left")
        };
        println!(
            "[{}/{}] {} on {data}{left}",
            done + 1,
            work.len(),
            experiment.name
        );
        let seconds = run_one(&binary, experiment, data, *trace, &manifest.seeds, arguments)?;
        manifest
            .experiments
            .retain(|e| e.name != experiment.name || e.data != *data);
        manifest.experiments.push(Finished {
            name: experiment.name.clone(),
            data: (*data).to_owned(),
            checksum: experiment.checksum.clone(),
            settings: experiment.settings(arguments.quick),
            seconds,
        });
        manifest.save(folder)?;
    }
    merge_tables(folder, &manifest)?;
    figures::run(folder)?;
    page::write_page(folder, &manifest)?;
    let page = folder.join("index.html");
    println!("{}", page.display());
    println!("{}", look::look(&page)?);
    if arguments.write_docs {
        docs::run(folder, root)?;
    }
    let kept = root.join("experiments").join("golden");
    match arguments.golden {
        Some(Golden::Check) => golden::check(folder, &kept),
        Some(Golden::Bless) => golden::bless(folder, &kept),
        None => Ok(()),
    }
}

/// One file of `experiments/`.
struct Experiment {
    name: String,
    path: PathBuf,
    checksum: String,
    table: toml::Table,
}

impl Experiment {
    /// Whether it is about real data, which are not part of the project.
    fn needs_data(&self) -> bool {
        self.table.contains_key("data")
    }

    /// What was run: sizes and all other keys.
    fn settings(&self, quick: bool) -> toml::Table {
        let mut table = self.table.clone();
        let small = table.remove("quick");
        if let (true, Some(toml::Value::Table(small))) = (quick, small) {
            table.extend(small);
        }
        table
    }
}

/// The experiments to run, and the names of those that are skipped because their data are not given.
fn experiments(root: &Path, arguments: &ReproduceArgs) -> anyhow::Result<(Vec<Experiment>, Vec<String>)> {
    let only = &arguments.only;
    let folder = root.join("experiments");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let Some(name) = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned) else {
            continue;
        };
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        found.push(Experiment {
            name,
            checksum: format!("{:016x}", hasher.finish()),
            table: text
                .parse()
                .with_context(|| format!("{} is not TOML", path.display()))?,
            path,
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<String> = found.iter().map(|e| e.name.clone()).collect();
    if !only.is_empty() {
        found.retain(|e| only.iter().any(|start| e.name.starts_with(start.as_str())));
    }
    ensure!(
        !found.is_empty(),
        "no experiment begins with {}; there are {}",
        only.join(" or "),
        names.join(", ")
    );
    let mut skipped = Vec::new();
    if arguments.data.is_none() {
        skipped.extend(found.iter().filter(|e| e.needs_data()).map(|e| e.name.clone()));
        found.retain(|e| !e.needs_data());
    }
    Ok((found, skipped))
}

/// Numbers and ranges, both ends included: `0..9`, or `0,1,5..7`.
fn parse_seeds(text: &str) -> anyhow::Result<Vec<u64>> {
    let mut seeds = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| -> anyhow::Result<u64> {
            text.trim()
                .parse()
                .with_context(|| format!("expected seeds such as 0..9 or 0,1,2, found `{part}`"))
        };
        match part.split_once("..") {
            Some((first, last)) => seeds.extend(number(first)?..=number(last)?),
            None => seeds.push(number(part)?),
        }
    }
    seeds.sort_unstable();
    seeds.dedup();
    ensure!(!seeds.is_empty(), "expected at least one seed in `{text}`");
    Ok(seeds)
}

/// The manifest to go on with: the one that is there, if it was made under the same conditions.
fn open_manifest(arguments: &ReproduceArgs, root: &Path, folder: &Path) -> anyhow::Result<Manifest> {
    // A claim that rests on fewer than ten seeds is seldom decided; a quick run decides nothing.
    let default = if arguments.quick { "0..2" } else { "0..9" };
    let seeds = parse_seeds(arguments.seeds.as_deref().unwrap_or(default))?;
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let trace = arguments.trace.as_deref().map(|path| {
        Path::new(path)
            .file_name()
            .map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
    });
    let fresh = Manifest {
        commit: laau_dashboard::git::commit(root, "-dirty"),
        quick: arguments.quick,
        seeds,
        trace,
        data: arguments
            .data
            .as_deref()
            .map(|path| name(path).unwrap_or_default()),
        skipped: Vec::new(),
        experiments: Vec::new(),
    };
    Ok(match Manifest::load(folder) {
        Some(old)
            if !arguments.fresh
                && old.commit == fresh.commit
                && old.quick == fresh.quick
                && old.seeds == fresh.seeds
                && (old.trace == fresh.trace || old.trace.is_none() || fresh.trace.is_none()) =>
        {
            Manifest {
                experiments: old.experiments,
                trace: fresh.trace.clone().or(old.trace),
                data: fresh.data.clone().or(old.data),
                ..fresh
            }
        }
        _ => fresh,
    })
}

/// Runs one experiment into a folder of its own; gives the seconds it took.
fn run_one(
    binary: &Path,
    experiment: &Experiment,
    data: &str,
    trace: Option<&str>,
    seeds: &[u64],
    arguments: &ReproduceArgs,
) -> anyhow::Result<f64> {
    let folder = arguments.output.join("tables").join(data).join(&experiment.name);
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let mut command = Command::new(binary);
    command
        .arg("experiment")
        .arg(&experiment.path)
        .arg("--seeds")
        .arg(seeds.join(","))
        .arg("--output")
        .arg(&folder);
    if arguments.quick {
        command.arg("--quick");
    }
    if let Some(trace) = trace {
        command.arg("--trace").arg(trace);
    }
    if let (true, Some(folder)) = (experiment.needs_data(), &arguments.data) {
        command.arg("--data").arg(folder);
    }
    let started = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", binary.display()))?;
    if !status.success() {
        bail!(
            "experiment {} failed on {data}; what is finished is kept",
            experiment.name
        );
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Puts the tables of all finished experiments together, one file per table: first the embedded workload, then the trace.
fn merge_tables(folder: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let mut merged: BTreeMap<String, String> = BTreeMap::new();
    let mut folders: Vec<PathBuf> = manifest
        .experiments
        .iter()
        .map(|e| folder.join("tables").join(&e.data).join(&e.name))
        .collect();
    folders.sort();
    for tables in folders {
        let mut found = Vec::new();
        for table in
            std::fs::read_dir(&tables).with_context(|| format!("cannot read {}", tables.display()))?
        {
            let path = table?.path();
            // Single episodes stay where they are: their columns are the policies of their experiment.
            let is_wide = path.file_name().is_some_and(|name| name == EPISODES_FILE);
            if !is_wide && path.extension().is_some_and(|extension| extension == "csv") {
                found.push(path);
            }
        }
        found.sort();
        for path in found {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let (head, rows) = text
                .split_once('\n')
                .with_context(|| format!("{} is empty", path.display()))?;
            let table = merged.entry(name).or_insert_with(|| format!("{head}\n"));
            ensure!(
                table.starts_with(head),
                "{} has other columns than the tables before it",
                path.display()
            );
            table.push_str(rows);
        }
    }
    for (name, text) in merged {
        figures::style::write(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(folder: &Path) -> ReproduceArgs {
        ReproduceArgs {
            quick: true,
            trace: None,
            only: Vec::new(),
            data: None,
            seeds: Some("0,1".into()),
            write_docs: false,
            fresh: false,
            golden: None,
            output: folder.to_owned(),
        }
    }

    fn finished(name: &str, data: &str) -> Finished {
        Finished {
            name: name.into(),
            data: data.into(),
            checksum: "1".into(),
            settings: toml::Table::new(),
            seconds: 1.0,
        }
    }

    #[test]
    fn what_is_finished_is_skipped_only_under_the_same_conditions() {
        let folder = tempfile::tempdir().unwrap();
        let root = laau_dashboard::workspace_root();
        let same = arguments(folder.path());
        let mut manifest = open_manifest(&same, &root, folder.path()).unwrap();
        manifest.experiments.push(finished("ood", "synthetic"));
        manifest.save(folder.path()).unwrap();

        let again = open_manifest(&same, &root, folder.path()).unwrap();
        assert!(again.has("ood", "synthetic", "1"));
        assert!(!again.has("ood", "synthetic", "2"), "a changed experiment");
        assert!(!again.has("ood", "trace", "1"));

        let others: [fn(&mut ReproduceArgs); 3] = [
            |other| other.quick = false,
            |other| other.seeds = Some("0".into()),
            |other| other.fresh = true,
        ];
        for change in others {
            let mut other = arguments(folder.path());
            change(&mut other);
            assert!(
                !open_manifest(&other, &root, folder.path())
                    .unwrap()
                    .has("ood", "synthetic", "1"),
                "{other:?}"
            );
        }
        // A trace adds to what is there.
        let mut with_trace = arguments(folder.path());
        with_trace.trace = Some("somewhere/readings.csv.gz".into());
        let manifest = open_manifest(&with_trace, &root, folder.path()).unwrap();
        assert!(manifest.has("ood", "synthetic", "1"));
        assert_eq!(manifest.trace.as_deref(), Some("readings.csv.gz"));
    }

    #[test]
    fn seeds_are_numbers_and_ranges() {
        assert_eq!(parse_seeds("10..12").unwrap(), [10, 11, 12]);
        assert_eq!(parse_seeds("3,0..1,3").unwrap(), [0, 1, 3]);
        assert!(parse_seeds("a").is_err());
        assert!(parse_seeds("5..3").is_err());
    }

    #[test]
    fn only_tables_of_finished_experiments_are_put_together() {
        let folder = tempfile::tempdir().unwrap();
        for (data, name, row) in [
            ("synthetic", "ood", "1"),
            ("trace", "ood", "2"),
            ("trace", "old", "3"),
        ] {
            let tables = folder.path().join("tables").join(data).join(name);
            std::fs::create_dir_all(&tables).unwrap();
            std::fs::write(tables.join("t.csv"), format!("a\n{row}\n")).unwrap();
        }
        let mut manifest = open_manifest(
            &arguments(folder.path()),
            &laau_dashboard::workspace_root(),
            folder.path(),
        )
        .unwrap();
        manifest.experiments = vec![finished("ood", "trace"), finished("ood", "synthetic")];
        merge_tables(folder.path(), &manifest).unwrap();
        let merged = std::fs::read_to_string(folder.path().join("t.csv")).unwrap();
        assert_eq!(merged, "a\n1\n2\n");
    }

    #[test]
    fn every_experiment_is_found_and_a_wrong_name_is_answered_with_the_right_ones() {
        let root = laau_dashboard::workspace_root();
        let folder = tempfile::tempdir().unwrap();
        let mut arguments = arguments(folder.path());
        let (all, skipped) = experiments(&root, &arguments).unwrap();
        assert!(skipped.contains(&"real_power".to_owned()), "{skipped:?}");
        assert!(all.iter().all(|e| !e.needs_data()));
        assert!(
            all.iter()
                .any(|e| e.name == "policies" && is_the_papers(&e.table))
        );
        assert!(
            all.iter()
                .any(|e| e.name == "gradients" && !is_the_papers(&e.table))
        );
        let settings = |quick| {
            all.iter()
                .find(|e| e.name == "policies")
                .map(|e| e.settings(quick)["train"].clone())
        };
        assert_ne!(settings(true), settings(false));
        arguments.data = Some(folder.path().to_owned());
        assert!(experiments(&root, &arguments).unwrap().1.is_empty());
        arguments.only = vec!["figure2".into()];
        let error = experiments(&root, &arguments)
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("no experiment begins with figure2; there are "),
            "{error}"
        );
        assert!(error.contains("policies"), "{error}");
    }
}
