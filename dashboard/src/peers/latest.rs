//! The last run of each work: a run may measure some works only, and the others stay as they were measured before.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::grid::PEAK;
use super::{Comparison, Failure, WORKERS, name_of};
use crate::bench::history::{Machine, Record};

/// The name of episodes with strict budgets among the works.
const STRICT: &str = "strict";

/// What failed before a worker had a work to tell.
pub(super) const INSTALLATION: &str = "installation";

/// What the last run of each work found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Latest {
    /// The machine of the last comparison.
    pub(crate) machine: Machine,
    /// The commit at which each work was measured.
    pub(crate) commits: BTreeMap<String, String>,
    /// The machines of works that were measured on another one. Ratios are of one run, and so of one machine.
    pub(crate) elsewhere: BTreeMap<String, Machine>,
    pub(crate) found: Comparison,
}

impl Latest {
    /// Of the runs on any machine: who measures one work on a new one keeps the others.
    pub(crate) fn of(history: &[Record]) -> Option<Self> {
        let mut latest = Self::of_records(history.iter())?;
        // A share of the peak is one of the machine's own.
        let machine_of = |work: &str| latest.elsewhere.get(work).unwrap_or(&latest.machine);
        let peak = machine_of(PEAK);
        if latest
            .commits
            .keys()
            .any(|work| machine_of(work) != peak && has_share_of_peak(work))
        {
            latest.found.cases.retain(|case| case.case.work != PEAK);
            latest.commits.remove(PEAK);
            latest.elsewhere.remove(PEAK);
        }
        Some(latest)
    }

    /// Those of each machine alone.
    pub(crate) fn of_all(history: &[Record]) -> Vec<Self> {
        let mut machines: Vec<&Machine> = Vec::new();
        for record in history {
            if !machines.contains(&&record.machine) {
                machines.push(&record.machine);
            }
        }
        let of = |machine: &Machine| {
            Self::of_records(history.iter().filter(move |record| record.machine == *machine))
        };
        machines.into_iter().filter_map(of).collect()
    }

    /// `records` are in the order in which they were made.
    fn of_records<'a>(records: impl DoubleEndedIterator<Item = &'a Record>) -> Option<Self> {
        let mut latest: Option<Self> = None;
        for record in records.rev() {
            let Some(older) = &record.peers else { continue };
            latest
                .get_or_insert_with(|| Self {
                    machine: record.machine.clone(),
                    commits: BTreeMap::new(),
                    elsewhere: BTreeMap::new(),
                    found: Comparison::default(),
                })
                .complete(older, &record.commit, &record.machine);
        }
        latest
    }

    /// Adds what an older run found and no newer one did.
    fn complete(&mut self, older: &Comparison, commit: &str, machine: &Machine) {
        let mut measured = |commits: &mut BTreeMap<String, String>, work: &str| {
            commits.insert(work.to_owned(), commit.to_owned());
            if *machine != self.machine {
                self.elsewhere.insert(work.to_owned(), machine.clone());
            }
        };
        let found = &mut self.found;
        let failures: Vec<Failure> = older
            .failures
            .iter()
            .filter(|failure| !is_outdated(failure, found))
            .map(|failure| Failure {
                commit: commit.to_owned(),
                ..failure.clone()
            })
            .collect();
        found.failures.extend(failures);
        let known: BTreeSet<String> = self.commits.keys().cloned().collect();
        for case in older.cases.iter().filter(|case| !known.contains(&case.case.work)) {
            measured(&mut self.commits, &case.case.work);
            found.cases.push(case.clone());
        }
        if found.strict.is_empty() && !older.strict.is_empty() {
            measured(&mut self.commits, STRICT);
            found.strict.clone_from(&older.strict);
        }
        for (name, version) in &older.versions {
            found
                .versions
                .entry(name.clone())
                .or_insert_with(|| version.clone());
        }
    }
}

/// Whether a work is told as a share of what the machine can do.
fn has_share_of_peak(work: &str) -> bool {
    ["grid/", "wide/", "layer-8x3"]
        .iter()
        .any(|kind| work.starts_with(kind))
}

