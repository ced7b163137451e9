//! Describes an Azure VM trace and makes episodes of it.
//!
//! `cargo run --release -p laau-data --example import -- 'path/to/*.csv.gz' [folder]` prints the statistics of the trace, the
//! report of the import and the statistics of the sets as JSON, and writes `train.parquet`, `validation.parquet` and
//! `test.parquet` to the folder if one is named.

#![expect(clippy::print_stdout, reason = "standard output is data")]

use std::error::Error;
use std::path::Path;

use laau_data::{
    AzureVm, AzureVmOptions, EpisodeOptions, Normalisation, OutOfRange, Split, import, inspect_episodes,
    inspect_trace, write_episodes,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let paths = vec![arguments.next().ok_or("expected the path of a trace")?];
    let folder = arguments.next();

    let trace = AzureVm::open(AzureVmOptions {
        paths,
        ..AzureVmOptions::default()
    })?;
    let statistics = inspect_trace(&trace, Normalisation::Percent, OutOfRange::Error)?;
    println!("{}", serde_json::to_string_pretty(&statistics)?);

    let imported = import(&trace, &EpisodeOptions::default())?;
    println!("{}", serde_json::to_string_pretty(&imported.report)?);
    let sets = [
        &imported.sets.train,
        &imported.sets.validation,
        &imported.sets.test,
    ];
    for (name, episodes) in Split::NAMES.iter().zip(sets) {
        println!("{}", serde_json::to_string_pretty(&inspect_episodes(episodes))?);
        if let Some(folder) = &folder {
            write_episodes(&Path::new(folder).join(format!("{name}.parquet")), episodes)?;
        }
    }
    Ok(())
}
