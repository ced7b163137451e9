//! Tables for people: columns that line up.

/// Lines up rows under a heading: the first column to the left, the others to the right.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&heading).chain(rows) {
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            match index {
                0 => text += &[cell.as_str(), &padding].concat(),
                _ => text += &["  ", &padding, cell].concat(),
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// A number with four significant digits; a dash for none.
pub(crate) fn number(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-3..1e6).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = match magnitude {
        m if m >= 1000.0 => 0,
        m if m >= 100.0 => 1,
        m if m >= 10.0 => 2,
        m if m >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".to_owned(), "1".to_owned()],
            vec!["long".to_owned(), "10.5".to_owned()],
        ];
        assert_eq!(
            table(&["name", "x"], &rows),
            "name     x\na        1\nlong  10.5\n"
        );
    }

    #[test]
    fn numbers_have_four_digits() {
        for (value, expected) in [
            (0.0, "0.0000"),
            (0.12345, "0.1235"),
            (12.345, "12.35"),
            (-1234.5, "-1234"),
            (1e9, "1.000e9"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(number(value), expected);
        }
    }
}
