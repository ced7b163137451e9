//! A policy that is another program: one JSON line per step in, one per step out.
//!
//! The program cannot make us wait for ever. One thread writes what it has to read and another reads what it writes, so that
//! neither of its pipes blocks the episode; what it writes without being asked stays in a short queue. Neither thread is
//! waited for: a child of the program may hold its pipes open longer than it lives.

use std::io::{BufReader, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use laau::core::{Agent, Error, Observation, Policy};
use serde::{Deserialize, Serialize};

use crate::decide::lines::{Read, read_line, write_line};
use crate::failure::reason;

/// How often a program is started, at most.
const MOST_STARTS: usize = 10;

/// How often the user's wish to stop is looked at while a program thinks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a program that has answered may take to end by itself when its input has ended.
const GRACE: Duration = Duration::from_millis(500);

/// Why nothing is asked any more.
const STOPPED: &str = "the evaluation was stopped";

/// What a program gets for a step.
#[derive(Serialize)]
struct Request<'a> {
    #[serde(flatten)]
    opening: Option<Opening<'a>>,
    step: usize,
    context: &'a [f64],
    remaining: &'a [f64],
    available: &'a [f64],
}

/// What a program gets for the first step of an episode besides.
#[derive(Serialize)]
struct Opening<'a> {
    episode: usize,
    horizon: usize,
    budgets: &'a [f64],
}

/// What a program answers; other keys are its own business.
#[derive(Deserialize)]
struct Answer {
    action: Vec<f64>,
    step: Option<usize>,
}

/// A policy that asks a program.
pub(super) struct External {
    name: String,
    command: String,
    timeout: Duration,
    asked: Arc<AtomicBool>,
    state: Mutex<State>,
}

/// The program, and how far it is.
#[derive(Default)]
struct State {
    process: Option<Process>,
    episodes: usize,
    starts: usize,
    /// Why the program does not play the rest of this episode.
    broken: Option<String>,
    buffer: Vec<u8>,
}

impl External {
    /// A policy by a command of the shell, which is started when the first episode begins.
    pub(super) fn new(name: &str, command: &str, timeout: Duration, asked: Arc<AtomicBool>) -> Self {
        Self {
            name: name.to_owned(),
            command: command.to_owned(),
            timeout,
            asked,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy for External {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        let mut state = self.lock();
        let episode = state.episodes;
        state.episodes += 1;
        if state.starts < MOST_STARTS {
            state.broken = None;
        }
        Box::new(Asking {
            policy: self,
            episode,
        })
    }

    fn is_sequential(&self) -> bool {
        true
    }
}

/// One episode of a program; it has the program for itself, since the policy is sequential.
struct Asking<'a> {
    policy: &'a External,
    episode: usize,
}

/// Why there is no action.
enum Silence {
    /// Of this step; the program knows what it is asked, and goes on.
    Step(String),
    /// For the rest of the episode: nobody knows which question the next line would answer.
    Episode(String),
}

impl Agent for Asking<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let mut state = self.policy.lock();
        let answer = match &state.broken {
            Some(reason) => Err(reason.clone()),
            None => self
                .ask(&mut state, observation, action.len())
                .map_err(|silence| match silence {
                    Silence::Step(reason) => reason,
                    Silence::Episode(reason) => {
                        state.process = None;
                        state.broken = Some(reason.clone());
                        reason
                    }
                }),
        };
        let chosen = answer.map_err(|reason| Error::Policy {
            policy: self.policy.name.clone(),
            reason,
        })?;
        action.copy_from_slice(&chosen);
        Ok(())
    }
}

impl Asking<'_> {
    fn ask(
        &self,
        state: &mut State,
        observation: &Observation<'_>,
        actions: usize,
    ) -> Result<Vec<f64>, Silence> {
        if self.policy.asked.load(Ordering::Relaxed) {
            return Err(Silence::Episode(STOPPED.to_owned()));
        }
        let State {
            process,
            starts,
            buffer,
            ..
        } = state;
        let process = if let Some(process) = process {
            process
        } else {
            *starts += 1;
            process.insert(Process::start(&self.policy.command).map_err(Silence::Episode)?)
        };
        let step = observation.step;
        let request = Request {
            opening: (step == 0).then_some(Opening {
                episode: self.episode,
                horizon: observation.horizon,
                budgets: observation.budgets,
            }),
            step,
            context: observation.context(),
            remaining: observation.remaining,
            available: observation.available,
        };
        write_line(buffer, &request).map_err(|error| Silence::Episode(reason(&error)))?;
        let line = process
            .ask(buffer, self.policy.timeout, &self.policy.asked)
            .map_err(Silence::Episode)?;
        let shown = || String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        let Ok(object @ serde_json::Value::Object(_)) = serde_json::from_slice(&line) else {
            return Err(Silence::Episode(format!(
                "the program answered `{}`, expected {{\"action\":[…]}}; its messages belong on standard error",
                shown()
            )));
        };
        let Answer { action, step: echo } = serde_json::from_value(object).map_err(|error| {
            Silence::Step(format!(
                "the program answered `{}`, expected {{\"action\":[…]}}: {error}",
                shown()
            ))
        })?;
        if let Some(echo) = echo.filter(|echo| *echo != step) {
            return Err(Silence::Episode(format!(
                "the program answered step {echo} when it was asked for step {step}"
            )));
        }
        if action.len() != actions {
            return Err(Silence::Step(format!(
                "the program answered {} actions, expected {actions}",
                action.len()
            )));
        }
        Ok(action)
    }
}

