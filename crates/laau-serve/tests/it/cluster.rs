//! Several nodes on one PostgreSQL: one is stopped, another takes over, the first comes back too late.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use laau_serve::store::StoreError;
use laau_serve::{
    AccountSpec, Answer, Authority, AuthorityOptions, Change, Decision, DecisionRequest, Error, Event,
    Running, Settled,
};
use num_bigint::BigInt;

use crate::store::postgres::Database;
use crate::watched::{Call, Watch, Watched};

/// A gate before every commit: while it is shut the node stands still, as if its process were stopped.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<Shut>, Condvar)>);

#[derive(Default)]
struct Shut {
    shut: bool,
    /// Whether a commit stands before it.
    waits: bool,
}

impl Gate {
    fn shut(&self) {
        self.0.0.lock().unwrap().shut = true;
    }

    fn open(&self) {
        self.0.0.lock().unwrap().shut = false;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut state = self.0.0.lock().unwrap();
        while state.shut {
            state.waits = true;
            self.0.1.notify_all();
            state = self.0.1.wait(state).unwrap();
        }
        state.waits = false;
    }

    fn until_a_commit_waits(&self) {
        let mut state = self.0.0.lock().unwrap();
        while !state.waits {
            state = self.0.1.wait(state).unwrap();
        }
    }
}

impl Watch for Gate {
    fn before(&mut self, call: Call<'_>) -> Result<(), StoreError> {
        if let Call::Commit(_) = call {
            self.pass();
        }
        Ok(())
    }
}

/// An authority that can be made to stand still.
struct Node {
    authority: Authority,
    running: Running,
    gate: Gate,
}

fn node(database: &Database, name: &str, lease: Duration) -> Node {
    let gate = Gate::default();
    let store = Watched(database.node(name, lease), gate.clone());
    // Leases are not renewed, so that a lease of no length can be taken over at any time.
    let options = AuthorityOptions {
        tick: Duration::from_hours(1),
        ..AuthorityOptions::default()
    };
    let (authority, running) = Authority::start(Box::new(store), options).expect("the store answers");
    Node {
        authority,
        running,
        gate,
    }
}

fn spec(horizon: usize) -> AccountSpec {
    let text = format!(
        r#"{{"name":"x","problem":{{"name":"weighted-fairness"}},"policy":{{"name":"mw"}},"budgets":[{BUDGET}],"horizon":{horizon}}}"#
    );
    serde_json::from_str(&text).expect("settings")
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}

fn decide(node: &Node, key: &str, context: f64) -> Result<Answer, Error> {
    let request = DecisionRequest {
        context: vec![context],
    };
    wait(node.authority.decide("x", key, request))
}

fn decision(answer: &Answer) -> Decision {
    serde_json::from_str(&answer.body).expect("a decision")
}

const LONG: Duration = Duration::from_hours(1);

/// The budget of the account, which is no sum of few bits.
const BUDGET: f64 = 250.3;

#[test]
fn a_node_that_was_stopped_cannot_commit_when_it_comes_back() {
    let Some(database) = Database::new("stopped_node") else {
        return;
    };
    let (a, b) = (node(&database, "a", Duration::ZERO), node(&database, "b", LONG));
    wait(a.authority.create(spec(20))).expect("a new account");
    let first = decide(&a, "k0", 0.5).expect("decided");
    a.gate.shut();
    let under_way = std::thread::scope(|scope| {
        let late = scope.spawn(|| decide(&a, "k1", 0.7));
        a.gate.until_a_commit_waits();
        // The other node takes over and decides the step that the first one has decided in memory.
        let other = decide(&b, "other", 0.2).expect("decided");
        assert_eq!(decision(&other).step, 1);
        let again = decide(&b, "k0", 0.5).expect("known");
        assert_eq!((&again.body, again.repeated), (&first.body, true));
        // A client that gave up waiting tries its key elsewhere.
        let retried = decide(&b, "k1", 0.7).expect("decided");
        assert_eq!((decision(&retried).step, retried.repeated), (2, false));
        a.gate.open();
        let late = late.join().expect("no panic");
        assert!(
            matches!(&late, Err(Error::Store(StoreError::Fenced { account })) if account == "x"),
            "{late:?}"
        );
        retried
    });
    // From now on it knows whose the account is.
    let refused = decide(&a, "k2", 0.1);
    assert!(
        matches!(&refused, Err(Error::Elsewhere { address, .. }) if address == "http://b:7171"),
        "{refused:?}"
    );
    b.running.stop().expect("stops");
    // Given back, with the same answers.
    let again = decide(&a, "k1", 0.7).expect("known");
    assert_eq!((&again.body, again.repeated), (&under_way.body, true));
    let entries = wait(a.authority.entries("x", 0, 0, 100)).expect("the log");
    assert_eq!(entries.len(), 4);
    a.running.stop().expect("stops");
}

#[test]
fn a_list_of_accounts_takes_none_from_anybody() {
    let Some(database) = Database::new("lists") else {
        return;
    };
    let maker = node(&database, "maker", LONG);
    wait(maker.authority.create(spec(20))).expect("a new account");
    maker.running.stop().expect("stops");
    // Nobody has the account now. Had the first of these claimed it, the other could not serve it for an hour.
    let (looks, serves) = (node(&database, "looks", LONG), node(&database, "serves", LONG));
    let list = || {
        let all = wait(looks.authority.accounts()).expect("a list");
        let own = wait(looks.authority.listed("x")).expect("a list");
        assert_eq!(all, Vec::from_iter(own));
        let [view] = &all[..] else { panic!("{all:?}") };
        assert_eq!((view.spec.name.as_str(), view.closed), ("x", false));
        view.period.is_some()
    };
    assert!(!list());
    assert_eq!(wait(looks.authority.listed("y")).expect("a list"), None);
    decide(&serves, "k0", 0.5).expect("nobody has the account");
    // Nor does it take an account whose owner has gone; to ask for it does.
    assert!(!list());
    serves.running.stop().expect("stops");
    assert!(!list());
    let late = node(&database, "late", Duration::ZERO);
    decide(&late, "k1", 0.5).expect("nobody has the account");
    decide(&looks, "k2", 0.5).expect("the lease has ended");
    assert!(list());
    for node in [looks, late] {
        node.running.stop().expect("stops");
    }
}

