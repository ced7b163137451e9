//! Times: runs the criterion benches, and reads every sample that they left.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::history::{Figure, Measure};
use crate::cargo::cargo;

/// Every bench of laau-benches; the last needs laau-data, and with it polars.
pub(super) const BENCHES: &[&str] = &[
    "dense", "layer", "episode", "optimum", "policies", "guard", "train", "data",
];

/// Runs the chosen benches and returns what they measured, in order of name.
pub(super) fn measure(
    root: &Path,
    target: &Path,
    chosen: &[&str],
    small: bool,
) -> anyhow::Result<Vec<Figure>> {
    let home = target.join("bench").join("criterion");
    if home.exists() {
        std::fs::remove_dir_all(&home).with_context(|| format!("cannot empty {}", home.display()))?;
    }
    let mut command = cargo();
    command
        .args(["bench", "--locked", "--package", "laau-benches"])
        .current_dir(root)
        .env("CRITERION_HOME", &home);
    // Without the bench of laau-data there is no need to build polars.
    if !chosen.contains(&"data") {
        command.arg("--no-default-features");
    }
    for bench in chosen {
        command.args(["--bench", bench]);
    }
    command.args(["--", "--noplot"]);
    if small {
        command.env("LAAU_BENCH", "small").args([
            "--sample-size=10",
            "--warm-up-time=0.1",
            "--measurement-time=0.3",
        ]);
    }
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo bench failed");
    read(&home)
}

#[derive(Deserialize)]
struct Benchmark {
    full_id: String,
}

#[derive(Deserialize)]
struct Sample {
    iters: Vec<f64>,
    times: Vec<f64>,
}

/// Every benchmark below a folder of criterion.
fn read(home: &Path) -> anyhow::Result<Vec<Figure>> {
    let mut found = Vec::new();
    let mut folders = vec![home.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
        {
            let path = entry?.path();
            if !path.is_dir() {
                continue;
            }
            if path.ends_with("new") {
                found.push(figure(&path)?);
            } else {
                folders.push(path);
            }
        }
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(found)
}

fn figure(folder: &Path) -> anyhow::Result<Figure> {
    let benchmark: Benchmark = from_json(&folder.join("benchmark.json"))?;
    let sample: Sample = from_json(&folder.join("sample.json"))?;
    let mut samples: Vec<f64> = sample
        .times
        .iter()
        .zip(&sample.iters)
        .map(|(time, iterations)| time / iterations)
        .collect();
    ensure!(!samples.is_empty(), "{} has no samples", benchmark.full_id);
    samples.sort_by(f64::total_cmp);
    Ok(Figure {
        id: benchmark.full_id,
        measure: Measure::Latency,
        value: quantile(&samples, 0.5),
        low: samples[0],
        high: quantile(&samples, 0.9),
    })
}

/// A quantile of sorted numbers, between the two nearest.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position in the list"
    )]
    let below = at as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

fn from_json<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not as expected", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_figures() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a_b").join("new");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(home.path().join("a_b").join("base")).unwrap();
        std::fs::write(
            folder.join("benchmark.json"),
            r#"{"full_id": "a/b/N=3", "title": "x"}"#,
        )
        .unwrap();
        std::fs::write(
            folder.join("sample.json"),
            r#"{"sampling_mode": "Flat", "iters": [1.0, 2.0, 4.0], "times": [30.0, 20.0, 80.0]}"#,
        )
        .unwrap();
        let figures = read(home.path()).unwrap();
        assert_eq!(figures.len(), 1);
        assert_eq!(
            (figures[0].id.as_str(), figures[0].low, figures[0].value),
            ("a/b/N=3", 10.0, 20.0)
        );
        assert!((figures[0].high - 28.0).abs() < 1e-9);
    }

    #[test]
    fn every_bench_of_the_package_is_known() {
        let manifest = std::fs::read_to_string(crate::workspace_root().join("benches/Cargo.toml")).unwrap();
        let declared: Vec<&str> = manifest
            .split("[[bench]]")
            .skip(1)
            .filter_map(|section| section.split('"').nth(1))
            .collect();
        for bench in &declared {
            assert!(BENCHES.contains(bench), "{bench} is not run by xtask bench");
        }
        assert_eq!(declared.len(), BENCHES.len());
    }
}