/// A line of a program, without its end; nothing for one that is too long.
type Line = Option<Vec<u8>>;

/// A program that runs.
struct Process {
    child: Child,
    /// To the thread that writes; when it is dropped, the program's input ends.
    requests: Option<Sender<Vec<u8>>>,
    /// From the thread that reads.
    lines: Receiver<Line>,
    /// Whether it owes an answer: then there is nothing that it could still bring to an end.
    has_failed: bool,
    /// How it ended, once that was taken from the system: its number may be another's then.
    status: Option<ExitStatus>,
}

impl Process {
    fn start(command: &str) -> Result<Self, String> {
        /// Lines that nobody asked for, until the program has to wait.
        const QUEUE: usize = 4;
        let mut shell = shell(command);
        let mut child = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the program cannot be started: {}", reason(&error)))?;
        let (requests, to_write) = channel::<Vec<u8>>();
        let (lines, read) = sync_channel(QUEUE);
        let pipes = (child.stdin.take(), child.stdout.take());
        let process = Self {
            child,
            requests: Some(requests),
            lines: read,
            has_failed: false,
            status: None,
        };
        let (Some(mut stdin), Some(stdout)) = pipes else {
            return Err("the program has no pipes".to_owned());
        };
        std::thread::spawn(move || {
            // A program that does not read will not answer either, and that is noticed.
            while let Ok(request) = to_write.recv()
                && stdin.write_all(&request).is_ok()
            {}
        });
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = Vec::new();
            loop {
                let next = match read_line(&mut stdout, &mut line) {
                    Ok(Read::Line) => Some(std::mem::take(&mut line)),
                    Ok(Read::TooLong) => None,
                    Ok(Read::End) | Err(_) => break,
                };
                if lines.send(next).is_err() {
                    break;
                }
            }
        });
        Ok(process)
    }

    /// Asks, and waits for the answer.
    fn ask(&mut self, request: &[u8], timeout: Duration, asked: &AtomicBool) -> Result<Vec<u8>, String> {
        let answer = self.answer(request, timeout, asked);
        self.has_failed = answer.is_err();
        answer
    }

    fn answer(&mut self, request: &[u8], timeout: Duration, asked: &AtomicBool) -> Result<Vec<u8>, String> {
        match self.lines.try_recv() {
            Ok(_) => {
                return Err("the program wrote a line that it was not asked for".to_owned());
            }
            Err(TryRecvError::Disconnected) => return Err(self.how_it_ended()),
            Err(TryRecvError::Empty) => {}
        }
        // A thread that has ended has met a closed pipe: the program's end shows below.
        let _ = self
            .requests
            .as_ref()
            .map(|requests| requests.send(request.to_vec()));
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(LOOK_EVERY)) {
                Ok(Some(line)) => return Ok(line),
                Ok(None) => return Err("the program wrote a line without an end".to_owned()),
                Err(RecvTimeoutError::Disconnected) => return Err(self.how_it_ended()),
                Err(RecvTimeoutError::Timeout) if asked.load(Ordering::Relaxed) => {
                    return Err(STOPPED.to_owned());
                }
                // What it started may hold its pipe open. Its last line may still be in it.
                Err(RecvTimeoutError::Timeout) if has_ended(&self.child) => {
                    return match self.lines.recv_timeout(LOOK_EVERY) {
                        Ok(Some(line)) => Ok(line),
                        _ => Err(self.how_it_ended()),
                    };
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    let seconds = timeout.as_secs_f64();
                    return Err(format!("the program did not answer within {seconds} s"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn how_it_ended(&mut self) -> String {
        if !self.ends_within(GRACE) {
            return "the program closed its output".to_owned();
        }
        self.end();
        self.status.map_or_else(
            || "the program ended".to_owned(),
            |status| format!("the program ended, {status}"),
        )
    }

    /// Waits for the end, for a while, and leaves its status where it is: with it, the program's number would be free, which is that
    /// of the group of all that it started.
    fn ends_within(&self, most: Duration) -> bool {
        const POLL: Duration = Duration::from_millis(2);
        let until = Instant::now() + most;
        loop {
            if self.status.is_some() || has_ended(&self.child) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Ends the program and what it started, and takes its status.
    fn end(&mut self) {
        if self.status.is_none() {
            end_group(&self.child);
            // Where there are no groups. It may also have ended in between.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }
}

impl Drop for Process {
    /// Nothing of it is left, whether it has ended by itself or not.
    fn drop(&mut self) {
        self.requests = None;
        self.ends_within(if self.has_failed { Duration::ZERO } else { GRACE });
        self.end();
    }
}

/// The shell with a command, in a process group of its own.
#[cfg(unix)]
fn shell(command: &str) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).process_group(0);
    shell
}

#[cfg(not(unix))]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.args(["/C", command]);
    shell
}

/// Ends all processes of the child's group. The child has not been waited for: its number is still its own.
#[cfg(unix)]
fn end_group(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn end_group(_: &Child) {}

/// Whether the child has ended; its status stays with the system.
#[cfg(unix)]
fn has_ended(child: &Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let Some(number) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return false;
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(number), options).is_ok_and(|ended| ended.is_some())
}

#[cfg(not(unix))]
fn has_ended(_: &Child) -> bool {
    false
}
