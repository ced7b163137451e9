//! Pages in a headless Chromium: what they say, what goes wrong, what they ask the network for.
//!
//! Nothing but the browser is needed. A page that is a file is loaded once: a probe (a script that is appended to a copy
//! of the page) looks and clicks around, and what it returns is read from the document afterwards. A page that lives is
//! opened in a [`Tab`], which is told what to do over a pipe.

mod tab;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

pub use tab::{Look, Tab};

/// Names under which a browser of the Chromium family is installed.
const PROGRAMS: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "headless_shell",
];

/// Quiet, with a profile of its own, and without a name service: nothing can leave the machine.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--enable-logging=stderr",
];

/// Where a probe's answer stands in the document.
const OPEN: &str = "<pre id=\"probe-answer\" hidden=\"\">";
const CLOSE: &str = "</pre>";

/// An installed browser.
#[derive(Debug, Clone)]
pub struct Browser {
    program: PathBuf,
}

/// What a visit to a page showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// The document after its scripts have run.
    pub dom: String,
    /// What the probe returned.
    pub answer: Value,
    /// Uncaught errors and refused loads, in order.
    pub errors: Vec<String>,
    /// Every address outside the page's own files that the page asked for.
    pub requests: Vec<String>,
}

impl Browser {
    /// The browser that `LAAU_CHROMIUM` names, or the first of the known ones on the path.
    #[must_use]
    pub fn find() -> Option<Self> {
        if let Some(program) = std::env::var_os("LAAU_CHROMIUM") {
            return Some(Self {
                program: program.into(),
            });
        }
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .flat_map(|folder| PROGRAMS.iter().map(move |name| folder.join(name)))
            .find(|program| program.is_file())
            .map(|program| Self { program })
    }

