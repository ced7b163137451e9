//! Logs on standard error: one line per change, written by a thread of their own.

use std::io::{self, Write};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait to be written. When whoever reads them does not keep up, lines are lost and counted: a log does not hold
/// up decisions.
const WAITING: usize = 8192;

/// Bytes that are written at once.
const CHUNK: usize = 1 << 16;

/// How long lines are collected before they are written: a busy service would wake the thread that writes, and ask the system, for
/// each line.
const COLLECTED: Duration = Duration::from_millis(5);

/// How long the end of a service waits for whoever reads its log.
const AT_THE_END: Duration = Duration::from_secs(1);

/// The way to the thread that writes the log of the process.
static WRITER: OnceLock<SyncSender<Told>> = OnceLock::new();

/// Crates whose detailed logs print what they are sent, keys included.
const TALKATIVE: [&str; 8] = [
    "h2",
    "hyper",
    "hyper_util",
    "rustls",
    "tokio_rustls",
    "tower_http",
    "tokio_postgres",
    "ureq",
];

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("expected text or json"),
        }
    }
}

/// Sends the process's logs to standard error. `RUST_LOG` chooses what is told, `info` if it is not set.
///
/// Does nothing if the process has a log already.
pub fn to_standard_error(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // A directive that is no directive would be a mistake here, and is left out.
    let filter = TALKATIVE
        .iter()
        .fold(filter, |filter, target| match format!("{target}=warn").parse() {
            Ok(directive) => filter.add_directive(directive),
            Err(_) => filter,
        });
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Lines::start());
    // The error says that there is a log already.
    let _ = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_target(false).try_init(),
    };
}

/// Waits until the lines so far are written, but not for ever: a process that ends takes those with it that still wait.
pub(crate) fn flush() {
    if let Some(writer) = WRITER.get() {
        flushed(writer);
    }
}

fn flushed(writer: &SyncSender<Told>) {
    let (written, wait) = channel();
    // Where so many lines wait that there is no place, nobody reads them.
    if writer.try_send(Told::Flush(written)).is_ok() {
        let _ = wait.recv_timeout(AT_THE_END);
    }
}

/// What the thread that writes is told.
enum Told {
    Line(Vec<u8>),
    /// Somebody wants to know when everything before is written.
    Flush(Sender<()>),
}

/// Where a thread leaves its lines.
#[derive(Clone)]
struct Lines {
    lines: SyncSender<Told>,
    lost: Arc<AtomicU64>,
}

impl Lines {
    fn start() -> Self {
        let (lines, waiting) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        // A second log is none of the process's.
        let _ = WRITER.set(SyncSender::clone(&lines));
        // Without the thread every line is lost, which is what happens to a log that nobody can write.
        let _ = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write(&waiting, &counted, &mut io::stderr()));
        Self { lines, lost }
    }
}

/// Writes lines as they come, those that wait together at once.
fn write(waiting: &Receiver<Told>, lost: &AtomicU64, output: &mut impl Write) {
    let mut chunk = Vec::new();
    let mut flushing = Vec::new();
    while let Ok(first) = waiting.recv() {
        if let Told::Line(_) = first {
            std::thread::sleep(COLLECTED);
        }
        let mut next = Some(first);
        while let Some(told) = next {
            match told {
                Told::Line(line) => chunk.extend_from_slice(&line),
                Told::Flush(written) => flushing.push(written),
            }
            next = if chunk.len() < CHUNK {
                waiting.try_recv().ok()
            } else {
                None
            };
        }
        let missing = lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let _ = writeln!(
                chunk,
                "{missing} lines of the log are lost: they came faster than they are read"
            );
        }
        // Nobody is left to be told that nobody is left to be told.
        let _ = output.write_all(&chunk);
        chunk.clear();
        for written in flushing.drain(..) {
            // Whoever waited may have lost patience.
            let _ = written.send(());
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            lines: self,
            bytes: Vec::new(),
        }
    }
}

/// One line, which is sent as a whole.
struct Line<'a> {
    lines: &'a Lines,
    bytes: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let line = std::mem::take(&mut self.bytes);
        if self.lines.lines.try_send(Told::Line(line)).is_err() {
            self.lines.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_before_a_flush_is_written_after_it() {
        let (sender, waiting) = sync_channel(20);
        let (written, wait) = channel();
        for number in 0..10 {
            sender
                .send(Told::Line(format!("line {number}\n").into_bytes()))
                .unwrap();
        }
        sender.send(Told::Flush(written)).unwrap();
        drop(sender);
        let mut log = Vec::new();
        write(&waiting, &AtomicU64::new(0), &mut log);
        assert_eq!(wait.recv(), Ok(()));
        assert_eq!(String::from_utf8(log).unwrap().lines().last(), Some("line 9"));
    }

    #[test]
    fn a_log_that_nobody_reads_does_not_keep_the_end_waiting_for_a_place() {
        let (sender, _waiting) = sync_channel(1);
        sender.send(Told::Line(Vec::new())).unwrap();
        flushed(&sender);
    }

    #[test]
    fn lines_that_nobody_takes_are_counted_and_hold_nobody_up() {
        let (sender, waiting) = sync_channel(3);
        let lines = Lines {
            lines: sender,
            lost: Arc::default(),
        };
        for number in 0..10 {
            writeln!(lines.make_writer(), "line {number}").unwrap();
        }
        let lost = Arc::clone(&lines.lost);
        drop(lines);
        let mut written = Vec::new();
        write(&waiting, &lost, &mut written);
        let written = String::from_utf8(written).unwrap();
        assert!(
            written.starts_with("line 0\nline 1\nline 2\n7 lines of the log are lost"),
            "{written}"
        );
    }
}
