//! The cells of separated text.

use std::borrow::Cow;
use std::ops::Range;

use crate::load::bytes::{find_all, find_either};

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

/// What is wrong with the quotes of a row.
#[derive(Debug, PartialEq)]
pub(crate) enum BadQuote {
    /// One is not closed by the end of the file.
    Unclosed,
    /// The next one is on a later line, and does not end a cell: it most likely begins another, and whole rows stand between the two.
    Torn,
}

/// The places of the cells of a text.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    /// Where each cell ends: at a separator, a line break or the end of the text.
    ends: Vec<usize>,
    /// For every row the number of cells up to its end.
    rows: Vec<usize>,
    /// Where quoted cells with a line break in them are, without their quotes.
    broken: Vec<Range<usize>>,
}

impl Cells {
    /// Finds the cells of the whole rows of a text.
    ///
    /// # Errors
    /// A quote that is not closed by the end of the file, or not by the next one. The cells of the rows before it are found.
    pub(crate) fn find(&mut self, csv: Csv, text: &str, is_last: bool) -> Result<(), BadQuote> {
        self.ends.clear();
        self.rows.clear();
        self.broken.clear();
        // No row ends behind the last line break, and the beginning of one can be long.
        let whole = if is_last {
            text.len()
        } else {
            text.rfind('\n').map_or(0, |end| end + 1)
        };
        let bytes = &text.as_bytes()[..whole];
        let Self { ends, rows, broken } = self;
        let mut end = |place| {
            ends.push(place);
            if bytes.get(place) != Some(&csv.separator) {
                rows.push(ends.len());
            }
        };
        let found = if csv.quoted && bytes.contains(&b'"') {
            find_outside_quotes(bytes, csv.separator, &mut end, broken)
        } else {
            find_all(bytes, csv.separator, b'\n', &mut end);
            Ok(())
        };
        if is_last && found.is_ok() && bytes.last().is_some_and(|byte| *byte != b'\n') {
            end(bytes.len());
        }
        match found {
            // The rest of it is still to come.
            Err(BadQuote::Unclosed) if !is_last => Ok(()),
            found => found,
        }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Number of cells in a row.
    pub(crate) fn columns(&self, row: usize) -> usize {
        self.rows[row] - self.first(row)
    }

    /// The number of the first cell of a row.
    fn first(&self, row: usize) -> usize {
        if row == 0 { 0 } else { self.rows[row - 1] }
    }

    /// The lines that quoted cells have behind their first line break, each with the row that it is in.
    pub(crate) fn broken_lines<'t>(&self, text: &'t str) -> impl Iterator<Item = (usize, &'t str)> {
        self.broken.iter().flat_map(move |place| {
            let cell = self.ends.partition_point(|end| *end < place.end);
            let row = self.rows.partition_point(|behind| *behind <= cell);
            let lines = text[place.clone()].split('\n').skip(1);
            lines.map(move |line| (row, line.strip_suffix('\r').unwrap_or(line)))
        })
    }

    /// Where the rows before a row end.
    pub(crate) fn start(&self, row: usize) -> usize {
        match self.first(row) {
            0 => 0,
            first => self.ends[first - 1] + 1,
        }
    }

    /// The content of a cell; nothing, where a row has too few.
    pub(crate) fn get<'t>(&self, csv: Csv, text: &'t str, row: usize, column: usize) -> Cow<'t, str> {
        let mut cells = self.column(csv, text, row..row + 1, column);
        cells.next().unwrap_or_default()
    }

    /// The contents of a column's cells in some rows; nothing, where a row has too few.
    pub(crate) fn column<'t>(
        &self,
        csv: Csv,
        text: &'t str,
        rows: Range<usize>,
        column: usize,
    ) -> impl Iterator<Item = Cow<'t, str>> {
        let mut first = self.first(rows.start);
        self.rows[rows].iter().map(move |&behind| {
            let cell = std::mem::replace(&mut first, behind) + column;
            if cell >= behind {
                return Cow::Borrowed("");
            }
            let start = if cell == 0 { 0 } else { self.ends[cell - 1] + 1 };
            let mut content = &text[start..self.ends[cell]];
            if cell + 1 == behind {
                content = content.strip_suffix('\r').unwrap_or(content);
            }
            if !csv.quoted {
                return Cow::Borrowed(content);
            }
            // Some programs write `, ` between two cells: with the space, a name would be another than without it.
            match content.as_bytes() {
                [b'"', ..] => unquote(content),
                [b' ', ..] | [.., b' '] => unquote(content.trim_matches(' ')),
                _ => Cow::Borrowed(content),
            }
        })
    }
}

/// The separator of a text, as its first row says: a semicolon or a tab, if no fewer of them than commas are outside quotes. A name
/// has a comma in it more often than a semicolon.
pub(crate) fn find_separator(text: &str) -> u8 {
    const SEPARATORS: [u8; 3] = *b",;\t";
    let bytes = text.as_bytes();
    let mut counts = [0; 3];
    let (mut at, mut begins) = (0, true);
    while at < bytes.len() && bytes[at] != b'\n' {
        let place = SEPARATORS.iter().position(|separator| *separator == bytes[at]);
        if let Some(place) = place {
            counts[place] += 1;
        } else if begins && bytes[at] == b'"' {
            at = closing_quote(bytes, at + 1).unwrap_or(bytes.len());
        }
        begins = place.is_some();
        at += 1;
    }
    let most = if counts[1] > counts[2] { 1 } else { 2 };
    SEPARATORS[if counts[most] >= counts[0].max(1) { most } else { 0 }]
}

/// Whether a row has a carriage return that ends no line: files of old programs have no other line ends.
pub(crate) fn has_lone_return(row: &str) -> bool {
    !row.contains('"') && row.trim_end_matches(['\r', '\n']).contains('\r')
}

