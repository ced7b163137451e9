//! Runs the binary.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use tempfile::TempDir;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The lines of standard output.
    pub(crate) fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
}

/// The binary, with arguments, in a folder.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laau"));
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1");
    command
}

/// Runs a command with an input to its end.
pub(crate) fn run_command(mut command: Command, input: &str) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    // A process that refuses its arguments does not read its input.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().expect("the binary ends");
    writer.join().expect("the writer ends");
    let run = Run {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
    };
    expect_unique_keys(&run.stdout);
    run
}

/// Panics if an object of what was printed has a key twice: readers of JSON take either, or refuse it.
fn expect_unique_keys(printed: &str) {
    // What is no JSON, such as a table, ends the stream at once.
    let values = serde_json::Deserializer::from_str(printed).into_iter::<Unique>();
    if let Some(Err(error)) = values.last() {
        assert!(!error.is_data(), "{error} in {printed}");
    }
}

/// Any value of JSON whose objects have each key once.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Unique;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Unique, A::Error> {
        while values.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Unique, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, Unique)) = entries.next_entry::<String, Unique>()? {
            if let Some(key) = keys.replace(key) {
                return Err(A::Error::custom(format!("the key `{key}` stands twice")));
            }
        }
        Ok(Unique)
    }
}

/// A running binary, for a conversation; it does not outlive the test.
pub(crate) struct Stream {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Stream {
    /// Starts the binary in a folder; the arguments are separated by spaces.
    pub(crate) fn start(folder: &Path, arguments: &str) -> Self {
        Self::start_to(folder, arguments, Stdio::null())
    }

    /// The same, to be ended by [`Stream::end`].
    pub(crate) fn start_with_errors(folder: &Path, arguments: &str) -> Self {
        Self::start_to(folder, arguments, Stdio::piped())
    }

    fn start_to(folder: &Path, arguments: &str, errors: Stdio) -> Self {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let mut child = command(folder, &arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the binary starts");
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
        }
    }

    /// Says something; a process that has ended does not hear it.
    pub(crate) fn say(&mut self, text: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(text.as_bytes());
        }
    }

    /// The next line of standard output, without its end; nothing when there are no more.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self
            .stdout
            .read_line(&mut line)
            .expect("standard output is UTF-8");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next line of standard error, without its end.
    pub(crate) fn hear_error(&mut self) -> Option<String> {
        let errors = self.child.stderr.as_mut()?;
        let mut line = Vec::new();
        let mut byte = [0];
        while errors.read(&mut byte).expect("a pipe") == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        (!line.is_empty()).then(|| String::from_utf8(line).expect("standard error is UTF-8"))
    }

    /// Ends the input, and waits for the end; says whether it was a success.
    pub(crate) fn finish(mut self) -> bool {
        self.stdin = None;
        self.child.wait().expect("the binary ends").success()
    }

    /// The process, for signals.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the input, waits for the end, and gives the status and what was said on standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.stdin = None;
        let mut told = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            errors.read_to_string(&mut told).expect("standard error is UTF-8");
        }
        (self.child.wait().expect("the binary ends").code(), told)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SIGKILL, unless it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder of its own for a test, and the binary in it.
pub(crate) struct Bench {
    folder: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().expect("a temporary folder"),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the binary in the folder; the arguments are separated by spaces.
    pub(crate) fn run(&self, arguments: &str, input: &str) -> Run {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        run_command(command(self.path(), &arguments), input)
    }

    /// Runs what must succeed without a word; gives standard output.
    pub(crate) fn stdout(&self, arguments: &str, input: &str) -> String {
        let run = self.run(arguments, input);
        assert_eq!(
            (run.status, run.stderr.as_str()),
            (Some(0), ""),
            "laau {arguments}"
        );
        run.stdout
    }

    /// Checks that a command fails with these words and prints no data.
    pub(crate) fn check_failure(&self, arguments: &str, input: &str, expected: &str) {
        let run = self.run(arguments, input);
        assert_eq!(run.stderr, expected, "laau {arguments}");
        assert_eq!(run.stdout, "", "laau {arguments}");
        assert!(
            matches!(run.status, Some(1 | 2)),
            "laau {arguments}: {:?}",
            run.status
        );
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).expect("a file of the test")
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path().join(name), content).expect("a file of the test");
    }
}

/// The input for contexts of one entry.
pub(crate) fn contexts(weights: &[f64]) -> String {
    let lines: Vec<String> = weights
        .iter()
        .map(|weight| format!("{{\"context\":[{weight}]}}\n"))
        .collect();
    lines.concat()
}
