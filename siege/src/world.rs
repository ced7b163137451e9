//! The accounts under siege and what all clients share.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::history::{Answered, Asked, History, Refused, Terms};

/// An account and what its clients know of it.
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) spec: Value,
    /// Values of a context, each between these bounds.
    pub(crate) contexts: usize,
    pub(crate) bounds: (f64, f64),
    /// Seconds of a period by the clock.
    pub(crate) clock: Option<u64>,
    /// Who asks holds it for reading; who retires a period, for writing. Within: the oldest period that may be spoken of.
    pub(crate) gate: RwLock<u64>,
    /// The newest period that was seen.
    pub(crate) newest: AtomicU64,
    /// The next period is wanted.
    pub(crate) exhausted: AtomicBool,
    /// Decisions that can be settled.
    pub(crate) open: Mutex<VecDeque<Open>>,
    /// Answers whose keys can be repeated.
    pub(crate) recent: Mutex<VecDeque<Recent>>,
}

/// A decision that can be settled.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) decision: String,
    pub(crate) period: u64,
    pub(crate) held: Vec<f64>,
    pub(crate) at: Instant,
}

/// An answer whose key can be repeated.
#[derive(Clone)]
pub(crate) struct Recent {
    pub(crate) key: String,
    pub(crate) asked: Asked,
    pub(crate) period: u64,
    pub(crate) at: Instant,
}

impl Account {
    fn new(name: &str, contexts: usize, bounds: (f64, f64), mut spec: Value) -> Self {
        spec["name"] = name.into();
        Self {
            name: name.to_owned(),
            clock: spec["period"]["seconds"].as_u64(),
            spec,
            contexts,
            bounds,
            gate: RwLock::new(0),
            newest: AtomicU64::new(0),
            exhausted: AtomicBool::new(false),
            open: Mutex::default(),
            recent: Mutex::default(),
        }
    }

    fn terms(&self) -> Terms {
        let budgets = self.spec["budgets"].as_array();
        let budgets = budgets.into_iter().flatten().filter_map(Value::as_f64);
        Terms {
            budgets: budgets.collect(),
            rollover: self.spec["rollover"].as_bool().unwrap_or(false),
        }
    }
}

/// Small budgets and short periods, one of each kind of account.
pub(crate) fn accounts() -> Vec<Account> {
    let fair = json!({"name": "weighted-fairness", "lower": 0.1, "upper": 4.0});
    let two = json!({"name": "log-utility", "lower": 0.01, "upper": 3.0, "usage": [[0.3, 1.1], [0.7, 0.1]]});
    let named = |name: &str| json!({"name": name});
    let unit = (0.05, 0.95);
    vec![
        Account::new(
            "hot",
            1,
            unit,
            json!({
            "problem": fair, "policy": named("mw"), "budgets": [60.3], "horizon": 120}),
        ),
        Account::new(
            "short",
            1,
            unit,
            json!({
            "problem": fair, "policy": named("dgd"), "budgets": [7.7], "horizon": 20}),
        ),
        Account::new(
            "two-budgets",
            2,
            unit,
            json!({
            "problem": two, "policy": named("mw"), "budgets": [33.3, 17.9], "horizon": 60}),
        ),
        Account::new(
            "rolls-over",
            1,
            unit,
            json!({
            "problem": fair, "policy": named("equal"), "budgets": [20.1], "horizon": 40, "rollover": true}),
        ),
        Account::new(
            "guarded",
            1,
            unit,
            json!({
            "problem": fair, "policy": named("mw"), "guard": {"policy": named("equal"), "level": 0.9},
            "budgets": [30.7], "horizon": 60}),
        ),
        Account::new(
            "by-the-clock",
            1,
            unit,
            json!({
            "problem": fair, "policy": named("mw"), "budgets": [50.9], "horizon": 200, "period": {"seconds": 20}}),
        ),
    ]
}

/// One account for the rival, which must be able to show its fault within few requests.
pub(crate) fn one_hot_account() -> Vec<Account> {
    accounts().into_iter().take(1).collect()
}

/// What all tasks share.
pub(crate) struct World {
    pub(crate) nodes: Vec<SocketAddr>,
    pub(crate) secret: String,
    pub(crate) seed: u64,
    pub(crate) accounts: Vec<Account>,
    pub(crate) history: Mutex<History>,
    /// Clients finish what they began, and begin nothing.
    pub(crate) ending: AtomicBool,
    /// Held for writing while a node is stopped: what waits inside it may arrive much later, and no period may be retired before.
    pub(crate) calm: RwLock<()>,
    next_key: AtomicU64,
}

impl World {
    pub(crate) fn new(nodes: Vec<SocketAddr>, secret: String, seed: u64, accounts: Vec<Account>) -> Self {
        let terms = accounts
            .iter()
            .map(|account| (account.name.clone(), account.terms()));
        let history = History {
            terms: terms.collect(),
            ..History::default()
        };
        Self {
            nodes,
            secret,
            seed,
            accounts,
            history: Mutex::new(history),
            ending: AtomicBool::new(false),
            calm: RwLock::new(()),
            next_key: AtomicU64::new(0),
        }
    }

    /// A key that nobody had before.
    pub(crate) fn fresh_key(&self) -> String {
        format!("{}-{}", self.seed, self.next_key.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs something on the history; a task that panicked has left it whole.
    pub(crate) fn with_history<T>(&self, work: impl FnOnce(&mut History) -> T) -> T {
        work(&mut lock(&self.history))
    }

    pub(crate) fn answered(&self, account: &Account, key: &str, asked: &Asked, status: u16, body: String) {
        let (account, key, asked) = (account.name.clone(), key.to_owned(), asked.clone());
        let answer = Answered {
            account,
            key,
            asked,
            status,
            body,
        };
        self.with_history(|history| history.answers.push(answer));
    }

    pub(crate) fn refused(&self, account: &Account, key: &str, status: u16) {
        let (account, key) = (account.name.clone(), key.to_owned());
        self.with_history(|history| history.refused.push(Refused { account, key, status }));
    }

    pub(crate) fn unexpected(&self, what: String) {
        self.with_history(|history| history.unexpected.push(what));
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}

/// The lock of what no panic can leave half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
