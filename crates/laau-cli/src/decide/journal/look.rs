//! A journal that is looked at, and not gone on with.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde_json::Value;

use super::{Header, Record, no_regular_file};
use crate::decide::lines::{Read, read_line, unseal};
use crate::failure::Failure;

/// What a journal holds.
#[derive(Debug)]
pub(crate) struct Looked {
    /// The first line: which episode it is.
    pub(crate) episode: Value,
    pub(crate) decisions: usize,
    /// Budgets after the last decision.
    pub(crate) remaining: Vec<f64>,
    /// Decisions that were not the policy's own.
    pub(crate) fallbacks: usize,
    /// The first line that is cut off or damaged; those after it say nothing.
    pub(crate) broken_line: Option<usize>,
}

/// Reads a journal line by line, and changes nothing; it may be in use.
pub(crate) fn look(path: &Path) -> Result<Looked, Failure> {
    let unreadable = |error| Failure::file(path, &error, "check the path and its permissions");
    let file = File::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(no_regular_file(path));
    }
    let mut lines = Lines {
        input: BufReader::new(file),
        line: Vec::new(),
        checksum: 0,
    };
    let header: Option<Header> = match lines.next().map_err(unreadable)? {
        Line::Whole(content) => serde_json::from_slice(&content).ok(),
        Line::Broken | Line::End => None,
    };
    let Some(header) = header else {
        return Err(Failure::new(
            format_args!(
                "{}: no journal of this version of laau, or damaged",
                path.display()
            ),
            "journals are written by `laau decide --journal FILE`",
        ));
    };
    let mut looked = Looked {
        episode: serde_json::json!(header),
        remaining: header.budgets,
        decisions: 0,
        fallbacks: 0,
        broken_line: None,
    };
    loop {
        let record = match lines.next().map_err(unreadable)? {
            Line::Whole(content) => serde_json::from_slice::<Record>(&content).ok(),
            Line::Broken => None,
            Line::End => return Ok(looked),
        };
        let Some(record) = record.filter(|record| record.step == looked.decisions) else {
            looked.broken_line = Some(looked.decisions + 2);
            return Ok(looked);
        };
        looked.decisions += 1;
        looked.fallbacks += usize::from(record.fallback.is_some());
        looked.remaining = record.remaining;
    }
}

/// The lines of a journal, one after the other.
struct Lines {
    input: BufReader<File>,
    line: Vec<u8>,
    checksum: u32,
}

enum Line {
    /// What is under the seal.
    Whole(Vec<u8>),
    /// Without a seal that holds.
    Broken,
    End,
}

impl Lines {
    fn next(&mut self) -> std::io::Result<Line> {
        Ok(match read_line(&mut self.input, &mut self.line)? {
            Read::End => Line::End,
            Read::TooLong => Line::Broken,
            Read::Line => match unseal(&self.line, self.checksum) {
                Some((content, checksum)) => {
                    self.checksum = checksum;
                    Line::Whole(content)
                }
                None => Line::Broken,
            },
        })
    }
}
