//! The folder of policy files and models, of which settings name some.

use std::io::Read as _;
use std::path::PathBuf;

use crate::account::{AccountSpec, PolicySource};
use crate::deployment::Files;
use crate::error::Error;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 1 << 28;

pub(super) struct Folder(Option<PathBuf>);

impl Folder {
    pub(super) fn new(path: Option<PathBuf>) -> Self {
        Self(path)
    }

    /// The files that settings name.
    pub(super) fn read(&self, spec: &AccountSpec) -> Result<Files, Error> {
        let sources = [Some(&spec.policy), spec.guard.as_ref().map(|guard| &guard.policy)];
        let mut files = Files::new();
        for source in sources.into_iter().flatten() {
            if let PolicySource::File { file } = source {
                files.insert(file.clone(), self.file(file)?);
            }
        }
        Ok(files)
    }

    fn file(&self, name: &str) -> Result<Vec<u8>, Error> {
        let invalid = |reason: String| Error::Invalid { reason };
        let Some(folder) = &self.0 else {
            return Err(invalid(format!(
                "no policy file `{name}`: the service has no folder of policies"
            )));
        };
        // No way out of the folder, and nothing hidden in it.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > 255 || name.starts_with('.') || !name.chars().all(plain) {
            return Err(invalid(format!(
                "expected the name of a policy file, of letters, digits, `.`, `_` and `-`, found `{}`",
                name.escape_debug()
            )));
        }
        let unreadable =
            |error: std::io::Error| invalid(format!("policy file `{name}` cannot be read: {error}"));
        let path = folder.join(name);
        // A pipe would be waited for.
        let metadata = std::fs::metadata(&path).map_err(unreadable)?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            return Err(invalid(format!(
                "expected policy file `{name}` to be a file of at most {LARGEST} bytes"
            )));
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&path).map_err(unreadable)?;
        file.take(LARGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        Ok(bytes)
    }
}
