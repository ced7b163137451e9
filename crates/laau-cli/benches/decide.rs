//! How many decisions a second `laau decide` makes through a pipe, as any program would drive it.
//!
//! `cargo bench -p laau-cli --bench decide` prints one line per policy. Every line out is one write to the pipe; the reader
//! is this process. Besides the time on the clock, where the system tells it, the time that the process had a core.

#![expect(clippy::print_stdout, reason = "the figures are what the bench is for")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use laau::core::Episodes;
use laau::core::problems::WeightedFairness;
use laau::kkt::FairnessLayer;
use laau::net::{Model, ModelSpec, Statistics, Summary};

/// Steps of the episode: the stream is one episode.
const HORIZON: usize = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `cargo test --benches` only wants to know that the bench runs.
    let steps = if std::env::args().any(|argument| argument == "--bench") {
        HORIZON
    } else {
        1000
    };
    let folder = std::env::temp_dir().join(format!("laau-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let input = folder.join("contexts.jsonl");
    write_contexts(&input, steps)?;
    let model = write_model(&folder, steps)?;
    let model = model.to_string_lossy();
    let journal = folder.join("journal.jsonl");
    let journal = journal.to_string_lossy();
    for (name, choice) in [
        ("equal", &["--policy", "equal"][..]),
        ("dgd", &["--policy", "dgd"]),
        ("laau (model of the paper)", &["--model", &model]),
        // On the disk of the temporary folder, which is memory on some machines.
        ("dgd, with a journal", &["--policy", "dgd", "--journal", &journal]),
    ] {
        let before = children_on_a_core();
        let seconds = run(choice, &input, steps)?;
        let rate = |seconds: f64| steps as f64 / seconds;
        print!("decide/{name}: {:.0} decisions/s on the clock", rate(seconds));
        if let (Some(before), Some(after)) = (before, children_on_a_core()) {
            print!(", {:.0} per second on one core", rate(after - before));
        }
        println!(" ({steps} in {seconds:.2} s)");
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Pipes all contexts through the binary, and reads all answers.
fn run(choice: &[&str], input: &Path, steps: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let contexts = std::fs::read(input)?;
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_laau"))
        .arg("decide")
        .args(choice)
        .args([
            "--budget",
            &(12.5 * steps as f64).to_string(),
            "--horizon",
            &steps.to_string(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("no pipe")?;
    let writer = std::thread::spawn(move || stdin.write_all(&contexts));
    let answers = BufReader::with_capacity(1 << 16, child.stdout.take().ok_or("no pipe")?);
    let mut decisions = 0;
    for line in answers.split(b'\n') {
        decisions += usize::from(line?.starts_with(b"{\"step\":"));
    }
    writer.join().map_err(|_| "the writer failed")??;
    let ended = child.wait()?;
    if !ended.success() || decisions != steps {
        return Err(format!("{decisions} of {steps} decisions, {ended}").into());
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds that ended child processes had a core, from `/proc` where there is one (hundredths of a second).
fn children_on_a_core() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in brackets that may hold spaces; the children's times are fields 16 and 17.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some((ticks(16)? + ticks(17)?) / 100.0)
}

fn write_contexts(path: &Path, steps: usize) -> std::io::Result<()> {
    let mut text = Vec::new();
    for context in (0..steps).map(weight) {
        writeln!(text, "{{\"context\":[{context}]}}")?;
    }
    std::fs::write(path, text)
}

/// Weights in (0, 1) with all their digits, spread evenly.
fn weight(step: usize) -> f64 {
    ((step as f64 + 0.5) * 0.618_033_988_749_894_9).fract()
}

/// An untrained model of the paper's size for so many steps.
fn write_model(folder: &Path, steps: usize) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let problem = Arc::new(WeightedFairness::paper());
    let spec = ModelSpec::paper(&*problem, steps);
    let contexts = (0..steps).map(weight).collect();
    let train = Episodes::new(steps, 1, 1, contexts, vec![12.5 * steps as f64])?;
    let statistics = Statistics::fit(&spec, &mut FairnessLayer::new(problem), &train)?;
    let path = folder.join("model.safetensors");
    laau::net::save_model(&path, &Model::new(spec, statistics, 0)?, &Summary::untrained(0))?;
    Ok(path)
}
