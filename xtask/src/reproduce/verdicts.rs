//! `cargo xtask verdicts A B`: the verdicts of two reproductions side by side, which must not contradict each other.

use std::path::Path;

use anyhow::{Context, ensure};
use laau_core::statistics::{Verdict, decide as judge};

use super::claims::{self, DATA_SETS, Evidence};
use super::manifest::Manifest;
use super::samples::Samples;
use crate::figures::style::data_name;
use crate::figures::tables;

/// What a cell is called, and what was found in it.
type Named = (String, Verdict);

/// Prints every verdict of both folders and fails if one holds where the other does not.
pub(crate) fn run(one: &Path, other: &Path) -> anyhow::Result<()> {
    let text = compare(one, other)?;
    print!("{}", text.0);
    ensure!(text.1 == 0, "{} verdicts contradict each other", text.1);
    Ok(())
}

/// A table of both, and the number of contradictions.
fn compare(one: &Path, other: &Path) -> anyhow::Result<(String, usize)> {
    let seeds = |folder: &Path| -> anyhow::Result<String> {
        let manifest =
            Manifest::load(folder).with_context(|| format!("{} holds no reproduction", folder.display()))?;
        Ok(manifest
            .seeds
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(" "))
    };
    let mut lines = vec![
        format!("| cell | seeds {} | seeds {} | |", seeds(one)?, seeds(other)?),
        "|---|---|---|---|".to_owned(),
    ];
    let (left, right) = (all(one)?, all(other)?);
    let (mut contradictions, mut agreed, mut both) = (0, 0, 0);
    for (name, verdict) in &left {
        let Some((_, second)) = right.iter().find(|(found, _)| found == name) else {
            continue;
        };
        both += 1;
        agreed += usize::from(verdict == second);
        let contradicts =
            *verdict != *second && *verdict != Verdict::Undecided && *second != Verdict::Undecided;
        contradictions += usize::from(contradicts);
        let mark = if contradicts { "contradiction" } else { "" };
        lines.push(format!("| {name} | {verdict} | {second} | {mark} |"));
    }
    ensure!(both > 0, "the two reproductions have no cell in common");
    lines.push(format!(
        "\n{both} cells: {agreed} with the same verdict, {contradictions} with opposite ones."
    ));
    Ok((lines.join("\n") + "\n", contradictions))
}

/// Every claim on every data set, and every policy against LAAU in every cell.
fn all(folder: &Path) -> anyhow::Result<Vec<Named>> {
    let evidence = Evidence {
        samples: Samples::read(folder)?,
        guards: tables::read(folder)?,
    };
    let mut found = Vec::new();
    for claim in claims::decide(&evidence) {
        for data in DATA_SETS {
            if let Some(finding) = claim.findings.get(data) {
                found.push((format!("{}, {}", claim.text, data_name(data)), finding.verdict));
            }
        }
    }
    for cell in evidence.samples.cells() {
        for rival in cell.policies().filter(|policy| !["opt", "laau"].contains(policy)) {
            if let Some(verdict) = cell.lead("laau", rival).and_then(|lead| judge(&[lead])) {
                let shift = if cell.target > 0.0 {
                    format!(", d_W = {}", cell.target)
                } else {
                    String::new()
                };
                let name = format!(
                    "LAAU is above {rival}: {}, {}, N = {}{shift}",
                    cell.experiment, cell.data, cell.horizon
                );
                found.push((name, verdict));
            }
        }
    }
    Ok(found)
}
