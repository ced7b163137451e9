//! How long `laau compare` takes with all policies, as a user runs it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::history::{Figure, Measure};
use super::times::quantile;
use crate::cargo::build_release;

/// The figure's name: episodes of 40 steps, 5,000 to train, 1,000 to tune, 2,000 to play, one seed.
pub(crate) const COMPARED: &str = "compare/all/N=40,train=5000,validation=1000,test=2000";

/// How often it is run.
const RUNS: usize = 3;

/// Builds the program, draws the episodes, and times comparisons from start to end, on all threads.
pub(super) fn measure(root: &Path) -> anyhow::Result<Figure> {
    let program = build_release("laau-cli", "laau", root)?;
    let folder = tempfile::tempdir()?;
    let run = |arguments: &[&str]| {
        let output = Command::new(&program)
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        ensure!(
            output.status.success(),
            "laau {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        anyhow::Ok(())
    };
    run(&[
        "generate",
        "--horizon=40",
        "--split=5000,1000,2000",
        "--seed=1",
        "-o=episodes",
    ])?;
    let mut samples = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        run(&[
            "compare",
            "--train=episodes/train.parquet",
            "--validation=episodes/validation.parquet",
            "--test=episodes/test.parquet",
            "--seed=0",
        ])?;
        samples.push(start.elapsed().as_secs_f64() * 1e9);
        println!("{:>10.1} s  {COMPARED}", samples[samples.len() - 1] / 1e9);
    }
    samples.sort_by(f64::total_cmp);
    Ok(Figure {
        id: COMPARED.to_owned(),
        measure: Measure::Latency,
        value: quantile(&samples, 0.5),
        low: samples[0],
        high: quantile(&samples, 0.9),
    })
}
