//! schemathesis against the service's own description.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::say;
use crate::server::Node;

/// The version that is known to work.
const SCHEMATHESIS: &str = "schemathesis==4.*";

/// Checks that must hold for every answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,negative_data_rejection,ignored_auth";

/// The heading of what did not pass a check.
const FAILURES: &str = "= FAILURES =";

/// Names that are there, so that requests reach more than a 404; an account that may be closed is one of its own.
const CONFIG: &str = r#"[parameters]
account = "fuzz"
decision = "0-0"
period = 0

[[operations]]
include-name = "DELETE /v1/accounts/{account}"
parameters = { account = "spare" }
"#;

/// Runs it with so many examples of each operation. Gives nothing where Python or the package cannot be had.
///
/// What it calls a failure is one. An error without a failure may be its own (an interpreter that gives up in the middle of a generator): it
/// is run once more then, with another seed; a service that no longer answers fails that, too.
pub(super) fn run(
    node: &Node,
    secret: &str,
    root: &Path,
    examples: u64,
    seed: u64,
) -> anyhow::Result<Option<String>> {
    let Some(program) = installed(root) else {
        return Ok(None);
    };
    let report = root.join("target/schemathesis");
    std::fs::write(report.join("schemathesis.toml"), CONFIG)?;
    let attempt = |seed: u64| -> anyhow::Result<(bool, String)> {
        let output = Command::new(&program)
            .arg("run")
            .arg(format!("http://{}/openapi.json", node.address))
            .args(["--checks", CHECKS])
            .args(["--max-examples", &examples.to_string()])
            .args(["--seed", &seed.to_string()])
            .args(["--header", &format!("Authorization: Bearer {secret}")])
            .args(["--workers", "2"])
            .args(["--exclude-path-regex", "/events$"])
            .current_dir(&report)
            .env("NO_COLOR", "1")
            .output()
            .context("cannot run schemathesis")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            say(&text);
        }
        Ok((output.status.success(), text))
    };
    let (mut passed, mut text) = attempt(seed)?;
    if !passed && !text.contains(FAILURES) {
        say("schemathesis ended without a verdict: once more, with another seed");
        (passed, text) = attempt(seed.wrapping_add(1))?;
    }
    ensure!(passed, "schemathesis found faults (seed {seed})");
    let cases = text.lines().find(|line| line.contains(" generated, "));
    Ok(Some(cases.unwrap_or_default().trim().to_owned()))
}

/// The program in an environment of its own; made if Python is there.
fn installed(root: &Path) -> Option<std::path::PathBuf> {
    let folder = root.join("target/schemathesis");
    let program = folder.join("bin/schemathesis");
    if program.exists() {
        return Some(program);
    }
    let quiet = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !quiet(Command::new("python3").args(["-m", "venv"]).arg(&folder)) {
        return None;
    }
    let made = quiet(Command::new(folder.join("bin/pip")).args(["install", "--quiet", SCHEMATHESIS]));
    (made && program.exists()).then_some(program)
}
