//! The cells of an experiment: each writes its tables when it is done, so that whatever ends a run leaves what was finished.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

use laau::core::ComparisonObserver;
use rayon::prelude::*;

use super::tables::{self, Parts};
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;

/// Where the cells of a run are kept until all are done.
pub(super) struct Cells<'a> {
    folder: PathBuf,
    output: &'a Path,
    asked: &'a AtomicBool,
}

/// The first line of what says which run the cells are of: a folder without it is somebody else's.
const MARK: &str = "cells of `laau experiment`";

/// Passes Ctrl-C on to the fits of a comparison.
pub(super) struct Stop<'a>(pub(super) &'a AtomicBool);

impl ComparisonObserver for Stop<'_> {
    fn should_stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<'a> Cells<'a> {
    /// Opens the cells of a run: those that an interrupted one left are kept if it was the same in all but seeds.
    pub(super) fn open(output: &'a Path, settings: &str, asked: &'a AtomicBool) -> Result<Self, Failure> {
        let folder = output.join("cells");
        let key = folder.join("run.txt");
        let mut wanted = format!("{MARK}\n{settings}");
        // Another binary may give other numbers.
        if let Some(binary) = std::env::current_exe().ok().and_then(|path| path.metadata().ok()) {
            let built = binary
                .modified()
                .ok()
                .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            // Writing to a string does not fail.
            let _ = write!(
                wanted,
                "\n{} {}",
                binary.len(),
                built.unwrap_or_default().as_nanos()
            );
        }
        if std::fs::read_to_string(&key).is_ok_and(|found| found == wanted) {
            return Ok(Self {
                folder,
                output,
                asked,
            });
        }
        let is_ours = std::fs::read_to_string(&key).is_ok_and(|found| found.lines().next() == Some(MARK));
        let is_empty = || std::fs::read_dir(&folder).is_ok_and(|mut found| found.next().is_none());
        if folder.exists() && !is_ours && !is_empty() {
            return Err(Failure::new(
                format_args!("{}: here is something that no experiment left", folder.display()),
                "name another folder with -o, or move this one away",
            ));
        }
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(|error| output::cannot_write(&folder, &error))?;
        }
        std::fs::create_dir_all(&folder).map_err(|error| output::cannot_write(&folder, &error))?;
        output::write_bytes(&key, wanted.as_bytes())?;
        Ok(Self {
            folder,
            output,
            asked,
        })
    }

    /// Runs the cells that are not done yet, in parallel, and puts the tables of all together in their order.
    pub(super) fn run<C: Sync>(
        &self,
        cells: &[C],
        name: impl Fn(&C) -> String + Sync,
        work: impl Fn(&C) -> Result<Parts, Failure> + Sync,
    ) -> Result<(), Failure> {
        let place = |cell: &C| {
            let letters = |c: char| {
                if c.is_ascii_alphanumeric() || "-.".contains(c) {
                    c
                } else {
                    '_'
                }
            };
            self.folder
                .join(name(cell).chars().map(letters).collect::<String>())
        };
        // A cell that was damaged since is worked out again.
        let waiting: Vec<&C> = cells
            .iter()
            .filter(|cell| tables::read_sealed(&place(cell)).is_none())
            .collect();
        let progress = Progress::new(cells.len(), false);
        progress.resume(cells.len() - waiting.len());
        let failures: Vec<Failure> = waiting
            .par_iter()
            .filter_map(|cell| {
                if self.asked.load(Ordering::Relaxed) {
                    return None;
                }
                let done = self.finish(&place(cell), || work(cell));
                match done {
                    Ok(()) => progress.done(name(cell)),
                    // A fit that was told to stop is no failure of its cell.
                    Err(_) if self.asked.load(Ordering::Relaxed) => {}
                    Err(failure) => return Some(failure),
                }
                None
            })
            .collect();
        progress.finish();
        let done: Vec<Parts> = cells
            .iter()
            .filter_map(|cell| tables::read_sealed(&place(cell)))
            .collect();
        let count = done.len();
        if count == 0 {
            // There is nothing to go on from.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
        tables::save(self.output, &tables::join(done))?;
        if let Some(failure) = failures.into_iter().next() {
            return Err(failure);
        }
        if count < cells.len() {
            return Err(Failure::Interrupted {
                sentence: match count {
                    0 => format!("stopped before the first of {} cells was done", cells.len()),
                    _ => format!(
                        "{count} of {} cells are done, and their tables are in {}",
                        cells.len(),
                        self.output.display()
                    ),
                },
                hint: match count {
                    0 => "run the same command again".to_owned(),
                    _ => "run the same command again to go on from there".to_owned(),
                },
            });
        }
        // Nothing is lost if it stays.
        let _ = std::fs::remove_dir_all(&self.folder);
        Ok(())
    }

    /// Writes the tables of a cell beside its place, and gives them their name when they are whole.
    fn finish(&self, place: &Path, work: impl FnOnce() -> Result<Parts, Failure>) -> Result<(), Failure> {
        // Not by an extension: names end in numbers such as 0.25.
        let mut beside = place.as_os_str().to_owned();
        beside.push(".part");
        let beside = PathBuf::from(beside);
        let parts = work()?;
        if self.asked.load(Ordering::Relaxed) {
            return Err(Failure::new(
                "the cell was interrupted",
                "run the same command again",
            ));
        }
        // What a run that was killed left, and a cell that was damaged.
        for old in [&*beside, place] {
            if old.exists() {
                std::fs::remove_dir_all(old).map_err(|error| output::cannot_write(old, &error))?;
            }
        }
        std::fs::create_dir_all(&beside).map_err(|error| output::cannot_write(&beside, &error))?;
        tables::save_sealed(&beside, &parts)?;
        std::fs::rename(&beside, place).map_err(|error| output::cannot_write(place, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn row(cell: usize) -> Parts {
        Parts::from([("gradients.csv".to_owned(), format!("solves\n{cell}\n"))])
    }

    #[test]
    fn an_interrupted_run_keeps_its_cells_and_goes_on_to_the_same_tables() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
        let cells: Vec<usize> = (0..6).collect();
        let name = |cell: &usize| format!("d_W = 0.{cell}");
        let asked = AtomicBool::new(false);
        for place in [&whole, &parts] {
            std::fs::create_dir_all(place).unwrap();
        }
        Cells::open(&whole, "settings", &asked)
            .unwrap()
            .run(&cells, name, |cell| Ok(row(*cell)))
            .unwrap();
        let table = |place: &Path| std::fs::read_to_string(place.join("gradients.csv")).unwrap();
        assert_eq!(table(&whole).lines().count(), 7);
        assert!(!whole.join("cells").exists());

        let done = AtomicUsize::new(0);
        let interrupted = Cells::open(&parts, "settings", &asked)
            .unwrap()
            .run(&cells, name, |cell| {
                if done.fetch_add(1, Ordering::SeqCst) >= 2 {
                    asked.store(true, Ordering::SeqCst);
                }
                Ok(row(*cell))
            });
        assert!(
            matches!(interrupted, Err(Failure::Interrupted { .. })),
            "{interrupted:?}"
        );
        let finished = table(&parts).lines().count() - 1;
        assert!((1..6).contains(&finished), "{finished}");

        asked.store(false, Ordering::SeqCst);
        let again = AtomicUsize::new(0);
        Cells::open(&parts, "settings", &asked)
            .unwrap()
            .run(&cells, name, |cell| {
                again.fetch_add(1, Ordering::SeqCst);
                Ok(row(*cell))
            })
            .unwrap();
        assert_eq!(again.into_inner(), 6 - finished);
        assert_eq!(table(&parts), table(&whole));
    }

    #[test]
    fn a_cell_that_was_damaged_is_worked_out_again() {
        type Harm = fn(&Path);
        let harms: [Harm; 4] = [
            |cell| std::fs::write(cell.join("gradients.csv"), "solves\n7\n").unwrap(),
            |cell| std::fs::remove_file(cell.join("gradients.csv")).unwrap(),
            |cell| std::fs::remove_file(cell.join("digest")).unwrap(),
            |cell| std::fs::write(cell.join("other.csv"), "x\n").unwrap(),
        ];
        for harm in harms {
            let folder = tempfile::tempdir().unwrap();
            let asked = AtomicBool::new(false);
            let cells = [0, 1, 2];
            let open = || Cells::open(folder.path(), "settings", &asked).unwrap();
            let interrupted = open().run(&cells, usize::to_string, |cell| {
                if *cell == 2 {
                    return Err(Failure::new("no room", "make room"));
                }
                Ok(row(*cell))
            });
            assert!(interrupted.is_err());
            harm(&folder.path().join("cells").join("1"));
            let again = AtomicUsize::new(0);
            open()
                .run(&cells, usize::to_string, |cell| {
                    again.fetch_add(1, Ordering::SeqCst);
                    Ok(row(*cell))
                })
                .unwrap();
            assert_eq!(again.into_inner(), 2);
            let table = std::fs::read_to_string(folder.path().join("gradients.csv")).unwrap();
            assert_eq!(table, "solves\n0\n1\n2\n");
            assert!(!folder.path().join("other.csv").exists());
        }
    }

    #[test]
    fn cells_of_other_settings_are_not_taken_for_ours() {
        let folder = tempfile::tempdir().unwrap();
        let asked = AtomicBool::new(false);
        let kept = folder.path().join("cells").join("a");
        Cells::open(folder.path(), "one", &asked).unwrap();
        std::fs::create_dir_all(&kept).unwrap();
        Cells::open(folder.path(), "one", &asked).unwrap();
        assert!(kept.exists());
        Cells::open(folder.path(), "other", &asked).unwrap();
        assert!(!kept.exists());
    }
}
