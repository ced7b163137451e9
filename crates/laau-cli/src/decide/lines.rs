//! The lines that go in and out, and the seal on the lines of a journal.

use std::io::{self, BufRead, Read as _, Write as _};

use serde::{Deserialize, Serialize};

/// The longest line that is read, in bytes; a million-entry context fits.
const LONGEST_LINE: u64 = 1 << 25;

/// What comes in: the context of the next step, or a reading.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) context: Vec<f64>,
    /// The series of a reading.
    pub(super) series: Option<String>,
}

/// What goes out for a step.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Decision<'a> {
    pub(super) step: usize,
    pub(super) action: &'a [f64],
    /// The price of each budget; absent for a policy without prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) multiplier: Option<&'a [f64]>,
    pub(super) remaining: &'a [f64],
    /// Why the action is the lower corner of the box and not the policy's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fallback: Option<&'a str>,
    /// Whether a guard changed what was advised.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) guarded: bool,
    /// What is odd about the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warning: Option<&'a str>,
    /// Whether this was decided before, and comes from the journal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) replayed: bool,
}

/// What goes out for a line that is no context.
#[derive(Debug, Serialize)]
pub(super) struct Refusal<'a> {
    pub(super) error: &'a str,
    /// The line of the input, from 1.
    pub(super) line: u64,
}

/// What goes out between the replayed decisions and the new ones.
#[derive(Debug, Serialize)]
pub(super) struct Resumed {
    pub(super) resumed_at: usize,
}

/// Reads a line.
pub(super) fn parse(line: &[u8]) -> Result<Request, String> {
    // The parser would take the fields of an object in their order, without their names.
    if line.trim_ascii_start().first() == Some(&b'[') {
        return Err("expected {\"context\":[…]}: found a list".to_owned());
    }
    serde_json::from_slice(line).map_err(|error| {
        let reason = error.to_string().replace(" at line 1 column", " at column");
        format!("expected {{\"context\":[…]}}: {reason}")
    })
}

/// Writes a value as one line into an empty buffer.
pub(crate) fn write_line(buffer: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, value)?;
    buffer.push(b'\n');
    Ok(())
}

/// How reading a line ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// A line is in the buffer, without its end.
    Line,
    /// A line that is too long to be a context; it was skipped.
    TooLong,
    /// There are no more lines.
    End,
}

/// Reads one line of bounded length; the last one need not have an end.
pub(crate) fn read_line(input: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<Read> {
    buffer.clear();
    let read = input.by_ref().take(LONGEST_LINE).read_until(b'\n', buffer)?;
    if read == 0 {
        return Ok(Read::End);
    }
    if buffer.last() == Some(&b'\n') {
        buffer.pop();
        return Ok(Read::Line);
    }
    if (read as u64) < LONGEST_LINE {
        return Ok(Read::Line);
    }
    buffer.clear();
    input.skip_until(b'\n')?;
    Ok(Read::TooLong)
}

/// What follows the content of a sealed line: `,"crc":"01234567"}`.
const SEAL_LENGTH: usize = 18;

/// Makes a sealed line of a JSON object: the checksum covers it and, through `previous`, every line before it.
///
/// Returns the checksum, which is the next line's `previous`. The first line's is 0.
pub(super) fn seal(buffer: &mut Vec<u8>, value: &impl Serialize, previous: u32) -> io::Result<u32> {
    write_line(buffer, value)?;
    // The closing brace and the end of the line come after the seal.
    buffer.truncate(buffer.len() - 2);
    let checksum = checksum(buffer, previous);
    writeln!(buffer, ",\"crc\":\"{checksum:08x}\"}}")?;
    Ok(checksum)
}

/// The JSON object of a sealed line, given without its end, and its checksum; nothing if the seal is broken.
pub(super) fn unseal(line: &[u8], previous: u32) -> Option<(Vec<u8>, u32)> {
    let (content, found) = line.split_at_checked(line.len().checked_sub(SEAL_LENGTH)?)?;
    let checksum = checksum(content, previous);
    let expected = format!(",\"crc\":\"{checksum:08x}\"}}");
    (found == expected.as_bytes()).then(|| ([content, b"}"].concat(), checksum))
}

fn checksum(content: &[u8], previous: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&previous.to_le_bytes());
    hasher.update(content);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_broken_by_any_changed_byte_and_by_a_missing_line() {
        let mut buffer = Vec::new();
        let first = seal(&mut buffer, &Resumed { resumed_at: 3 }, 0).unwrap();
        assert_eq!(
            buffer,
            format!("{{\"resumed_at\":3,\"crc\":\"{first:08x}\"}}\n").as_bytes()
        );
        buffer.pop();
        assert_eq!(unseal(&buffer, 0), Some((b"{\"resumed_at\":3}".to_vec(), first)));
        assert_eq!(unseal(&buffer, 1), None);
        for index in 0..buffer.len() {
            for bit in 0..8 {
                let mut changed = buffer.clone();
                changed[index] ^= 1 << bit;
                assert_eq!(unseal(&changed, 0), None, "byte {index}, bit {bit}");
            }
        }
        for length in 0..buffer.len() {
            assert_eq!(unseal(&buffer[..length], 0), None, "cut to {length} bytes");
        }
    }

    #[test]
    fn lines_are_read_with_and_without_an_end() {
        let mut input: &[u8] = b"one\n\nlast";
        let mut buffer = Vec::new();
        for expected in [&b"one"[..], b"", b"last"] {
            assert_eq!(read_line(&mut input, &mut buffer).unwrap(), Read::Line);
            assert_eq!(buffer, expected);
        }
        assert_eq!(read_line(&mut input, &mut buffer).unwrap(), Read::End);
    }

    #[test]
    fn an_endless_line_is_skipped_and_the_next_one_is_read() {
        let start = io::repeat(b'x').take(2 * LONGEST_LINE);
        let mut input = io::BufReader::new(start.chain(&b"\nnext\n"[..]));
        let mut buffer = Vec::new();
        assert_eq!(read_line(&mut input, &mut buffer).unwrap(), Read::TooLong);
        assert_eq!(read_line(&mut input, &mut buffer).unwrap(), Read::Line);
        assert_eq!(buffer, b"next");
    }

    #[test]
    fn only_a_context_is_a_request() {
        assert_eq!(
            parse(b"{\"context\":[0.31,1e-3]}\r").unwrap().context,
            [0.31, 1e-3]
        );
        for bad in [
            "",
            "null",
            "[0.3]",
            " [[0.3],null]",
            "[[0.3],\"a\"]",
            "{}",
            "{\"context\":0.3}",
            "{\"context\":[NaN]}",
            "{\"context\":[1e999]}",
            "{\"context\":[null]}",
            "{\"context\":[0.3]} {}",
            "{\"context\":[0.3],\"step\":1}",
            "{\"context\":[0.3],\"context\":[0.4]}",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(b"{\"context\":[\xff]}").is_err());
    }
}
