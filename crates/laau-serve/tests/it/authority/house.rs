//! An authority on a store of its own, with a clock and faults that a test sets.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use laau_serve::store::{Embedded, StoreError};
use laau_serve::{
    AccountSpec, AccountView, Answer, Authority, AuthorityOptions, Change, Clock, Decision, DecisionRequest,
    Entry, Error, PeriodView, Running, Settled,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::watched::{Call, Watch, Watched};

/// What the store does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fault {
    None,
    /// The next commit writes nothing, and says so.
    Before,
    /// The next commit writes everything, and fails all the same.
    After,
    /// The next lookup of a key fails.
    Lookup,
    /// Another node has taken the account over: commits are refused, and a claim names its address.
    Elsewhere,
}

/// Faults and counts that the store and the test share.
pub(super) struct Shared {
    fault: AtomicU8,
    /// While it is locked, the authority waits in its next look at the API keys.
    pub(super) gate: Mutex<()>,
    /// Whether it has come to the gate.
    at_gate: AtomicBool,
    /// Commits so far.
    pub(super) commits: AtomicU64,
    now: AtomicU64,
}

impl Shared {
    pub(super) fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault.load(Ordering::SeqCst) == fault as u8
    }

    /// Whether a fault that comes once has come.
    fn take(&self, fault: Fault) -> bool {
        let (from, to) = (fault as u8, Fault::None as u8);
        let taken = self
            .fault
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok()
    }
}

pub(super) const OTHER_NODE: &str = "http://other.example:7171";

/// Plants the faults.
struct Faults {
    shared: Arc<Shared>,
    /// As if the machine had gone: nothing is read or written any more. It is not a [`Fault`], since a thread that is dead stays
    /// so when the next one starts.
    dead: Arc<AtomicBool>,
}

fn gone() -> StoreError {
    StoreError::Unavailable {
        reason: "planted".to_owned(),
    }
}

