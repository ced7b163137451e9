//! Thrift's compact protocol, as far as a Parquet file's metadata is checked.

/// Structures within structures; the real format has fewer than ten.
const DEEPEST: usize = 32;

/// Unread bytes. Every method returns `None` where they end early or are malformed.
pub(crate) struct ThriftReader<'a>(pub(crate) &'a [u8]);

impl ThriftReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    /// An integer of seven bits a byte, the lowest first.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Fields up to the byte that ends them.
    pub(crate) fn structure(&mut self, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        let mut field = 0;
        while let Some(kind) = self.field(&mut field)? {
            self.skip_field(kind, depth)?;
        }
        Some(())
    }

    /// The type of a structure's next field, none at its end; `field` becomes its number.
    #[expect(
        clippy::option_option,
        reason = "the outer one is that of malformed bytes, as everywhere here"
    )]
    pub(crate) fn field(&mut self, field: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        // A field number that is not within 15 of the last one follows as an integer.
        *field = match head >> 4 {
            0 => self.number()?,
            more => field.checked_add(i64::from(more))?,
        };
        Some(Some(head & 0x0f))
    }

    /// A signed integer: the lowest bit is the sign.
    pub(crate) fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Skips a field of a type.
    pub(crate) fn skip_field(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            // A Boolean is encoded in the type of its field.
            1 | 2 => Some(()),
            kind => self.value(kind, depth),
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            1..=3 => self.byte().map(|_| ()),
            4..=6 => self.varint().map(|_| ()),
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    few => u64::from(few),
                };
                self.values(count, &[head & 0x0f], depth)
            }
            11 => match self.varint()? {
                0 => Some(()),
                count => {
                    let kinds = self.byte()?;
                    self.values(count, &[kinds >> 4, kinds & 0x0f], depth)
                }
            },
            12 => self.structure(depth + 1),
            _ => None,
        }
    }

    /// Reads `count` elements; each takes at least one byte, so there cannot be more elements than bytes.
    fn values(&mut self, count: u64, kinds: &[u8], depth: usize) -> Option<()> {
        if count > self.0.len() as u64 || depth > DEEPEST {
            return None;
        }
        for _ in 0..count {
            for &kind in kinds {
                self.value(kind, depth + 1)?;
            }
        }
        Some(())
    }
}
