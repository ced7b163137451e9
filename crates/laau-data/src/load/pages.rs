//! A check of a Parquet file's columns before polars decodes them.
//!
//! The decoder believes the footer and the headers of pages: it reads from places that lie outside the file, and allocates for as
//! many values as are claimed. Neither ends in an error, so that a damaged file could end the process, or worse.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;

use polars::prelude::FileMetadata;

use super::block::Wanted;
use super::thrift::ThriftReader;

/// Bytes that are read for a header of a page, and for one that has long statistics.
const HEADERS: [u64; 2] = [1 << 10, 1 << 22];

/// Whether the columns of a file lie in it, and the pages of the wanted ones in them.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn are_sound(
    source: &mut File,
    metadata: &FileMetadata,
    wanted: &[Wanted],
) -> std::io::Result<bool> {
    let length = source.metadata()?.len();
    for group in &metadata.row_groups {
        for column in group.parquet_columns() {
            let start = column
                .dictionary_page_offset()
                .unwrap_or(column.data_page_offset());
            let Some(place) = place(start, column.compressed_size(), length) else {
                return Ok(false);
            };
            let descriptor = column.descriptor();
            let name = descriptor.path_in_schema.first();
            if !wanted
                .iter()
                .any(|(wanted, _)| name.is_some_and(|name| name.as_str() == wanted))
            {
                continue;
            }
            let chunk = Chunk {
                place,
                values: column.num_values(),
                bytes: column.uncompressed_size(),
            };
            let is_flat = descriptor.descriptor.max_rep_level == 0;
            if is_flat && usize::try_from(chunk.values).ok() != Some(group.num_rows()) {
                return Ok(false);
            }
            if !chunk.has_sound_pages(source)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The bytes from a place on, if they are in a file of this length.
fn place(start: i64, count: i64, length: u64) -> Option<Range<u64>> {
    let start = u64::try_from(start).ok()?;
    let end = start.checked_add(u64::try_from(count).ok()?)?;
    (end <= length).then_some(start..end)
}

/// A column of a row group.
struct Chunk {
    place: Range<u64>,
    /// How many values it has, as the footer says.
    values: i64,
    /// How long it is when it is unpacked, as the footer says.
    bytes: i64,
}

impl Chunk {
    fn has_sound_pages(&self, source: &mut File) -> std::io::Result<bool> {
        let (mut at, mut values) = (self.place.start, 0);
        while at < self.place.end && values < self.values {
            let Some((header, page)) = self.header(source, at)? else {
                return Ok(false);
            };
            // Its number of values, and the lengths of its parts.
            let counts = 0..=self.values.max(self.bytes);
            let is_sound = (0..=self.bytes).contains(&page.bytes)
                && counts.contains(&page.least)
                && counts.contains(&page.greatest);
            let Some(packed) = place(header, page.packed, self.place.end - at).filter(|_| is_sound) else {
                return Ok(false);
            };
            if page.is_data {
                values += page.values;
            }
            at += packed.end;
        }
        Ok(values == self.values)
    }

    /// The header of the page at a place, and its length; nothing if there is none.
    fn header(&self, source: &mut File, at: u64) -> std::io::Result<Option<(i64, Page)>> {
        for most in HEADERS {
            let mut bytes = Vec::new();
            source.seek(SeekFrom::Start(at))?;
            source
                .take(most.min(self.place.end - at))
                .read_to_end(&mut bytes)?;
            let mut reader = ThriftReader(&bytes);
            if let Some(page) = Page::read(&mut reader) {
                let length = bytes.len() - reader.0.len();
                return Ok(i64::try_from(length).ok().map(|length| (length, page)));
            }
        }
        Ok(None)
    }
}

/// What the header of a page claims.
#[derive(Debug, Default)]
struct Page {
    is_data: bool,
    /// Its length when it is unpacked.
    bytes: i64,
    /// Its length as it is.
    packed: i64,
    /// How many values it has.
    values: i64,
    /// The least and the greatest number that it says of what is in it.
    least: i64,
    greatest: i64,
}

impl Page {
    fn read(reader: &mut ThriftReader<'_>) -> Option<Self> {
        /// A whole number and a structure, of Thrift's compact protocol.
        const NUMBER: u8 = 5;
        const STRUCTURE: u8 = 12;
        let mut page = Self::default();
        let mut field = 0;
        while let Some(kind) = reader.field(&mut field)? {
            match (field, kind) {
                (1, NUMBER) => page.is_data = [0, 3].contains(&reader.number()?),
                (2, NUMBER) => page.bytes = reader.number()?,
                (3, NUMBER) => page.packed = reader.number()?,
                // Of a data page, a dictionary, and a data page of the second version.
                (5 | 7 | 8, STRUCTURE) => {
                    let mut field = 0;
                    while let Some(kind) = reader.field(&mut field)? {
                        if kind == NUMBER {
                            let number = reader.number()?;
                            page.least = page.least.min(number);
                            page.greatest = page.greatest.max(number);
                            if field == 1 {
                                page.values = number;
                            }
                        } else {
                            reader.skip_field(kind, 1)?;
                        }
                    }
                }
                _ => reader.skip_field(kind, 0)?,
            }
        }
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use polars::prelude::{ParquetReader, SerReader as _};

    use super::*;
    use crate::load::block::Kind;
    use crate::{TableColumn, Values};

    /// Whether a table with a byte changed is sound; nothing if its footer is not.
    fn is_sound(bytes: &[u8]) -> Option<bool> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        std::fs::write(&path, bytes).unwrap();
        let mut source = File::open(&path).unwrap();
        let read = ParquetReader::new(source.try_clone().unwrap())
            .get_metadata()
            .cloned();
        let wanted = [("a".to_owned(), Kind::Number)];
        Some(are_sound(&mut source, &*read.ok()?, &wanted).unwrap())
    }

    #[test]
    fn a_table_is_sound_until_the_head_of_a_page_says_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let column = |name| TableColumn::new(name, Values::Numbers((0..1000).map(f64::from).collect()));
        crate::write_table(&path, vec![column("a"), column("b")]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(is_sound(&whole), Some(true));
        // The lengths of the first page: its type is field 1, in two bytes; then two numbers.
        for place in [6, 9] {
            let mut bytes = whole.clone();
            bytes[place + 1] ^= 1;
            assert_eq!(is_sound(&bytes), Some(false), "byte {place}");
        }
        // The last column ends where there is no file any more.
        let (start, end) = (4, whole.len() / 2);
        let cut = [&whole[..start], &whole[end..]].concat();
        assert_eq!(is_sound(&cut), Some(false));
    }

    #[test]
    fn a_place_is_in_the_file_or_nowhere() {
        assert_eq!(place(4, 6, 10), Some(4..10));
        for (start, count) in [(4, 7), (-1, 2), (4, -1), (i64::MAX, i64::MAX)] {
            assert_eq!(place(start, count, 10), None);
        }
    }
}
