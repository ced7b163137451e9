//! The seal of an episodes table: a digest of the whole file, in the metadata of its Parquet footer.
//!
//! Pages as polars writes them have no checksum: a flipped bit decodes to another value, or takes the decoder beyond its
//! memory. So the bytes are checked before anything is decoded.
//!
//! The digest is SHA-256 of the file in which the digest itself is 64 hyphens.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::io;
use crate::error::Error;

/// The name of the digest in the metadata.
pub(super) const NAME: &str = "laau.digest";
/// What stands in the place of the digest while it is computed.
pub(super) const PLACEHOLDER: &str = "----------------------------------------------------------------";

/// The name as it stands in a footer: then comes the second field, a text of 64 bytes.
const MARK: &[u8] = b"laau.digest\x18\x40";
/// Bits of the mark that may be wrong: a damaged name must not make the file pass for somebody else's.
const WRONG_BITS: u32 = 12;
/// How far from the end the digest stands at most, in bytes.
const REACH: u64 = 1 << 20;

/// Puts the digest into a file that was written with the placeholder; a file without one stays as it is.
pub(super) fn seal(file: &mut [u8]) {
    let place = find(file, 0).filter(|&place| file[place..].starts_with(PLACEHOLDER.as_bytes()));
    if let Some(place) = place {
        let digest = digest(file);
        file[place..][..digest.len()].copy_from_slice(digest.as_bytes());
    }
}

/// Checks a file against its digest. A file of another program has none.
///
/// # Errors
/// [`Error::Io`], or [`Error::Unreadable`] for a file that is not what was written.
pub(super) fn check(path: &Path) -> Result<(), Error> {
    if is_whole(path).map_err(|source| io(path, source))? {
        return Ok(());
    }
    Err(Error::Unreadable {
        file: path.to_path_buf(),
        rows: 0,
        reason: "the file is damaged: its bytes do not match its digest".to_owned(),
    })
}

fn is_whole(path: &Path) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(REACH)))?;
    file.read_to_end(&mut bytes)?;
    if find(&bytes, WRONG_BITS).is_none() {
        return Ok(true);
    }
    bytes.clear();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let Some(value) = find(&bytes, 0).and_then(|place| bytes.get_mut(place..place + PLACEHOLDER.len()))
    else {
        return Ok(false);
    };
    let found = value.to_vec();
    value.copy_from_slice(PLACEHOLDER.as_bytes());
    Ok(digest(&bytes).as_bytes() == found)
}

/// Where the value behind the last mark begins.
fn find(bytes: &[u8], wrong_bits: u32) -> Option<usize> {
    let differing = |window: &[u8]| -> u32 {
        window
            .iter()
            .zip(MARK)
            .map(|(found, expected)| (found ^ expected).count_ones())
            .sum()
    };
    let place = bytes
        .windows(MARK.len())
        .rposition(|window| differing(window) <= wrong_bits)?;
    Some(place + MARK.len())
}

fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let hash = Sha256::digest(bytes);
    hash.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
