//! Episodes: made, brought in, looked at.

mod generate;
mod import;
mod inspect;

use std::path::Path;

use laau::core::Episodes;

pub(crate) use self::generate::{GenerateArgs, run as generate};
pub(crate) use self::import::{ImportArgs, run as import};
pub(crate) use self::inspect::{InspectArgs, run as inspect};
use crate::failure::Failure;
use crate::output::{self, Staged};

/// Writes an episodes table beside its place.
fn write_episodes(staged: &mut Staged, place: &Path, episodes: &Episodes) -> Result<(), Failure> {
    let beside = staged.add(place.to_owned())?;
    laau::data::write_episodes(&beside, episodes).map_err(|error| match error {
        laau::data::Error::Io { source, .. } => output::cannot_write(place, &plain(source)),
        laau::data::Error::Invalid { .. } => Failure::new(
            format_args!(
                "{}: an episodes table ends in .parquet, .pq or .csv",
                place.display()
            ),
            "name the output for example episodes.parquet",
        ),
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
