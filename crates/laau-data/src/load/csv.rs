//! Separated text, plain or compressed, as blocks of typed columns.
//!
//! Read here and not by polars, for its speed: one thread unpacks, another splits the rows and parses each wanted cell where it
//! stands. A scan by polars must read text and cast it, since a typed one stops at a bad cell without its row, and text, cast and
//! copy took thrice the time of this (`cargo bench -p laau-data --bench trace` compares an import with a group-by of polars).

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};

use crate::error::{Cell, Error};
use crate::load::block::{Block, Column, Kind, Layout, Wanted, malformed, shorten};
use crate::load::time::seconds;

/// Bytes that are unpacked at once, few enough to stay in a processor's cache until they are parsed.
const CHUNK: usize = 1 << 18;
/// Chunks that wait for the parser.
const CHUNKS_WAITING: usize = 16;
/// The longest row. Whoever forgets to close a quote would have the rest of the file in memory.
const LONGEST_ROW: usize = 1 << 24;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Csv {
    /// Whether the first row has names.
    pub(crate) header: bool,
    /// Whether a cell may stand in quotes.
    pub(crate) quoted: bool,
    /// What stands between two cells.
    pub(crate) separator: u8,
}

/// Reads the wanted columns of a file, block by block and in order, and returns the number of rows.
///
/// # Errors
/// A file that cannot be opened or unpacked, a malformed cell, and any error of `visit`.
pub(crate) fn read_csv(
    file: &Path,
    csv: Csv,
    layout: &Layout,
    wanted: &[Wanted],
    limit: Option<usize>,
    mut visit: impl FnMut(Block) -> Result<ControlFlow<()>, Error>,
) -> Result<u64, Error> {
    let mut parser = Parser::new(file, csv, layout, wanted, limit);
    read_text(file, |text, is_last| {
        let (used, block) = parser.parse(text, is_last)?;
        let flow = if block.rows == 0 {
            ControlFlow::Continue(())
        } else {
            visit(block)?
        };
        Ok((used, flow.is_break() || parser.is_done()))
    })
    .map_err(|fault| fault.after(file, parser.rows))?;
    Ok(parser.rows)
}

/// The cells of a file's first row; none if the file is empty.
///
/// # Errors
/// A file that cannot be opened or unpacked.
pub(crate) fn first_row(file: &Path, csv: Csv) -> Result<Option<Vec<String>>, Error> {
    let mut cells = None;
    read_text(file, |text, is_last| {
        let mut found = Vec::new();
        let end = csv.split(text, is_last, |_, cell| found.push(cell.to_owned()))?;
        cells = end.map(|_| found);
        Ok((0, cells.is_some()))
    })
    .map_err(|fault| fault.after(file, 0))?;
    Ok(cells)
}

/// What stops a reader.
#[derive(Debug)]
enum Fault {
    /// The content cannot be decoded.
    Unreadable(String),
    Error(Error),
}

