//! The page at `/` and its files, and nothing else a browser may load.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};

use super::problem::Refusal;

/// The files of the page, by their names under `/page/`.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../page/", $name)))),*]
    };
}

const PAGE: &str = include_str!("../page/index.html");

const FILES: [(&str, &str); 13] = files![
    "api.js",
    "app.js",
    "chart.js",
    "dom.js",
    "draw.js",
    "format.js",
    "history.js",
    "log.js",
    "session.js",
    "state.js",
    "style.css",
    "theme.js",
    "view.js",
];

/// The page loads from this service alone, talks to it alone, and nobody may put it into a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn page() -> Response {
    file("text/html; charset=utf-8", PAGE)
}

pub(super) async fn part(path: Result<Path<String>, PathRejection>) -> Result<Response, Refusal> {
    let Path(asked) = path.map_err(|_| Refusal::NoRoute)?;
    let found = FILES.iter().find(|(name, _)| *name == asked);
    let (name, text) = found.ok_or(Refusal::NoRoute)?;
    let is_style = name.rsplit_once('.').is_some_and(|(_, ending)| ending == "css");
    let kind = if is_style {
        "text/css; charset=utf-8"
    } else {
        "text/javascript; charset=utf-8"
    };
    Ok(file(kind, text))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What follows a mark, up to the next quotation mark.
    fn quoted<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
        text.split(mark)
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap_or_default())
    }

    #[test]
    fn the_page_asks_for_no_file_that_is_not_served() {
        let mut asked: Vec<&str> = quoted(PAGE, "href=\"/page/")
            .chain(quoted(PAGE, "src=\"/page/"))
            .chain(FILES.iter().flat_map(|(_, text)| quoted(text, "from \"./")))
            .collect();
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked, FILES.map(|(name, _)| name));
    }

    #[test]
    fn nothing_that_is_shown_can_become_markup_or_script() {
        let ways = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            " onclick=",
        ];
        for (name, text) in FILES.into_iter().chain([("index.html", PAGE)]) {
            for way in ways {
                assert!(!text.contains(way), "{name} has {way}");
            }
        }
    }
}