/// Whether a newer run did what failed, or failed at it again.
fn is_outdated(failure: &Failure, newer: &Comparison) -> bool {
    let again = |other: &Failure| {
        (&other.peer, &other.work, &other.variant) == (&failure.peer, &failure.work, &failure.variant)
    };
    let worker = WORKERS
        .iter()
        .find(|(script, arguments, ..)| name_of(script, arguments) == failure.work);
    newer.failures.iter().any(again)
        || (failure.work == STRICT && !newer.strict.is_empty())
        || newer.cases.iter().any(|case| match worker {
            Some((.., works)) => works.iter().any(|work| case.case.work.starts_with(work)),
            None if failure.work == INSTALLATION => case.case.peer == failure.peer,
            None => case.case.work == failure.work,
        })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::targets::tests::timed;
    use super::*;

    fn failure(peer: &str, work: &str) -> Failure {
        Failure {
            peer: peer.to_owned(),
            work: work.to_owned(),
            variant: String::new(),
            reason: "no memory".to_owned(),
            commit: String::new(),
        }
    }

    fn record(commit: &str, works: &[&str], failures: Vec<Failure>) -> Record {
        let mut record = Record::begin(Path::new("."), "peers");
        record.commit = commit.to_owned();
        record.peers = Some(Comparison {
            cases: works
                .iter()
                .map(|work| timed("jax", work, commit, 1.0, 0.0))
                .collect(),
            failures,
            ..Comparison::default()
        });
        record
    }

    #[test]
    fn a_work_that_was_not_measured_again_keeps_its_commit_and_what_failed() {
        let mut elsewhere = record("elsewhere", &["solve-8x3"], Vec::new());
        elsewhere.machine.cpu = "another".to_owned();
        let history = [
            record(
                "old",
                &["train", "layer-8x3", "peak"],
                vec![
                    failure("moreau", INSTALLATION),
                    failure("jax", "layer-8x3"),
                    failure("jax", "grid_jax.py f64 1"),
                    failure("jax", INSTALLATION),
                    failure("cvxpy", "strict"),
                ],
            ),
            elsewhere,
            record("new", &["peak", "grid/N=20"], vec![failure("torch", "train")]),
        ];
        let latest = Latest::of(&history).unwrap();
        let commits = [
            ("grid/N=20", "new"),
            ("layer-8x3", "old"),
            ("peak", "new"),
            ("solve-8x3", "elsewhere"),
            ("train", "old"),
        ];
        assert_eq!(
            latest.commits,
            commits
                .map(|(work, commit)| (work.to_owned(), commit.to_owned()))
                .into()
        );
        for case in &latest.found.cases {
            assert_eq!(latest.commits[&case.case.work], case.case.variant);
        }
        let failed = latest.found.failures.iter();
        let failed: Vec<(&str, &str, &str)> = failed.map(|f| (&*f.peer, &*f.work, &*f.commit)).collect();
        assert_eq!(
            failed,
            [
                ("torch", "train", "new"),
                ("moreau", INSTALLATION, "old"),
                ("jax", "layer-8x3", "old"),
                ("cvxpy", "strict", "old")
            ]
        );
        let elsewhere: Vec<&String> = latest.elsewhere.keys().collect();
        assert_eq!(elsewhere, ["solve-8x3"]);
        let alone = Latest::of_all(&history);
        assert_eq!(alone.len(), 2);
        assert!(alone.iter().all(|one| one.elsewhere.is_empty()));
        assert_eq!(alone[1].commits.len(), 1);
        assert_eq!(Latest::of(&[]), None);
    }

    #[test]
    fn the_peak_of_another_machine_is_no_measure() {
        let mut peak = record("new", &["peak", "train"], Vec::new());
        peak.machine.cpu = "another".to_owned();
        let latest = Latest::of(&[record("old", &["grid/N=20", "peak"], Vec::new()), peak]).unwrap();
        let commits: Vec<(&str, &str)> = latest.commits.iter().map(|(work, at)| (&**work, &**at)).collect();
        assert_eq!(commits, [("grid/N=20", "old"), ("train", "new")]);
        assert!(latest.found.cases.iter().all(|case| case.case.work != "peak"));
    }
}