impl Fault {
    fn after(self, file: &Path, rows: u64) -> Error {
        match self {
            Self::Unreadable(reason) => Error::Unreadable {
                file: file.to_path_buf(),
                rows,
                reason,
            },
            Self::Error(error) => error,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Passes on the text of a file, unpacked. `parse` is told whether it has the file to its end, and answers how many bytes it
/// is done with and whether it is done with the file. What it leaves comes again, with more behind it.
fn read_text(
    file: &Path,
    mut parse: impl FnMut(&str, bool) -> Result<(usize, bool), Fault>,
) -> Result<(), Fault> {
    let source = open(file).map_err(|source| Error::Io {
        file: file.to_path_buf(),
        source,
    })?;
    std::thread::scope(|scope| {
        let (sender, chunks) = sync_channel(CHUNKS_WAITING);
        scope.spawn(move || unpack(source, &sender));
        let mut bytes: Vec<u8> = Vec::new();
        let mut is_first = true;
        // Whoever returns drops the receiver, which stops the thread.
        loop {
            let chunk = chunks.recv();
            let is_last = chunk.is_err();
            if let Ok(chunk) = chunk {
                bytes.extend(chunk.map_err(|error| Fault::Unreadable(shorten(&error.to_string())))?);
            }
            if std::mem::take(&mut is_first) && bytes.starts_with("\u{feff}".as_bytes()) {
                bytes.drain(..3);
            }
            let text = match str::from_utf8(&bytes) {
                Ok(text) => text,
                Err(error) if error.error_len().is_none() && !is_last => {
                    str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
                }
                Err(_) => return Err(Fault::Unreadable("invalid utf-8 sequence".to_owned())),
            };
            let (used, is_done) = parse(text, is_last)?;
            if is_last || is_done {
                return Ok(());
            }
            bytes.drain(..used);
            if bytes.len() > LONGEST_ROW {
                let reason = format!("a row has more than {LONGEST_ROW} bytes: is a quote not closed?");
                return Err(Fault::Unreadable(reason));
            }
        }
    })
}

/// Opens a file, packed or not, as its first bytes say.
fn open(file: &Path) -> std::io::Result<Box<dyn Read + Send>> {
    let mut reader = BufReader::with_capacity(CHUNK, File::open(file)?);
    Ok(match reader.fill_buf()? {
        [0x1f, 0x8b, _, _, ..] => Box::new(MultiGzDecoder::new(reader)),
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, _, _, ..] => Box::new(ZlibDecoder::new(reader)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::with_buffer(reader)?),
        _ => Box::new(reader),
    })
}

/// Sends the content of a source, chunk by chunk, until its end, an error, or until nobody listens.
fn unpack(mut source: Box<dyn Read + Send>, chunks: &SyncSender<std::io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        let outcome = source.by_ref().take(CHUNK as u64).read_to_end(&mut chunk);
        // What came before an error is read.
        let is_end = chunk.is_empty() || outcome.is_err();
        if !chunk.is_empty() && chunks.send(Ok(chunk)).is_err() {
            return;
        }
        if let Err(error) = outcome {
            // The send fails only if nobody listens.
            let _ = chunks.send(Err(error));
        }
        if is_end {
            return;
        }
    }
}

impl Csv {
    /// Splits off the first row and returns where it ends, or nothing if its end is not in the text.
    fn split(
        self,
        text: &str,
        is_last: bool,
        mut cell: impl FnMut(usize, &str),
    ) -> Result<Option<usize>, Fault> {
        let bytes = text.as_bytes();
        let (mut at, mut column) = (0, 0);
        if is_last && text.is_empty() {
            return Ok(None);
        }
        loop {
            let start = at;
            let mut closed = None;
            if self.quoted && bytes.get(at) == Some(&b'"') {
                closed = closing_quote(bytes, at + 1);
                match closed {
                    Some(close) => at = close + 1,
                    None if is_last => return Err(Fault::Unreadable("a quote is not closed".to_owned())),
                    None => return Ok(None),
                }
            }
            at = match find_either(bytes, at, self.separator, b'\n') {
                Some(end) => end,
                None if is_last => bytes.len(),
                None => return Ok(None),
            };
            let is_row = bytes.get(at) != Some(&self.separator);
            let end = at - usize::from(is_row && at > start && bytes[at - 1] == b'\r');
            match closed {
                None => cell(column, &text[start..end]),
                Some(close) => cell(column, &unquote(&text[start + 1..close], &text[close + 1..end])),
            }
            column += 1;
            at += 1;
            if is_row {
                return Ok(Some(at.min(bytes.len())));
            }
        }
    }
}

/// The place of the first of two bytes, from a place on, eight bytes at a time.
fn find_either(bytes: &[u8], from: usize, a: u8, b: u8) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let (all_a, all_b) = (ONES * u64::from(a), ONES * u64::from(b));
    // A byte that is zero borrows from its highest bit; the lowest such byte is never a false one.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let mut at = from;
    while let Some((word, _)) = bytes.get(at..).and_then(|rest| rest.split_first_chunk()) {
        let word = u64::from_le_bytes(*word);
        let hits = zero(word ^ all_a) | zero(word ^ all_b);
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    let hit = rest.iter().position(|byte| *byte == a || *byte == b);
    hit.map(|length| at + length)
}

/// The place of the quote that closes a cell; two in a row stand for one in it.
fn closing_quote(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let close = find_either(bytes, from, b'"', b'"')?;
        if bytes.get(close + 1) != Some(&b'"') {
            return Some(close);
        }
        from = close + 2;
    }
}

/// The text of a cell: what stands in the quotes and what stands behind them.
fn unquote<'a>(inside: &'a str, behind: &str) -> Cow<'a, str> {
    if behind.is_empty() && !inside.contains('"') {
        Cow::Borrowed(inside)
    } else {
        Cow::Owned(inside.replace("\"\"", "\"") + behind)
    }
}

/// Turns rows into blocks.
struct Parser<'a> {
    file: &'a Path,
    csv: Csv,
    layout: &'a Layout,
    wanted: &'a [Wanted],
    /// Which of the wanted columns each column of the file is.
    slots: Vec<Option<usize>>,
    limit: u64,
    header_rows: u64,
    /// Whether the header is still to come.
    at_header: bool,
    /// Rows so far.
    rows: u64,
}

