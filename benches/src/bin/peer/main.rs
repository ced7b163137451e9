//! laau's side of the comparison with peers: the same instances, the same protocol (`benches/peers/protocol.py`).

#![expect(clippy::print_stdout, reason = "standard output is data")]

mod instances;
mod layer;
mod strict;
mod training;

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Instant;

use laau_net::Precision;
use serde::Deserialize;
use serde_json::json;

use instances::Instances;

/// The most repetitions that one answer tells.
const MOST_SAMPLES: usize = 5000;

/// Something that can be measured: `run` does `units` units of work.
struct Case {
    work: String,
    variant: &'static str,
    precision: Precision,
    units: usize,
    /// What else is known about it: errors, violations, utilities.
    facts: serde_json::Map<String, serde_json::Value>,
    run: Box<dyn FnMut() + Send>,
}

#[derive(Deserialize)]
struct Request {
    run: usize,
    seconds: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args().nth(1).ok_or("expected a folder")?.into();
    let instances = Instances::read(&folder)?;
    let mut cases = training::cases(&instances)?;
    cases.extend(training::grid(&instances)?);
    cases.extend(layer::cases(&instances)?);
    for (id, case) in cases.iter_mut().enumerate() {
        (case.run)();
        let mut told = case.facts.clone();
        told.insert("id".to_owned(), id.into());
        for (key, value) in [
            ("peer", "laau"),
            ("work", &*case.work),
            ("variant", case.variant),
            (
                "precision",
                match case.precision {
                    Precision::F64 => "f64",
                    Precision::F32 => "f32",
                },
            ),
        ] {
            told.insert(key.to_owned(), value.into());
        }
        say(&json!({ "case": told }))?;
    }
    say(
        &json!({ "strict": { "peer": "laau", "variant": "interior point", "episodes": strict::play(&instances.strict)? } }),
    )?;
    say(&json!({ "ready": { "versions": { "laau": env!("CARGO_PKG_VERSION") } } }))?;
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let case = cases.get_mut(request.run).ok_or("no such case")?;
        say(&json!({ "samples": samples(case, request.seconds) }))?;
    }
    Ok(())
}

/// Seconds per unit of every repetition.
fn samples(case: &mut Case, seconds: f64) -> Vec<f64> {
    (case.run)();
    let mut found = Vec::new();
    let begun = Instant::now();
    while found.len() < MOST_SAMPLES {
        let start = Instant::now();
        (case.run)();
        found.push(start.elapsed().as_secs_f64() / case.units as f64);
        if begun.elapsed().as_secs_f64() > seconds {
            break;
        }
    }
    found
}

fn say(message: &serde_json::Value) -> std::io::Result<()> {
    println!("{message}");
    std::io::stdout().flush()
}
