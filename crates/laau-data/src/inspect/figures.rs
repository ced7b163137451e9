//! Figures of a table of any columns: what laau writes for other programs to read.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::Error;
use crate::load::block::{Block, Kind, Wanted, fold_blocks};
use crate::load::table::find_layout;

/// Words of a column that are listed; of more, only that there are more is said.
const MOST_WORDS: usize = 32;

/// What the columns of a table hold.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct TableFigures {
    /// Number of rows.
    pub rows: u64,
    /// The columns, in the order of the table.
    pub columns: Vec<ColumnFigures>,
}

/// What a column holds.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct ColumnFigures {
    /// Its name.
    pub name: String,
    /// Cells that hold nothing.
    pub missing: u64,
    /// Least, mean and greatest number; nothing in a column of words.
    pub numbers: Option<[f64; 3]>,
    /// The different words of a column that is not of numbers alone; nothing if there are many.
    pub words: Option<Vec<String>>,
}

/// The names of a table's columns.
///
/// # Errors
/// A file that cannot be read.
pub fn table_columns(path: &Path) -> Result<Vec<String>, Error> {
    Ok(find_layout(path, true)?.names)
}

/// Looks through a table with a header, Parquet or CSV, in one pass and little memory.
///
/// # Errors
/// A file that cannot be read or has no rows.
pub fn inspect_table(path: &Path) -> Result<TableFigures, Error> {
    let layout = find_layout(path, true)?;
    let names: Vec<&String> = layout.names.iter().filter(|name| !name.is_empty()).collect();
    let wanted: Vec<Wanted> = names.iter().map(|name| ((*name).clone(), Kind::Any)).collect();
    let (rows, columns) = fold_blocks(
        path,
        &layout,
        &wanted,
        (0, Vec::new()),
        |(rows, columns), block: Block| {
            *rows += block.rows as u64;
            columns.resize_with(block.columns.len(), Cells::default);
            for (place, column) in columns.iter_mut().enumerate() {
                let texts = block.text(place);
                (0..block.rows).for_each(|row| column.add(texts.get(row)));
            }
            Ok(())
        },
    )?;
    let told = names.into_iter().zip(columns);
    Ok(TableFigures {
        rows,
        columns: told
            .map(|(name, cells): (_, Cells)| cells.told(name.clone(), rows))
            .collect(),
    })
}

/// The cells of a column so far.
#[derive(Debug, Default)]
struct Cells {
    missing: u64,
    numbers: u64,
    sum: f64,
    range: Option<(f64, f64)>,
    words: BTreeSet<String>,
    others: bool,
}

impl Cells {
    fn add(&mut self, cell: &str) {
        if cell.is_empty() {
            self.missing += 1;
            return;
        }
        if let Ok(number) = cell.parse::<f64>() {
            let (least, most) = self.range.unwrap_or((number, number));
            self.range = Some((least.min(number), most.max(number)));
            self.sum += number;
            self.numbers += 1;
        } else {
            self.others = true;
        }
        if self.words.len() <= MOST_WORDS && !self.words.contains(cell) {
            self.words.insert(cell.to_owned());
        }
    }

    fn told(self, name: String, rows: u64) -> ColumnFigures {
        let range = self.range.filter(|_| !self.others);
        let is_listed = self.words.len() <= MOST_WORDS && range.is_none() && self.missing < rows;
        ColumnFigures {
            name,
            missing: self.missing,
            numbers: range.map(|(least, most)| [least, self.sum / self.numbers as f64, most]),
            words: is_listed.then(|| self.words.into_iter().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_words_and_holes_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(
            &path,
            "policy,utility,price,note\nmw,1.5,,1\nequal,-2,,x\nmw,2,,\n",
        )
        .unwrap();
        let found = inspect_table(&path).unwrap();
        assert_eq!(found.rows, 3);
        let [policy, utility, price, note] = &found.columns[..] else {
            panic!("{found:?}")
        };
        assert_eq!(policy.words, Some(vec!["equal".to_owned(), "mw".to_owned()]));
        assert_eq!(utility.numbers, Some([-2.0, 0.5, 2.0]));
        assert_eq!((price.missing, &price.numbers, &price.words), (3, &None, &None));
        assert_eq!((note.missing, note.numbers), (1, None));
        assert_eq!(table_columns(&path).unwrap().len(), 4);
    }
}
