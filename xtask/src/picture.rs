//! `cargo xtask picture`: the page of `laau serve --demo`, as a browser shows it.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use laau_dashboard::browser::{Browser, Look, Tab};
use laau_dashboard::cargo::build_serving;

/// Where the document expects it.
const PICTURE: &str = "docs/figures/serve.png";

/// Decisions that the demonstration has made when the picture is taken: enough for curves.
const DECISIONS: usize = 60;

const LOOK: Look = Look {
    width: 1280,
    height: 1000,
    dark: false,
    still: true,
};

/// Builds the binary, starts its demonstration and draws the page once it has something to show.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let browser = Browser::find().context("no Chromium is installed")?;
    let laau = build_serving("laau", root)?;
    // Nobody else takes the port in between, or the page does not load and this fails.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let child = Command::new(laau)
        .args(["serve", "--demo", "--listen"])
        .arg(address.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run laau")?;
    let _service = Service(child);
    let mut tab = browser.tab()?;
    tab.look(LOOK)?;
    load(&mut tab, &format!("http://{address}/"))?;
    tab.wait(&format!(
        "document.getElementById('status').dataset.state === 'live' && \
         Number(document.querySelector('#decisions tbody th')?.innerText.split('-')[1]) >= {DECISIONS}"
    ))?;
    let picture = root.join(PICTURE);
    tab.screenshot(&picture)?;
    println!("{}", picture.display());
    Ok(())
}

/// A service that ends with this.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Goes to the page as soon as somebody answers.
fn load(tab: &mut Tab, address: &str) -> anyhow::Result<()> {
    for _ in 0..100 {
        if tab.go(address).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    tab.go(address)
}