/// Passes on the places outside quotes where a cell ends, and appends those of quoted cells with a line break.
fn find_outside_quotes(
    bytes: &[u8],
    separator: u8,
    mut each: impl FnMut(usize),
    broken: &mut Vec<Range<usize>>,
) -> Result<(), BadQuote> {
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'"' {
            let close = closing_quote(bytes, at + 1).ok_or(BadQuote::Unclosed)?;
            if bytes[at..close].contains(&b'\n') {
                let behind = bytes[close + 1..].iter().find(|byte| **byte != b' ');
                if !behind.is_none_or(|byte| [separator, b'\r', b'\n'].contains(byte)) {
                    return Err(BadQuote::Torn);
                }
                broken.push(at + 1..close);
            }
            at = close + 1;
        }
        match find_either(bytes, at, separator, b'\n') {
            Some(place) => {
                each(place);
                at = place + 1;
            }
            None => break,
        }
    }
    Ok(())
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

/// The content of a cell: of one that begins with a quote, what stands in the quotes and what stands behind them.
fn unquote(cell: &str) -> Cow<'_, str> {
    if !cell.starts_with('"') {
        return Cow::Borrowed(cell);
    }
    let close = closing_quote(cell.as_bytes(), 1).unwrap_or(cell.len());
    let (inside, behind) = (
        &cell[1..close],
        cell.get(close + 1..).unwrap_or_default().trim_end_matches(' '),
    );
    if behind.is_empty() && !inside.contains('"') {
        Cow::Borrowed(inside)
    } else {
        Cow::Owned(inside.replace("\"\"", "\"") + behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, is_last: bool) -> Vec<Vec<String>> {
        let csv = Csv {
            header: false,
            quoted: true,
            separator: b';',
        };
        let mut cells = Cells::default();
        cells.find(csv, text, is_last).unwrap();
        let row = |row| {
            let columns = 0..cells.columns(row);
            columns
                .map(|column| cells.get(csv, text, row, column).into_owned())
                .collect()
        };
        (0..cells.rows()).map(row).collect()
    }

    #[test]
    fn rows_are_split_at_separators_outside_quotes() {
        for (text, rows) in [
            ("a;b\nc", &[&["a", "b"][..]][..]),
            ("a;\r\n", &[&["a", ""]]),
            ("\n\r\n", &[&[""], &[""]]),
            ("\"a;\nb\"\"\";c\r\nd\n", &[&["a;\nb\"", "c"], &["d"]]),
            ("\"a\"b;\n", &[&["ab", ""]]),
            ("\" a \" ; b c ; \"d\" \n", &[&[" a ", "b c", "d"]]),
            ("a\"b\";c\n", &[&["a\"b\"", "c"]]),
        ] {
            assert_eq!(split(text, false), rows, "{text:?}");
        }
    }

    #[test]
    fn a_quote_that_is_closed_by_another_cells_is_refused() {
        let csv = Csv {
            header: false,
            quoted: true,
            separator: b',',
        };
        for (text, is_last, expected, rows) in [
            ("a\n1,\"b\n2,c\n3,\"d\n4,e\n", false, Err(BadQuote::Torn), 1),
            ("a\n1,\"b\n", true, Err(BadQuote::Unclosed), 1),
            ("a\n1,\"b\n", false, Ok(()), 1),
            ("1,\"b\n2\"\r\n1,\"b\n2\",\n1,\"b\n2\"", true, Ok(()), 3),
            ("1,\"b\n2\" ,3\n", true, Ok(()), 1),
            ("1,\"b\"c\n", true, Ok(()), 1),
        ] {
            let mut cells = Cells::default();
            assert_eq!(cells.find(csv, text, is_last), expected, "{text:?}");
            assert_eq!(cells.rows(), rows, "{text:?}");
        }
    }

    #[test]
    fn lines_in_quotes_are_known_with_their_rows() {
        let csv = Csv {
            header: false,
            quoted: true,
            separator: b',',
        };
        let text = "1,2\n\"a\nb\",\"c\"\n3,\"d\r\ne\r\n\"\n4,\"f\ng\"";
        let mut cells = Cells::default();
        cells.find(csv, text, true).unwrap();
        let lines: Vec<_> = cells.broken_lines(text).collect();
        assert_eq!(lines, [(1, "b"), (2, "e"), (2, ""), (3, "g")]);
    }

    #[test]
    fn a_separator_is_counted_outside_quotes() {
        for (text, separator) in [
            ("time,series,\"va;l;u;e\"\n", b','),
            ("\"a,b\";\"c,d\";e\n", b';'),
            ("\"a,b\"\t\"c\"\"\t,,\"\n;;;", b'\t'),
            ("a;b,c\n", b';'),
            ("a;b,c,d\n", b','),
            ("a;b\n,,", b';'),
            ("a\n", b','),
            ("\"a;", b','),
            ("", b','),
        ] {
            assert_eq!(find_separator(text), separator, "{text:?}");
        }
    }

    #[test]
    fn a_row_ends_with_the_text_only_if_nothing_follows() {
        let nothing: [[&str; 0]; 0] = [];
        for text in ["a;b", "a;\"b\n", "\"a\""] {
            assert_eq!(split(text, false), nothing, "{text:?}");
        }
        assert_eq!(split("a;b", true), [["a", "b"]]);
        assert_eq!(split("a;", true), [["a", ""]]);
        assert_eq!(split("a;\"b\"", true), [["a", "b"]]);
        assert_eq!(split("a;b\n", true), [["a", "b"]]);
        assert_eq!(split("", true), nothing);
    }
}
