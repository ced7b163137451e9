//! Separated text, plain or compressed, as blocks of typed columns.
//!
//! Read here and not by polars, for its speed: one thread unpacks, another finds the cells of a chunk and parses those of the
//! wanted columns, column by column, where they stand. A scan by polars must read text and cast it, since a typed one stops at a
//! bad cell without its row, and text, cast and copy took more than thrice the time of this (`cargo xtask bench --peers
//! --works import` compares an import with a group-by of polars).

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};

use crate::error::{Cell, Error};
use crate::load::ahead::Ahead;
use crate::load::block::{Block, Column, Kind, Layout, Wanted, malformed, shorten};
use crate::load::cells::{BadQuote, Cells, Csv, find_separator, has_lone_return};
use crate::load::foreign::{foreign, is_printable};
use crate::load::number::{integer, number};

/// Bytes that are unpacked at once, few enough to stay in a processor's cache until they are parsed.
const CHUNK: usize = 1 << 18;
/// Bytes of the first chunk: enough for the first row, which is often all that is wanted.
const FIRST_CHUNK: usize = 1 << 14;
/// Chunks that wait for the parser.
const CHUNKS_WAITING: usize = 16;
/// The longest row. Whoever forgets to close a quote would have the rest of the file in memory.
const LONGEST_ROW: usize = 1 << 24;

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
    .map_err(|fault| {
        let header_rows = if parser.at_header { 0 } else { parser.header_rows };
        fault.after(file, parser.rows, header_rows)
    })?;
    Ok(parser.rows)
}

/// The cells of a file's first row, and how they are separated, which is found out if it is not given; none if the file is empty.
///
/// # Errors
/// A file that cannot be opened or unpacked, or that is no text.
pub(crate) fn first_row(
    file: &Path,
    mut csv: Csv,
    is_separated: bool,
) -> Result<Option<(Csv, Vec<String>)>, Error> {
    let (mut cells, mut found) = (Cells::default(), None);
    read_text(file, |text, is_last| {
        if !is_separated {
            csv.separator = find_separator(text);
        }
        let closed = cells.find(csv, text, is_last);
        if cells.rows() == 0 {
            closed?;
            return Ok((0, false));
        }
        let row = &text[..cells.start(1).min(text.len())];
        let line = row.trim_end_matches(['\r', '\n']);
        if line.len() == 5 && line.starts_with("sep=") {
            return Err(Fault::Error(Error::OtherKind {
                file: file.to_path_buf(),
                expected: "a table from the first line on",
                found: format!("`{}`, which is for Excel alone: delete that line", shorten(line)),
            }));
        }
        if has_lone_return(row) {
            return Err(Fault::Error(lone_returns(file)));
        }
        let contents = (0..cells.columns(0)).map(|column| cells.get(csv, text, 0, column));
        found = Some(contents.map(|name| name.trim().to_owned()).collect());
        Ok((0, true))
    })
    .map_err(|fault| fault.after(file, 0, 0))?;
    Ok(found.map(|names| (csv, names)))
}

