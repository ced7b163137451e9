//! Reads several files in order, with the next file read ahead.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use crate::error::Error;
use crate::load::block::{Block, Layout, Wanted, lock, read_blocks};
use crate::load::trace::Readings;

/// Files that are read at the same time.
const FILES_AT_ONCE: usize = 2;
/// Capacity of the queue of batches of one file, a quarter of a megabyte of text each. The next file is unpacked while this one is, as
/// far as there is room; with little of it, one processor would wait.
const BATCHES_WAITING: usize = 256;

/// Turns a block of a file into readings.
pub(crate) type Convert = dyn Fn(&Arc<Path>, Block) -> Result<Readings, Error> + Send + Sync;

/// Visits the readings of all files, in the order of the files.
///
/// # Errors
/// The first error, in the order of files and rows.
pub(crate) fn stream(
    files: &[(PathBuf, Layout)],
    wanted: &[Wanted],
    convert: &Arc<Convert>,
    visit: &mut dyn FnMut(&Readings) -> Result<(), Error>,
) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let mut ahead: VecDeque<Receiver<Result<Readings, Error>>> = VecDeque::new();
        let mut files = files.iter();
        loop {
            while ahead.len() < FILES_AT_ONCE
                && let Some((file, layout)) = files.next()
            {
                let (sender, receiver) = sync_channel(BATCHES_WAITING);
                let convert = Arc::clone(convert);
                scope.spawn(move || read_file(file, layout, wanted, convert, &sender));
                ahead.push_back(receiver);
            }
            // An error below drops the receiver, which stops its reader.
            let Some(receiver) = ahead.pop_front() else {
                return Ok(());
            };
            for readings in receiver {
                visit(&readings?)?;
            }
        }
    })
}

fn read_file(
    file: &Path,
    layout: &Layout,
    wanted: &[Wanted],
    convert: Arc<Convert>,
    sender: &SyncSender<Result<Readings, Error>>,
) {
    let name: Arc<Path> = Arc::from(file);
    let batches = sender.clone();
    let outcome = read_blocks(file, layout, wanted, None, move |block| {
        let readings = convert(&name, block)?;
        Ok(match batches.send(Ok(readings)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    });
    if let Err(error) = outcome {
        // The send fails only if the receiver has already returned an error.
        let _ = sender.send(Err(error));
    }
}

/// A file with the time in its first row.
pub(crate) type Timed = (i64, (PathBuf, Layout));

/// Sorts files by the times in their first rows, and returns both; files with the same first time keep the order of their names.
///
/// # Errors
/// A file whose first row is bad.
pub(crate) fn sort_by_first_time(
    files: Vec<(PathBuf, Layout)>,
    wanted: &[Wanted],
    time: usize,
) -> Result<Vec<Timed>, Error> {
    let mut timed = Vec::with_capacity(files.len());
    for file in files {
        let first = first_block(&file, wanted)?.and_then(|block| block.integers(time).first().copied());
        timed.push((first.unwrap_or(i64::MIN), file));
    }
    timed.sort_by_key(|(first, _)| *first);
    Ok(timed)
}

/// The first row of a file, as a block; none if it has no rows.
///
/// # Errors
/// A bad first row.
pub(crate) fn first_block(
    (file, layout): &(PathBuf, Layout),
    wanted: &[Wanted],
) -> Result<Option<Block>, Error> {
    let first = Arc::new(Mutex::new(None));
    let found = Arc::clone(&first);
    read_blocks(file, layout, wanted, Some(1), move |block| {
        *lock(&found) = Some(block).filter(|block| block.rows > 0);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(lock(&first).take())
}
