//! Damaged policy files and models in the folder of policies.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::mutate::mutate;
use crate::history::Asked;
use crate::http::{Client, Request};
use crate::server::{Node, PATIENCE};

/// Names that lead out of the folder, or nowhere.
const NAMES: &[&str] = &[
    "../policies/sound.safetensors",
    "./sound.safetensors",
    "/sound.safetensors",
    "sub/../sound.safetensors",
    "..",
    ".",
    "",
    "sound.safetensors/",
    "missing",
    "sound.safetensors\u{0}",
    "link",
    "folder",
];

/// A model and a policy file, made by the binary itself: small ones, since what matters is how they are read.
pub(super) fn make(laau: &Path, policies: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = tempfile::tempdir()?;
    let run = |arguments: &str| {
        let output = Command::new(laau)
            .args(arguments.split(' '))
            .current_dir(folder.path())
            .output()?;
        ensure!(
            output.status.success(),
            "laau {arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        anyhow::Ok(())
    };
    run("generate --horizon 8 --split 40,20,20 -o .")?;
    run(
        "train --train train.parquet --validation validation.parquet --phases 2:0.01 -q -o sound.safetensors",
    )?;
    run(
        "compare --train train.parquet --validation validation.parquet --test test.parquet --policies mw -q -o .",
    )?;
    let files: Vec<PathBuf> = ["sound.safetensors", "mw.policy"]
        .map(|name| policies.join(name))
        .into();
    for file in &files {
        let name = file.file_name().context("a file without a name")?;
        std::fs::copy(folder.path().join(name), file).context("the binary wrote no such file")?;
    }
    Ok(files)
}

/// Makes accounts with damaged files; the service refuses them, or decides.
pub(super) async fn run(
    node: &mut Node,
    secret: &str,
    policies: &Path,
    files: &[PathBuf],
    cases: u64,
    seed: u64,
) -> anyhow::Result<super::Statuses> {
    let mut statuses = super::Statuses::new();
    let mut client = Client::new(node.address, PATIENCE);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let sound: Vec<Vec<u8>> = files.iter().map(std::fs::read).collect::<Result<_, _>>()?;
    std::os::unix::fs::symlink("/etc/passwd", policies.join("link"))?;
    std::fs::create_dir(policies.join("folder"))?;
    let mut decisions = Vec::new();
    for (number, path) in files.iter().enumerate() {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let (status, decision) = account(&mut client, secret, &format!("sound-{number}"), &name).await?;
        ensure!(status == 200, "a sound file is refused: {name}: {status}");
        decisions.push(decision);
    }
    for (number, name) in NAMES.iter().enumerate() {
        let (status, _) = account(&mut client, secret, &format!("named-{number}"), name).await?;
        ensure!(
            (400..500).contains(&status),
            "a file named {name:?} is answered {status}"
        );
    }
    for number in 0..cases {
        let file = random.random_range(0..sound.len());
        let mut bytes = sound[file].clone();
        mutate(&mut bytes, &mut random);
        let name = format!("case-{number}");
        std::fs::write(policies.join(&name), &bytes)?;
        let (status, decision) = account(&mut client, secret, &name, &name)
            .await
            .with_context(|| format!("case {number}"))?;
        // A mutation may hit what does not matter: then the decision is that of the sound file.
        let same = status != 200 || decision == decisions[file];
        ensure!(
            same,
            "case {number}: a damaged file decides otherwise: {decision}"
        );
        *statuses.entry(status).or_default() += 1;
        std::fs::remove_file(policies.join(&name))?;
        if number % 100 == 99 {
            super::raw::alive(node, secret, (1 << 40) + number).await?;
        }
    }
    super::raw::alive(node, secret, 1 << 41).await?;
    Ok(statuses)
}

/// Makes an account of a file and decides; gives the last answer.
async fn account(client: &mut Client, secret: &str, name: &str, file: &str) -> anyhow::Result<(u16, String)> {
    let spec = json!({"name": name, "policy": {"file": file}, "budgets": [100.0], "horizon": 8,
                      "problem": {"name": "weighted-fairness"}});
    let mut response = client
        .send(&Request::post("/v1/accounts", spec.to_string()).by(secret))
        .await?;
    if response.status < 300 {
        let asked = Asked::Decide { context: vec![0.5] };
        response = client
            .send(&crate::clients::request(name, "first", &asked, secret))
            .await?;
    }
    if response.status >= 500 && response.status != 503 {
        bail!("{} {}", response.status, response.text());
    }
    Ok((response.status, response.text()))
}