/// The sum of finite numbers, without rounding: in units of 2^-1074.
fn exact(numbers: impl IntoIterator<Item = f64>) -> BigInt {
    let units = |number: f64| {
        let bits = number.to_bits();
        let exponent = u32::try_from(bits >> 52 & 0x7ff).expect("11 bits");
        let fraction = BigInt::from(bits & ((1 << 52) - 1));
        let size = match exponent {
            0 => fraction,
            _ => (fraction + (BigInt::from(1) << 52)) << (exponent - 1),
        };
        if number < 0.0 { -size } else { size }
    };
    numbers.into_iter().map(units).sum()
}

/// Decides and settles under keys of its own, on whichever node answers; gives key → answer.
fn client(nodes: &[Node; 2], name: usize, requests: usize) -> BTreeMap<String, String> {
    let mut answers = BTreeMap::new();
    let mut turn = name;
    let mut insist = |key: String, change: Change| {
        for _ in 0..2000 {
            turn += 1;
            match wait(nodes[turn % 2].authority.change("x", &key, change.clone())) {
                Ok(answer) => {
                    let known = answers.insert(key, answer.body.clone());
                    assert!(
                        known.is_none_or(|known| known == answer.body),
                        "two answers to a key"
                    );
                    return Some(answer.body);
                }
                Err(Error::Store(_) | Error::Elsewhere { .. } | Error::Overloaded) => {}
                Err(Error::Exhausted { .. }) => return None,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no answer to {key}");
    };
    for request in 0..requests {
        let context = vec![(name * 31 + request * 17) as f64 % 10.0 / 10.0 + 0.05];
        let change = Change::Decide(DecisionRequest { context });
        let Some(body) = insist(format!("{name}-{request}"), change.clone()) else {
            break;
        };
        let decided: Decision = serde_json::from_str(&body).expect("a decision");
        // The same key once more, wherever it is asked.
        assert_eq!(insist(format!("{name}-{request}"), change), Some(body));
        if request % 3 == 0 {
            let usage = decided.held.iter().map(|held| held / 3.0).collect();
            let change = Change::Settle {
                decision: decided.decision.to_string(),
                usage,
            };
            insist(format!("{name}-{request}-settled"), change);
        }
    }
    answers
}

#[test]
fn nothing_is_decided_twice_while_nodes_stop_and_take_over() {
    let Some(database) = Database::new("take_overs") else {
        return;
    };
    let nodes = ["a", "b"].map(|name| node(&database, name, Duration::ZERO));
    wait(nodes[0].authority.create(spec(60))).expect("a new account");
    let answers: BTreeMap<String, String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|name| {
                scope.spawn({
                    let nodes = &nodes;
                    move || client(nodes, name, 12)
                })
            })
            .collect();
        let mut turn = 0;
        while clients.iter().any(|client| !client.is_finished()) {
            // One node stands still while the other works.
            let gate = &nodes[turn % 2].gate;
            gate.shut();
            std::thread::sleep(Duration::from_millis(30));
            gate.open();
            std::thread::sleep(Duration::from_millis(5));
            turn += 1;
        }
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("no panic"))
            .collect()
    });
    for node in nodes {
        node.running.stop().expect("stops");
    }
    check(&database, &answers);
}

/// What clients were told is what is stored, each key once, and the exact sum of usage is within the budget.
fn check(database: &Database, answers: &BTreeMap<String, String>) {
    // A third node rebuilds the account: it plays every action once more and compares.
    let last = node(database, "c", LONG);
    let view = wait(last.authority.account("x")).expect("the log can be played");
    let period = view.period.expect("a period");
    let entries = wait(last.authority.entries("x", 0, 0, 10_000)).expect("the log");
    assert!(
        entries
            .iter()
            .map(|entry| entry.number)
            .eq(0..entries.len() as u64)
    );
    let mut stored = BTreeMap::new();
    let mut used = BTreeMap::new();
    for entry in entries {
        let Some(request) = entry.request else { continue };
        match entry.event {
            Event::Decided { .. } | Event::Granted { .. } => {
                let decided: Decision = serde_json::from_str(&request.answer).expect("a decision");
                assert!(
                    used.insert(decided.decision, decided.held[0]).is_none(),
                    "decided twice"
                );
            }
            Event::Settled { .. } => {
                let settled: Settled = serde_json::from_str(&request.answer).expect("a settlement");
                let held = used
                    .insert(settled.decision, settled.settled[0])
                    .expect("it was decided");
                assert!(settled.settled[0] <= held);
            }
            event => panic!("nobody asked for {event:?}"),
        }
        assert!(
            stored.insert(request.key.clone(), request.answer).is_none(),
            "{} twice",
            request.key
        );
    }
    assert_eq!(&stored, answers);
    assert!(answers.len() >= 48);
    let spent = exact(used.into_values());
    assert!(spent <= exact([BUDGET]));
    // What remains is the difference, rounded down.
    assert!(exact([period.remaining[0]]) <= exact([BUDGET]) - spent);
    last.running.stop().expect("stops");
}
