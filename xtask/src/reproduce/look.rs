//! The page in a browser: it loads without an error, asks nobody for anything, shows its figures and sorts its tables.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use laau_dashboard::browser::Browser;

/// What the probe below saw.
#[derive(Debug, Deserialize)]
struct Seen {
    figures: usize,
    /// Names of figures that take no space.
    invisible: Vec<String>,
    tables: usize,
    /// Headings by which a table did not sort.
    unsorted: Vec<String>,
}

/// Measures every figure, clicks every heading of every sortable table twice and looks at the order of the rows.
const PROBE: &str = "
const figures = [...document.querySelectorAll('figure')];
const visible = figure => {
  const drawing = figure.querySelector('svg, img');
  const box = drawing && drawing.getBoundingClientRect();
  return box && box.width > 100 && box.height > 50 && (drawing.tagName !== 'IMG' || drawing.naturalWidth > 0);
};
const tables = [...document.querySelectorAll('table.sortable')];
const unsorted = [];
for (const table of tables) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    for (const sign of [1, -1]) {
      head.click();
      const cells = [...table.tBodies[0].rows].map(row => row.cells[column].textContent);
      for (let i = 1; i < cells.length; i++) {
        const [a, b] = [parseFloat(cells[i - 1]), parseFloat(cells[i])];
        const order = isNaN(a) || isNaN(b) ? cells[i - 1].localeCompare(cells[i]) : a - b;
        if (sign * order > 0) { unsorted.push(head.textContent); break; }
      }
    }
  });
}
return {
  figures: figures.length,
  invisible: figures.filter(figure => !visible(figure)).map(figure => figure.id),
  tables: tables.length,
  unsorted,
};";

/// Looks at a page; gives a sentence on what was seen, or on why nobody looked.
pub(super) fn look(page: &Path) -> anyhow::Result<String> {
    let Some(browser) = Browser::find() else {
        return Ok("not looked at in a browser: no chromium was found".to_owned());
    };
    let mut tab = browser.tab()?;
    tab.go_to_file(page)?;
    let answer = tab.evaluate(&format!("(() => {{ {PROBE} }})()"))?;
    let requests = tab.requests_outside();
    ensure!(requests.is_empty(), "the page asks for {}", requests.join(", "));
    let errors = tab.errors();
    ensure!(errors.is_empty(), "the page has errors: {}", errors.join("; "));
    let seen: Seen =
        serde_json::from_value(answer.clone()).with_context(|| format!("the probe answered {answer}"))?;
    ensure!(seen.figures > 0, "the page has no figures");
    ensure!(
        seen.invisible.is_empty(),
        "figures that are not to be seen: {}",
        seen.invisible.join(", ")
    );
    ensure!(seen.tables > 0, "the page has no sortable tables");
    ensure!(
        seen.unsorted.is_empty(),
        "tables do not sort by {}",
        seen.unsorted.join(", ")
    );
    Ok(format!(
        "looked at in chromium: no errors, no requests, {} figures to be seen, {} tables sort",
        seen.figures, seen.tables
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SORT: &str = include_str!("sort.js");

    fn look_at(body: &str) -> Option<anyhow::Result<String>> {
        Browser::find()?;
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("index.html");
        std::fs::write(&page, format!("<!DOCTYPE html><body>{body}</body>")).unwrap();
        Some(look(&page))
    }

    const FIGURE: &str = "<figure id='a'><svg width='300' height='200'></svg></figure>";

    fn table(script: &str) -> String {
        let rows: String = ["b</td><td>10", "a</td><td>9.5", "c</td><td>100"]
            .map(|cells| format!("<tr><td>{cells}</td></tr>"))
            .concat();
        format!(
            "<table class='sortable'><thead><tr><th>name</th><th>value</th></tr></thead><tbody>{rows}</tbody></table>\
             <script>{script}</script>"
        )
    }

    #[test]
    fn a_page_that_works_is_praised() {
        let Some(seen) = look_at(&format!("{FIGURE}{}", table(SORT))) else {
            laau_core::conformance::skipped("a_page_that_works_is_praised", "no Chromium is installed");
            return;
        };
        assert!(seen.unwrap().ends_with("1 figures to be seen, 1 tables sort"));
    }

    #[test]
    fn a_page_that_does_not_is_refused_with_the_reason() {
        let hidden = "<figure id='b' style='display:none'><svg></svg></figure>";
        let cases = [
            (format!("{FIGURE}{hidden}{}", table(SORT)), "not to be seen: b"),
            (format!("{FIGURE}{}", table("")), "do not sort by name"),
            (
                format!("{FIGURE}{}<script>x()</script>", table(SORT)),
                "has errors",
            ),
            (
                format!("{FIGURE}{}<img src='https://example.org/x.png'>", table(SORT)),
                "asks for https://example.org/x.png",
            ),
        ];
        for (body, reason) in cases {
            let Some(seen) = look_at(&body) else {
                laau_core::conformance::skipped(
                    "a_page_that_does_not_is_refused_with_the_reason",
                    "no Chromium is installed",
                );
                return;
            };
            let error = format!("{:#}", seen.unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
    }
}
