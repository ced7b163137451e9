//! The container of model and checkpoint files: safetensors with sorted metadata, all tensors `f64`.
//!
//! Written here rather than by the `safetensors` crate, whose header comes out in the order of a hash map: the same
//! content must give the same bytes. Read by that crate, which checks every offset against the file.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// The field of the digest.
const DIGEST: &str = "digest";

/// The largest file that is read, in bytes: far more than a model has, and little enough for memory.
pub const LARGEST_FILE: u64 = 1 << 28;

/// What is wrong with a file, before its path is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) field: String,
    pub(crate) reason: String,
}

impl Fault {
    pub(crate) fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn at(self, path: &Path) -> Error {
        Error::InvalidFile {
            path: path.to_owned(),
            field: self.field,
            reason: self.reason,
        }
    }
}

/// A tensor of any shape, row-major.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

/// Named texts and named tensors.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Archive {
    metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, Array>,
}

impl Archive {
    pub(crate) fn new(format: &str, version: u32) -> Self {
        let mut archive = Self::default();
        archive.put_text("format", format);
        archive.put_text("format_version", &version.to_string());
        archive
    }

    pub(crate) fn put_text(&mut self, field: &str, text: &str) {
        self.metadata.insert(field.to_owned(), text.to_owned());
    }

    /// Stores anything as JSON; a number keeps all its bits.
    pub(crate) fn put_json<T: Serialize>(&mut self, field: &'static str, value: &T) -> Result<(), Error> {
        let text = serde_json::to_string(value).map_err(|error| Error::InvalidSetting {
            field,
            reason: error.to_string(),
        })?;
        self.metadata.insert(field.to_owned(), text);
        Ok(())
    }

    pub(crate) fn put_tensor(&mut self, field: impl Into<String>, shape: &[usize], values: &[f64]) {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        self.tensors.insert(
            field.into(),
            Array {
                shape: shape.to_vec(),
                values: values.to_vec(),
            },
        );
    }

    pub(crate) fn text(&self, field: &str) -> Result<&str, Fault> {
        self.metadata
            .get(field)
            .map(String::as_str)
            .ok_or_else(|| Fault::new(field, "missing from the metadata"))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, field: &str) -> Result<T, Fault> {
        serde_json::from_str(self.text(field)?).map_err(|error| Fault::new(field, error.to_string()))
    }

    /// Takes a tensor out, whatever its shape.
    pub(crate) fn take(&mut self, field: &str) -> Result<Array, Fault> {
        self.tensors
            .remove(field)
            .ok_or_else(|| Fault::new(field, "missing from the tensors"))
    }

