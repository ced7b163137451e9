//! Prints what the synthetic workload was calibrated to, and what it achieves.
//!
//! `cargo run --release -p laau-data --example calibration [-- PATH]`, where PATH is a gzip CSV in the layout of Azure's VM
//! trace (timestamp, VM, least, greatest and average CPU in percent): then the target is measured from it.

#![expect(
    clippy::print_stdout,
    reason = "a table on standard output is what this program is for"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};

use flate2::read::MultiGzDecoder;
use laau_data::synthetic::{Comparison, Statistics, Workload};

const VMS: u64 = 2000;
const READINGS: usize = 8004;

fn main() -> Result<(), Box<dyn Error>> {
    let target = match std::env::args().nth(1) {
        Some(path) => {
            Statistics::of(&read(&path)?).ok_or("expected series of at least 289 readings in the trace")?
        }
        None => Statistics::target(),
    };
    let unscaled = Workload {
        scale: 1.0,
        ..Workload::default()
    };
    let achieved = Statistics::of(&generate(&unscaled)?).ok_or("no series")?;

    println!("| statistic | target | achieved | deviation | tolerance |");
    println!("|---|---|---|---|---|");
    for (target, achieved) in target.rows().zip(achieved.rows()) {
        let deviation = achieved.deviation(target.value);
        let (deviation, tolerance) = match achieved.comparison {
            Comparison::Ratio(tolerance) => (
                format!("{:+.0} %", 100.0 * deviation),
                format!("{:.0} %", 100.0 * tolerance),
            ),
            Comparison::Difference(tolerance) => (format!("{deviation:+.2}"), format!("{tolerance:.2}")),
        };
        println!(
            "| {} | {:.3} | {:.3} | {deviation} | {tolerance} |",
            achieved.name, target.value, achieved.value
        );
    }

    let contexts: Vec<f64> = generate(&Workload::default())?.concat();
    let count = contexts.len() as f64;
    println!(
        "\nscale {}: mean context {:.4}, {:.2} % above 1, largest {:.4}",
        Workload::default().scale,
        contexts.iter().sum::<f64>() / count,
        100.0 * contexts.iter().filter(|c| **c > 1.0).count() as f64 / count,
        contexts.iter().fold(0.0, |a: f64, b| a.max(*b)),
    );
    Ok(())
}

fn generate(workload: &Workload) -> Result<Vec<Vec<f64>>, laau_data::Error> {
    (0..VMS).map(|vm| workload.series(0, vm, READINGS)).collect()
}

/// The average readings of each VM, as shares.
fn read(path: &str) -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
    let mut series: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in BufReader::new(MultiGzDecoder::new(File::open(path)?)).lines() {
        let line = line?;
        let mut columns = line.split(',');
        let vm = columns.nth(1).ok_or("expected a VM in the second column")?;
        let average = columns.nth(2).ok_or("expected a reading in the fifth column")?;
        series
            .entry(vm.to_owned())
            .or_default()
            .push(average.parse::<f64>()? / 100.0);
    }
    Ok(series.into_values().collect())
}
