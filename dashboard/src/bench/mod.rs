//! `cargo xtask bench`: times, instruction counts, files for dashboards, a history; a check against a base; peers.

mod compared;
mod counts;
mod export;
pub(crate) mod growth;
pub(crate) mod history;
mod times;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use cargo_metadata::MetadataCommand;
use clap::Args;

use self::counts::{Counts, Verdict};
use self::history::Record;
use crate::peers;

pub(crate) use self::compared::COMPARED;
pub(crate) use self::counts::build;
pub(crate) use self::times::quantile;

/// Where the history is, below the root.
pub(crate) const HISTORY: &str = "benches/bench-history.jsonl";

/// What to measure.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub struct BenchArgs {
    /// A few sizes of everything, with few samples
    #[arg(long)]
    small: bool,
    /// Time only these benches, and count nothing: dense, layer, episode, optimum, policies, guard, train, data, compare
    #[arg(long, value_name = "BENCH", value_delimiter = ',')]
    only: Vec<String>,
    /// Count instructions only, at every size, and append them to the history
    #[arg(long, conflicts_with_all = ["small", "only", "check", "write_base", "peers"])]
    counts: bool,
    /// Count instructions only, and fail where a count has grown since this base
    #[arg(long, value_name = "BASE", conflicts_with_all = ["only", "peers"])]
    check: Option<PathBuf>,
    /// How many percent a count may grow
    #[arg(long, default_value_t = 3.0, value_name = "PERCENT", requires = "check")]
    threshold: f64,
    /// Count instructions only, and write them as a base
    #[arg(long, value_name = "BASE", conflicts_with_all = ["only", "peers", "check"])]
    write_base: Option<PathBuf>,
    /// Measure the same work with peers in Python, too, and write docs/benchmarks.md
    #[arg(long, conflicts_with = "only")]
    peers: bool,
    /// How often each case is measured among its peers
    #[arg(long, default_value_t = 10, value_name = "TIMES", requires = "peers")]
    rounds: usize,
    /// Measure only works that begin with one of these words, such as train, grid, peak, layer; the page has the last run of each
    #[arg(long, value_name = "WORD", value_delimiter = ',', requires = "peers")]
    works: Vec<String>,
    /// Write docs/benchmarks.md again from the history, without measuring
    #[arg(long, conflicts_with_all = ["small", "only", "check", "write_base", "peers"])]
    page: bool,
    /// Where to append the record of the run [default: benches/bench-history.jsonl]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// Measures, checks or writes the page, as the arguments say.
///
/// # Errors
/// A bench that fails, a file that cannot be read or written, a count that has grown since the base.
pub fn run(arguments: &BenchArgs, root: &Path) -> anyhow::Result<()> {
    let target = target_folder(root)?;
    if let Some(base) = &arguments.check {
        return check(base, arguments.threshold, root, &target);
    }
    if let Some(base) = &arguments.write_base {
        return match counts::count(root, &target, true)? {
            Some(counts) => counts.write(base),
            None => bail!("a base needs valgrind"),
        };
    }
    let history = arguments.history.clone().unwrap_or_else(|| root.join(HISTORY));
    if arguments.page {
        return peers::write_page(&history::read(&history)?, root);
    }
    if arguments.peers {
        let mut record = Record::begin(root, "peers");
        record.peers = Some(peers::compare(root, &target, arguments.rounds, &arguments.works)?);
        record.append(&history)?;
        return peers::write_page(&history::read(&history)?, root);
    }
    let chosen = choose(&arguments.only)?;
    let set = match (arguments.small, arguments.counts) {
        (true, _) => "small",
        (_, true) => "counts",
        _ => "full",
    };
    let mut record = Record::begin(root, set);
    if !arguments.counts {
        let benches: Vec<&str> = chosen.iter().copied().filter(|name| *name != COMPARE).collect();
        if !benches.is_empty() {
            record.figures = times::measure(root, &target, &benches, arguments.small)?;
        }
        if chosen.contains(&COMPARE) && !arguments.small {
            record.figures.push(compared::measure(root)?);
        }
    }
    if arguments.only.is_empty()
        && let Some(counts) = counts::count(root, &target, arguments.small)?
    {
        record.figures.extend(counts.figures());
    }
    ensure!(!record.figures.is_empty(), "nothing was measured");
    record
        .figures
        .sort_by(|a, b| (&a.id, a.measure).cmp(&(&b.id, b.measure)));
    export::write(&record, &target.join("bench"))?;
    record.append(&history)?;
    println!("{} figures added to {}", record.figures.len(), history.display());
    Ok(())
}

fn check(base: &Path, threshold: f64, root: &Path, target: &Path) -> anyhow::Result<()> {
    let base = Counts::read(base)?;
    let Some(counts) = counts::count(root, target, true)? else {
        return Ok(());
    };
    match counts.against(&base, threshold) {
        Verdict::Incomparable(why) => {
            println!("instruction counts: not compared, {why}");
            Ok(())
        }
        Verdict::Held(lines) => {
            print!("{lines}");
            Ok(())
        }
        Verdict::Grew(lines) => {
            print!("{lines}");
            bail!(
                "instruction counts grew by more than {threshold} %; where that is meant, write a new base with --write-base"
            )
        }
    }
}

/// The name of the time of `laau compare` among the benches.
const COMPARE: &str = "compare";

fn choose(only: &[String]) -> anyhow::Result<Vec<&'static str>> {
    let all: Vec<&str> = times::BENCHES.iter().copied().chain([COMPARE]).collect();
    for name in only {
        ensure!(
            all.contains(&name.as_str()),
            "no bench is called {name}; there are {}",
            all.join(", ")
        );
    }
    Ok(all
        .into_iter()
        .filter(|bench| only.is_empty() || only.iter().any(|name| name == bench))
        .collect())
}

fn target_folder(root: &Path) -> anyhow::Result<PathBuf> {
    let metadata = MetadataCommand::new()
        .current_dir(root)
        .no_deps()
        .exec()
        .context("cargo metadata failed")?;
    Ok(metadata.target_directory.into_std_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benches_are_chosen_by_name() {
        let all = choose(&[]).unwrap();
        assert_eq!(all[..times::BENCHES.len()], *times::BENCHES);
        assert_eq!(all[times::BENCHES.len()..], [COMPARE]);
        assert_eq!(
            choose(&["train".to_owned(), "layer".to_owned()]).unwrap(),
            ["layer", "train"]
        );
        let error = choose(&["trian".to_owned()]).unwrap_err().to_string();
        assert!(
            error.starts_with("no bench is called trian; there are dense, layer"),
            "{error}"
        );
    }
}