    /// Takes out a tensor of finite values that must have the given shape.
    pub(crate) fn take_finite(&mut self, field: &str, shape: &[usize]) -> Result<Vec<f64>, Fault> {
        let array = self.take(field)?;
        if array.shape != shape {
            let reason = format!("expected shape {shape:?}, found {:?}", array.shape);
            return Err(Fault::new(field, reason));
        }
        match array.values.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(Fault::new(
                field,
                format!("expected finite values, found {} at {index}", array.values[index]),
            )),
            None => Ok(array.values),
        }
    }

    /// Checks that every tensor has been taken.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        match self.tensors.keys().next() {
            Some(name) => Err(Fault::new(name, "unexpected tensor")),
            None => Ok(()),
        }
    }

    /// SHA-256 of all texts and tensors, in hexadecimal.
    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        // Lengths keep the end of one part from passing for the beginning of the next.
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for (field, text) in self.metadata.iter().filter(|(field, _)| *field != DIGEST) {
            add(field.as_bytes());
            add(text.as_bytes());
        }
        for (name, array) in &self.tensors {
            add(name.as_bytes());
            add(format!("{:?}", array.shape).as_bytes());
            let values: Vec<u8> = array
                .values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            add(&values);
        }
        let digits: Vec<String> = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        digits.concat()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut header = serde_json::Map::new();
        let mut metadata = self.metadata.clone();
        metadata.insert(DIGEST.to_owned(), self.digest());
        header.insert("__metadata__".to_owned(), serde_json::json!(metadata));
        let mut offset = 0;
        for (name, array) in &self.tensors {
            let end = offset + 8 * array.values.len();
            header.insert(
                name.clone(),
                serde_json::json!({"dtype": "F64", "shape": array.shape, "data_offsets": [offset, end]}),
            );
            offset = end;
        }
        let mut text = serde_json::Value::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut bytes = Vec::with_capacity(8 + text.len() + offset);
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&text);
        for value in self.tensors.values().flat_map(|array| &array.values) {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`Archive::to_bytes`] wrote; the format and its version must be the expected ones.
    pub(crate) fn from_bytes(bytes: &[u8], format: &str, version: u32) -> Result<Self, Fault> {
        let broken = |error: safetensors::SafeTensorError| {
            Fault::new("file", format!("expected a whole safetensors file: {error}"))
        };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let content = SafeTensors::deserialize(bytes).map_err(broken)?;
        let mut archive = Self {
            metadata: header
                .metadata()
                .clone()
                .unwrap_or_default()
                .into_iter()
                .collect(),
            tensors: BTreeMap::new(),
        };
        let expect = |field, expected: &str| match archive.text(field)? {
            found if found == expected => Ok(()),
            found => Err(Fault::new(
                field,
                format!("expected `{expected}`, found `{found}`"),
            )),
        };
        expect("format", format)?;
        let found = archive.text("format_version")?;
        if found != version.to_string() {
            let reason =
                format!("expected `{version}`, found `{found}`: the file is of another version of laau");
            return Err(Fault::new("format_version", reason));
        }
        for (name, view) in content.iter() {
            if view.dtype() != Dtype::F64 {
                return Err(Fault::new(
                    name,
                    format!("expected dtype F64, found {:?}", view.dtype()),
                ));
            }
            let values = view
                .data()
                .as_chunks::<8>()
                .0
                .iter()
                .map(|chunk| f64::from_le_bytes(*chunk));
            archive.tensors.insert(
                name.to_owned(),
                Array {
                    shape: view.shape().to_vec(),
                    values: values.collect(),
                },
            );
        }
        if archive.text(DIGEST)? != archive.digest() {
            return Err(Fault::new(DIGEST, "the file is damaged"));
        }
        Ok(archive)
    }
}

/// Reads a file of bounded size.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let io = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    let length = fs::metadata(path).map_err(io)?.len();
    if length > LARGEST_FILE {
        let reason = format!("expected at most {LARGEST_FILE} bytes, found {length}");
        return Err(Fault::new("file", reason).at(path));
    }
    fs::read(path).map_err(io)
}

/// Writes a file as a whole or not at all: beside its place first, then moved there.
///
/// # Errors
/// [`Error::Io`].
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let beside = name_beside(path)?;
    let write = || {
        // Moving a file there would replace a device, a pipe or a link by it.
        if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            let kind = std::io::ErrorKind::InvalidInput;
            return Err(std::io::Error::new(kind, "expected a regular file, or none"));
        }
        let mut file = fs::File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|source| {
        // The reason of the failure is what the caller needs; a left-over is removed if it can be.
        let _ = fs::remove_file(&beside);
        Error::Io {
            path: path.to_owned(),
            source,
        }
    })
}

fn name_beside(path: &Path) -> Result<PathBuf, Error> {
    let name = path.file_name().ok_or_else(|| Error::Io {
        path: path.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidInput, "expected the name of a file"),
    })?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(beside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Archive {
        let mut archive = Archive::new("sample", 1);
        archive.put_text("note", "naïve \"quotes\"");
        archive
            .put_json("number", &0.1_f64.mul_add(3.0, f64::EPSILON))
            .unwrap();
        archive.put_tensor("b", &[2, 2], &[1.0, -0.0, f64::MIN_POSITIVE, 1.0 / 3.0]);
        archive.put_tensor("a", &[0], &[]);
        archive
    }

    #[test]
    fn what_is_written_is_read_back_bit_for_bit() {
        let bytes = sample().to_bytes();
        let read = Archive::from_bytes(&bytes, "sample", 1).unwrap();
        assert_eq!(read.to_bytes(), bytes);
        assert_eq!(
            read.json::<f64>("number").unwrap().to_bits(),
            0.1_f64.mul_add(3.0, f64::EPSILON).to_bits()
        );
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_leaves_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no-such-folder").join("model");
        let message = write_atomically(&path, b"x").unwrap_err().to_string();
        assert!(message.contains("no-such-folder"), "{message}");
        assert!(write_atomically(Path::new("/"), b"x").is_err());
    }
}
