//! What a file is: by what it begins with, since names are the user's; by its name where that says nothing.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use clap::ValueEnum;

/// What can be described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    Episodes,
    AzureVm,
    AzureFunctions,
    Table,
    Model,
    Checkpoint,
    Policy,
    Journal,
    Report,
    /// Rollouts, steps and logs.
    Figures,
}

/// The first columns of the tables of figures that laau writes: rollouts and steps, the log of a training, the rounds of online learning.
const FIGURES: [&[&str]; 3] = [
    &["policy", "seed", "episode"],
    &["epoch", "learning_rate", "loss"],
    &["round", "utility", "running_utility"],
];

/// Whether a table with these columns is one of figures.
pub(super) fn are_figures(columns: &[String]) -> bool {
    FIGURES.iter().any(|first| {
        columns.len() >= first.len() && first.iter().zip(columns).all(|(known, found)| known == found)
    })
}

/// The first bytes of every redb file.
const STORE: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

/// Whether a file is a store of `laau serve`, by how such a file begins.
pub(super) fn is_store(path: &Path) -> bool {
    let mut first = [0; STORE.len()];
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok() && first == STORE)
}

impl Kind {
    pub(super) fn of(path: &Path) -> Self {
        Self::by_content(path).unwrap_or_else(|| Self::by_name(path))
    }

    /// What the first bytes say; nothing for tables, and for what is damaged there.
    fn by_content(path: &Path) -> Option<Self> {
        /// More than enough for the fields in front of the one that names a format.
        const FIRST: u64 = 1 << 16;
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(FIRST).read_to_end(&mut bytes).ok()?;
        // The container of models and checkpoints: the length of a header in JSON, then that.
        if bytes.len() > 8 && bytes[8] == b'{' {
            let (length, header) = bytes.split_first_chunk()?;
            let most = std::fs::metadata(path).ok()?.len();
            if u64::from_le_bytes(*length) > most {
                return None;
            }
            let header = String::from_utf8_lossy(header);
            return [("laau-model", Self::Model), ("laau-checkpoint", Self::Checkpoint)]
                .into_iter()
                .find(|(format, _)| header.contains(&format!("\"format\":\"{format}\"")))
                .map(|(_, kind)| kind);
        }
        let text = bytes.trim_ascii_start();
        if text.starts_with(b"{\"journal\":") {
            return Some(Self::Journal);
        }
        let rest = text.strip_prefix(b"{")?.trim_ascii_start();
        let rest = rest.strip_prefix(b"\"format\":").unwrap_or_default();
        if rest.trim_ascii_start().starts_with(b"\"laau-policy\"") {
            return Some(Self::Policy);
        }
        Some(Self::Report)
    }

    fn by_name(path: &Path) -> Self {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().to_lowercase())
            .unwrap_or_default();
        let ends = |ending: &str| name.ends_with(ending);
        if ends(".safetensors") {
            Self::Model
        } else if ends(".checkpoint") {
            Self::Checkpoint
        } else if ends(".policy") {
            Self::Policy
        } else if ends(".json") {
            Self::Report
        } else if ends(".jsonl") {
            Self::Journal
        } else if name.contains("vm_cpu_readings") {
            Self::AzureVm
        } else if name.contains("invocations_per_function") {
            Self::AzureFunctions
        } else {
            Self::Episodes
        }
    }
}
