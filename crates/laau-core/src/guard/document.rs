//! A guarded policy in a form that can be stored: those of its two policies, and the level between them.

use super::{Form, expect_level};
use crate::error::Error;
use crate::fit::Document;

/// What a stored guarded policy is made of. Whoever knows the kinds of the two documents can put it together again.
#[derive(Debug, Clone, PartialEq)]
pub struct GuardedDocument {
    /// The level `γ`.
    pub level: f64,
    /// How the guard acts.
    pub form: Form,
    /// The advice: the kind of its document, and its content.
    pub advice: (String, Vec<u8>),
    /// The incumbent, likewise.
    pub incumbent: (String, Vec<u8>),
}

impl GuardedDocument {
    /// The kind of these documents.
    pub const KIND: &'static str = "guarded";

    /// As a document: the level, a byte for the form, then four texts, each after its length.
    #[must_use]
    pub fn to_document(&self) -> Document {
        let mut bytes = self.level.to_le_bytes().to_vec();
        bytes.push(match self.form {
            Form::Segment => 0,
            Form::Layer => 1,
        });
        for (kind, content) in [&self.advice, &self.incumbent] {
            for text in [kind.as_bytes(), content] {
                bytes.extend((text.len() as u64).to_le_bytes());
                bytes.extend(text);
            }
        }
        Document {
            kind: Self::KIND,
            bytes,
        }
    }

    /// Reads the bytes of a document.
    ///
    /// # Errors
    /// [`Error::Document`] for anything but what [`GuardedDocument::to_document`] writes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(bytes);
        let damaged = || Error::Document {
            reason: "the guarded policy is damaged".to_owned(),
        };
        let mut read = || -> Option<Self> {
            let level = f64::from_le_bytes(reader.array()?);
            let form = match reader.array()? {
                [0] => Form::Segment,
                [1] => Form::Layer,
                _ => return None,
            };
            let mut part = || {
                Some((
                    String::from_utf8(reader.text()?.to_vec()).ok()?,
                    reader.text()?.to_vec(),
                ))
            };
            let (advice, incumbent) = (part()?, part()?);
            reader.0.is_empty().then_some(Self {
                level,
                form,
                advice,
                incumbent,
            })
        };
        let document = read().ok_or_else(damaged)?;
        expect_level(document.level)?;
        Ok(document)
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = u64::from_le_bytes(self.array()?);
        self.take(usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back_whole_or_not_at_all() {
        let document = GuardedDocument {
            level: 0.95,
            form: Form::Layer,
            advice: ("model".to_owned(), vec![1, 2, 3]),
            incumbent: ("policy".to_owned(), Vec::new()),
        };
        let bytes = document.to_document().bytes;
        assert_eq!(GuardedDocument::from_bytes(&bytes), Ok(document));
        for length in 0..bytes.len() {
            assert!(GuardedDocument::from_bytes(&bytes[..length]).is_err());
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(GuardedDocument::from_bytes(&long).is_err());
        let mut wrong = bytes;
        wrong[..8].copy_from_slice(&2.0_f64.to_le_bytes());
        assert!(GuardedDocument::from_bytes(&wrong).is_err());
    }
}
