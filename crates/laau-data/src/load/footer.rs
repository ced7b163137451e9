//! A check of a Parquet file's footer before polars decodes it.
//!
//! The decoder allocates for the number of row groups and columns that the footer claims, before it reads them: a damaged
//! file can claim more memory than the machine has, which aborts the process. So the footer is parsed here first (Thrift's
//! compact protocol), and rejected if a list claims more elements than there are bytes left.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::error::Error;
use crate::load::thrift::ThriftReader;

const MAGIC: &[u8; 4] = b"PAR1";

/// Refuses a file whose footer contradicts itself. Non-Parquet files are left to the decoder.
///
/// # Errors
/// A damaged footer.
pub(crate) fn check(file: &Path) -> Result<(), Error> {
    match footer(file) {
        Ok(Some(bytes)) if ThriftReader(&bytes).structure(0).is_none() => Err(Error::Unreadable {
            file: file.to_path_buf(),
            rows: 0,
            reason: "the footer is damaged".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The bytes of the footer, if the file ends as a Parquet file does.
fn footer(file: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let mut reader = File::open(file)?;
    let length = reader.metadata()?.len();
    if length < 12 {
        return Ok(None);
    }
    let mut end = [0; 8];
    reader.seek(SeekFrom::Start(length - 8))?;
    reader.read_exact(&mut end)?;
    let [a, b, c, d, magic @ ..] = end;
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    if magic != *MAGIC || footer > length - 12 {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    reader.seek(SeekFrom::Start(length - 8 - footer))?;
    reader.take(footer).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(footer: &[u8]) -> Vec<u8> {
        let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
        [MAGIC.as_slice(), footer, &length, MAGIC].concat()
    }

    fn passes(bytes: &[u8]) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        std::fs::write(&path, bytes).unwrap();
        check(&path).is_ok()
    }

    #[test]
    fn a_list_that_is_longer_than_the_file_is_refused() {
        // Field 1 is a list of three small integers, then the end.
        assert!(passes(&file(&[0x19, 0x35, 2, 4, 6, 0])));
        // The same, said to have 2^28 elements.
        assert!(!passes(&file(&[
            0x19, 0xf5, 0x80, 0x80, 0x80, 0x80, 0x01, 2, 4, 6, 0
        ])));
    }

    #[test]
    fn a_footer_without_an_end_or_with_too_deep_a_nesting_is_refused() {
        assert!(!passes(&file(&[0x15])));
        assert!(!passes(&file(&[vec![0x1c; 100], vec![0; 101]].concat())));
        assert!(passes(&file(&[vec![0x1c; 10], vec![0; 11]].concat())));
    }

    #[test]
    fn what_is_no_parquet_file_is_left_to_the_decoder() {
        assert!(passes(b"PAR1"));
        assert!(passes(b"time,value\n1,2\n3,4\n"));
    }

    #[test]
    fn a_table_that_was_written_passes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let column = crate::TableColumn::new("a", crate::Values::Numbers(vec![1.0, 2.0]));
        crate::write_table(&path, vec![column]).unwrap();
        assert!(footer(&path).unwrap().is_some_and(|bytes| bytes.len() > 20));
        assert!(check(&path).is_ok());
    }
}
