//! Files of other kinds than are read here, known by their first bytes.

/// What a file that is not separated text is, and what to do about it.
pub(crate) fn foreign(first: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 15] = [
        (
            b"PAR1",
            "a Parquet file: unpack it if it is packed, and give it a name that ends with .parquet",
        ),
        (
            b"ARROW1",
            "a file of Arrow or Feather: save it as Parquet or as separated text",
        ),
        (
            b"FEA1",
            "a file of Feather: save it as Parquet or as separated text",
        ),
        (b"ORC", "an ORC file: save it as Parquet or as separated text"),
        (
            b"\x89HDF",
            "an HDF5 file: save it as Parquet or as separated text",
        ),
        (
            b"SQLite format 3",
            "a database of SQLite: save its table as separated text",
        ),
        (
            b"PK\x03\x04",
            "a zip archive or a workbook: unpack it, or save it as separated text",
        ),
        (
            b"\xd0\xcf\x11\xe0",
            "a workbook of Excel: save it as separated text",
        ),
        (b"\xfd7zXZ\0", "a file packed with xz: unpack it first"),
        (b"BZh91AY&SY", "a file packed with bzip2: unpack it first"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
        (b"\x04\x22\x4d\x18", "a file packed with lz4: unpack it first"),
        (b"\x1f\x8b", "a file packed twice: unpack it first"),
        (b"\xff\xfe", UTF_16),
        (b"\xfe\xff", UTF_16),
    ];
    // Text may begin with the letters of one of them.
    if !first.starts_with(b"\xff") && !first.starts_with(b"\xfe") && is_printable(first) {
        return None;
    }
    let found = KINDS.iter().find(|(magic, _)| first.starts_with(magic));
    if let Some((_, kind)) = found {
        return Some(kind);
    }
    if first.get(257..262) == Some(b"ustar") {
        return Some("a tar archive: unpack it first");
    }
    // Text of the first letters in two bytes each, without a mark.
    match first {
        [0, letter, 0, other, ..] | [letter, 0, other, 0, ..] if letter.min(other) != &0 => Some(UTF_16),
        _ if first.iter().take(1024).any(|byte| *byte == 0) => Some("a binary file of an unknown kind"),
        _ => None,
    }
}

/// Whether the first bytes can be those of text: packed ones soon have a control character among them.
pub(crate) fn is_printable(first: &[u8]) -> bool {
    let is_text = |byte: &u8| *byte >= 0x20 || byte.is_ascii_whitespace();
    first.iter().take(1024).all(is_text)
}

const UTF_16: &str = "text in UTF-16: save it as UTF-8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_not_foreign() {
        for text in [
            "",
            "a",
            "series,time\n",
            "\u{feff}série;time\n",
            "\n",
            "PARTS,ORDERS\n",
        ] {
            assert_eq!(foreign(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn text_in_two_bytes_a_letter_is_known_with_a_mark_and_without() {
        for bytes in [
            b"\xff\xfea\0,\0".as_slice(),
            b"\xfe\xff\0a\0,",
            b"a\0,\0",
            b"\0a\0,",
        ] {
            assert_eq!(foreign(bytes), Some(UTF_16), "{bytes:?}");
        }
        assert_eq!(foreign(b"a,b\n\0\0"), Some("a binary file of an unknown kind"));
    }
}