impl Watch for Faults {
    fn before(&mut self, call: Call<'_>) -> Result<(), StoreError> {
        if let Call::Keys = call {
            self.shared.at_gate.store(true, Ordering::SeqCst);
            drop(self.shared.gate.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if self.dead.load(Ordering::SeqCst) {
            return Err(gone());
        }
        match call {
            Call::Lookup if self.shared.take(Fault::Lookup) => Err(gone()),
            Call::Commit(batch) if self.shared.is(Fault::Elsewhere) => {
                let account = batch.epochs.keys().next().cloned().unwrap_or_default();
                Err(StoreError::Fenced { account })
            }
            Call::Commit(_) if self.shared.take(Fault::Before) => Err(gone()),
            _ => Ok(()),
        }
    }

    fn committed(&mut self) -> Result<(), StoreError> {
        self.shared.commits.fetch_add(1, Ordering::SeqCst);
        if self.shared.take(Fault::After) {
            return Err(gone());
        }
        Ok(())
    }

    fn owner(&self) -> Option<String> {
        self.shared.is(Fault::Elsewhere).then(|| OTHER_NODE.to_owned())
    }
}

/// An authority, and everything around it.
pub(super) struct House {
    pub(super) folder: TempDir,
    pub(super) shared: Arc<Shared>,
    pub(super) runtime: Runtime,
    pub(super) tick: Duration,
    /// None between a crash and the restart.
    serving: Option<(Authority, Running)>,
    /// Kills the store of the one that serves.
    dead: Arc<AtomicBool>,
}

impl House {
    pub(super) fn new() -> Self {
        // Nothing happens by itself but where a test waits for it.
        Self::ticking(Duration::from_hours(1))
    }

    pub(super) fn ticking(tick: Duration) -> Self {
        let mut house = Self {
            folder: TempDir::new().unwrap(),
            shared: Arc::new(Shared {
                fault: AtomicU8::new(Fault::None as u8),
                gate: Mutex::new(()),
                at_gate: AtomicBool::new(false),
                commits: AtomicU64::new(0),
                now: AtomicU64::new(1_700_000_000_000),
            }),
            runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(),
            tick,
            serving: None,
            dead: Arc::default(),
        };
        std::fs::create_dir(house.policies()).unwrap();
        house.start();
        house
    }

    pub(super) fn policies(&self) -> PathBuf {
        self.folder.path().join("policies")
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("store.laau")
    }

    /// Starts on the store as it is.
    pub(super) fn start(&mut self) {
        assert!(self.serving.is_none());
        self.shared.set(Fault::None);
        self.dead = Arc::default();
        let faults = Faults {
            shared: Arc::clone(&self.shared),
            dead: Arc::clone(&self.dead),
        };
        let store = Watched(reopened(&self.file()), faults);
        let shared = Arc::clone(&self.shared);
        let options = AuthorityOptions {
            policies: Some(self.policies()),
            tick: self.tick,
            // What falls into a batch is up to the test.
            gather: Duration::ZERO,
            clock: Clock::new(move || shared.now.load(Ordering::SeqCst)),
            ..AuthorityOptions::default()
        };
        self.serving = Some(Authority::start(Box::new(store), options).unwrap());
    }

    /// Stops in order.
    pub(super) fn stop(&mut self) {
        let (authority, running) = self.serving.take().unwrap();
        running.stop().unwrap();
        let late = self.runtime.block_on(authority.accounts());
        assert!(matches!(late, Err(Error::ShuttingDown)));
    }

    /// Ends as a crash does: what is not written by now never will be.
    pub(super) fn crash(&mut self) {
        self.dead.store(true, Ordering::SeqCst);
        drop(self.serving.take());
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.serving.as_ref().unwrap().0
    }

    pub(super) fn now(&self) -> u64 {
        self.shared.now.load(Ordering::SeqCst)
    }

    pub(super) fn set_clock(&self, now: u64) {
        self.shared.now.store(now, Ordering::SeqCst);
    }

    pub(super) fn advance(&self, milliseconds: u64) {
        self.shared.now.fetch_add(milliseconds, Ordering::SeqCst);
    }

    pub(super) fn create(&self, spec: AccountSpec) -> Result<AccountView, Error> {
        self.runtime.block_on(self.authority().create(spec))
    }

    pub(super) fn view(&self, account: &str) -> Result<AccountView, Error> {
        self.runtime.block_on(self.authority().account(account))
    }

    pub(super) fn period(&self, account: &str) -> PeriodView {
        self.view(account).unwrap().period.unwrap()
    }

    pub(super) fn entries(&self, account: &str, period: u64) -> Vec<Entry> {
        let all = self.authority().entries(account, period, 0, usize::MAX);
        self.runtime.block_on(all).unwrap()
    }

    pub(super) fn change(&self, account: &str, key: &str, change: Change) -> Result<Answer, Error> {
        self.runtime
            .block_on(self.authority().change(account, key, change))
    }

    pub(super) fn decide(&self, account: &str, key: &str, context: &[f64]) -> Result<Decision, Error> {
        let answer = self.change(account, key, decide(context))?;
        Ok(serde_json::from_str(&answer.body).unwrap())
    }

    pub(super) fn settle(
        &self,
        account: &str,
        key: &str,
        decision: &str,
        usage: &[f64],
    ) -> Result<Settled, Error> {
        let answer = self.change(account, key, settle(decision, usage))?;
        Ok(serde_json::from_str(&answer.body).unwrap())
    }

    /// Sends changes so that they share one commit, and gives their answers.
    pub(super) fn together(&self, changes: Vec<(String, String, Change)>) -> Vec<Result<Answer, Error>> {
        let authority = self.authority().clone();
        self.shared.at_gate.store(false, Ordering::SeqCst);
        let gate = self.shared.gate.lock().unwrap();
        self.runtime.block_on(async {
            // The first keeps the thread busy until the others wait behind it.
            let look = authority.clone();
            let look = async move { look.keys().await.map(drop) };
            let mut changes: Vec<_> = changes
                .into_iter()
                .map(|(account, key, change)| {
                    let authority = authority.clone();
                    Box::pin(async move { authority.change(&account, &key, change).await })
                })
                .collect();
            let mut look = Box::pin(look);
            assert!(futures_util::poll!(look.as_mut()).is_pending());
            // A batch is gathered before it is carried out: until the thread stands at the gate, it would take some of them along.
            while !self.shared.at_gate.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let mut answers: Vec<Option<_>> = Vec::new();
            for change in &mut changes {
                answers.push(match futures_util::poll!(change.as_mut()) {
                    std::task::Poll::Ready(answer) => Some(answer),
                    std::task::Poll::Pending => None,
                });
            }
            drop(gate);
            // It fails with the batch, if that fails.
            let _ = look.await;
            let mut all = Vec::new();
            for (change, answer) in changes.into_iter().zip(answers) {
                all.push(match answer {
                    Some(answer) => answer,
                    None => change.await,
                });
            }
            all
        })
    }

    /// Sends changes and goes away without an answer.
    pub(super) fn fire(&self, changes: Vec<(String, String, Change)>) {
        self.runtime.block_on(async {
            for (account, key, change) in changes {
                let mut sent = Box::pin(self.authority().change(&account, &key, change));
                let _ = futures_util::poll!(sent.as_mut());
            }
        });
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some((authority, running)) = self.serving.take() {
            drop(authority);
            // A test that fails elsewhere is not to fail here.
            let _ = running.stop();
        }
    }
}

/// The thread of a crashed authority may still be closing the file.
fn reopened(path: &Path) -> Embedded {
    loop {
        match Embedded::open(path) {
            Ok(store) => return store,
            Err(StoreError::Locked) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
}

pub(super) fn decide(context: &[f64]) -> Change {
    Change::Decide(DecisionRequest {
        context: context.to_vec(),
    })
}

pub(super) fn settle(decision: &str, usage: &[f64]) -> Change {
    Change::Settle {
        decision: decision.to_owned(),
        usage: usage.to_vec(),
    }
}

pub(super) fn release(decision: &str) -> Change {
    Change::Release {
        decision: decision.to_owned(),
    }
}

/// Settings from JSON, with the defaults of the service.
pub(super) fn spec(json: &str) -> AccountSpec {
    serde_json::from_str(json).unwrap()
}
