//! Tables on their way to files.

use std::collections::BTreeMap;
use std::path::Path;

use laau::core::tables::Row;

use crate::failure::{Failure, Hint as _};
use crate::output;

/// What one cell of an experiment adds to the tables: CSV with its heading, by the name of the file.
pub type Parts = BTreeMap<String, String>;

/// The tables of one cell while its rows are added.
#[derive(Default)]
pub(super) struct Tables(BTreeMap<&'static str, csv::Writer<Vec<u8>>>);

impl Tables {
    /// Adds a row to its table.
    pub(super) fn add<R: Row>(&mut self, row: &R) -> Result<(), Failure> {
        let table = self
            .0
            .entry(R::FILE)
            .or_insert_with(|| csv::Writer::from_writer(Vec::new()));
        table.serialize(row).hint(MISTAKE)
    }

    /// The tables as text.
    pub(super) fn finish(self) -> Result<Parts, Failure> {
        let text = |(name, table): (&str, csv::Writer<Vec<u8>>)| {
            let bytes = table.into_inner().hint(MISTAKE)?;
            Ok((name.to_owned(), String::from_utf8(bytes).hint(MISTAKE)?))
        };
        self.0.into_iter().map(text).collect()
    }
}

const MISTAKE: &str = "this is a mistake in laau itself: please report it";

/// The tables of all cells, in their order, under one heading each.
fn join(cells: &[Parts]) -> Parts {
    let mut tables = Parts::new();
    for (name, part) in cells.iter().flatten() {
        let table = tables.entry(name.clone()).or_default();
        let rows = match part.split_once('\n') {
            Some((_, rows)) if !table.is_empty() => rows,
            _ => part,
        };
        table.push_str(rows);
    }
    tables
}

/// Writes the tables of all cells, each as a whole.
pub(super) fn save(folder: &Path, cells: &[Parts]) -> Result<(), Failure> {
    join(cells)
        .iter()
        .try_for_each(|(name, table)| output::write_bytes(&folder.join(name), table.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_tables_have_one_heading_and_the_order_of_the_cells() {
        let part = |name: &str, text: &str| Parts::from([(name.to_owned(), text.to_owned())]);
        let cells = [part("a", "x\n1\n"), part("b", "y\n3\n"), part("a", "x\n2\n")];
        let joined = join(&cells);
        assert_eq!((&*joined["a"], &*joined["b"]), ("x\n1\n2\n", "y\n3\n"));
    }
}