/// What stops a reader.
#[derive(Debug)]
enum Fault {
    /// The content cannot be unpacked.
    Unreadable(String),
    /// It is no text.
    Foreign(&'static str),
    /// It is text in another encoding.
    Encoding,
    /// A quote is not closed, and where the search for it ended.
    Unclosed(String),
    /// A line goes on and on, or there is nothing but empty ones.
    Long,
    Error(Error),
}

impl Fault {
    /// The error of a file, of which so many rows and lines of a header were read.
    fn after(self, file: &Path, rows: u64, header_rows: u64) -> Error {
        let (file, row) = (file.to_path_buf(), rows + header_rows + 1);
        match self {
            Self::Unreadable(reason) => Error::Unreadable { file, rows, reason },
            Self::Foreign(found) => Error::OtherKind {
                file,
                expected: "separated text",
                found: found.to_owned(),
            },
            Self::Encoding => Error::OtherKind {
                file,
                expected: "text in UTF-8",
                found: format!(
                    "other bytes in row {row}: if it is text in Latin-1 or the like, save it as UTF-8"
                ),
            },
            Self::Unclosed(found) => Error::UnclosedQuote { file, row, found },
            Self::Long => Error::OtherKind {
                file,
                expected: "separated text",
                found: format!("more than {LONGEST_ROW} bytes without the end of row {row}"),
            },
            Self::Error(error) => error,
        }
    }
}

impl From<BadQuote> for Fault {
    fn from(quote: BadQuote) -> Self {
        let found = match quote {
            BadQuote::Unclosed => "the end of the file",
            BadQuote::Torn => "text behind the next quote, which is on a later line",
        };
        Self::Unclosed(found.to_owned())
    }
}

/// The error of a file whose lines end with carriage returns alone.
fn lone_returns(file: &Path) -> Error {
    Error::OtherKind {
        file: file.to_path_buf(),
        expected: "lines that end with a line feed",
        found: "lone carriage returns: save it with the line ends of Unix or Windows".to_owned(),
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
        let (spare, spares) = channel();
        scope.spawn(move || unpack(source, &sender, &spares));
        // What the parser left of earlier chunks.
        let mut left: Vec<u8> = Vec::new();
        let mut is_first = true;
        // Whoever returns drops the receiver, which stops the thread.
        loop {
            let chunk = chunks.recv();
            let is_last = chunk.is_err();
            let mut chunk = chunk
                .unwrap_or_else(|_| Ok(Vec::new()))
                .map_err(|error| Fault::Unreadable(shorten(&error.to_string())))?;
            if std::mem::take(&mut is_first) {
                if let Some(found) = foreign(&chunk) {
                    return Err(Fault::Foreign(found));
                }
                if chunk.starts_with("\u{feff}".as_bytes()) {
                    chunk.drain(..3);
                }
            }
            let is_joined = !left.is_empty();
            if is_joined {
                left.extend_from_slice(&chunk);
            }
            let bytes = if is_joined { &left } else { &chunk };
            let text = match str::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) if error.error_len().is_none() && !is_last => {
                    str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
                }
                Err(error) if error.error_len().is_none() => {
                    return Err(Fault::Unreadable("the file ends within a letter".to_owned()));
                }
                Err(error) => {
                    // The rows before it come first, and their number says where it is.
                    let valid = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                    return match parse(valid, false)? {
                        (_, true) => Ok(()),
                        (_, false) => Err(Fault::Encoding),
                    };
                }
            };
            let (used, is_done) = parse(text, is_last)?;
            if is_last || is_done {
                return Ok(());
            }
            if is_joined {
                left.drain(..used);
            } else {
                left.extend_from_slice(&chunk[used..]);
            }
            if left.len() > LONGEST_ROW {
                return Err(if left.contains(&b'\r') && !left.contains(&b'\n') {
                    Fault::Error(lone_returns(file))
                } else if left.contains(&b'"') {
                    Fault::Unclosed(format!("a row of more than {LONGEST_ROW} bytes"))
                } else {
                    Fault::Long
                });
            }
            // The send fails only if everything is unpacked.
            let _ = spare.send(chunk);
        }
    })
}

/// Opens a file, packed or not, as its first bytes say.
fn open(file: &Path) -> std::io::Result<Box<dyn Read + Send>> {
    let mut reader = BufReader::with_capacity(CHUNK, File::open(file)?);
    Ok(match reader.fill_buf()? {
        // A header may begin with the letters that zlib does.
        text if is_printable(text) => Box::new(reader),
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(Ahead::new(reader)?)),
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, _, _, ..] => Box::new(ZlibDecoder::new(Ahead::new(reader)?)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::with_buffer(Ahead::new(reader)?)?),
        _ => Box::new(reader),
    })
}