    /// Loads a page, runs the body of a function in it, and reports. The function may click, and must return what JSON
    /// can hold.
    ///
    /// # Errors
    /// A page that cannot be read, or a browser that fails.
    pub fn visit(&self, page: &Path, probe: &str) -> anyhow::Result<Visit> {
        let html =
            std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let folder = page.parent().context("a page is in a folder")?;
        // Beside the page, so that its relative addresses hold.
        let copy = tempfile::Builder::new()
            .prefix(".probe-")
            .suffix(".html")
            .tempfile_in(folder)
            .context("cannot write a copy of the page")?;
        std::fs::write(copy.path(), with_probe(&html, probe))?;
        let scratch = tempfile::tempdir()?;
        let log = scratch.path().join("network.json");
        let output = self
            .command(scratch.path())
            .arg(format!("--log-net-log={}", log.display()))
            .arg("--virtual-time-budget=10000")
            .arg("--dump-dom")
            .arg(address(copy.path())?)
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "the browser failed: {talk}");
        let dom = String::from_utf8(output.stdout).context("the document is not UTF-8")?;
        let log = std::fs::read_to_string(&log).context("the browser wrote no log of its requests")?;
        Ok(Visit {
            answer: answer(&dom)?,
            errors: errors(&talk),
            requests: requests(&log)?,
            dom,
        })
    }

    /// Draws the page as a PNG of the given size.
    ///
    /// # Errors
    /// A browser that fails.
    pub fn screenshot(&self, page: &Path, png: &Path, size: (u32, u32), dark: bool) -> anyhow::Result<()> {
        let scratch = tempfile::tempdir()?;
        let mut command = self.command(scratch.path());
        if dark {
            command.arg("--blink-settings=preferredColorScheme=0");
        }
        let output = command
            .arg(format!("--screenshot={}", png.display()))
            .arg(format!("--window-size={},{}", size.0, size.1))
            .arg("--virtual-time-budget=10000")
            .arg(address(page)?)
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        ensure!(
            output.status.success() && png.is_file(),
            "the browser drew nothing: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Opens an empty tab in a browser of its own.
    ///
    /// # Errors
    /// A browser that does not start.
    pub fn tab(&self) -> anyhow::Result<Tab> {
        Tab::open(&self.program, FLAGS)
    }

    fn command(&self, scratch: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", scratch.join("profile").display()));
        command
    }
}

/// The page with a probe at its end. Errors of the probe are answers, too.
fn with_probe(html: &str, probe: &str) -> String {
    let script = format!(
        "<script>addEventListener('load', () => setTimeout(() => {{\n\
         const out = document.createElement('pre'); out.id = 'probe-answer'; out.hidden = true;\n\
         try {{ out.textContent = JSON.stringify((() => {{ {probe} }})() ?? null); }}\n\
         catch (error) {{ out.textContent = JSON.stringify({{ error: String(error) }}); }}\n\
         document.body.append(out);\n\
         }}, 50));</script>"
    );
    match html.rfind("</body>") {
        Some(at) => format!("{}{script}{}", &html[..at], &html[at..]),
        None => format!("{html}{script}"),
    }
}

fn answer(dom: &str) -> anyhow::Result<Value> {
    let Some(start) = dom.rfind(OPEN) else {
        bail!("the probe did not answer")
    };
    let text = &dom[start + OPEN.len()..];
    let text = &text[..text.find(CLOSE).context("the probe's answer has no end")?];
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&nbsp;", "\u{a0}")
        .replace("&amp;", "&");
    serde_json::from_str(&text).with_context(|| format!("the probe's answer is not JSON: {text}"))
}

/// Uncaught errors and refused loads. The log tells no levels: a page that wants to be heard throws.
fn errors(talk: &str) -> Vec<String> {
    talk.lines()
        .filter(|line| line.contains(":CONSOLE"))
        .filter_map(|line| line.split_once("] ").map(|(_, message)| message))
        .filter(|message| {
            [
                "\"Uncaught",
                "\"Failed to",
                "\"Not allowed to",
                "\"Refused to",
                "\"Error",
            ]
            .iter()
            .any(|start| message.starts_with(start))
        })
        .map(str::to_owned)
        .collect()
}

/// Addresses that a document asked for. The browser's own requests have no initiator.
fn requests(log: &str) -> anyhow::Result<Vec<String>> {
    // A browser that is ended early leaves the list open.
    let mut text = log.trim_end().trim_end_matches(',').to_owned();
    if !text.ends_with('}') || serde_json::from_str::<Value>(&text).is_err() {
        write!(text, "]}}")?;
    }
    let log: Value = serde_json::from_str(&text).context("the log of requests is not JSON")?;
    let mut found: Vec<String> = log["events"]
        .as_array()
        .context("the log of requests has no events")?
        .iter()
        .map(|event| &event["params"])
        .filter(|params| {
            params["initiator"]
                .as_str()
                .is_some_and(|from| from != "not an origin")
        })
        .filter_map(|params| params["url"].as_str())
        .filter(|url| !["file:", "data:", "blob:"].iter().any(|own| url.starts_with(own)))
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    Ok(found)
}

fn address(page: &Path) -> anyhow::Result<String> {
    let path = page
        .canonicalize()
        .with_context(|| format!("cannot find {}", page.display()))?;
    Ok(format!("file://{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(html: &str, probe: &str) -> Option<Visit> {
        let Some(browser) = Browser::find() else {
            laau_core::conformance::skipped("a test of browser", "no Chromium is installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.html");
        std::fs::write(&page, html).unwrap();
        Some(browser.visit(&page, probe).unwrap())
    }

    #[test]
    fn a_probe_clicks_and_answers() {
        let page = "<body><button onclick='this.textContent=\"a < b & c\"'>x</button></body>";
        let probe =
            "document.querySelector('button').click(); return document.querySelector('button').textContent;";
        if let Some(visit) = visit(page, probe) {
            assert_eq!(visit.answer, "a < b & c");
            assert_eq!((visit.errors, visit.requests), (vec![], vec![]));
            assert!(visit.dom.contains("<button"));
        }
    }

    #[test]
    fn errors_and_requests_are_seen() {
        let page = "<body><img src='https://example.org/a.png'><script>missing()</script></body>";
        if let Some(visit) = visit(page, "return 1;") {
            assert_eq!(visit.requests, ["https://example.org/a.png"]);
            assert_eq!(visit.errors.len(), 1, "{:?}", visit.errors);
            assert!(visit.errors[0].contains("missing is not defined"));
        }
    }

    #[test]
    fn an_error_of_the_probe_is_its_answer() {
        if let Some(visit) = visit("<body></body>", "return nothing.here;") {
            assert!(visit.answer["error"].as_str().unwrap().contains("nothing"));
        }
    }

    #[test]
    fn a_log_that_was_cut_short_is_read() {
        let log = "{\"events\": [{\"params\": {\"url\": \"https://a.b/c\", \"initiator\": \"null\"}},\n";
        assert_eq!(requests(log).unwrap(), ["https://a.b/c"]);
    }
}
