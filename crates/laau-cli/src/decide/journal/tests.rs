//! Tests of the journal.

use std::collections::BTreeMap;

use laau::registry::ProblemSpec;

use super::*;

fn header() -> Header {
    let identity = Identity {
        name: "equal".to_owned(),
        model: None,
        parameters: BTreeMap::new(),
        guard: None,
    };
    Header::new(ProblemSpec::default(), 3, vec![0.3], identity, false)
}

fn decision(step: usize) -> Decision<'static> {
    Decision {
        step,
        action: &[0.1],
        multiplier: None,
        remaining: &[0.2],
        fallback: None,
        guarded: false,
        warning: None,
        replayed: false,
    }
}

fn stage(journal: &mut Journal, step: usize) {
    journal.stage(&[1.0 / 3.0], decision(step)).unwrap();
}

fn append(journal: &mut Journal, step: usize) {
    stage(journal, step);
    journal.commit().map_err(|(_, failure)| failure).unwrap();
}

/// The bytes of a journal of three decisions, and where its lines end.
fn sample(path: &Path) -> (Vec<u8>, Vec<usize>) {
    let mut journal = Journal::create(path, &header()).unwrap();
    (0..3).for_each(|step| append(&mut journal, step));
    let bytes = std::fs::read(path).unwrap();
    let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    (bytes, ends)
}

#[test]
fn a_journal_that_is_cut_anywhere_goes_on_after_its_last_whole_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (bytes, ends) = sample(&path);
    for cut in 0..=bytes.len() {
        for zeros in [0, 5] {
            // A crash may leave blocks of zeros where the end of the file never reached the disk.
            std::fs::write(&path, [&bytes[..cut], &vec![0; zeros]].concat()).unwrap();
            let whole = match zeros {
                0 => ends.iter().filter(|end| **end <= cut).count(),
                _ => ends.iter().filter(|end| **end < cut).count(),
            };
            let (mut journal, records, _) = Journal::resume(&path, &header(), 8).unwrap();
            assert_eq!(
                records.len(),
                whole.saturating_sub(1),
                "cut at {cut}, {zeros} zeros"
            );
            (records.len()..3).for_each(|step| append(&mut journal, step));
            drop(journal);
            assert_eq!(
                std::fs::read(&path).unwrap(),
                bytes,
                "cut at {cut}, {zeros} zeros"
            );
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut journal = Journal::create(&path, &header()).unwrap();
    (0..3).for_each(|step| append(&mut journal, step));
    // Words, whose spaces are one bit from zero.
    let decision = Decision {
        fallback: Some("no more ideas"),
        ..decision(3)
    };
    journal.stage(&[0.5], decision).unwrap();
    journal.commit().map_err(|(_, failure)| failure).unwrap();
    drop(journal);
    let bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            std::fs::write(&path, &changed).unwrap();
            assert!(
                Journal::resume(&path, &header(), 8).is_err(),
                "byte {at}, bit {bit}"
            );
            assert_eq!(std::fs::read(&path).unwrap(), changed, "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn blocks_of_zeros_are_taken_back_in_the_last_batch_alone() {
    const SECTOR: usize = 512;
    const LAST: usize = 30;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut journal = Journal::create(&path, &header()).unwrap();
    append(&mut journal, 0);
    (1..LAST).for_each(|step| stage(&mut journal, step));
    journal.commit().map_err(|(_, failure)| failure).unwrap();
    drop(journal);
    let bytes = std::fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    assert!(bytes.len() > 4 * SECTOR);
    let resume = |start: usize, end: usize| {
        let mut torn = bytes.clone();
        torn[start..end].fill(0);
        std::fs::write(&path, &torn).unwrap();
        let resumed = Journal::resume(&path, &header(), 8).map(|(_, records, _)| records.len());
        if resumed.is_err() {
            assert_eq!(std::fs::read(&path).unwrap(), torn);
        }
        resumed
    };
    // Sectors of one write may reach the disk in any order, from its beginning in a sector that was written before to its end.
    let batch = ends[1] + 1;
    let sectors = (batch + 1..bytes.len()).filter(|at| at.is_multiple_of(SECTOR));
    let edges: Vec<usize> = std::iter::once(batch)
        .chain(sectors)
        .chain([bytes.len()])
        .collect();
    for (number, &start) in edges.iter().enumerate() {
        for &end in &edges[number + 1..] {
            let whole = ends.iter().filter(|end| **end < start).count() - 1;
            assert_eq!(resume(start, end).unwrap(), whole, "zeros from {start} to {end}");
        }
    }
    // The first decision was synced before the second was written.
    for (start, end) in [
        (ends[0] + 1, ends[1]),
        (ends[0] + 1, batch),
        (ends[0] + 5, batch + 100),
    ] {
        assert!(resume(start, end).is_err(), "zeros from {start} to {end}");
    }
    // What does not begin and end as sectors do was written by somebody, over decisions that were printed.
    for at in batch + 1..bytes.len() - 3 {
        let is_edge =
            at.is_multiple_of(SECTOR) || (at + 2).is_multiple_of(SECTOR) || ends.contains(&(at - 1));
        assert!(resume(at, at + 2).is_err() || is_edge, "two zeros at {at}");
    }
}
