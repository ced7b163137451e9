//! Episodes: made, brought in, looked at.

mod generate;
mod import;
mod inspect;
mod kind;
mod preview;
mod printed;

use std::path::{Path, PathBuf};

use laau::core::Episodes;
use laau::data::Split;

pub(crate) use self::generate::{GenerateArgs, run as generate};
pub(crate) use self::import::{ImportArgs, run as import};
pub(crate) use self::inspect::{InspectArgs, run as inspect};
use crate::failure::Failure;
use crate::output::{self, Staged};

/// The tables of a folder of sets: train, validation, test.
fn places(folder: &Path) -> [PathBuf; 3] {
    Split::NAMES.map(|name| folder.join(name).with_extension("parquet"))
}

/// Refuses a name whose ending is not that of a table, before the table is made.
fn check_ending(place: &Path) -> Result<(), Failure> {
    let ending = place.extension().and_then(|ending| ending.to_str());
    match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("parquet" | "pq" | "csv") => Ok(()),
        _ => Err(Failure::new(
            format_args!(
                "{}: an episodes table ends in .parquet, .pq or .csv",
                place.display()
            ),
            "name the output for example episodes.parquet",
        )),
    }
}

/// Writes an episodes table beside its place.
fn write_episodes(staged: &mut Staged, place: &Path, episodes: &Episodes) -> Result<(), Failure> {
    let beside = staged.add(place.to_owned())?;
    laau::data::write_episodes(&beside, episodes).map_err(|error| match error {
        laau::data::Error::Io { source, .. } => output::cannot_write(place, &plain(source)),
        other => other.into(),
    })
}

/// The system's own words, where a writer of tables has wrapped them.
fn plain(error: std::io::Error) -> std::io::Error {
    match error.to_string().rsplit_once("IO error: ") {
        Some((_, reason)) => std::io::Error::other(reason.to_owned()),
        None => error,
    }
}
