//! The page at `/` with its parts, and nothing else a browser may load.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Address, type and text of every file of the page.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("../page/index.html")),
    ("/page/style.css", STYLE, include_str!("../page/style.css")),
    ("/page/theme.js", SCRIPT, include_str!("../page/theme.js")),
    ("/page/app.js", SCRIPT, include_str!("../page/app.js")),
    ("/page/api.js", SCRIPT, include_str!("../page/api.js")),
    ("/page/chart.js", SCRIPT, include_str!("../page/chart.js")),
    ("/page/dom.js", SCRIPT, include_str!("../page/dom.js")),
    ("/page/draw.js", SCRIPT, include_str!("../page/draw.js")),
    ("/page/format.js", SCRIPT, include_str!("../page/format.js")),
    ("/page/history.js", SCRIPT, include_str!("../page/history.js")),
    ("/page/log.js", SCRIPT, include_str!("../page/log.js")),
    ("/page/session.js", SCRIPT, include_str!("../page/session.js")),
    ("/page/state.js", SCRIPT, include_str!("../page/state.js")),
    ("/page/view.js", SCRIPT, include_str!("../page/view.js")),
];

/// Scripts and styles are files of this service, never text in the page: what is shown cannot run. The page may talk to
/// this service alone, and nobody may put it into a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The routes of the page.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |router, &(path, kind, text)| {
        router.route(path, get(async move || answer(kind, text)))
    })
}

fn answer(kind: &'static str, text: &'static str) -> Response {
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

    #[test]
    fn the_page_asks_for_no_file_that_is_not_served() {
        let served: Vec<&str> = FILES.iter().map(|&(path, ..)| path).collect();
        let mut asked = 0;
        for (path, kind, text) in FILES {
            let marks: &[&str] = if *kind == HTML { &["href=\"/", "src=\"/"] } else { &["from \"./"] };
            for mark in marks {
                for rest in text.split(mark).skip(1) {
                    let name = rest.split('"').next().unwrap();
                    let address = if *kind == HTML { format!("/{name}") } else { format!("/page/{name}") };
                    assert!(served.contains(&address.as_str()), "{path} asks for {address}");
                    asked += 1;
                }
            }
        }
        assert!(asked >= served.len() - 1, "only {asked} addresses were found");
    }

    #[test]
    fn nothing_that_is_shown_can_become_markup_or_script() {
        for (path, _, text) in FILES {
            for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", " onclick="] {
                assert!(!text.contains(way), "{path} has {way}");
            }
        }
    }
}
