//! The exported tables that figures and claims are made from.

use std::path::Path;

use anyhow::Context;
use laau_core::tables::Row;

/// Reads a table; one that is not there has no rows, since an experiment may not have been run.
pub(crate) fn read<R: Row>(folder: &Path) -> anyhow::Result<Vec<R>> {
    let path = folder.join(R::FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut reader =
        csv::Reader::from_path(&path).with_context(|| format!("cannot read {}", path.display()))?;
    reader
        .deserialize()
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} is not the table it should be", path.display()))
}

/// The different values of a key, in order of first appearance.
pub(crate) fn distinct<T, K: PartialEq>(rows: &[T], key: impl Fn(&T) -> K) -> Vec<K> {
    let mut found = Vec::new();
    for row in rows {
        let key = key(row);
        if !found.contains(&key) {
            found.push(key);
        }
    }
    found
}

/// Mean, least and greatest of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of no values there is none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        (!values.is_empty()).then(|| Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}
