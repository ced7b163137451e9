//! `cargo xtask verdicts A B`: the verdicts of two reproductions side by side, which must not contradict each other.

use std::path::Path;

use anyhow::{Context, ensure};
use laau_core::statistics::{Verdict, decide as judge};

use super::claims::{self, DATA_SETS, Evidence};
use super::manifest::Manifest;
use super::samples::Samples;
use crate::figures::style::{data_name, write};
use crate::figures::tables;

/// What a cell is called, and what was found in it.
type Named = (String, Verdict);

/// Prints every verdict of both folders, writes them to a page if one is named, and fails if one holds where the other does not.
pub(crate) fn run(one: &Path, other: &Path, page: Option<&Path>) -> anyhow::Result<()> {
    let manifest = |folder: &Path| {
        Manifest::load(folder).with_context(|| format!("{} holds no reproduction", folder.display()))
    };
    let (first, second) = (manifest(one)?, manifest(other)?);
    let (table, contradictions) = compare((one, &first), (other, &second))?;
    print!("{table}");
    if let Some(page) = page {
        let text = format!(
            "# Verdicts of two runs that differ in their seeds\n\nWritten by `cargo xtask verdicts A B --write-docs` from two runs of \
             `cargo xtask reproduce`, at commits `{}` and `{}`. Every claim of [the report](reproduction.md) on every data set, and LAAU \
             against every other policy in every cell. Two runs contradict each other where one says *holds* and the other *does not \
             hold*.\n\n{table}",
            first.commit, second.commit
        );
        write(page, text.as_bytes())?;
    }
    ensure!(
        contradictions == 0,
        "{contradictions} verdicts contradict each other"
    );
    Ok(())
}

/// The seeds of a run, as `--seeds` takes them where they are one range.
fn seeds(manifest: &Manifest) -> String {
    let seeds = &manifest.seeds;
    match (seeds.first(), seeds.last()) {
        (Some(first), Some(last)) if seeds.len() > 2 && last - first + 1 == seeds.len() as u64 => {
            format!("{first}..{last}")
        }
        _ => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
    }
}

/// A table of both, and the number of contradictions.
fn compare(
    (one, first): (&Path, &Manifest),
    (other, second): (&Path, &Manifest),
) -> anyhow::Result<(String, usize)> {
    let mut lines = vec![
        format!("| cell | seeds {} | seeds {} | |", seeds(first), seeds(second)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use laau_core::tables::{EPISODE_KEYS, EPISODES_FILE};
    use std::fmt::Write as _;

    /// A run of ten seeds with a lead of `laau` over `mw` in points, and beside it what verdicts may stumble over: a policy that does
    /// the same as `laau`, one that is better in some series and worse in others, one that is very close. Every value is
    /// moved by a share.
    fn write_run(folder: &Path, first_seed: u64, lead: f64, share: impl Fn(u64) -> f64) -> Manifest {
        let names = "opt,mw,laau,laau-guarded,rl,equal";
        let mut text = format!("{},{names},mw left,laau left\n", EPISODE_KEYS.join(","));
        let mut state = 7_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / (1_u64 << 24) as f64 - 0.5
        };
        let mut cell = 0;
        for seed in first_seed..first_seed + 10 {
            let trained = 0.002 * noise();
            for vm in 0..8 {
                let of_vm = 0.02 * noise();
                for episode in 0..5 {
                    let opt = 1.0 + 0.3 * noise();
                    let mw = opt * (0.95 + of_vm + 0.01 * noise());
                    let laau = mw + opt * (lead / 100.0 + trained);
                    let values = [
                        opt,
                        mw,
                        laau,
                        laau,
                        laau + 1e-4 * noise(),
                        mw + 0.03 * noise(),
                        1.0 + noise(),
                        0.5 + 0.5 * noise(),
                    ];
                    let _ = write!(
                        text,
                        "synthetic-consecutive,0,10,{seed},vm{},{episode}",
                        vm + seed % 3
                    );
                    for value in values {
                        cell += 1;
                        let _ = write!(text, ",{}", value * (1.0 + share(cell)));
                    }
                    text.push('\n');
                }
            }
        }
        let tables = folder.join("tables/synthetic/policies");
        std::fs::create_dir_all(&tables).unwrap();
        std::fs::write(tables.join(EPISODES_FILE), text).unwrap();
        Manifest {
            commit: "abc".into(),
            quick: false,
            seeds: (first_seed..first_seed + 10).collect(),
            trace: None,
            data: None,
            skipped: Vec::new(),
            experiments: Vec::new(),
        }
    }

    #[test]
    fn a_contradiction_is_found_and_agreement_passes() {
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let [above, again, below] = [(0, 1.0), (10, 1.2), (20, -1.0)].map(|(seed, lead)| (seed, lead));
        let manifests: Vec<Manifest> = folders
            .iter()
            .zip([above, again, below])
            .map(|(folder, (seed, lead))| write_run(folder.path(), seed, lead, |_| 0.0))
            .collect();
        let compared = |other: usize| {
            compare(
                (folders[0].path(), &manifests[0]),
                (folders[other].path(), &manifests[other]),
            )
            .unwrap()
        };
        let (table, contradictions) = compared(1);
        assert_eq!(contradictions, 0, "{table}");
        let row = "| LAAU is above mw: policies, synthetic-consecutive, N = 10 | holds | holds |  |";
        assert!(
            table.contains(row) && table.contains("| seeds 0..9 | seeds 10..19 |"),
            "{table}"
        );
        let (table, contradictions) = compared(2);
        assert!(contradictions >= 1, "{table}");
        assert!(
            table.contains("N = 10 | holds | does not hold | contradiction |"),
            "{table}"
        );
    }

    #[test]
    fn verdicts_do_not_depend_on_the_order_of_sums() {
        let verdicts = |share: &dyn Fn(u64) -> f64| {
            let folder = tempfile::tempdir().unwrap();
            write_run(folder.path(), 0, 0.2, share);
            all(folder.path()).unwrap()
        };
        let exact = verdicts(&|_| 0.0);
        assert!(exact.iter().any(|(name, verdict)| {
            name.starts_with("LAAU is above laau-guarded") && *verdict == Verdict::Undecided
        }));
        assert!(exact.iter().any(|(_, verdict)| *verdict == Verdict::Holds));
        for run in 1..5_u64 {
            let rounded = |cell: u64| {
                let mixed = (cell ^ (run << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                1e-12 * (mixed as f64 / (1_u64 << 23) as f64 - 1.0)
            };
            assert_eq!(verdicts(&rounded), exact);
            // A kernel that sums in another order is often off to one side.
            assert_eq!(verdicts(&|cell| if cell % 8 == 3 { 1e-12 } else { 0.0 }), exact);
        }
    }
}
