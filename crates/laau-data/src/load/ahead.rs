//! A source that a thread of its own reads some blocks ahead of whoever unpacks it.

use std::io::{BufRead, Error, ErrorKind, Read, Result};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Bytes that are read at once. The thread that unpacks wakes the one that reads for each block, which takes time where blocks are small.
const BLOCK: usize = 1 << 20;
/// Blocks that wait to be unpacked.
const BLOCKS_WAITING: usize = 1;

/// What is read ahead. Unpacking is most of the work of an import, so its thread should not wait for a read, nor for what the system
/// copies for one.
pub(crate) struct Ahead {
    blocks: Receiver<Result<Vec<u8>>>,
    /// Takes back what was read, to be filled again.
    spares: Sender<Vec<u8>>,
    block: Vec<u8>,
    at: usize,
}

impl Ahead {
    /// Reads a source to its end, or until nobody listens.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(crate) fn new(source: impl Read + Send + 'static) -> Result<Self> {
        let (sender, blocks) = sync_channel(BLOCKS_WAITING);
        let (spares, spare) = channel();
        std::thread::Builder::new().spawn(move || read(source, &sender, &spare))?;
        Ok(Self {
            blocks,
            spares,
            block: Vec::new(),
            at: 0,
        })
    }
}

fn read(mut source: impl Read, blocks: &SyncSender<Result<Vec<u8>>>, spares: &Receiver<Vec<u8>>) {
    loop {
        let mut block = spares.try_recv().unwrap_or_default();
        block.resize(BLOCK, 0);
        let outcome = match source.read(&mut block) {
            Ok(0) => return,
            Ok(length) => {
                block.truncate(length);
                Ok(block)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_over = outcome.is_err();
        if blocks.send(outcome).is_err() || is_over {
            return;
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Ahead {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        // Nothing comes any more when the thread has ended.
        if self.at == self.block.len()
            && let Ok(next) = self.blocks.recv()
        {
            let block = std::mem::replace(&mut self.block, next?);
            self.at = 0;
            // The send fails only if everything is read.
            let _ = self.spares.send(block);
        }
        self.block
            .get(self.at..)
            .ok_or_else(|| Error::other("more was consumed than there is"))
    }

    fn consume(&mut self, amount: usize) {
        self.at += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_ahead_is_what_is_there() {
        for length in [0, 1, BLOCK, 9 * BLOCK + 7] {
            let content: Vec<u8> = (0..251).cycle().take(length).collect();
            let mut ahead = Ahead::new(std::io::Cursor::new(content.clone())).unwrap();
            let mut found = Vec::new();
            ahead.read_to_end(&mut found).unwrap();
            assert!(found == content, "{length} bytes");
        }
    }

    #[test]
    fn an_error_comes_behind_what_was_read_before_it() {
        struct Broken(bool);
        impl Read for Broken {
            fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    return Err(Error::other("broken"));
                }
                buffer[..3].copy_from_slice(b"abc");
                Ok(3)
            }
        }
        let mut ahead = Ahead::new(Broken(false)).unwrap();
        assert_eq!(ahead.fill_buf().unwrap(), b"abc");
        ahead.consume(3);
        assert_eq!(ahead.fill_buf().unwrap_err().to_string(), "broken");
    }

    #[test]
    fn nothing_is_read_when_nobody_listens() {
        struct Endless(#[expect(dead_code, reason = "dropped with the thread")] Sender<()>);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
                Ok(buffer.len())
            }
        }
        let (sender, ended) = channel();
        drop(Ahead::new(Endless(sender)).unwrap());
        let waited = ended.recv_timeout(std::time::Duration::from_mins(1));
        assert_eq!(waited, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    }
}