impl<'a> Parser<'a> {
    fn new(file: &'a Path, csv: Csv, layout: &'a Layout, wanted: &'a [Wanted], limit: Option<usize>) -> Self {
        let slot = |name: &String| wanted.iter().position(|(wanted, _)| wanted == name);
        Self {
            file,
            csv,
            layout,
            wanted,
            slots: layout.names.iter().map(slot).collect(),
            limit: limit.map_or(u64::MAX, |limit| limit as u64),
            header_rows: csv.header.into(),
            at_header: csv.header,
            rows: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.rows >= self.limit
    }

    /// Parses the whole rows of a text, and returns where they end.
    fn parse(&mut self, text: &str, is_last: bool) -> Result<(usize, Block), Fault> {
        // A row outside quotes that begins before the last line break ends in the text.
        let whole = if is_last {
            text.len()
        } else {
            text.rfind('\n').map_or(0, |end| end + 1)
        };
        let text = &text[..whole];
        let mut columns: Vec<_> = self
            .wanted
            .iter()
            .map(|(_, kind)| Column::of_kind(*kind))
            .collect();
        let (mut at, first_row) = (0, self.rows + self.header_rows + 1);
        let mut rows = 0;
        while at < text.len() && !self.is_done() {
            // Lines without anything at the end of a file are no rows. What is at the end shows when nothing follows: until then
            // they wait. A table of one column has cells that are empty lines.
            if self.slots.len() > 1 && is_blank(&text[at..]) {
                if is_last {
                    at = text.len();
                }
                break;
            }
            let (mut wrong, mut beyond, mut cells) = (None, None, 0);
            let end = self.csv.split(&text[at..], is_last, |column, cell| {
                cells = column + 1;
                match self.slots.get(column) {
                    Some(&Some(slot)) if !push(&mut columns[slot], self.wanted[slot].1, cell) => {
                        wrong.get_or_insert_with(|| (slot, cell.to_owned()));
                    }
                    None if column == self.slots.len() && !cell.is_empty() => beyond = Some(cell.to_owned()),
                    _ => {}
                }
            })?;
            let Some(end) = end else {
                for column in &mut columns {
                    column.truncate(rows);
                }
                break;
            };
            at += end;
            if std::mem::take(&mut self.at_header) {
                for column in &mut columns {
                    column.truncate(rows);
                }
                continue;
            }
            for slot in self.slots.iter().skip(cells).copied().flatten() {
                if !push(&mut columns[slot], self.wanted[slot].1, "") {
                    wrong.get_or_insert_with(|| (slot, String::new()));
                }
            }
            let row = first_row + rows as u64;
            if let Some(found) = beyond {
                return Err(Fault::Error(Error::TooManyColumns {
                    file: self.file.to_path_buf(),
                    row,
                    expected: self.layout.names.len(),
                    found: shorten(&found),
                }));
            }
            if let Some((slot, found)) = wrong {
                let (name, kind) = &self.wanted[slot];
                let cell = Cell::new(self.file, row, name);
                return Err(Fault::Error(malformed(self.layout, *kind, cell, &found)));
            }
            rows += 1;
            self.rows += 1;
        }
        let block = Block {
            first_row,
            rows,
            columns,
        };
        Ok((at, block))
    }
}

/// Whether nothing but ends of lines is left.
fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'\n' | b'\r'))
}

/// Appends a cell to a column, unless it is malformed.
fn push(column: &mut Column, kind: Kind, cell: &str) -> bool {
    match column {
        Column::Text(texts) => {
            texts.push(cell);
            return true;
        }
        Column::Integer(values) => {
            let number = cell.parse().or_else(|_| cell.trim().parse()).ok();
            let value = match kind {
                Kind::Time => number.or_else(|| seconds(cell)),
                _ => number,
            };
            value.map(|value| values.push(value))
        }
        Column::Number(values) => {
            let number = cell.parse().or_else(|_| cell.trim().parse()).ok();
            number
                .filter(|value: &f64| value.is_finite())
                .map(|value| values.push(value))
        }
    }
    .is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, is_last: bool) -> (Vec<String>, Option<usize>) {
        let csv = Csv {
            header: false,
            quoted: true,
            separator: b';',
        };
        let mut cells = Vec::new();
        let end = csv
            .split(text, is_last, |_, cell| cells.push(cell.to_owned()))
            .unwrap();
        (cells, end)
    }

    #[test]
    fn a_row_is_split_at_separators_outside_quotes() {
        for (text, cells, end) in [
            ("a;b\nc", &["a", "b"][..], 4),
            ("a;\r\n", &["a", ""], 4),
            ("\n", &[""], 1),
            ("\"a;\nb\"\"\";c\r\n", &["a;\nb\"", "c"], 12),
            ("\"a\"b;\n", &["ab", ""], 6),
            ("a\"b\";c\n", &["a\"b\"", "c"], 7),
        ] {
            let cells: Vec<String> = cells.iter().map(ToString::to_string).collect();
            assert_eq!(split(text, false), (cells, Some(end)), "{text:?}");
        }
    }

    #[test]
    fn a_row_ends_with_the_text_only_if_nothing_follows() {
        assert_eq!(split("a;b", false).1, None);
        assert_eq!(split("a;\"b\n", false).1, None);
        assert_eq!(
            split("a;b", true),
            (vec!["a".to_owned(), "b".to_owned()], Some(3))
        );
        assert_eq!(split("", true).1, None);
    }

    #[test]
    fn a_byte_is_found_at_every_place() {
        for length in 0..40 {
            for at in 0..length {
                let mut bytes = vec![b'-'; length];
                bytes[at] = b',';
                let from_here = (0..=at).map(|from| find_either(&bytes, from, b',', b'\n'));
                assert!(from_here.into_iter().all(|found| found == Some(at)));
                assert_eq!(find_either(&bytes, at + 1, b'\n', b','), None);
            }
        }
        let high = [0x80, 0x2d, 0x8b, 0xff, 0x00, 0x0b, 0x0a, 0x2c, 0x0a];
        assert_eq!(find_either(&high, 0, b',', b'\n'), Some(6));
    }
}
