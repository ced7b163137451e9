//! A tab that lives: keys, clicks and questions over the browser's `DevTools` pipe.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long an answer of the browser, or what a test waits for, may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The size of a tab, and what its reader prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// In CSS pixels.
    pub width: u32,
    /// In CSS pixels.
    pub height: u32,
    /// Whether dark colours are preferred.
    pub dark: bool,
    /// Whether motion is not wanted.
    pub still: bool,
}

/// A tab of a browser of its own, which ends with it.
#[derive(Debug)]
pub struct Tab {
    browser: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    asked: u64,
    errors: Vec<String>,
    requests: Vec<String>,
    _scratch: TempDir,
}

impl Tab {
    pub(super) fn open(program: &Path, flags: &[&str]) -> anyhow::Result<Self> {
        let scratch = tempfile::tempdir()?;
        // The browser listens on descriptor 3 and answers on 4, which only a shell can name without unsafe code.
        let mut browser = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program)
            .args(flags)
            .arg("--remote-debugging-pipe")
            .arg(format!(
                "--user-data-dir={}",
                scratch.path().join("profile").display()
            ))
            // It leaves folders behind when it is ended by a signal.
            .env("TMPDIR", scratch.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let input = browser.stdin.take().context("the browser has no input")?;
        let output = browser.stdout.take().context("the browser has no output")?;
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else {
                    return;
                };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut tab = Self {
            browser,
            input,
            messages,
            session: None,
            asked: 0,
            errors: Vec::new(),
            requests: Vec::new(),
            _scratch: scratch,
        };
        let target = tab.ask("Target.createTarget", &json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = tab.ask("Target.attachToTarget", &attach)?;
        tab.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.ask(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(tab)
    }

    /// Sets the size and the preferences.
    ///
    /// # Errors
    /// A browser that fails.
    pub fn look(&mut self, look: Look) -> anyhow::Result<()> {
        let scheme = if look.dark { "dark" } else { "light" };
        let motion = if look.still { "reduce" } else { "no-preference" };
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]);
        self.ask("Emulation.setEmulatedMedia", &json!({"features": features}))?;
        let size =
            json!({"width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", &size)?;
        Ok(())
    }

    /// Goes to an address.
    ///
    /// # Errors
    /// An address that does not load.
    pub fn go(&mut self, address: &str) -> anyhow::Result<()> {
        let loaded = self.ask("Page.navigate", &json!({"url": address}))?;
        if let Some(reason) = loaded["errorText"].as_str() {
            bail!("cannot load {address}: {reason}");
        }
        self.wait("document.readyState === 'complete'")?;
        Ok(())
    }

    /// Goes to a page that is a file.
    ///
    /// # Errors
    /// A page that cannot be found or does not load.
    pub fn go_to_file(&mut self, page: &Path) -> anyhow::Result<()> {
        let path = page
            .canonicalize()
            .with_context(|| format!("cannot find {}", page.display()))?;
        self.go(&format!("file://{}", path.display()))
    }

    /// The value of an expression in the page; promises are waited for.
    ///
    /// # Errors
    /// An expression that throws.
    pub fn evaluate(&mut self, expression: &str) -> anyhow::Result<Value> {
        let question = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", &question)?;
        let thrown = &answer["exceptionDetails"];
        ensure!(
            thrown.is_null(),
            "{expression} threw {}",
            thrown["exception"]["description"]
        );
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true of the page, and gives its value.
    ///
    /// # Errors
    /// When that does not happen for a minute.
    pub fn wait(&mut self, expression: &str) -> anyhow::Result<Value> {
        let since = Instant::now();
        loop {
            let value = self.evaluate(expression)?;
            let no = matches!(&value, Value::Null | Value::Bool(false))
                || value.as_f64() == Some(0.0)
                || value.as_str() == Some("");
            if !no {
                return Ok(value);
            }
            if since.elapsed() > PATIENCE {
                let text = self.evaluate("document.body.innerText")?;
                bail!("waited in vain for {expression}; the page says {text}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks the middle of an element with the mouse.
    ///
    /// # Errors
    /// An element that is not there or has no size.
    pub fn click(&mut self, selector: &str) -> anyhow::Result<()> {
        let place = self.evaluate(&format!(
            "(() => {{ const node = document.querySelector({}); node?.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             const box = node?.getBoundingClientRect(); \
             return box && box.width > 0 && [box.x + box.width / 2, box.y + box.height / 2]; }})()",
            json!(selector)
        ))?;
        ensure!(place.is_array(), "cannot click {selector}: it is not to be seen");
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.ask("Input.dispatchMouseEvent", &event)?;
        }
        Ok(())
    }

    /// Presses a key by its name, as `Tab`, `ArrowDown`, `Enter`, `Escape`, `Home` or `End`.
    ///
    /// # Errors
    /// A key that is not known here.
    pub fn press(&mut self, key: &str) -> anyhow::Result<()> {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "End" => (35, ""),
            "Home" => (36, ""),
            "ArrowLeft" => (37, ""),
            "ArrowUp" => (38, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            other => bail!("expected the name of a known key, found `{other}`"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.ask("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// Types text where the focus is.
    ///
    /// # Errors
    /// A browser that fails.
    pub fn write(&mut self, text: &str) -> anyhow::Result<()> {
        self.ask("Input.insertText", &json!({"text": text}))?;
        Ok(())
    }

    /// Writes what is to be seen as a PNG.
    ///
    /// # Errors
    /// A browser that fails, or a file that cannot be written.
    pub fn screenshot(&mut self, png: &Path) -> anyhow::Result<()> {
        let answer = self.ask("Page.captureScreenshot", &json!({"format": "png"}))?;
        let data = answer["data"]
            .as_str()
            .and_then(base64)
            .context("the browser drew nothing")?;
        std::fs::write(png, data).with_context(|| format!("cannot write {}", png.display()))
    }

    /// Uncaught errors, errors of the console and refused loads so far.
    #[must_use]
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Every address that was asked for so far.
    #[must_use]
    pub fn requests(&self) -> &[String] {
        &self.requests
    }

    /// The addresses outside the page's own files that were asked for so far.
    #[must_use]
    pub fn requests_outside(&self) -> Vec<&str> {
        let own = |address: &&str| {
            ["file:", "data:", "blob:"]
                .iter()
                .any(|own| address.starts_with(own))
        };
        self.requests
            .iter()
            .map(String::as_str)
            .filter(|address| !own(address))
            .collect()
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> anyhow::Result<Value> {
        self.asked += 1;
        let mut question = json!({"id": self.asked, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            question["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&question)?;
        bytes.push(0);
        self.input.write_all(&bytes).context("the browser has ended")?;
        self.input.flush()?;
        loop {
            let message = self
                .messages
                .recv_timeout(PATIENCE)
                .with_context(|| format!("the browser does not answer {method}"))?;
            if message["id"] == self.asked {
                ensure!(
                    message["error"].is_null(),
                    "{method}: {}",
                    message["error"]["message"]
                );
                return Ok(message["result"].clone());
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                let address = parameters["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(address.to_owned());
            }
            Some("Runtime.exceptionThrown") => {
                self.errors.push(parameters["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                let entry = &parameters["entry"];
                self.errors.push(format!("{} {}", entry["text"], entry["url"]));
            }
            Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => {
                self.errors.push(parameters["args"].to_string());
            }
            _ => {}
        }
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        self.session = None;
        // It ends with its children when it is asked; the signal is for one that does not listen.
        let _ = self.ask("Browser.close", &json!({}));
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

/// Reads base 64 as the browser writes it: on one line, padded.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut many) = (0_u32, 0);
    for symbol in text.trim_end_matches('=').bytes() {
        let value = match symbol {
            b'A'..=b'Z' => symbol - b'A',
            b'a'..=b'z' => symbol - b'a' + 26,
            b'0'..=b'9' => symbol - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        many += 6;
        if many >= 8 {
            many -= 8;
            bytes.push(u8::try_from(bits >> many & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browser::Browser;

    fn tab(name: &str) -> Option<Tab> {
        let Some(browser) = Browser::find() else {
            laau_core::conformance::skipped(name, "no Chromium is installed");
            return None;
        };
        Some(browser.tab().unwrap())
    }

    fn show(tab: &mut Tab, folder: &TempDir, html: &str) {
        let path = folder.path().join("page.html");
        std::fs::write(&path, html).unwrap();
        tab.go_to_file(&path).unwrap();
    }

    #[test]
    fn keys_clicks_and_text_arrive() {
        let Some(mut tab) = tab("keys_clicks_and_text_arrive") else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let html = "<button onclick='document.title = \"clicked\"'>x</button><input id=a><input id=b>";
        show(&mut tab, &folder, html);
        tab.click("button").unwrap();
        tab.wait("document.title === 'clicked'").unwrap();
        tab.press("Tab").unwrap();
        tab.write("text").unwrap();
        assert_eq!(
            tab.evaluate("document.querySelector('#a').value").unwrap(),
            "text"
        );
        assert!(tab.click("#missing").is_err());
        assert_eq!(tab.errors(), [] as [&str; 0]);
    }

    #[test]
    fn errors_and_requests_are_noted_as_they_happen() {
        let Some(mut tab) = tab("errors_and_requests_are_noted_as_they_happen") else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        show(&mut tab, &folder, "<button onclick='missing()'>x</button>");
        tab.click("button").unwrap();
        tab.evaluate("fetch('https://example.org/a').catch(() => 0)")
            .unwrap();
        assert!(
            tab.errors()
                .iter()
                .any(|error| error.contains("missing is not defined"))
        );
        assert_eq!(tab.requests_outside(), ["https://example.org/a"]);
    }

    #[test]
    fn the_look_is_what_the_page_is_told() {
        let Some(mut tab) = tab("the_look_is_what_the_page_is_told") else {
            return;
        };
        let look = Look {
            width: 360,
            height: 500,
            dark: true,
            still: true,
        };
        tab.look(look).unwrap();
        let told = "[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches, \
                    matchMedia('(prefers-reduced-motion: reduce)').matches]";
        assert_eq!(tab.evaluate(told).unwrap(), json!([360, true, true]));
        let png = tempfile::NamedTempFile::new().unwrap();
        tab.screenshot(png.path()).unwrap();
        assert!(std::fs::read(png.path()).unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn base_64_is_read() {
        assert_eq!(base64("bGFhdQ==").unwrap(), b"laau");
        assert_eq!(base64("bG!"), None);
    }
}
