//! The tables of a quick run, rounded and kept in the tree: what a change does to results is seen in its diff.
//!
//! Trained policies move in the fourth digit with the order of sums, which differs between machines; so figures are
//! compared within a tolerance, words exactly.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, bail, ensure};

use crate::figures::style::write;

/// The tables that are kept. Single episodes and embedded points are many and say nothing one by one.
const TABLES: &[&str] = &[
    "policies.csv",
    "ood.csv",
    "guard.csv",
    "online_learning.csv",
    "generalisation.csv",
    "gradients.csv",
    "problems.csv",
];

/// Columns that a change of the last digit may turn: which of several equal settings was chosen, how many steps of training
/// were at a kink.
const FREE: &[&str] = &["learning_rate", "exact_gradients", "approximate_gradients"];

/// Columns that are errors: they are compared by their magnitude, and all that is below the floor is equal.
const ERRORS: &[&str] = &["relative_error", "least_margin", "allowance"];
const ERROR_FLOOR: f64 = 1e-7;

/// Of all other figures: absolute, and relative to the kept one.
const ABSOLUTE: f64 = 0.004;
const RELATIVE: f64 = 0.01;

/// Compares the tables of a run with those that are kept.
pub(super) fn check(run: &Path, golden: &Path) -> anyhow::Result<()> {
    for name in TABLES {
        let read = |folder: &Path| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        compare(&read(run)?, &read(golden)?).with_context(|| {
            format!(
                "{name} is not as kept in {}; if it is meant to, run again with --golden bless",
                golden.display()
            )
        })?;
    }
    println!("the tables are as kept in {}", golden.display());
    Ok(())
}

/// Keeps the tables of a run, rounded.
pub(super) fn bless(run: &Path, golden: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(golden).with_context(|| format!("cannot make {}", golden.display()))?;
    for name in TABLES {
        let path = run.join(name);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        write(&golden.join(name), rounded(&text).as_bytes())?;
    }
    println!("kept the tables in {}", golden.display());
    Ok(())
}

/// The same table with four significant digits.
fn rounded(table: &str) -> String {
    let mut text = String::new();
    for line in table.lines() {
        let cells: Vec<String> = line.split(',').map(round).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text
}

fn round(cell: &str) -> String {
    match cell.parse::<f64>() {
        Ok(value) if cell.contains('.') && value.is_finite() => {
            // Through the shortest form, so that 0.5000 is 0.5.
            format!("{value:.3e}")
                .parse::<f64>()
                .map_or_else(|_| cell.to_owned(), |v| v.to_string())
        }
        _ => cell.to_owned(),
    }
}

fn compare(found: &str, kept: &str) -> anyhow::Result<()> {
    let heading = kept.lines().next().unwrap_or_default();
    ensure!(
        found.lines().next() == Some(heading),
        "other columns: {}",
        found.lines().next().unwrap_or_default()
    );
    let (rows, expected) = (found.lines().count(), kept.lines().count());
    ensure!(rows == expected, "{rows} lines instead of {expected}");
    let columns: Vec<&str> = heading.split(',').collect();
    for (number, (found, kept)) in found.lines().zip(kept.lines()).enumerate().skip(1) {
        for ((column, a), b) in columns.iter().zip(found.split(',')).zip(kept.split(',')) {
            if !agree(column, a, b) {
                bail!("line {}: {column} is {a} instead of {b} in `{found}`", number + 1);
            }
        }
    }
    Ok(())
}

fn agree(column: &str, found: &str, kept: &str) -> bool {
    if FREE.contains(&column) || found == kept {
        return true;
    }
    let (Ok(a), Ok(b)) = (found.parse::<f64>(), kept.parse::<f64>()) else {
        return false;
    };
    if ERRORS.contains(&column) {
        let magnitude = |value: f64| value.max(ERROR_FLOOR).log10();
        return (magnitude(a) - magnitude(b)).abs() <= 0.5;
    }
    // Counts have no digits to lose.
    if !found.contains('.') && !kept.contains('.') {
        return a == b;
    }
    (a - b).abs() <= ABSOLUTE + RELATIVE * b.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = "policy,seed,utility,violations\nequal,0,0.9871234,0\nlaau,1,0.5000001,0\n";

    #[test]
    fn a_rounded_table_agrees_with_itself() {
        let golden = rounded(KEPT);
        assert_eq!(
            golden,
            "policy,seed,utility,violations\nequal,0,0.9871,0\nlaau,1,0.5,0\n"
        );
        compare(KEPT, &golden).unwrap();
    }

    #[test]
    fn another_figure_word_count_or_shape_is_found() {
        let wrong = |from: &str, to: &str| compare(&KEPT.replace(from, to), KEPT).unwrap_err().to_string();
        assert_eq!(
            wrong("0.9871234", "0.9571234"),
            "line 2: utility is 0.9571234 instead of 0.9871234 in `equal,0,0.9571234,0`"
        );
        assert!(wrong("laau", "mw").starts_with("line 3: policy is mw instead of laau"));
        assert!(wrong("0.9871234,0", "0.9871234,1").starts_with("line 2: violations is 1 instead of 0"));
        assert!(wrong("laau,1,0.5000001,0\n", "").starts_with("2 lines instead of 3"));
        assert!(wrong("utility", "cost").starts_with("other columns"));
    }

    #[test]
    fn an_error_is_compared_by_its_magnitude() {
        assert!(agree("relative_error", "3e-12", "8e-10"));
        assert!(!agree("relative_error", "0.001", "8e-10"));
        assert!(agree("relative_error", "0.012", "0.01"));
        assert!(!agree("relative_error", "0.05", "0.01"));
    }
}
