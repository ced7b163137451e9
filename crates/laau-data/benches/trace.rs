//! Throughput and memory of an import against a plain polars group-by of the same files, in one run.
//!
//! `cargo bench -p laau-data --bench trace -- --readings 40000000` generates a trace of 2 GB as gzip shards in a temporary
//! folder and prints one JSON object per line. Without the option it is a hundred times smaller.

#![expect(clippy::print_stdout, reason = "standard output is data")]

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use laau_data::{AzureVm, AzureVmOptions, EpisodeOptions, import};
use polars::prelude::{
    DataType, Engine, LazyCsvReader, LazyFileListReader as _, PlRefPath, Schema, col, len,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const READINGS_PER_SERIES: usize = 2000;
const SHARDS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let readings = std::env::args()
        .skip_while(|argument| argument != "--readings")
        .nth(1)
        .map_or(Ok(400_000), |count| count.parse::<usize>())?;
    let folder = tempfile::tempdir()?;
    let (bytes, zipped) = generate(folder.path(), readings)?;
    line(&[
        ("name", "trace".into()),
        ("readings", readings.into()),
        ("bytes", bytes.into()),
        ("gzip_bytes", zipped.into()),
    ]);

    let pattern = format!("{}/vm_cpu_readings-file-*.csv.gz", folder.path().display());
    forget_peak();
    let start = Instant::now();
    let trace = AzureVm::open(AzureVmOptions {
        paths: vec![pattern.clone()],
        ..AzureVmOptions::default()
    })?;
    let imported = import(&trace, &EpisodeOptions::default())?;
    let import_seconds = start.elapsed().as_secs_f64();
    let episodes = imported.sets.train.len() + imported.sets.validation.len() + imported.sets.test.len();
    measured("import", readings, import_seconds, episodes);

    forget_peak();
    let start = Instant::now();
    let groups = group_by(&pattern)?;
    let group_seconds = start.elapsed().as_secs_f64();
    measured("polars group-by", readings, group_seconds, groups);
    line(&[
        ("name", "import / group-by".into()),
        ("throughput_ratio", (group_seconds / import_seconds).into()),
    ]);
    Ok(())
}

fn measured(name: &str, readings: usize, seconds: f64, results: usize) {
    line(&[
        ("name", name.into()),
        ("seconds", seconds.into()),
        (
            "million_readings_per_second",
            (readings as f64 / seconds / 1e6).into(),
        ),
        ("peak_rss_mb", peak_megabytes().into()),
        ("results", results.into()),
    ]);
}

fn line(fields: &[(&str, serde_json::Value)]) {
    let object: serde_json::Map<_, _> = fields
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    println!("{}", serde_json::Value::from(object));
}

/// The mean reading of every machine, by polars alone.
fn group_by(pattern: &str) -> Result<usize, Box<dyn Error>> {
    let mut schema = Schema::default();
    schema.insert("timestamp".into(), DataType::Int64);
    schema.insert("vmid".into(), DataType::String);
    for name in ["mincpu", "maxcpu", "avgcpu"] {
        schema.insert(name.into(), DataType::Float64);
    }
    let groups = LazyCsvReader::new(PlRefPath::new(pattern))
        .with_has_header(false)
        .with_schema(Some(Arc::new(schema)))
        .finish()?
        .group_by([col("vmid")])
        .agg([col("avgcpu").mean(), len().alias("readings")])
        .collect_with_engine(Engine::Streaming)?
        .unwrap_single();
    Ok(groups.height())
}

/// Writes a time-major trace in the layout of Azure, and returns its size, plain and zipped.
fn generate(folder: &Path, readings: usize) -> Result<(u64, u64), Box<dyn Error>> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let machines: Vec<(String, f64)> = (0..readings.div_ceil(READINGS_PER_SERIES))
        .map(|_| (name(&mut rng), 60.0 * rng.random::<f64>().powi(3)))
        .collect();
    let times = readings.div_ceil(machines.len());
    let (mut plain, mut zipped, mut text, mut left) = (0, 0, String::new(), readings);
    for shard in 0..SHARDS {
        let path = folder.join(format!("vm_cpu_readings-file-{}-of-{SHARDS}.csv.gz", shard + 1));
        let mut encoder = GzEncoder::new(BufWriter::new(File::create(&path)?), Compression::fast());
        for time in shard * times / SHARDS..(shard + 1) * times / SHARDS {
            text.clear();
            for (id, base) in machines.iter().take(left) {
                let average = base + 40.0 * rng.random::<f64>();
                writeln!(
                    text,
                    "{},{id},{:.4},{:.4},{average:.4}",
                    time * 300,
                    average * 0.7,
                    average.mul_add(0.5, 50.0)
                )?;
            }
            left -= machines.len().min(left);
            plain += text.len() as u64;
            encoder.write_all(text.as_bytes())?;
        }
        encoder.finish()?.into_inner()?.sync_all()?;
        zipped += path.metadata()?.len();
    }
    Ok((plain, zipped))
}

/// A name such as Azure's, of base64 letters.
fn name(rng: &mut ChaCha8Rng) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (0..22)
        .map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())]))
        .collect()
}

/// Begins to count the peak of resident memory anew, where Linux allows it.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn peak_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}
