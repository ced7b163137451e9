//! Pages in a headless Chromium: what they say, what goes wrong, what they ask the network for.
//!
//! Nothing but the browser is needed: a [`Tab`] is told what to do over a pipe.

mod tab;

use std::path::PathBuf;

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

/// An installed browser.
#[derive(Debug, Clone)]
pub struct Browser {
    program: PathBuf,
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

    /// Opens an empty tab in a browser of its own.
    ///
    /// # Errors
    /// A browser that does not start.
    pub fn tab(&self) -> anyhow::Result<Tab> {
        Tab::open(&self.program, FLAGS)
    }
}
