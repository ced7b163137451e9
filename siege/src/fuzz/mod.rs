//! `fuzz`: every parser of untrusted bytes. No 5xx but 503, no crash, no hang.

mod files;
mod mutate;
mod raw;
mod schema;
mod store;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::http::{Client, Request};
use crate::server::{Node, PATIENCE, make_key};
use crate::{say, skipped};

/// How often each status was answered.
type Statuses = BTreeMap<u16, usize>;

/// What is fuzzed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Bytes on the wire.
    Raw,
    /// Policy files and models.
    Files,
    /// The file of the embedded store.
    Store,
    /// schemathesis against the description.
    Schema,
}

/// What `fuzz` is asked.
#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Requests on the wire; files have a tenth of it, damaged stores a twentieth, examples of an operation a fiftieth.
    #[arg(long, default_value_t = 1000)]
    cases: u64,
    /// The seed of all cases.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One part alone.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// The folder of the workspace, under which Python's environment is made.
    #[arg(long, default_value = ".", hide = true)]
    root: PathBuf,
}

/// Fuzzes.
pub(crate) async fn run(arguments: &FuzzArgs, laau: &Path) -> anyhow::Result<()> {
    let FuzzArgs { cases, seed, .. } = *arguments;
    say(&format!("fuzz: {cases} cases, seed {seed}"));
    let wanted = |part: Part| arguments.only.is_none_or(|only| only == part);
    let folder = tempfile::tempdir()?;
    let policies = folder.path().join("policies");
    std::fs::create_dir(&policies)?;
    let store = folder.path().join("store.redb").display().to_string();
    let secret = make_key(laau, &store, "admin", None)?;
    let node = Node::new(laau, &store, folder.path(), "fuzz")?;
    let mut node = node.with(&["--policies", &policies.display().to_string()]);
    node.up().await?;
    for name in ["fuzz", "steady", "spare"] {
        let spec = json!({"name": name, "policy": {"name": "mw"}, "budgets": [1e9], "horizon": 100_000,
                          "problem": {"name": "weighted-fairness"}});
        let request = Request::post("/v1/accounts", spec.to_string()).by(&secret);
        let response = Client::new(node.address, PATIENCE).send(&request).await?;
        ensure!(response.status < 300, "{} {}", response.status, response.text());
        raw::decide(&node, &secret, name).await?;
    }
    if wanted(Part::Raw) {
        let found = raw::run(&mut node, &secret, cases, seed).await?;
        say(&format!(
            "  raw: {cases} connections, 3 bodies and heads of 5 to 10 MB, 200 half requests; answers {found:?}"
        ));
    }
    if wanted(Part::Files) {
        let files = files::make(laau, &policies)?;
        let cases = (cases / 10).max(1);
        let found = files::run(&mut node, &secret, &policies, &files, cases, seed).await?;
        say(&format!(
            "  files: {cases} damaged policy files and models; answers {found:?}"
        ));
    }
    if wanted(Part::Schema) {
        let examples = (cases / 50).max(1);
        match tokio::task::block_in_place(|| {
            schema::run(&node, &secret, &arguments.root.canonicalize()?, examples, seed)
        })? {
            None => skipped(
                "serve fuzz: schemathesis",
                "Python, or the package, cannot be had",
            )?,
            Some(words) => say(&format!(
                "  schemathesis: {examples} examples of each operation; {words}"
            )),
        }
        raw::alive(&mut node, &secret, 1 << 42).await?;
    }
    node.check_panics()?;
    if wanted(Part::Store) {
        let cases = (cases / 20).max(1);
        let found = store::run(laau, cases, seed).await?;
        say(&format!(
            "  store: {cases} damaged files; {} refused at the start, {} partly unavailable, {} as written, {} without the last \
             commit of a killed service",
            found.refused, found.unavailable, found.served, found.last_lost
        ));
    }
    say("  no 5xx but 503, no crash, no hang");
    Ok(())
}