/// Sends the content of a source, chunk by chunk, until its end, an error, or until nobody listens.
///
/// A chunk ends with a line, unless a line is longer, so that the parser rarely has to join two. What it is done with comes back
/// in `spares` and is filled again: fresh memory has to be mapped by the system, page by page.
fn unpack(
    mut source: Box<dyn Read + Send>,
    chunks: &SyncSender<std::io::Result<Vec<u8>>>,
    spares: &Receiver<Vec<u8>>,
) {
    // The beginning of a line whose end is still packed.
    let mut line: Vec<u8> = Vec::new();
    let mut size = FIRST_CHUNK;
    loop {
        let mut chunk = spares.try_recv().unwrap_or_default();
        chunk.resize(size, 0);
        size = CHUNK;
        chunk[..line.len()].copy_from_slice(&line);
        let (length, outcome) = fill(&mut *source, &mut chunk, line.len());
        let is_end = length < chunk.len();
        chunk.truncate(length);
        line.clear();
        if !is_end && let Some(end) = chunk.iter().rposition(|byte| *byte == b'\n') {
            line.extend(chunk.drain(end + 1..));
        }
        // What came before an error is read.
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

/// Fills a buffer from a place on, and returns how far it is filled: to its end, unless the source ends or fails.
fn fill(source: &mut dyn Read, buffer: &mut [u8], from: usize) -> (usize, std::io::Result<()>) {
    let mut at = from;
    while at < buffer.len() {
        match source.read(&mut buffer[at..]) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (at, Err(error)),
        }
    }
    (at, Ok(()))
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
    /// How many columns there are up to the last that has a name: a header may end with separators.
    width: usize,
    /// How many empty cells may be behind them in every row. Some programs end all rows with a separator, and some the header too; in
    /// some rows of many it is rather a decimal comma, which moves an empty last cell behind the columns.
    trailing: usize,
    /// Whether the first row has these cells, as all others then must, and the number of that row.
    padding: Option<(bool, u64)>,
    cells: Cells,
}

impl<'a> Parser<'a> {
    fn new(file: &'a Path, csv: Csv, layout: &'a Layout, wanted: &'a [Wanted], limit: Option<usize>) -> Self {
        let slot = |name: &String| wanted.iter().position(|(wanted, _)| wanted == name);
        let slots: Vec<_> = layout.names.iter().map(slot).collect();
        let is_named =
            |(name, slot): (&String, &Option<usize>)| !csv.header || slot.is_some() || !name.is_empty();
        let last = layout.names.iter().zip(&slots).rposition(is_named);
        let width = last.map_or(0, |last| last + 1);
        // A decimal comma cannot hide where the last column is never empty.
        let is_never_empty =
            last.is_some_and(|last| slots[last].is_some_and(|slot| wanted[slot].1 != Kind::Any));
        Self {
            width,
            trailing: (slots.len() - width).max(is_never_empty.into()),
            padding: None,
            file,
            csv,
            layout,
            wanted,
            slots,
            limit: limit.map_or(u64::MAX, |limit| limit as u64),
            header_rows: csv.header.into(),
            at_header: csv.header,
            rows: 0,
            cells: Cells::default(),
        }
    }

    fn is_done(&self) -> bool {
        self.rows >= self.limit
    }

    /// Parses the whole rows of a text, column by column, and returns where they end.
    fn parse(&mut self, text: &str, is_last: bool) -> Result<(usize, Block), Fault> {
        // A table of one column has cells that are empty lines.
        let text = if self.slots.len() > 1 {
            without_blank_end(text)
        } else {
            text
        };
        let found = self.cells.find(self.csv, text, is_last);
        let cells = &self.cells;
        let header = usize::from(self.at_header).min(cells.rows());
        self.at_header &= header == 0;
        let left = usize::try_from(self.limit - self.rows).unwrap_or(usize::MAX);
        let rows = header..cells.rows().min(header.saturating_add(left));
        let first_row = self.rows + self.header_rows + 1;

        let mut columns: Vec<_> = self
            .wanted
            .iter()
            .map(|(_, kind)| Column::with_capacity(*kind, rows.len()))
            .collect();
        // The row and column of the first error.
        let (width, mut padding) = (self.width, self.padding);
        let is_uneven = |row: &usize| {
            let count = cells.columns(*row);
            let content = |column| cells.get(self.csv, text, *row, column);
            let is_long = count > width && self.is_padded(count, |column| content(column).is_empty());
            let (expected, _) = *padding.get_or_insert((is_long, first_row + (row - rows.start) as u64));
            is_long != expected || (count != width && !is_long)
        };
        // In a row, a cell too many or too few comes before a malformed one.
        let uneven = rows.clone().find(is_uneven);
        let mut wrong = uneven.map(|row| (row, width));
        self.padding = padding;
        for (column, slot) in self.slots.iter().enumerate() {
            let Some(slot) = *slot else { continue };
            let contents = cells.column(self.csv, text, rows.clone(), column);
            let malformed = extend(&mut columns[slot], self.wanted[slot].1, contents);
            if let Some(row) = malformed.map(|place| rows.start + place)
                && wrong.is_none_or(|(first, _)| row < first)
            {
                wrong = Some((row, column));
            }
        }
        // Not where only the first row is read: the types of its columns may still be unknown.
        let is_whole = self.limit == u64::MAX;
        let swallowed = cells
            .broken_lines(text)
            .find(|(row, line)| is_whole && rows.contains(row) && self.is_row(line));
        if let Some((row, _)) = swallowed
            && wrong.is_none_or(|(first, _)| row <= first)
        {
            self.rows += (row - rows.start) as u64;
            return Err(Fault::Unclosed("whole rows before the next quote".to_owned()));
        }
        if let Some((row, column)) = wrong {
            let content = cells.get(self.csv, text, row, column);
            let is_torn = uneven == Some(row) || content.contains('\r');
            if is_torn && has_lone_return(&text[cells.start(row)..cells.start(row + 1).min(text.len())]) {
                return Err(Fault::Error(lone_returns(self.file)));
            }
            let number = first_row + (row - rows.start) as u64;
            return Err(Fault::Error(if uneven == Some(row) {
                self.uneven(number, cells.columns(row), &content)
            } else {
                self.malformed(number, column, &content)
            }));
        }
        let end = cells.start(rows.end).min(text.len());
        self.rows += rows.len() as u64;
        if !self.is_done() {
            found?;
        }
        let block = Block {
            first_row,
            rows: rows.len(),
            columns,
        };
        Ok((end, block))
    }

    /// Whether a row of so many cells ends with the empty ones that rows may have behind their columns.
    fn is_padded(&self, count: usize, is_empty: impl Fn(usize) -> bool) -> bool {
        let is_long = self.trailing > 0 && count == self.width + self.trailing;
        is_long && (self.width..count).all(is_empty)
    }

    /// Whether a line that is in quotes would do as a row: then a quote is open that nobody meant to open.
    fn is_row(&self, line: &str) -> bool {
        let cells: Vec<&str> = line.split(char::from(self.csv.separator)).collect();
        let reads = |(slot, cell): (&Option<usize>, &&str)| match slot.map(|slot| self.wanted[slot].1) {
            Some(Kind::Time(times)) => Some(times.parse(cell).is_some()),
            Some(Kind::Integer) => Some(integer(cell).is_some()),
            Some(Kind::Number) => Some(number(cell).is_some()),
            Some(Kind::Text | Kind::Any) | None => None,
        };
        let mut read = self.slots.iter().zip(&cells).filter_map(reads).peekable();
        (cells.len() == self.width || self.is_padded(cells.len(), |cell| cells[cell].is_empty()))
            && read.peek().is_some()
            && read.all(|reads| reads)
    }

    /// The error of a row that has too few cells or too many, of which the first is given.
    fn uneven(&self, row: u64, count: usize, next: &str) -> Error {
        let (file, expected) = (self.file.to_path_buf(), self.width);
        if count < expected {
            return Error::TooFewColumns {
                file,
                row,
                expected,
                found: count,
            };
        }
        let row = match self.padding {
            // This row is as it should be: the first one ends with a separator too many.
            Some((true, first)) if count == expected => first,
            _ => row,
        };
        Error::TooManyColumns {
            file,
            row,
            expected,
            found: shorten(next),
        }
    }

    /// The error of a malformed cell in one of the wanted columns.
    fn malformed(&self, row: u64, column: usize, found: &str) -> Error {
        let (name, kind) = &self.wanted[self.slots[column].unwrap_or_default()];
        malformed(self.layout, *kind, Cell::new(self.file, row, name), found)
    }
}

/// A text without the empty lines at its end. They are no rows at the end of a file, which shows when nothing follows: until then
/// they wait.
fn without_blank_end(text: &str) -> &str {
    let filled = text.trim_end_matches(['\n', '\r']).len();
    if filled == 0 {
        return "";
    }
    let end = text[filled..]
        .find('\n')
        .map_or(text.len(), |line| filled + line + 1);
    &text[..end]
}

/// Appends cells to a column up to the first that is malformed, and returns its place.
fn extend<'t>(
    column: &mut Column,
    kind: Kind,
    mut cells: impl Iterator<Item = Cow<'t, str>>,
) -> Option<usize> {
    match column {
        Column::Text(texts) => {
            // Names are often of one length. To grow from nothing would copy what is there again and again.
            let mut cells = cells.peekable();
            let first = cells.peek().map_or(0, |cell| cell.len());
            texts.reserve(cells.size_hint().0.saturating_mul(first).min(CHUNK));
            cells.for_each(|cell| texts.push(&cell));
            None
        }
        Column::Integer(values) => match kind {
            Kind::Time(times) => {
                cells.position(|cell| times.parse(&cell).map(|time| values.push(time)).is_none())
            }
            _ => cells.position(|cell| integer(&cell).map(|value| values.push(value)).is_none()),
        },
        Column::Number(values) => {
            cells.position(|cell| number(&cell).map(|value| values.push(value)).is_none())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_at_the_end_are_no_rows() {
        for (text, rows) in [
            ("", ""),
            ("\n\r\n", ""),
            ("a\n", "a\n"),
            ("a\r\n\n\r\n", "a\r\n"),
            ("\na", "\na"),
        ] {
            assert_eq!(without_blank_end(text), rows, "{text:?}");
        }
    }

    #[test]
    fn chunks_end_with_a_line_unless_it_is_longer() {
        let first = "0123456\n".repeat(FIRST_CHUNK / 8);
        let text = first + &"0123456\n".repeat(CHUNK / 8) + "01\n" + &"x".repeat(3 * CHUNK) + "\n1";
        let (sender, chunks) = sync_channel(16);
        let (_spare, spares) = channel();
        unpack(Box::new(std::io::Cursor::new(text.clone())), &sender, &spares);
        drop(sender);
        let chunks: Vec<_> = chunks.iter().map(Result::unwrap).collect();
        assert_eq!(chunks.concat(), text.as_bytes());
        let lengths: Vec<_> = chunks.iter().map(Vec::len).collect();
        assert_eq!(lengths, [FIRST_CHUNK, CHUNK, 3, CHUNK, CHUNK, CHUNK, 2]);
    }
}
